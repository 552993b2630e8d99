"""How far a stream has come with each cluster's log, and what it is to read next. Nothing here asks Kafka.

A place goes back only where the log did: that is a span to be recorded, not to be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Log:
    """What a cluster says of its log: each partition's first offset and the one after its last; `topic_id` is None
    without a log.

    A partition of `partitions` that `begins` and `ends` lack has no leader: nothing is known of its offsets.
    """

    cluster_id: str | None
    topic_id: str | None = None
    partitions: frozenset[int] = frozenset()
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the offsets of every partition are known."""
        return self.partitions == self.begins.keys() == self.ends.keys()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream goes on in one cluster's log: `next` maps a partition to an offset."""

    cluster_id: str | None
    topic_id: str | None
    next: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the place as Spark's offset carries it."""
        offsets = {str(partition): offset for partition, offset in sorted(self.next.items())}
        return {"cluster_id": self.cluster_id, "topic_id": self.topic_id, "next": offsets}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Place:
        """Return the place that `to_json` wrote."""
        offsets = {int(partition): int(offset) for partition, offset in value["next"].items()}
        return cls(value["cluster_id"], value["topic_id"], offsets)


@dataclass(frozen=True, slots=True)
class Span:
    """One partition's offsets from `start` up to `end` in one batch; with `end` before `start`, or `remade`, the log
    was cut off.
    """

    cluster: str
    cluster_id: str | None
    topic_id: str | None
    partition: int
    start: int
    end: int
    remade: bool = False
    """The topic was deleted and made again: `end` is an offset of the new one."""

    @property
    def truncated(self) -> bool:
        """Whether what was read before is no longer the log's."""
        return self.remade or self.end < self.start


def advance(place: Place, log: Log, limit: int | None = None) -> Place:
    """Return the place at the end of the next batch: some `limit` offsets on, all partitions together, and at least one
    of each.

    A partition that is new has its first offset as its place. One without a leader keeps its place.
    """
    if log.topic_id is None:
        return place
    if place.next and place.topic_id != log.topic_id:
        return Place(log.cluster_id, log.topic_id, log.begins) if log.whole else place
    # What is gone before it could be read takes nobody's time.
    begins = {
        partition: max(place.next.get(partition, 0), begin)
        for partition, begin in log.begins.items()
        if partition in log.ends
    }
    left = {
        partition: max(0, log.ends[partition] - begins[partition]) for partition in begins if partition in place.next
    }
    share = 1.0 if limit is None else min(1.0, limit / max(1, sum(left.values())))
    # Where the log ends before its place, the place goes back.
    following = {
        partition: min(log.ends[partition], begins[partition] + max(1, math.ceil(todo * share)))
        for partition, todo in left.items()
    }
    return Place(log.cluster_id, log.topic_id, {**begins, **place.next, **following})


def spans(start: Mapping[str, Place], end: Mapping[str, Place]) -> Iterator[Span]:
    """Yield what lies between two places. A partition that is new at the end has been found, and nothing of it is read
    yet.
    """
    for cluster, until in end.items():
        since = start.get(cluster)
        if since is None:
            continue
        remade = since.topic_id != until.topic_id
        for partition, offset in since.next.items():
            if partition in until.next and (remade or until.next[partition] != offset):
                yield Span(cluster, until.cluster_id, until.topic_id, partition, offset, until.next[partition], remade)
