"""Two brokers that lead the partitions of a topic which is a log, and speak bytes (`Listening`)."""

import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest

from metadata_source.messages.reading import response_of
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.listening import Listening
from tests.support.messages import REQUESTS, written
from tests.support.record_batches import Batch, Record, batch_bytes

if TYPE_CHECKING:
    from metadata_source.logs.topic.watcher import LogWatcher

TOPIC = "__consumer_offsets"
NOT_TOLD = -(2**31)
READ, DESCRIBE = 1 << 3, 1 << 8
DENIED, OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, FENCED = 29, 1, 3, 6, 74
EARLIEST, LATEST = -2, -1
KAFKA_2_7, KAFKA_4_3 = 9, 13
METADATA, FETCH, LIST_OFFSETS, EPOCHS = 3, 1, 2, 23


def commit_of(group: str, topic: str = "orders", partition: int = 0) -> tuple[bytes, None]:
    """The removal of a commit: key and value."""
    return struct.pack(">h", 1) + _text(group) + _text(topic) + struct.pack(">i", partition), None


def group_of(group: str) -> tuple[bytes, None]:
    """The tombstone of a group: key and value."""
    return struct.pack(">h", 2) + _text(group), None


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


Make: TypeAlias = "Callable[[], LogWatcher]"
"""Makes watchers that are closed in the end."""


@dataclass
class Brokers:
    """Brokers 0 and 1, of which each leads the partitions of its number, modulo 2, unless `leaders`
    says otherwise.

    Partition n begins at `begins` (0) and ends at 100 + n: before the first record that is appended
    there is none.
    """

    newest: int = KAFKA_4_3
    """Of Metadata."""
    partitions: int = 3
    epoch: int = 7
    allowed: int = READ | DESCRIBE
    fetch_error: int = 0
    """Of a probe, which asks for no records."""
    is_told: bool = True
    topic_error: int = 0
    fenced: set[int] = field(default_factory=set)
    leaders: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    ended: dict[tuple[int, int], int] = field(default_factory=dict)
    """Where an epoch of a partition ended."""
    begins: dict[int, int] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    """By how much an answer to a fetch has an end too low."""
    throttle_ms: int = 0
    """Of answers to fetches, which then have nothing in them."""
    silent: set[int] = field(default_factory=set)
    """Brokers that answer no fetch."""
    cluster_id: str = "id"
    advertised: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Where brokers are said to be, if not where they are."""
    asked: list[str] = field(default_factory=list)
    """Of Metadata which topics, probes, and the epochs that leaders are asked about."""
    fetched: list[dict[int, int]] = field(default_factory=list)
    """Offsets by partition, of each fetch."""
    held_ms: set[int] = field(default_factory=set)
    answered: list[int] = field(default_factory=list)
    """The brokers that answered a fetch."""
    logs: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition, the batches from 100 + n on, of one record each."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def listening(self) -> Listening:
        self.nodes = Listening((0, 1), self._versions, self._answer)
        return self.nodes

    def append(
        self, partition: int, *records: tuple[bytes | None, bytes | None], control: bool = False
    ) -> None:
        """Write records, of a key and a value, each in a batch of its own."""
        with self.changed:
            for key, value in records:
                batch = Batch(
                    self.end(partition), [Record(0, key=key, value=value)], self.epoch_of(partition)
                )
                if control:
                    batch = Batch(
                        **vars(batch) | {"control": True, "transactional": True, "producer_id": 9}
                    )
                self.logs.setdefault(partition, []).append(batch_bytes(batch))
            self.changed.notify_all()

    def lead(self, partition: int, node: int) -> None:
        """Let another broker lead a partition from now on."""
        with self.changed:
            self.ended[partition, self.epoch_of(partition)] = self.end(partition)
            self.leaders[partition], self.epochs[partition] = node, self.epoch_of(partition) + 1
            self.changed.notify_all()

    def once_asked(self, call: Callable[..., object], *args: object) -> None:
        """Let something happen once both brokers hold a fetch more than now."""
        count = len(self.fetched) + 2

        def wait() -> None:
            with self.changed:
                self.changed.wait_for(lambda: len(self.fetched) >= count)
            call(*args)

        threading.Thread(target=wait, daemon=True).start()

    def leader(self, partition: int) -> int:
        return self.leaders.get(partition, partition % 2)

    def epoch_of(self, partition: int) -> int:
        return self.epochs.get(partition, self.epoch)

    def end(self, partition: int) -> int:
        return 100 + partition + len(self.logs.get(partition, ()))

    def _versions(self, _: int) -> dict[int, tuple[int, int]]:
        return {METADATA: (0, self.newest), FETCH: (4, 17), LIST_OFFSETS: (1, 9), EPOCHS: (2, 4)}

    def _answer(self, node: int, key: int, version: int, body: bytes) -> bytes | None:
        if key == METADATA:
            return self._metadata(version, body)
        request = REQUESTS[key].decode(body, version=version)
        answer = (
            self._fetch(node, request)
            if isinstance(request, FetchRequest)
            else self._offsets(node, request)
        )
        if answer is None:
            return None
        return written(
            response_of(REQUESTS[key]), version, {"throttle_time_ms": 0, "session_id": 0} | answer
        )

    def _metadata(self, version: int, body: bytes) -> bytes:
        names = read_values(body, METADATA_REQUEST, version)["topics"]
        self.asked.append(
            "all topics" if names is None else "no topic" if not names else "the topic"
        )
        wanted = [TOPIC, "orders"] if names is None else [each["name"] for each in names]
        values = {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": n, "host": host, "port": port, "rack": None}
                for n, (host, port) in (self.nodes.places | self.advertised).items()
            ],
            "cluster_id": self.cluster_id,
            "controller_id": 0,
            "topics": [
                self._topic(name, version) for name in wanted if self.is_told or name != TOPIC
            ],
            "cluster_authorized_operations": NOT_TOLD,
            "error_code": 0,
        }
        return write_message(METADATA_RESPONSE, version, values)

    def _topic(self, name: str, version: int) -> dict[str, Any]:
        number = 1 if name == TOPIC else 2
        partitions = [
            {
                "error_code": 0,
                "partition_index": n,
                "leader_id": self.leader(n) if name == TOPIC else 1 - n % 2,
                "leader_epoch": self.epoch_of(n) if name == TOPIC else 99,
                "replica_nodes": [0, 1],
                "isr_nodes": [0, 1],
                "offline_replicas": [],
            }
            for n in range(self.partitions if name == TOPIC else 5)
        ]
        return {
            "error_code": self.topic_error if name == TOPIC else 0,
            "name": name,
            "topic_id": NO_UUID if version <= KAFKA_2_7 else bytes(15) + bytes([number]),
            "is_internal": name == TOPIC,
            "partitions": partitions,
            "topic_authorized_operations": self.allowed if name == TOPIC else READ,
        }

    def _error(self, node: int, partition: int, epoch: int) -> int:
        if partition in self.fenced or -1 < epoch < self.epoch_of(partition):
            return FENCED
        return 0 if self.leader(partition) == node else NOT_LEADER

    def _offsets(self, node: int, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        answers = []
        for each in topic.partitions:
            if isinstance(request, ListOffsetsRequest):
                number, at = (
                    each.partition_index,
                    {EARLIEST: self.begins.get(each.partition_index, 0)},
                )
                found = {"offset": at.get(each.timestamp, self.end(number))}
            else:
                assert isinstance(request, OffsetForLeaderEpochRequest)
                number, epoch = each.partition, each.leader_epoch
                if (number, epoch) in self.ended:
                    found = {"leader_epoch": epoch, "end_offset": self.ended[number, epoch]}
                else:
                    found = {"leader_epoch": min(epoch, 5), "end_offset": 60}
                self.asked.append(f"epoch {each.leader_epoch} of {number}")
            error = self._error(node, number, each.current_leader_epoch)
            numbers = {
                "partition_index": number,
                "partition": number,
                "error_code": error,
                "timestamp": -1,
            }
            answers.append({"leader_epoch": 0} | numbers | found)
        return {"topics": [{"name": TOPIC, "topic": TOPIC, "partitions": answers}]}

    def _fetch(self, node: int, request: Any) -> dict[str, Any] | None:
        (topic,) = request.topics
        assert topic.topic == TOPIC
        if request.min_bytes == 0:
            self.asked.append("fetch")
            return self._fetched([self._partition(0, self.fetch_error, b"")])
        with self.changed:
            self.fetched.append({each.partition: each.fetch_offset for each in topic.partitions})
            self.changed.notify_all()
        self.held_ms.add(request.max_wait_ms)
        until = time.monotonic() + request.max_wait_ms / 1000
        if self.throttle_ms:
            return {"throttle_time_ms": self.throttle_ms, "error_code": 0, "responses": []}
        while True:
            with self.changed:
                found = [self._one(node, each) for each in topic.partitions]
                left = until - time.monotonic()
                if node not in self.silent and (
                    left <= 0 or any(each["records"] or each["error_code"] for each in found)
                ):
                    self.answered.append(node)
                    return self._fetched(found)
                self.changed.wait(left if node not in self.silent else 60)

    def _one(self, node: int, asked: Any) -> dict[str, Any]:
        number, first = asked.partition, 100 + asked.partition
        error = self._error(node, number, asked.current_leader_epoch)
        if not error and not self.begins.get(number, 0) <= asked.fetch_offset <= self.end(number):
            error = OUT_OF_RANGE
        records = (
            b""
            if error
            else b"".join(self.logs.get(number, ())[max(0, asked.fetch_offset - first) :])
        )
        return self._partition(number, error, records[: asked.partition_max_bytes])

    def _partition(self, number: int, error: int, records: bytes) -> dict[str, Any]:
        return {
            "partition_index": number,
            "error_code": error,
            "high_watermark": -1 if error else self.end(number) - self.behind.get(number, 0),
            "last_stable_offset": -1,
            "log_start_offset": self.begins.get(number, 0),
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": records,
        }

    def _fetched(self, partitions: list[dict[str, Any]]) -> dict[str, Any]:
        return {"error_code": 0, "responses": [{"topic": TOPIC, "partitions": partitions}]}
