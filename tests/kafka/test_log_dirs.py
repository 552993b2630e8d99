"""Log directories, of a real cluster whose brokers have two each: against their files, replicas
that move, and a directory that fails.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.protocol.admin import AlterReplicaLogDirsRequest

from local_cluster import LocalCluster
from metadata_source.enrichment import Rows, subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.questions import Question
from metadata_source.transport import Connection
from tests.support.waiting import eventually

TOPIC = "log-dirs-test"
PROPERTIES = {
    # So that a broker writes to each directory, and finds that one has failed.
    "log.flush.offset.checkpoint.interval.ms": "500",
}
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, log_dirs=2, properties=PROPERTIES) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        new = NewTopic(TOPIC, num_partitions=6, replication_factor=2)
        admin.create_topics([new])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": started.bootstrap_servers, "acks": "all"})
        for number in range(600):
            producer.produce(TOPIC, bytes(1_000), partition=number % 6)
        assert producer.flush(30) == 0
        yield started


class Asked:
    """Asks again and again, and remembers what was kept."""

    def __init__(self, cluster: LocalCluster) -> None:
        given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "enrich": "log_dirs"}
        options = parse(given)
        self._options = options
        self._poller = Poller(options.clusters[0], options.topic_filter, 10_000)
        self._asking = self._poller.asking(10_000)

    def close(self) -> None:
        self._asking.close()
        self._poller.close()

    def once(self) -> tuple[str, Rows | None]:
        poll = self._poller.poll()
        assert poll.metadata is not None, poll.error
        about = subject(("log_dirs",), poll.metadata)
        (answer,) = self._asking.answers(about, self._poller.answerer)
        return answer.outcome, answer.rows


@pytest.fixture
def asked(cluster: LocalCluster) -> Iterator[Asked]:
    with closing(Asked(cluster)) as found:
        yield found


def dirs_of(rows: Rows | None) -> dict[str, dict[str, Any]]:
    assert rows is not None
    return {each["log_dir"]: each for of_broker in rows.values for each in of_broker or ()}


def sizes_of(rows: Rows | None) -> list[dict[str, Any]]:
    assert rows is not None
    return [each for of_broker in rows.beside["log_dir_sizes"].to_pylist() for each in of_broker]


def in_files(partition: Path) -> int:
    return sum(each.stat().st_size for each in partition.glob("*.log"))


def test_directories_and_sizes_are_those_of_the_files(asked: Asked) -> None:
    outcome, rows = asked.once()
    assert outcome == "ok"
    assert rows is not None
    assert rows.beside["broker_id"] == [1, 2, 3]
    found = dirs_of(rows)
    assert len(found) == 6
    for log_dir, each in found.items():
        assert each["error_code"] == 0
        assert each["total_bytes"] == shutil.disk_usage(log_dir).total
    partitions = [each for each in sizes_of(rows) if each["topic"] == TOPIC]
    of_replicas = [each for each in partitions if each["partition"] is not None]
    assert len(of_replicas) == 12
    for each in of_replicas:
        folder = Path(each["log_dir"], f"{TOPIC}-{each['partition']}")
        assert each["size_bytes"] == in_files(folder) > 100_000
    # Topics in directories, and directories, are their sums.
    for log_dir in found:
        of_dir = [each["size_bytes"] for each in of_replicas if each["log_dir"] == log_dir]
        (of_topic,) = (
            each["size_bytes"]
            for each in partitions
            if each["partition"] is None and each["log_dir"] == log_dir
        )
        assert of_topic == sum(of_dir)
        (whole,) = (
            each for each in sizes_of(rows) if each["topic"] is None and each["log_dir"] == log_dir
        )
        assert whole["size_bytes"] >= of_topic
        assert 0 < whole["usable_bytes"] <= found[log_dir]["total_bytes"]


def test_a_replica_that_moves_is_a_future_until_it_is_there(
    cluster: LocalCluster, asked: Asked
) -> None:
    _, rows = asked.once()
    known = dirs_of(rows)
    moved = next(
        each for each in sizes_of(rows) if each["topic"] == TOPIC and each["partition"] is not None
    )
    broker_id = int(Path(moved["log_dir"]).parent.name.rpartition("-")[2])
    (target,) = (
        each
        for each in known
        if Path(each).parent == Path(moved["log_dir"]).parent and each != moved["log_dir"]
    )
    throttle(cluster, broker_id, "1")
    move(cluster, broker_id, target, moved["partition"])

    def is_future() -> bool:
        _, rows = asked.once()
        return any(
            each["is_future"]
            and each["log_dir"] == target
            and each["partition"] == moved["partition"]
            and each["offset_lag"] is not None
            for each in sizes_of(rows)
        )

    eventually(is_future, "the replica moves")
    throttle(cluster, broker_id, None)
    kept: dict[str, int] = {}

    def has_moved() -> bool:
        _, rows = asked.once()
        kept.update(
            (each["log_dir"], each["size_bytes"])
            for each in sizes_of(rows)
            if each["topic"] == TOPIC
            and each["partition"] == moved["partition"]
            and not each["is_future"]
            and Path(each["log_dir"]).parent == Path(target).parent
        )
        return kept.get(moved["log_dir"]) == 0 and kept.get(target, 0) > 100_000

    eventually(has_moved, "the replica is in the other directory")


def throttle(cluster: LocalCluster, broker_id: int, rate: str | None) -> None:
    """Let replicas move no faster than so many bytes a second; None: as fast as they can."""
    how = AlterConfigOpType.DELETE if rate is None else AlterConfigOpType.SET
    entry = ConfigEntry(THROTTLE, rate or "", incremental_operation=how)
    broker = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.incremental_alter_configs([broker])[broker].result(30)


def move(cluster: LocalCluster, broker_id: int, target: str, partition: int) -> None:
    request = AlterReplicaLogDirsRequest
    log_dir = request.AlterReplicaLogDir
    topic = log_dir.AlterReplicaLogDirTopic(name=TOPIC, partitions=[partition])
    question = Question(request, {"dirs": [log_dir(path=target, topics=[topic])]})
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers.split(",")[broker_id - 1]}
    of = parse(given).clusters[0]
    until = time.monotonic() + 30
    with closing(Connection(of, of.bootstrap_servers[0], until)) as connection:
        response = question.ask(connection, until)
    assert [p.error_code for each in response.results for p in each.partitions] == [0]


def test_a_directory_that_fails_and_a_broker_that_is_gone(
    cluster: LocalCluster, asked: Asked
) -> None:
    _, rows = asked.once()
    failing = next(each for each in dirs_of(rows) if each.endswith("node-3/data-2"))
    Path(failing).rename(f"{failing}-away")
    Path(failing).write_text("a disk that is gone")

    def has_failed() -> bool:
        outcome, rows = asked.once()
        assert outcome == "ok"
        return bool(dirs_of(rows)[failing]["error_code"] == 56)

    eventually(has_failed, "broker 3 finds that its directory has failed")
    _, rows = asked.once()
    assert dirs_of(rows)[failing] == {
        "log_dir": failing,
        "error_code": 56,
        "total_bytes": None,
    }
    assert not any(each["log_dir"] == failing for each in sizes_of(rows)), "nothing is known of it"
    cluster.pause(3)
    try:
        outcome, rows = asked.once()
    finally:
        cluster.resume(3)
    if "broker 3" in outcome:  # else the controllers had fenced it before it was asked
        assert outcome.startswith("ok: 1 of 3 brokers did not tell their directories: broker 3")
        assert rows is not None
        assert rows.values[2] is None
