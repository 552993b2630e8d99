"""Asks for the extent of a cluster's log: where it begins, up to where it is committed, and under
which leader epochs.

A fetch of an offset that no log has brings no records: it is answered with the last leader epoch up
to the one asked for, and where that ends.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow.compute as pc

from metadata_source.errors import ClusterLogError, ProtocolError
from metadata_source.lineage import NO_EPOCH, OPEN, common, is_short, kept, older
from metadata_source.logs.cluster.batches import up_to_bad
from metadata_source.logs.cluster.controllers import LEAST_S, Controllers
from metadata_source.logs.cluster.positions import LogExtent, LogPosition, SnapshotId, agreed
from metadata_source.logs.cluster.rows import are_no_ops
from metadata_source.poller import NO_TOPIC, Poller
from metadata_source.protocol.record_batches import read_batches
from metadata_source.questions import FETCH_WAIT_S

if TYPE_CHECKING:
    import pyarrow as pa

    from metadata_source.lineage import Lineage
    from metadata_source.logs.cluster.controllers import Fetched
    from metadata_source.options import Cluster

_FAR: Final = 2**62
"""An offset that no log has."""
_PAUSE_S: Final = 0.1
_UNCOMMITTED_S: Final = 0.02
"""The pause before a record is asked for again that the other controllers do not have yet."""
_LEAST_S: Final = 0.05
"""With less time than this, nothing is waited for."""


class LogWatcher:
    """Asks for the extent of one cluster's log, again and again; keeps its connections. Of one
    thread at a time; any may `interrupt`.
    """

    def __init__(
        self,
        cluster: Cluster,
        starting: Literal["earliest", "snapshot"],
        timeout_ms: int,
        brokers: Cluster | None = None,
        resume_at: int | None = None,
    ) -> None:
        """Ask nobody yet. `brokers`: whom to ask for the cluster's id, if it is not given.
        `resume_at`: the offset up to which the log was read, in place of `starting`.
        """
        self._controllers = Controllers(cluster)
        self._brokers = brokers
        self._starting = starting
        self._resume_at = resume_at
        self._timeout_s = timeout_ms / 1000
        self._lineage: Lineage = ()
        """Of the leader whose epoch is the last: it holds for as long as that leads."""
        self._end: int | None = None
        self._last: LogExtent | None = None
        self._waits_from: LogPosition | None = None
        self._next = 0

    def ask_extent(self, position: LogPosition | None) -> LogExtent:
        """Return what the log is now; its epochs as far back as it takes to compare it with what
        was read before `position`. Raises ClusterLogError.
        """
        self._last = None
        self._last = self._extent(position)
        return self._last

    def wait(self, position: LogPosition, seconds: float) -> LogExtent | None:
        """Return the log as it is once a record is committed that is no NoOpRecord, None once those
        alone came, or nothing did for so long. Raises ClusterLogError, also where the log is to be
        asked for again.
        """
        if self._last is None:
            raise ClusterLogError("no_leader", "no active controller is known")
        if position != self._waits_from:
            self._waits_from, self._next = position, position.next
        until = time.monotonic() + seconds
        pause_s = _UNCOMMITTED_S
        while (left := until - time.monotonic()) > _LEAST_S:
            answer = fetch(
                self._controllers, self._next, time.monotonic() + 2 * (left + LEAST_S), left
            )
            is_other = (
                answer.diverging is not None
                or answer.snapshot is not None
                or answer.high_watermark < 0
            )
            if is_other or answer.leader_epoch != self._last.epochs[-1][0]:
                raise ClusterLogError(
                    "no_leader", "the log has moved on under another leader epoch"
                )
            found, problem = up_to_bad(answer.records)
            news = [each for each in found if not are_no_ops(each)]
            # Of a batch that cannot be read the reader says so: if waiting failed, it would never
            # come to it.
            if not news and problem is None:
                if not any(map(len, found)):
                    self._controllers.doubt()
                    return None
                self._next = max(each["offset"][-1].as_py() + 1 for each in found if len(each))
                if self._next >= answer.high_watermark:
                    return None
                continue
            if answer.high_watermark > (news[0]["offset"][-1].as_py() if news else self._next):
                self._last = replace(self._last, end=max(self._last.end, answer.high_watermark))
                return self._last
            time.sleep(pause_s)
            pause_s *= 2
        return None

    def interrupt(self) -> None:
        """End `wait`, from another thread, and every one after it."""
        self._controllers.interrupt()

    def close(self) -> None:
        """Close the connections. More can be asked afterwards."""
        self._controllers.close()

    def _extent(self, position: LogPosition | None) -> LogExtent:
        cluster_id = self._cluster_id(position)
        if position is not None and position.cluster_id != cluster_id:
            problem = (
                f"its place is in the log of cluster {position.cluster_id}, "
                f"clusterId is {cluster_id}"
            )
            raise ClusterLogError(
                "wrong_cluster", f"{problem} (a rebuilt cluster gets a new alias)"
            )
        if position is not None:
            self._controllers.expect(position.epoch)
        deadline = time.monotonic() + self._timeout_s
        last = committed_end(self._controllers, deadline)
        if last.high_watermark == self._end:
            self._controllers.doubt()
        self._end = last.high_watermark
        epochs = self._epochs(() if position is None else position.epochs, last, deadline)
        end = last.high_watermark
        if position is None:
            return LogExtent(self._first(cluster_id, last, epochs, deadline), end, epochs)
        seen = LogExtent(
            position, end, epochs, before=self._before(position, last, epochs, deadline)
        )
        if agreed(position, seen) < position.next:
            return replace(seen, first=self._begin("snapshot", cluster_id, last, epochs, deadline))
        return seen

    def _cluster_id(self, position: LogPosition | None) -> str:
        """Return the cluster's id: as it is given, as the position has it, or as brokers say it."""
        given = self._controllers.cluster.cluster_id
        if given is not None:
            return given
        found = (
            position.cluster_id
            if position is not None
            else cluster_id_of(self._brokers, self._timeout_s)
        )
        self._controllers.cluster = replace(self._controllers.cluster, cluster_id=found)
        return found

    def _epochs(self, ours: Lineage, last: Fetched, deadline: float) -> Lineage:
        """Return the newest epochs, as far back as one is known here: as the leader tells them."""
        if not self._lineage or self._lineage[-1][0] != last.leader_epoch:
            self._lineage = ((last.leader_epoch, OPEN),)
        while is_short(ours, self._lineage):
            answer = self._controllers.fetch(_FAR, self._lineage[0][0] - 1, deadline)
            # Of epochs before its oldest snapshot's a leader tells nothing.
            epoch, end = answer.diverging or (NO_EPOCH, last.begin)
            self._lineage = older(self._lineage, max(epoch, 0), end, last.begin)
        return self._lineage

    def _first(
        self, cluster_id: str, last: Fetched, epochs: Lineage, deadline: float
    ) -> LogPosition:
        """Return where the reading of the log begins."""
        if self._resume_at is not None:
            return LogPosition(cluster_id, self._resume_at)
        return self._begin(self._starting, cluster_id, last, epochs, deadline)

    def _begin(
        self,
        starting: Literal["earliest", "snapshot"],
        cluster_id: str,
        last: Fetched,
        epochs: Lineage,
        deadline: float,
    ) -> LogPosition:
        """Return where a log is read from of which nothing is known."""
        # Offset 0 cannot be read once there is a snapshot: it is answered with the latest one.
        latest = self._controllers.fetch(0, None, deadline).snapshot
        if starting == "earliest" and last.begin > 0:
            latest = SnapshotId(last.begin, epoch_before(self._controllers, last, deadline))
        if latest is None or (starting == "earliest" and last.begin == 0):
            return LogPosition(cluster_id, 0 if latest is None else 1)
        return LogPosition(cluster_id, latest.offset, kept((), epochs, latest.offset), latest)

    def _before(
        self, position: LogPosition, last: Fetched, epochs: Lineage, deadline: float
    ) -> tuple[int, int] | None:
        """Return what `Log.before` is, if no epoch is known to both. Raises ClusterLogError."""
        if not position.epochs or common(position.epochs, epochs) is not None:
            return None
        if position.next == last.begin:
            return epoch_before(self._controllers, last, deadline), position.next
        if not last.begin < position.next <= last.high_watermark:
            return None
        records = _records(fetch(self._controllers, position.next - 1, deadline))
        epoch = records["leader_epoch"].filter(pc.equal(records["offset"], position.next - 1))
        return (epoch[0].as_py(), position.next) if len(epoch) else None


def _records(answer: Fetched) -> pa.RecordBatch:
    """Return the records of an answer. Raises ClusterLogError."""
    try:
        return read_batches(answer.records).records
    except ProtocolError as error:
        raise ClusterLogError("protocol", str(error)) from None


def cluster_id_of(brokers: Cluster | None, timeout_s: float) -> str:
    """Return the id of a cluster, as its brokers say it. Raises ClusterLogError."""
    if brokers is None:
        raise ClusterLogError("options", "clusterId: missing")
    with Poller(brokers, NO_TOPIC, int(timeout_s * 1000)) as poller:
        poll = poller.poll()
    if poll.cluster_id is None:
        problem = poll.error or "the answer has none"
        raise ClusterLogError(
            poll.error_kind or "protocol", f"brokers do not tell the cluster's id: {problem}"
        )
    return poll.cluster_id


def committed_end(controllers: Controllers, deadline: float) -> Fetched:
    """Return what the active controller says of the log, without records. Raises ClusterLogError,
    also if a controller that has just become active does not know yet what is committed.
    """
    while True:
        # The leader's own epoch, which ends where its log does.
        last = controllers.fetch(_FAR, None, deadline)
        if last.high_watermark >= 0:
            return last
        if time.monotonic() >= deadline:
            raise ClusterLogError(
                "no_leader", "the active controller does not know yet what is committed"
            )
        time.sleep(_PAUSE_S)


def fetch(
    controllers: Controllers, offset: int, deadline: float, wait_s: float = FETCH_WAIT_S
) -> Fetched:
    """Return what the log has from an offset on, from its first one too, if it begins after 0;
    `wait_s`: as of `Controllers.fetch`. Raises ClusterLogError.
    """
    answer = controllers.fetch(offset, None, deadline, wait_s)
    if answer.snapshot is not None and answer.begin == offset > 0:
        answer = controllers.fetch(
            offset, epoch_before(controllers, answer, deadline), deadline, wait_s
        )
    return answer


def epoch_before(controllers: Controllers, last: Fetched, deadline: float) -> int:
    """Return the leader epoch of the record before the log's first: that of the snapshot there.
    Raises ClusterLogError.

    No answer names that snapshot. But an epoch before that of the oldest snapshot is answered with
    a snapshot.
    """

    def is_known(epoch: int) -> bool:
        return controllers.fetch(_FAR, epoch, deadline).snapshot is None

    return bisect_left(range(last.leader_epoch), True, key=is_known)
