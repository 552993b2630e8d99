"""Controllers that speak bytes (`Listening`), and answer as Kafka's do (``KafkaRaftClient``,
``KafkaRaftLog``), from a log in memory.
"""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.messages.reading import response_of
from tests.support.cluster_records import control_key, control_value, frame
from tests.support.listening import Listening
from tests.support.messages import REQUESTS, read_request, written
from tests.support.record_batches import Batch, Record, batch_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

CLUSTER_ID = "id-of-the-cluster"
NO_OP = frame(20, 0, {})
SCRAM = b"\x01\x0b\x00hunter2"
ACL = b"\x01\x12\x00hunter2"
NEWER = b"\x01\x63\x00hunter2"
BEGAN_MS = 1_700_000_000_000
NOT_LEADER, FENCED, UNKNOWN_EPOCH, NO_SNAPSHOT, WRONG_CLUSTER = 6, 74, 75, 98, 104
FETCH_KEY, SNAPSHOT_KEY, QUORUM_KEY = 1, 59, 55


def topic(name: str) -> bytes:
    return frame(2, 0, {"name": name, "topic_id": bytes(15) + b"\7"})


def leader_change(leader: int) -> bytes:
    return control_value(
        2, 0, {"version": 0, "leader_id": leader, "voters": [], "granting_voters": []}
    )


@dataclass(frozen=True)
class Entry:
    epoch: int
    value: bytes
    control: int | None = None
    after_ms: int = 0

    def batch(self, offset: int) -> bytes:
        key = None if self.control is None else control_key(self.control)
        record = Record(0, key=key, value=self.value)
        at = BEGAN_MS + self.after_ms
        return batch_bytes(
            Batch(
                offset,
                [record],
                self.epoch,
                base_timestamp=at,
                max_timestamp=at,
                control=self.control is not None,
            )
        )


@dataclass
class Quorum:
    """Three controllers, 1 to 3, of which one leads. Half a second lies between two records."""

    leader: int = 1
    epoch: int = 1
    log: list[Entry] = field(default_factory=list)
    begin: int = 0
    committed: int | None = None
    """None: all."""
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    newest: int = 17
    a_time: int = 3
    """Records in an answer."""
    apis: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By node, where they are not a controller's."""
    cut_off: dict[int, "Quorum"] = field(default_factory=dict)
    """By node, what one has that hears nothing of the others."""
    error: int = 0
    damaged: bool = False
    """A bit of the records is another on the way."""
    bad: set[int] = field(default_factory=set)
    """Offsets whose batches are no good in the log of whoever leads."""
    now_ms: int = 0
    asked: list[tuple[int, str, int]] = field(default_factory=list)
    """Node, request and offset."""
    holds: bool = False
    """Fetches for which nothing comes are held."""
    throttle_ms: int = 0

    def __post_init__(self) -> None:
        self.write(leader_change(self.leader), control=2)

    @property
    def end(self) -> int:
        return len(self.log) if self.committed is None else self.committed

    def write(self, *values: bytes, control: int | None = None) -> None:
        for value in values:
            self.log.append(Entry(self.epoch, value, control, self.now_ms))
            self.now_ms += 500

    def elect(self, leader: int, *, epochs: int = 1) -> None:
        self.leader, self.epoch = leader, self.epoch + epochs
        self.write(leader_change(leader), control=2)

    def snapshot(self, *values: bytes) -> SnapshotId:
        """Make a snapshot of the whole log."""
        made = SnapshotId(len(self.log), self.log[-1].epoch)
        self.snapshots[made] = b"".join(
            Entry(made.epoch, value).batch(at) for at, value in enumerate(values)
        )
        return made

    def trim(self) -> None:
        """Let the log begin at its latest snapshot."""
        latest = max(self.snapshots)
        self.begin, self.snapshots = latest.offset, {latest: self.snapshots[latest]}

    def bytes_of(self, start: int, end: int) -> bytes:
        batches = {at: self.log[at].batch(at) for at in range(start, end)}
        return b"".join(
            data[:-1] + b"?" if at in self.bad else data for at, data in batches.items()
        )

    def listening(self) -> Listening:
        """The controllers; where they are is known once they listen."""
        self.nodes = Listening((1, 2, 3), self._versions, self._answer)
        return self.nodes

    def where(self, *nodes: int) -> str:
        """The addresses of some, or of all."""
        places = (self.nodes.places[each] for each in nodes or (1, 2, 3))
        return ",".join(f"{host}:{port}" for host, port in places)

    def _versions(self, node: int) -> dict[int, tuple[int, int]]:
        apis: Sequence[int] = self.apis.get(node, (FETCH_KEY, QUORUM_KEY, SNAPSHOT_KEY))
        return {key: (0, self.newest if key == FETCH_KEY else 1) for key in apis}

    def _answer(self, node: int, api_key: int, version: int, body: bytes) -> bytes:
        request, of = REQUESTS[api_key], self.cut_off.get(node, self)
        of.nodes = self.nodes
        asked = read_request(request, version, body)
        told = of._held(node, asked) if api_key == FETCH_KEY else of._fetch_snapshot(node, asked)
        return written(response_of(request), version, told)

    def _held(self, node: int, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a fetch: at once if it says anything
        (``KafkaRaftClient.handleFetchRequest``).
        """
        until = time.monotonic() + asked["max_wait_ms"] / 1000
        found, before = self._fetch(node, asked), (len(self.log), self.epoch)
        while self.holds and _says_nothing(found) and time.monotonic() < until:
            if (len(self.log), self.epoch) == before:
                time.sleep(0.005)
            else:
                found, before = self._fetch(node, asked), (len(self.log), self.epoch)
        return found

    def _fetch(self, node: int, asked: dict[str, Any]) -> dict[str, Any]:
        (told,) = asked["topics"][0]["partitions"]
        offset, last = told["fetch_offset"], told["last_fetched_epoch"]
        assert told["current_leader_epoch"] > 0
        assert last >= 0
        self.asked.append((node, "Fetch", offset))
        answer = {
            "partition_index": 0,
            "error_code": self._error_of(node, told),
            "high_watermark": -1,
            "last_stable_offset": -1,
            "log_start_offset": self.begin,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": b"",
            "current_leader": {"leader_id": self.leader, "leader_epoch": self.epoch},
        }
        if not answer["error_code"]:
            answer["high_watermark"] = self.end
            answer |= self._records_from(offset, last)
        return {
            "throttle_time_ms": self.throttle_ms,
            "error_code": self.error or (WRONG_CLUSTER if asked["cluster_id"] != CLUSTER_ID else 0),
            "session_id": 0,
            "responses": [
                {"topic_id": asked["topics"][0]["topic_id"].bytes, "partitions": [answer]}
            ],
            "node_endpoints": [
                {"node_id": self.leader, "host": host, "port": at, "rack": None}
                for host, at in (self.nodes.places[self.leader],)
            ],
        }

    def _fetch_snapshot(self, node: int, asked: dict[str, Any]) -> dict[str, Any]:
        (told,) = asked["topics"][0]["partitions"]
        of = SnapshotId(told["snapshot_id"]["end_offset"], told["snapshot_id"]["epoch"])
        self.asked.append((node, "FetchSnapshot", of.offset))
        error = self._error_of(node, told) or (NO_SNAPSHOT if of not in self.snapshots else 0)
        content, at = self.snapshots.get(of, b""), told["position"]
        answer = {
            "index": 0,
            "error_code": error,
            "snapshot_id": told["snapshot_id"],
            "current_leader": {"leader_id": self.leader, "leader_epoch": self.epoch},
            "size": len(content),
            "position": at,
            "unaligned_records": b"" if error else content[at : at + 50],
        }
        return {
            "throttle_time_ms": 0,
            "error_code": self.error,
            "topics": [{"name": "__cluster_metadata", "partitions": [answer]}],
        }

    def _error_of(self, node: int, told: dict[str, Any]) -> int:
        if told["current_leader_epoch"] != self.epoch:
            return FENCED if told["current_leader_epoch"] < self.epoch else UNKNOWN_EPOCH
        return 0 if node == self.leader else NOT_LEADER

    def _records_from(self, offset: int, last: int) -> dict[str, Any]:
        latest, oldest = max(self.snapshots, default=None), min(self.snapshots, default=None)
        if oldest is not None and (
            offset == 0
            or offset < self.begin
            or (offset == self.begin and last != oldest.epoch)
            or last < oldest.epoch
        ):
            return {"snapshot_id": {"end_offset": latest.offset, "epoch": latest.epoch}}
        known = {
            entry.epoch: at + 1
            for at, entry in enumerate(self.log)
            if at >= self.begin and entry.epoch <= last
        }
        # Of an epoch before the first a log tells that it ends where the log begins.
        epoch = max(known, default=last)
        end = known.get(epoch, self.begin)
        if offset and (epoch != last or end < offset):
            return {"diverging_epoch": {"epoch": epoch, "end_offset": end}}
        records = self.bytes_of(offset, min(len(self.log), offset + self.a_time))
        return {"records": records[:-1] + b"?" if self.damaged else records}


def _says_nothing(answer: dict[str, Any]) -> bool:
    (told,) = answer["responses"][0]["partitions"]
    return not (
        told["error_code"] or told["records"] or {"diverging_epoch", "snapshot_id"} & told.keys()
    )
