"""Last stable offsets of one cluster's partitions from answer to answer, and which stand still."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from metadata_source.open_before import OpenBefore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""


@dataclass(slots=True)
class StableOffsets:
    """What answers to `offsets` told. For one thread at a time.

    `standing`: partitions whose last stable offset was below the end of the log in two answers, and
    the same, until an answer tells otherwise. It is known once two have come. `hanging`: those of
    them on which a transaction hung, as the answers before told.
    """

    standing: dict[Partition, int] = field(default_factory=dict)
    hanging: OpenBefore[Partition] = field(default_factory=OpenBefore)
    _before: dict[Partition, int] = field(default_factory=dict)
    _answers: int = 0

    @property
    def is_known(self) -> bool:
        """Whether two answers have come."""
        return self._answers > 1

    def take(self, told: Mapping[Partition, int | None]) -> None:
        """Take an answer: the last stable offsets that it tells, None where it is the end of the
        log.
        """
        self._answers += 1
        for partition, offset in told.items():
            if offset is not None and self._before.get(partition) == offset:
                self.standing[partition] = offset
            else:
                self.standing.pop(partition, None)
            if offset is None:
                self._before.pop(partition, None)
            else:
                self._before[partition] = offset

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that have no open transaction, or are gone."""
        for partition in partitions:
            self.standing.pop(partition, None)
            self._before.pop(partition, None)
