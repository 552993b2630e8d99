"""Last stable offsets of one cluster's partitions from answer to answer, and which stand still."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.open_before import OpenBefore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
_KEY: Final = ("topic", "partition")
_ORDER: Final = [(name, "ascending") for name in _KEY]
_ROUNDS: Final = 2
"""An offset stands still if two answers tell the same."""


class Part(NamedTuple):
    """The partitions that are asked about next, and up to which one a round has come then; None: it
    is over.
    """

    partitions: pa.Table
    last: Partition | None


@dataclass(slots=True)
class StableOffsets:
    """What leaders answered. For one thread at a time.

    `offsets` asks for them of partitions on which a group is behind (`add`). All partitions are
    asked about by rounds, so many at a time (`next_of`, `add_next`): most have no group that is
    behind. Those that nobody answered for are asked about again, whatever is next.

    `standing`: partitions whose last stable offset was below the end of the log in two answers of
    one kind, and the same, until an answer says otherwise. `unanswered`: partitions of a round that
    nobody answered for twice since, with the reason. `hanging`: those on which a transaction hung,
    by the answers before.
    """

    standing: dict[Partition, int] = field(default_factory=dict)
    unanswered: dict[Partition, str] = field(default_factory=dict)
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
            | self.unanswered.keys()
            | self._before.keys()
            | self._round_before.keys()
        )

    def add(self, answered: Mapping[Partition, int | None]) -> None:
        """Note the last stable offsets of an answer to `offsets`, None where it is the end of the
        log.
        """
        self._add(answered, self._before)

    def next_of(self, partitions: pa.Table, most: int) -> Part:
        """Return so many partitions at most that are next in the round, and so many of those that
        nobody answered for in theirs. `partitions`: topic, partition and leader of all.
        """
        at = partitions.schema.get_field_index("topic")
        by_name = partitions.set_column(at, "topic", partitions["topic"].cast(pa.string()))
        left = self._left(by_name)
        following = left.take(pc.select_k_unstable(left, most, _ORDER))
        last = None if len(left) <= most else _last_of(following)
        if self.unanswered:
            again = sorted(self.unanswered)[:most]
            names, numbers = (pa.array(each) for each in zip(*again, strict=True))
            wanted = pa.table([names, numbers.cast(by_name["partition"].type)], [*_KEY])
            following = pa.concat_tables(
                [following, by_name.join(wanted, [*_KEY], None, "left semi")]
            )
        return Part(following, last)

    def _left(self, by_name: pa.Table) -> pa.Table:
        """Return the partitions that are left of the round; all where none is, for the next one."""
        if self._last is None:
            return by_name
        (topic, number), names = self._last, by_name["topic"]
        is_later = pc.and_(pc.equal(names, topic), pc.greater(by_name["partition"], number))
        return by_name.filter(pc.or_(pc.greater(names, topic), is_later)) or by_name

    def add_next(
        self,
        part: Part,
        answered: Mapping[Partition, int | None],
        unanswered: Mapping[Partition, str],
    ) -> None:
        """Note the answers for those that were next, as `add`, and why there is none for others."""
        self._rounds += part.last is None
        self._last = part.last
        self._add(answered, self._round_before)
        self.unanswered |= unanswered

    def _add(self, answered: Mapping[Partition, int | None], before: dict[Partition, int]) -> None:
        for partition, offset in answered.items():
            if offset is None or partition in before:
                self.unanswered.pop(partition, None)
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
            for kept in (self.standing, self.unanswered, self._before, self._round_before):
                kept.pop(partition, None)


def _last_of(partitions: pa.Table) -> Partition:
    (last,) = partitions.slice(len(partitions) - 1).to_pylist()
    return last["topic"], last["partition"]
