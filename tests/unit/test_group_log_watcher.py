"""What a watcher asks of brokers of each age, and what it makes of their answers: without Kafka."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest

from metadata_source import connections, poller
from metadata_source.errors import LogError, PollError
from metadata_source.lineage import OPEN
from metadata_source.logs.topic.places import Log, Place
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.messages.reading import response_of
from metadata_source.options import parse_group_log
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.values import read_values
from metadata_source.protocol.wire import write_message
from metadata_source.transport import Answer
from tests.support.messages import REQUESTS, written

TOPIC = "__consumer_offsets"
NOT_TOLD = -(2**31)
READ, DESCRIBE = 1 << 3, 1 << 8
DENIED, UNKNOWN_TOPIC, FENCED = 29, 3, 74
EARLIEST = -2
KAFKA_2_7, KAFKA_4_3 = 9, 13
FIRST_POLL = ["no topic", "no topic"]
"""Nothing is known yet: both brokers are asked."""


@dataclass
class Brokers:
    """Two brokers, of which each leads the partitions of its number, modulo 2."""

    newest: int = KAFKA_4_3
    partitions: int = 3
    epoch: int = 7
    allowed: int = READ | DESCRIBE
    fetch_error: int = 0
    is_told: bool = True
    topic_error: int = 0
    dead: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    idle: bool = False

    def connect(self, _cluster: object, address: tuple[str, int], *_: object) -> Any:
        number = address[1] - 1
        if number in self.dead:
            raise PollError("unreachable", f"host:{number}: connection refused")
        self.connections.append(number)
        return Connection(self, address)

    def metadata(self, version: int, body: bytes) -> bytes:
        names = read_values(body, METADATA_REQUEST, version)["topics"]
        self.asked.append("all topics" if names is None else "no topic" if not names else "the topic")
        partitions = [
            {
                "error_code": 0,
                "partition_index": n,
                "leader_id": n % 2,
                "leader_epoch": self.epoch,
                "replica_nodes": [0, 1],
                "isr_nodes": [0, 1],
                "offline_replicas": [],
            }
            for n in range(self.partitions)
        ]
        topic = {
            "error_code": self.topic_error,
            "name": TOPIC,
            "topic_id": NO_UUID if version <= KAFKA_2_7 else bytes(15) + b"\1",
            "is_internal": True,
            "partitions": partitions,
            "topic_authorized_operations": self.allowed,
        }
        values = {
            "throttle_time_ms": 0,
            "brokers": [{"node_id": n, "host": "host", "port": n + 1, "rack": None} for n in range(2)],
            "cluster_id": "id",
            "controller_id": 0,
            "topics": [topic] if self.is_told and names != [] else [],
            "cluster_authorized_operations": NOT_TOLD,
            "error_code": 0,
        }
        return write_message(METADATA_RESPONSE, version, values)


@dataclass
class Connection:
    brokers: Brokers
    address: tuple[str, int]
    features: None = None
    supported_features: dict[str, int] = field(default_factory=dict)
    sent_at: None = None

    def __post_init__(self) -> None:
        self.api_versions = {3: (0, self.brokers.newest), 1: (4, 17), 2: (1, 9), 23: (2, 4)}

    def request(self, api_key: int, version: int, body: bytes, **_: object) -> Answer:
        if api_key == METADATA_REQUEST.api_key:
            said = self.brokers.metadata(version, body)
        else:
            request = REQUESTS[api_key]
            answer = self.answer(request.decode(body, version=version))
            said = written(response_of(request), version, {"throttle_time_ms": 0, "session_id": 0} | answer)
        return Answer(said, datetime.now(UTC), 1.0)

    def answer(self, request: Any) -> dict[str, Any]:
        brokers = self.brokers
        if brokers.idle:
            brokers.idle = False
            raise PollError("unreachable", "host: the broker closed the connection")
        if isinstance(request, FetchRequest):
            brokers.asked.append("fetch")
            offsets = dict.fromkeys(("high_watermark", "last_stable_offset", "log_start_offset"), 0)
            partition = {"partition_index": 0, "error_code": brokers.fetch_error, "records": None, **offsets}
            partition |= {"aborted_transactions": None, "preferred_read_replica": -1}
            return {"error_code": 0, "responses": [{"topic": TOPIC, "partitions": [partition]}]}
        (topic,) = request.topics
        answers = []
        for each in topic.partitions:
            if isinstance(request, ListOffsetsRequest):
                number, told = (
                    each.partition_index,
                    {"offset": 0 if each.timestamp == -2 else 100 + each.partition_index},
                )
            else:
                assert isinstance(request, OffsetForLeaderEpochRequest)
                number, told = each.partition, {"leader_epoch": min(each.leader_epoch, 5), "end_offset": 60}
                brokers.asked.append(f"epoch {each.leader_epoch} of {number}")
            assert number % 2 == self.address[1] - 1, "not its leader"
            error = FENCED if number in brokers.fenced else 0
            numbers = {"partition_index": number, "partition": number, "error_code": error, "timestamp": -1}
            answers.append({"leader_epoch": 0} | numbers | told)
        return {"topics": [{"name": TOPIC, "topic": TOPIC, "partitions": answers}]}

    def close(self) -> None:
        pass


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(connections, "Connection", made.connect)
    monkeypatch.setattr(poller, "_memories", {})
    return made


def watcher() -> LogWatcher:
    return LogWatcher(parse_group_log({"kafka.bootstrap.servers": "host:1"}).clusters[0], TOPIC, 2_000)


def test_a_look_at_a_log(brokers: Brokers) -> None:
    lineage = ((5, 60), (7, OPEN))
    seen = watcher().look(Place("id", None, {0: 50, 1: 70, 2: 80}, {0: ((5, 50),), 1: ((7, 70),), 2: ((5, 80),)}))
    assert seen == Log(
        "id",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        frozenset({0, 1, 2}),
        {0: 0, 1: 0, 2: 0},
        {0: 100, 1: 101, 2: 102},
        {0: lineage, 1: ((7, OPEN),), 2: lineage},
    )
    assert brokers.asked == [*FIRST_POLL, "the topic", "epoch 6 of 0", "epoch 6 of 2"]


def test_a_leader_says_once_what_was_before_it(brokers: Brokers) -> None:
    one, place = watcher(), Place("id", None, {0: 50}, {0: ((5, 50),)})
    assert one.look(place).epochs[0] == one.look(place).epochs[0]
    assert brokers.asked.count("epoch 6 of 0") == 1


def test_brokers_before_2_8_are_not_asked_by_name_and_tell_no_ids(brokers: Brokers) -> None:
    brokers.newest = KAFKA_2_7
    seen = watcher().look()
    assert (seen.topic_id, seen.whole) == (None, True)
    assert brokers.asked[:3] == [*FIRST_POLL, "all topics"]


def test_before_2_4_no_epoch_is_believed(brokers: Brokers) -> None:
    brokers.newest = 8
    seen = watcher().look(Place("id", None, {0: 50}, {0: ((5, 50),)}))
    assert set(seen.epochs.values()) == {()}
    assert brokers.asked == [*FIRST_POLL, "all topics"]


@pytest.mark.parametrize(("allowed", "newest"), [(NOT_TOLD, KAFKA_4_3), (0, 7)])
@pytest.mark.parametrize(("fetch_error", "is_allowed"), [(0, True), (1, True), (DENIED, False)])
def test_where_nothing_says_what_is_allowed_a_fetch_does(
    brokers: Brokers, allowed: int, newest: int, fetch_error: int, *, is_allowed: bool
) -> None:
    brokers.allowed, brokers.newest, brokers.fetch_error = allowed, newest, fetch_error
    if is_allowed:
        assert watcher().look().whole
    else:
        with pytest.raises(LogError, match=f"not_allowed: READ on topic {TOPIC} is missing"):
            watcher().look()
    assert "fetch" in brokers.asked


def test_what_is_allowed_is_believed_where_it_is_told(brokers: Brokers) -> None:
    brokers.allowed = DESCRIBE
    with pytest.raises(LogError, match="not_allowed: READ on topic"):
        watcher().look()
    assert "fetch" not in brokers.asked


@pytest.mark.parametrize("newest", [KAFKA_2_7, KAFKA_4_3])
def test_a_topic_that_is_not_listed_is_not_there_or_may_not_be_seen(brokers: Brokers, newest: int) -> None:
    brokers.newest, brokers.is_told, brokers.fetch_error = newest, False, UNKNOWN_TOPIC
    assert watcher().look() == Log("id")
    brokers.fetch_error = DENIED
    with pytest.raises(LogError, match="not_allowed"):
        watcher().look()


def test_beside_an_error_operations_mean_nothing(brokers: Brokers) -> None:
    """A topic that is not there has none (Sarama's MockBroker answers 0)."""
    brokers.topic_error = brokers.fetch_error = UNKNOWN_TOPIC
    brokers.allowed = brokers.partitions = 0
    assert watcher().look().partitions == frozenset()
    brokers.fetch_error = DENIED
    with pytest.raises(LogError, match="not_allowed: READ on topic"):
        watcher().look()


def test_a_leader_that_does_not_answer_hides_its_own_partitions_alone(brokers: Brokers) -> None:
    brokers.dead = {1}
    seen = watcher().look()
    assert (seen.whole, seen.begins, seen.ends) == (False, {0: 0, 2: 0}, {0: 100, 2: 102})
    brokers.partitions = 0
    assert watcher().look().partitions == frozenset()
    brokers.partitions, brokers.fenced = 3, {2}
    assert watcher().look().ends == {0: 100}


def test_without_any_leader_it_is_said_why(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    def visit(*_: object) -> None:
        raise PollError("tls", "host: the certificate is for another host")

    monkeypatch.setattr(poller.Poller, "visit", visit)
    with pytest.raises(LogError, match="tls: host: the certificate"):
        watcher().look()
    assert brokers.asked == [*FIRST_POLL, "the topic"]


def test_a_connection_that_was_closed_meanwhile_is_made_again(brokers: Brokers) -> None:
    one = watcher()
    assert one.look().whole
    before = len(brokers.connections)
    brokers.idle = True
    assert one.look().whole
    assert len(brokers.connections) == before + 1
    one.close()


def test_a_time_to_start_at_that_a_leader_does_not_answer(brokers: Brokers) -> None:
    one = watcher()
    seen = one.look()
    assert one.starting(seen, 1_763_802_000_000) == seen.ends
    brokers.fenced = {1}
    with pytest.raises(LogError, match="no_leader"):
        one.starting(seen, 1_763_802_000_000)
