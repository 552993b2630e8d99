"""How far a stream has come with each cluster's log, and what it is to read next. Nothing here asks Kafka.

A place is an offset and the leader epochs of the records before it. The quorum takes nothing back that is committed, so
a place goes back only if the log was lost or made again by hand: that is a span to be recorded, not to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from metadata_source.lineage import NO_EPOCH, common, kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metadata_source.errors import ClusterLogError
    from metadata_source.lineage import Lineage


class SnapshotId(NamedTuple):
    """A snapshot: of all records before `offset`, the last of which has the leader epoch `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream continues: at the offset `next`, or with a snapshot and then there; `epochs` are the leader epochs
    of the records before.
    """

    cluster_id: str
    next: int
    epochs: Lineage = ()
    snapshot: SnapshotId | None = None

    @property
    def epoch(self) -> int:
        """The leader epoch of the record before `next`, -1 if it is not known."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def to_json(self) -> dict[str, Any]:
        """Return the place as Spark's offset carries it."""
        return {
            "cluster_id": self.cluster_id,
            "next": self.next,
            "epochs": self.epochs,
            "snapshot": self.snapshot,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Place:
        """Return the place that `to_json` wrote."""
        epochs = tuple((int(epoch), int(end)) for epoch, end in value["epochs"])
        snapshot = value["snapshot"]
        return cls(value["cluster_id"], value["next"], epochs, SnapshotId(*snapshot) if snapshot else None)


@dataclass(frozen=True, slots=True)
class Log:
    """A log as its active controller tells of it: where it is to begin if it has no place, the offset after the last
    that is committed, and its newest leader epochs. `quiet`: a few NoOpRecords are all that came after the place.
    """

    first: Place
    end: int
    epochs: Lineage
    quiet: bool = False

    @property
    def problem(self) -> ClusterLogError | None:
        """Nothing: a log is known whole, or not at all."""
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a log from `start` up to `end` in one batch, after a snapshot if one is named; with `end` before
    `start` the log was cut off.
    """

    cluster: str
    cluster_id: str
    start: int
    end: int
    snapshot: SnapshotId | None = None
    epoch: int = NO_EPOCH
    """The leader epoch of the last record, -1 if it is not known."""

    @property
    def truncated(self) -> bool:
        """Whether what was read before is no longer the log's."""
        return self.end < self.start


def following(place: Place, log: Log) -> Place:
    """Return the place at the end of the next batch: all that is committed."""
    shared = common(place.epochs, log.epochs)
    # Without a common epoch nobody can say that they parted.
    agreed = min(place.next, log.end) if shared is None else min(place.next, log.end, shared)
    # Where the log was cut off before its place, the place goes back, and the next batch reads on from there.
    offset = agreed if agreed < place.next else log.end
    if place.snapshot is None and (offset == place.next or (log.quiet and offset > place.next)):
        return place
    return replace(place, next=offset, epochs=kept(place.epochs, log.epochs, offset), snapshot=None)


def spans(start: Mapping[str, Place], end: Mapping[str, Place]) -> Iterator[Span]:
    """Yield what lies between two places. Of a log that was found with the end nothing is read yet."""
    for cluster, until in end.items():
        since = start.get(cluster)
        if since is not None and since != until:
            yield Span(cluster, until.cluster_id, since.next, until.next, since.snapshot, until.epoch)
