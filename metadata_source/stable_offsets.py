"""Last stable offsets of one cluster's partitions from answer to answer, and which stand still."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.open_before import OpenBefore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
_ORDER: Final = [("topic", "ascending"), ("partition", "ascending")]
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
    _last: Partition | None = None
    """The last one that was asked about in this round, which goes by topic and number."""
    _rounds: int = 0

    @property
    def is_known(self) -> bool:
        """Whether all partitions had two rounds."""
        return self._rounds >= _ROUNDS

    @property
    def partitions(self) -> AbstractSet[Partition]:
        """All of which something is kept."""
        return (
            self.standing.keys()
            | self.untold.keys()
            | self._before.keys()
            | self._round_before.keys()
        )

    def take(self, told: Mapping[Partition, int | None]) -> None:
        """Take an answer of `offsets`: the last stable offsets that it tells, None where it is the
        end of the log.
        """
        self._take(told, self._before)

    def next_of(self, partitions: pa.Table, most: int) -> pa.Table:
        """Return the partitions that are next in the round."""
        left = self._left(partitions)
        return left.take(pc.select_k_unstable(left, most, _ORDER))

    def _left(self, partitions: pa.Table) -> pa.Table:
        """Return the partitions that are left of the round; all where none is, for the next one."""
        names = partitions["topic"].cast(pa.string())
        by_name = partitions.set_column(partitions.schema.get_field_index("topic"), "topic", names)
        if self._last is None:
            return by_name
        topic, number = self._last
        is_later = pc.and_(pc.equal(names, topic), pc.greater(partitions["partition"], number))
        return by_name.filter(pc.or_(pc.greater(names, topic), is_later)) or by_name

    def take_next(
        self,
        partitions: pa.Table,
        most: int,
        told: Mapping[Partition, int | None],
        untold: Mapping[Partition, str],
    ) -> None:
        """Take what was told of those that were next, as `take`, and why others were not."""
        asked = self.next_of(partitions, most)
        is_last = len(asked) == len(self._left(partitions))
        self._rounds += is_last
        self._last = None if is_last else _last_of(asked)
        self._take(told, self._round_before)
        self.untold |= untold

    def _take(self, told: Mapping[Partition, int | None], before: dict[Partition, int]) -> None:
        for partition, offset in told.items():
            if offset is None or partition in before:
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


def _last_of(partitions: pa.Table) -> Partition:
    (last,) = partitions.slice(len(partitions) - 1).to_pylist()
    return last["topic"], last["partition"]
