"""Last stable offsets of one cluster's partitions from answer to answer, and which stand still."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from metadata_source.open_before import OpenBefore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
_ROUNDS: Final = 2
"""An offset stands still if two answers tell the same."""


@dataclass(slots=True)
class StableOffsets:
    """What answers told. For one thread at a time.

    `offsets` tells them of partitions on which a group is behind (`take`). All partitions are asked
    about by rounds, so many at a time (`next_of`, `take_next`): most have no group that is behind.

    `standing`: partitions whose last stable offset was below the end of the log in two answers of
    one kind, and the same, until an answer tells otherwise. `untold`: partitions that could not be
    asked in their round, with the reason. `hanging`: those on which a transaction hung, as the
    answers before told.
    """

    standing: dict[Partition, int] = field(default_factory=dict)
    untold: dict[Partition, str] = field(default_factory=dict)
    hanging: OpenBefore[Partition] = field(default_factory=OpenBefore)
    _before: dict[Partition, int] = field(default_factory=dict)
    _round_before: dict[Partition, int] = field(default_factory=dict)
    _next: int = 0
    _rounds: int = 0

    @property
    def is_known(self) -> bool:
        """Whether all partitions had two rounds."""
        return self._rounds >= _ROUNDS

    def take(self, told: Mapping[Partition, int | None]) -> None:
        """Take an answer of `offsets`: the last stable offsets that it tells, None where it is the
        end of the log.
        """
        self._take(told, self._before)

    def next_of(self, partitions: pa.Table, most: int) -> pa.Table:
        """Return the partitions that are next in the round."""
        begin = self._next if self._next < len(partitions) else 0
        return partitions.slice(begin, most)

    def take_next(
        self,
        partitions: pa.Table,
        most: int,
        told: Mapping[Partition, int | None],
        untold: Mapping[Partition, str],
    ) -> None:
        """Take what was told of those that were next, as `take`, and why others were not."""
        begin = self._next if self._next < len(partitions) else 0
        self._next = begin + most
        self._rounds += self._next >= len(partitions)
        self._take(told, self._round_before)
        self.untold |= untold

    def _take(self, told: Mapping[Partition, int | None], before: dict[Partition, int]) -> None:
        for partition, offset in told.items():
            self.untold.pop(partition, None)
            if offset is not None and before.get(partition) == offset:
                self.standing[partition] = offset
            elif offset is None or self.standing.get(partition) != offset:
                self.standing.pop(partition, None)
            if offset is None:
                before.pop(partition, None)
            else:
                before[partition] = offset

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that have no open transaction, or are gone."""
        for partition in partitions:
            for kept in (self.standing, self.untold, self._before, self._round_before):
                kept.pop(partition, None)
