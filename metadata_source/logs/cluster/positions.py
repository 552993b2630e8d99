"""How far a stream has come with each cluster's log, and what it is to read next. Nothing here asks
Kafka.

A position is an offset and the leader epochs of the records before it. The quorum takes nothing
back that is committed, so a log is cut off before a position only if it was lost or made again by
hand. That is a span to be recorded, not to be read; then the log is read as one that was just
found, since what was read before leads to no state of it.
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
    """A snapshot of all records before `offset`, the last of which has the leader epoch `epoch`."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a stream continues: at the offset `next`, or with a snapshot and then there; `epochs`
    are the leader epochs of the records before. `cut`: up to there alone what was read before is
    still the log's, if it was just cut off.
    """

    cluster_id: str
    next: int
    epochs: Lineage = ()
    snapshot: SnapshotId | None = None
    cut: int | None = None

    @property
    def epoch(self) -> int:
        """The leader epoch of the record before `next`, -1 if it is not known."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark's offset carries it."""
        return {
            "cluster_id": self.cluster_id,
            "next": self.next,
            "epochs": self.epochs,
            "snapshot": self.snapshot,
            "cut": self.cut,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LogPosition:
        """Return the position that `to_json` wrote."""
        epochs = tuple((int(epoch), int(end)) for epoch, end in value["epochs"])
        snapshot = SnapshotId(*value["snapshot"]) if value["snapshot"] else None
        return cls(value["cluster_id"], value["next"], epochs, snapshot, value.get("cut"))

    def since(self, before: LogPosition, cluster: str) -> Iterator[Span]:
        """Yield what lies between an earlier position and this one."""
        if before != self:
            offset = self.next if self.cut is None else self.cut
            yield Span(cluster, self.cluster_id, before.next, offset, before.snapshot, self.epoch)


@dataclass(frozen=True, slots=True)
class LogExtent:
    """The extent of a log as its active controller tells it: where it is to begin if it has no
    position or is cut off before it, the offset after the last that is committed, and its newest
    leader epochs. `before`: of the record before the position its leader epoch and the offset after
    it, if no epoch is known to both and the log has that record, or a snapshot that ends with it.
    """

    first: LogPosition
    end: int
    epochs: Lineage
    before: tuple[int, int] | None = None

    @property
    def problem(self) -> ClusterLogError | None:
        """Nothing: a log is known whole, or not at all."""
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a log from `start` up to `end` in one batch, after a snapshot if one is named;
    with `end` before `start` the log was cut off.
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


def agreed(position: LogPosition, log: LogExtent) -> int:
    """Return the offset up to which what was read before a position is the log's: `position.next`,
    unless the log was cut off; 0 if all that is known is that the two are not the same before the
    position.
    """
    shared = common(position.epochs, log.epochs)
    if shared is None:
        # A record of one offset and one leader epoch is the same one, and so is all before it.
        is_other = (
            log.before is not None
            and log.before[1] == position.next
            and log.before[0] != position.epoch
        )
        shared = 0 if is_other else position.next
    return min(position.next, log.end, shared)


def following(position: LogPosition, log: LogExtent) -> LogPosition:
    """Return the position at the end of the next batch: all that is committed, or if the log was
    cut off, its begin.
    """
    offset = agreed(position, log)
    if offset < position.next:
        return replace(log.first, cut=offset)
    if position.snapshot is None and log.end == position.next:
        return position
    epochs = kept(position.epochs, log.epochs, log.end)
    return replace(position, next=log.end, epochs=epochs, snapshot=None, cut=None)
