"""Asks the active controller of a cluster for its log, wherever that is.

Nothing but Fetch and FetchSnapshot is asked, as a client that is no replica: their answers name the
leader too, so `CLUSTER_ACTION` is all that it takes. Controllers answer fetches of their log
without a quota (``ControllerApis``), so who reads it keeps to a pace.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kafka.protocol.admin import DescribeQuorumRequest

from metadata_source import questions
from metadata_source.addresses import format_address
from metadata_source.broker_errors import error_name
from metadata_source.connections import Connections
from metadata_source.errors import ClusterLogError, PollError, Retry
from metadata_source.lineage import NO_EPOCH
from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.messages import FetchSnapshotRequest
from metadata_source.questions import CONSUMER, DENIED, FetchFrom, Question, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metadata_source.addresses import Address
    from metadata_source.logs.pace import Pace
    from metadata_source.options import Cluster
    from metadata_source.transport import Connection

TOPIC: Final = "__cluster_metadata"
_TOPIC_ID: Final = UUID(int=1)
"""``Uuid.METADATA_TOPIC_ID``."""

_NONE, _NOT_LEADER, _FENCED, _UNKNOWN_EPOCH = 0, 6, 74, 75
_ELSEWHERE: Final = frozenset({_NOT_LEADER, _FENCED, _UNKNOWN_EPOCH})
"""Errors whose answers name the leader, or a newer epoch."""
_UNKNOWN_SERVER_ERROR: Final = -1
_SNAPSHOT_NOT_FOUND: Final = 98
_INCONSISTENT_CLUSTER_ID: Final = 104
_PAUSE_S: Final = 0.2
LEAST_S: Final = 1.0
"""The least time that one controller gets for its answer."""
_ANSWER_BYTES: Final = 1 << 20


class Diverging(NamedTuple):
    """The last leader epoch that a log has up to the one asked for, and where it ends."""

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer of the active controller, whose epoch is `leader_epoch`: where its log begins, and
    up to where it is committed, -1 while a new leader does not know.

    `diverging` and `snapshot` say why there are no `records`: the log has no such position, or does
    not have it any more.
    """

    leader_epoch: int
    begin: int
    high_watermark: int
    records: bytes
    diverging: Diverging | None = None
    snapshot: SnapshotId | None = None


class Controllers:
    """One cluster's controllers; keeps connections. One thread at a time, but for `interrupt`."""

    def __init__(self, cluster: Cluster, pace: Pace | None = None) -> None:
        """Ask nobody yet. `pace`: bounds bytes a second; None for extents, which take few."""
        self.cluster = cluster
        self._pace = pace
        self._connections = Connections(cluster)
        self._active: Address | None = None
        self._turn = 0
        self._epoch = 1
        self._free_at: dict[Address, float] = {}
        """Until when a controller that throttles is not asked (KIP-219)."""
        self._is_over = False

    def interrupt(self) -> None:
        """End what is asked, from another thread: it fails, and so does all that is asked later."""
        self._is_over = True
        self._connections.interrupt()

    def close(self) -> None:
        """Close the connections. More can be asked afterwards."""
        self._connections.close()

    def doubt(self) -> None:
        """Look for the active controller with the next request: one that is cut off from the others
        may not know that it is active no more.
        """
        self._active = None
        self._turn += 1

    def expect(self, epoch: int) -> None:
        """Believe no controller that is active under an older leader epoch than this, whose records
        have been seen: it does not know yet that it is active no more.
        """
        self._epoch = max(epoch, self._epoch)

    def fetch(
        self,
        offset: int,
        last_epoch: int | None,
        deadline: float,
        wait_s: float = questions.FETCH_WAIT_S,
    ) -> Fetched:
        """Return what the log has from an offset on, by `deadline` (of `time.monotonic`). Raises
        ClusterLogError.

        `last_epoch`: the leader epoch of the record before; None takes the leader's own, which any
        offset after the log's first goes with. `wait_s`: how long the controller waits for a record
        that is not there yet.
        """

        def question() -> Question:
            before = self._epoch if last_epoch is None and offset > 0 else last_epoch or 0
            # One attempt gets half of the time that is left.
            held_s = min(
                wait_s, max(questions.FETCH_WAIT_S, (deadline - time.monotonic()) / 2 - LEAST_S)
            )
            return fetch(
                _TOPIC_ID,
                [FetchFrom(0, offset, self._epoch, before)],
                most_bytes=_ANSWER_BYTES,
                partition_bytes=_ANSWER_BYTES,
                cluster_id=self.cluster.cluster_id,
                wait_s=held_s,
            )

        partition = self._ask(question, "responses", deadline)
        return Fetched(
            leader_epoch=self._epoch,
            begin=partition["log_start_offset"],
            high_watermark=partition["high_watermark"],
            records=partition["records"] or b"",
            diverging=_named(partition["diverging_epoch"], Diverging, "epoch", "end_offset"),
            snapshot=_named(partition["snapshot_id"], SnapshotId, "end_offset", "epoch"),
        )

    def snapshot(self, of: SnapshotId, position: int, deadline: float) -> tuple[bytes, int] | None:
        """Return bytes of a snapshot from a position on, and its size; None if it is not there.
        Raises ClusterLogError.

        The bytes are record batches that begin and end anywhere.
        """
        partition = self._ask(
            lambda: _fetch_snapshot(self.cluster.cluster_id, of, position, self._epoch),
            "topics",
            deadline,
        )
        if partition["error_code"] == _SNAPSHOT_NOT_FOUND:
            return None
        return bytes(partition["unaligned_records"]), int(partition["size"])

    def _ask(
        self, question: Callable[[], Question], topics: str, deadline: float
    ) -> dict[str, Any]:
        """Return what the active controller says of the log, once found. Raises ClusterLogError."""
        if self._pace is not None:
            deadline += self._pace.hold()
        while True:
            failures: list[ClusterLogError] = []
            ahead = deque(dict.fromkeys(each for each in (self._active, *self._listed()) if each))
            for _ in range(3 * len(ahead)):
                if not ahead:
                    break
                address = ahead.popleft()
                try:
                    return self._ask_one(address, question(), topics, ahead, deadline)
                except ClusterLogError as error:
                    failures.append(error)
                    is_final = error.retry in {Retry.REMEMBERED, Retry.NOBODY}
                    if is_final and address in self.cluster.bootstrap_servers:
                        raise
            self.doubt()
            if time.monotonic() + _PAUSE_S >= deadline or not any(
                each.retry is Retry.AGAIN for each in failures
            ):
                raise _most_telling(failures)
            time.sleep(_PAUSE_S)

    def _listed(self) -> Iterable[Address]:
        """Return the addresses that are given, another one first after each doubt."""
        listed = self.cluster.bootstrap_servers
        turn = self._turn % len(listed)
        return listed[turn:] + listed[:turn]

    def _ask_one(
        self,
        address: Address,
        question: Question,
        topics: str,
        ahead: deque[Address],
        deadline: float,
    ) -> dict[str, Any]:
        """Return what one controller says; if it is not active, put whom it names ahead of the
        others. Raises ClusterLogError.
        """
        answer = self._answer(address, question, deadline)
        partition: dict[str, Any] = next(
            (each for topic in answer[topics] for each in topic["partitions"]), {}
        )
        where, code = (
            format_address(address),
            answer["error_code"] or partition.get("error_code", _UNKNOWN_SERVER_ERROR),
        )
        if code in {_NONE, _SNAPSHOT_NOT_FOUND}:
            self._active = address
            return partition
        if code not in _ELSEWHERE:
            raise _refused(where, code, self.cluster.cluster_id)
        leader = partition["current_leader"] or {"leader_id": -1, "leader_epoch": NO_EPOCH}
        if leader["leader_epoch"] < self._epoch:
            problem = (
                f"knows of leader epoch {leader['leader_epoch']}, and {self._epoch} has been seen"
            )
            raise ClusterLogError("no_leader", f"{where}: {problem}")
        if leader["leader_epoch"] > self._epoch:
            self._epoch = leader["leader_epoch"]
            ahead.appendleft(address)
        for node in answer.get("node_endpoints") or ():
            if node["node_id"] == leader["leader_id"] and (node["host"], node["port"]) != address:
                ahead.appendleft((node["host"], node["port"]))
        raise ClusterLogError("no_leader", f"{where}: is not the active controller (error {code})")

    def _answer(self, address: Address, question: Question, deadline: float) -> dict[str, Any]:
        if self._is_over:
            raise ClusterLogError("options", "nobody is asked any more")
        left = deadline - time.monotonic()
        # One that hangs leaves time for another.
        until = time.monotonic() + max(LEAST_S, left / 2)
        self._obey_throttle(address, until)
        try:
            connection = self._connections.get(address, until)
            _check_listener(connection)
            answer: dict[str, Any] = question.ask(connection, until).to_dict(json=False)
        except PollError as error:
            self._connections.drop(address)
            raise ClusterLogError(error.kind, error.problem) from None
        if answer["throttle_time_ms"]:
            self._free_at[address] = time.monotonic() + answer["throttle_time_ms"] / 1000
        if self._pace is not None:
            self._pace.took(_size(answer))
        return answer

    def _obey_throttle(self, address: Address, until: float) -> None:
        wait = self._free_at.get(address, 0.0) - time.monotonic()
        if wait > until - time.monotonic():
            where = format_address(address)
            raise ClusterLogError(
                "timeout", f"{where}: throttled by the controller for another {wait:.1f} s"
            )
        if wait > 0:
            time.sleep(wait)


def _fetch_snapshot(cluster_id: str | None, of: SnapshotId, position: int, epoch: int) -> Question:
    topic = FetchSnapshotRequest.TopicSnapshot
    partition = topic.PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=of.offset, epoch=of.epoch),
        position=position,
    )
    fields = {
        "cluster_id": cluster_id,
        "replica_id": CONSUMER,
        "max_bytes": _ANSWER_BYTES,
        "topics": [topic(name=TOPIC, partitions=[partition])],
    }
    return Question(FetchSnapshotRequest, fields)


def _check_listener(connection: Connection) -> None:
    """Raise ClusterLogError unless it is one of a controller, which alone has FetchSnapshot."""
    if FetchSnapshotRequest.API_KEY in connection.api_versions:
        return
    where = format_address(connection.address)
    if DescribeQuorumRequest.API_KEY in connection.api_versions:
        problem = (
            "is a broker's listener: give kafka.controller.bootstrap.servers the controllers' "
            "(the listeners of "
        )
        raise ClusterLogError("not_controller", f"{where}: {problem}controller.listener.names)")
    problem = (
        "is a broker of a cluster with ZooKeeper, or of Kafka before 3.3: its controllers write "
        "no such log"
    )
    raise ClusterLogError("not_controller", f"{where}: {problem}")


def _refused(where: str, code: int, cluster_id: str | None) -> ClusterLogError:
    if code in DENIED:
        grant = (
            "kafka-acls.sh --add --allow-principal User:NAME --operation ClusterAction --cluster"
        )
        return ClusterLogError(
            "not_allowed", f"{where}: CLUSTER_ACTION on the cluster is missing ({grant})"
        )
    if code == _INCONSISTENT_CLUSTER_ID:
        problem = (
            f"is not of cluster {cluster_id}, as clusterId says (a rebuilt cluster gets a new "
            "alias)"
        )
        return ClusterLogError("wrong_cluster", f"{where}: {problem}")
    return ClusterLogError("broker_error", f"{where}: error {code} ({error_name(code)})")


def _most_telling(failures: list[ClusterLogError]) -> ClusterLogError:
    """Return one error for all: that of a controller that was reached says more than others."""
    kind = next(
        (each.kind for each in reversed(failures) if each.kind != "unreachable"), "unreachable"
    )
    addresses: dict[str, dict[str, None]] = {}
    for each in failures:
        where, _, problem = each.problem.partition(": ")
        addresses.setdefault(problem, {})[where] = None
    return ClusterLogError(
        kind, "; ".join(f"{', '.join(where)}: {problem}" for problem, where in addresses.items())
    )


def _named(values: dict[str, int] | None, made: Callable[[int, int], Any], *names: str) -> Any:
    """Return what `made` makes of these of an answer's values; None where it has none."""
    return (
        None
        if values is None or values["epoch"] == NO_EPOCH
        else made(*(values[name] for name in names))
    )


def _size(answer: dict[str, Any]) -> int:
    """Return how many bytes of records an answer holds."""
    topics = answer.get("responses") or answer.get("topics") or ()
    partitions = [partition for topic in topics for partition in topic["partitions"]]
    return sum(
        len(each.get("records") or each.get("unaligned_records") or b"") for each in partitions
    )
