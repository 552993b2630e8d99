"""How far a stream has come with each cluster's log, and what it is to read next. Nothing here asks
Kafka.

A position is, for each partition, an offset and the leader epochs of the records before it
(KIP-320). An offset alone does not tell a log that lost its end to an unclean election and has
grown again. A position goes back only where the log did: that is a span to be recorded, not to be
read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from metadata_source.errors import LogError
from metadata_source.lineage import common, kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metadata_source.lineage import Lineage


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The extent of a log as its cluster tells it: each partition's first offset and the one after
    its last, and its newest leader epochs.

    No partitions: there is no log. `topic_id` is None before Kafka 2.8. A partition of `partitions`
    that `begins` and `ends` lack has no leader: nothing is known of its offsets. One that `epochs`
    lacks has a leader that does not tell.
    """

    cluster_id: str | None
    topic_id: str | None = None
    partitions: frozenset[int] = frozenset()
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    epochs: Mapping[int, Lineage] = field(default_factory=dict)
    first: LogPosition | None = None
    """Where it is to begin, if that was asked for and is known."""
    asked_ms: int | None = field(default=None, compare=False)
    """When the brokers were asked, ms since 1970: it has all that was committed by then."""

    @property
    def whole(self) -> bool:
        """Whether the offsets of every partition are known."""
        return self.partitions == self.begins.keys() == self.ends.keys()

    @property
    def problem(self) -> LogError | None:
        """The error if some partition's offsets are not known."""
        if self.whole:
            return None
        return LogError("no_leader", no_leader_of(self.unanswered))

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The partitions whose offsets are not known."""
        return tuple(sorted(self.partitions - (self.begins.keys() & self.ends.keys())))


def no_leader_of(partitions: Iterable[int]) -> str:
    """Return what is said of partitions whose offsets are not known."""
    return f"no leader answers for partitions {', '.join(map(str, partitions))}"


class CaughtUp(NamedTuple):
    """When brokers said that their log ends at a position: first, and last; ms since 1970.
    `unanswered`: of these partitions no leader answered.
    """

    since_ms: int
    at_ms: int
    unanswered: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> CaughtUp:
        """Return what JSON has as a list; older ones have no `unanswered`: all were answered."""
        since_ms, at_ms, *unanswered = value
        return cls(since_ms, at_ms, tuple(*unanswered))


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a stream continues in one cluster's log: `next` maps a partition to an offset, `epochs`
    to the leader epochs of the records before it. `caught_up`: None if the log went on there, and
    for logs of which nobody asks.
    """

    cluster_id: str | None
    topic_id: str | None
    next: Mapping[int, int]
    epochs: Mapping[int, Lineage] = field(default_factory=dict)
    caught_up: CaughtUp | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark's offset carries it."""
        caught_up = {} if self.caught_up is None else {"caught_up": self.caught_up}
        return {
            "cluster_id": self.cluster_id,
            "topic_id": self.topic_id,
            "next": {str(partition): offset for partition, offset in sorted(self.next.items())},
            "epochs": {
                str(partition): lineage for partition, lineage in sorted(self.epochs.items())
            },
        } | caught_up

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LogPosition:
        """Return the position that `to_json` wrote; older ones have no `epochs`: none is known."""
        caught_up = value.get("caught_up")
        return cls(
            value["cluster_id"],
            value["topic_id"],
            {int(partition): int(offset) for partition, offset in value["next"].items()},
            {
                int(partition): tuple((int(epoch), int(end)) for epoch, end in lineage)
                for partition, lineage in value.get("epochs", {}).items()
            },
            None if caught_up is None else CaughtUp.from_json(caught_up),
        )

    def since(self, before: LogPosition, cluster: str) -> Iterator[Span]:
        """Yield what lies between an earlier position and this one. A partition that is new here
        has been found, and nothing of it is read yet. If there is nothing, and the log was known to
        end here once more, a span without offsets says so; one of each partition that was answered
        for, if others were not.
        """
        remade = is_remade(before.topic_id, self.topic_id)
        caught_up_ms = None if self.caught_up is None else self.caught_up.at_ms
        unanswered = () if self.caught_up is None else self.caught_up.unanswered
        moved = [
            partition
            for partition, offset in before.next.items()
            if partition in self.next and (remade or self.next[partition] != offset)
        ]
        if self.caught_up not in {None, before.caught_up}:
            answered = sorted((before.next.keys() & self.next.keys()).difference(unanswered))
            if unanswered:
                moved += [each for each in answered if each not in moved]
            elif not moved:
                moved = answered[:1]
        for partition in moved:
            yield Span(
                cluster,
                self.cluster_id,
                self.topic_id,
                partition,
                before.next[partition],
                self.next[partition],
                remade,
                None if partition in unanswered else caught_up_ms,
                unanswered,
                before.is_at_end_of(partition) or before.next[partition] == 0,
            )

    def is_at_end_of(self, partition: int) -> bool:
        """Whether the log of a partition was known to end here."""
        return self.caught_up is not None and partition not in self.caught_up.unanswered


@dataclass(frozen=True, slots=True)
class Span:
    """One partition's offsets from `start` up to `end` in one batch; with `end` before `start`, or
    `remade`, the log was cut off.
    """

    cluster: str
    cluster_id: str | None
    topic_id: str | None
    partition: int
    start: int
    end: int
    remade: bool = False
    """The topic was deleted and made again: `end` is an offset of the new one."""
    caught_up_ms: int | None = None
    """When brokers said that all partitions of the log end where their spans do."""
    unanswered: tuple[int, ...] = ()
    """But for these, whose leaders did not answer: then it is said of this partition alone."""
    follows_end: bool = False
    """Nothing is before it, or the batch before went up to its end: so no record was compacted
    away before here.
    """

    @property
    def truncated(self) -> bool:
        """Whether what was read before is no longer the log's."""
        return self.remade or self.end < self.start


def is_remade(before: str | None, now: str | None) -> bool:
    """Whether ids are those of two topics. A cluster upgraded to Kafka 2.8 gives its topics ids."""
    return None not in {before, now} and before != now


def _agreed(position: LogPosition, log: LogExtent, partition: int) -> int:
    """Return the offset up to which what was read of a partition is still the log's."""
    offset, begin = position.next[partition], log.begins[partition]
    ours, theirs = position.epochs.get(partition, ()), log.epochs.get(partition, ())
    if offset > begin and ours and theirs:
        shared = common(ours, theirs)
        # Without a common epoch nobody knows where they parted: all there is is read again.
        offset = begin if shared is None else min(offset, shared)
    return min(offset, log.ends[partition])


def found(log: LogExtent, first: Mapping[int, int]) -> LogPosition:
    """Return the position at which the reading of a log begins: the offsets `first`."""
    epochs = {
        partition: kept((), log.epochs.get(partition, ()), offset)
        for partition, offset in first.items()
    }
    return LogPosition(log.cluster_id, log.topic_id, first, _known(epochs))


def advance(position: LogPosition, log: LogExtent, limit: int | None = None) -> LogPosition:
    """Return the position at the end of the next batch: some `limit` offsets on, all partitions
    together, and at least one of each.

    A partition that is new has its first offset as its position. One without a leader keeps its
    position.
    """
    if not log.partitions:
        return position
    if position.next and is_remade(position.topic_id, log.topic_id):
        return found(log, log.begins) if log.whole else position
    led = [partition for partition in log.begins if partition in log.ends]
    agreed = {
        partition: _agreed(position, log, partition)
        for partition in led
        if partition in position.next
    }
    # Where the log was cut off before its position, the position goes back, and the next batch
    # reads on from there.
    following = {
        partition: offset
        for partition, offset in agreed.items()
        if offset < position.next[partition]
    }
    # What is gone before it could be read takes nobody's time.
    begins = {
        partition: max(position.next.get(partition, 0), log.begins[partition]) for partition in led
    }
    left = {
        partition: log.ends[partition] - begins[partition]
        for partition in agreed.keys() - following.keys()
    }
    share = 1.0 if limit is None else min(1.0, limit / max(1, sum(left.values())))
    following |= {
        partition: min(log.ends[partition], begins[partition] + math.ceil(todo * share))
        for partition, todo in left.items()
    }
    following = {**begins, **following}
    epochs = {
        partition: kept(position.epochs.get(partition, ()), log.epochs.get(partition, ()), offset)
        for partition, offset in following.items()
    }
    return LogPosition(
        log.cluster_id,
        log.topic_id or position.topic_id,
        {**position.next, **following},
        _known({**position.epochs, **epochs}),
    )


def _known(epochs: Mapping[int, Lineage]) -> dict[int, Lineage]:
    return {partition: lineage for partition, lineage in epochs.items() if lineage}


def noted_end(
    position: LogPosition, following: LogPosition, log: LogExtent, every_ms: int
) -> LogPosition:
    """Return `following`, the position at the end of the next batch, with when the log was known to
    end there. A log that stays silent is noted after `every_ms`, then each time that the silence
    has doubled: so a log in which nothing happens costs some ten batches. Of partitions that no
    leader answers for nobody knows where they end.
    """
    known, at = position.caught_up, log.asked_ms
    has_moved = replace(following, caught_up=known) != position
    if (
        at is None
        or not log.ends
        or any(following.next.get(partition) != end for partition, end in log.ends.items())
    ):
        return replace(following, caught_up=None) if has_moved else position
    if has_moved or known is None:
        return replace(following, caught_up=CaughtUp(at, at, log.unanswered))
    is_same = known.unanswered == log.unanswered
    silent_ms = known.at_ms - known.since_ms if is_same else 0
    if at - known.at_ms < max(every_ms, silent_ms):
        return position
    since_ms = known.since_ms if is_same else at
    return replace(position, caught_up=CaughtUp(since_ms, at, log.unanswered))
