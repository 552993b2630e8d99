"""Reading the coordinators' log, side by side: this source on one core and through Spark, and plain
confluent-kafka loops.

Topics in the layout of `__consumer_offsets` on a real broker hold offset commits of 50 groups to 8
partitions each and, among them, records of another group: a classic group of three members, a
KIP-848 group's epoch and what a member has, in turn. Ours decodes every record, commits too, to
Arrow; the plain loops look at the first two bytes of the key, and decode nothing. Rates are records
read a second, medians of the runs; ratios are to the faster of the two loops as they come.
"""

from __future__ import annotations

import io
import os
import statistics
import struct
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.results import Measured, Results, median
from local_cluster import LocalCluster
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.group.log import GroupLog
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import parse_group_log
from metadata_source.protocol.group_specs import ASSIGNMENT, RECORD_TYPES, SUBSCRIPTION
from metadata_source.protocol.writing import write_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from benchmarks.results import Say
    from metadata_source.options import Cluster

SHARES: Final = (0.001, 0.01, 0.1)
RECORDS: Final = 500_000
PARTITIONS: Final = 2
WAYS: Final = ("ours, one core", "ours, Spark", "poll()", "consume(500)")
TIMEOUT_MS: Final = 30_000

CLASSIC, EPOCH, CURRENT = 2, 3, 8
GROUPS, GROUP_PARTITIONS = 50, 8
COMMIT_KEYS: Final = [
    struct.pack(">hh11sh6si", 1, 11, b"payments-%02d" % group, 6, b"orders", partition)
    for group in range(GROUPS)
    for partition in range(GROUP_PARTITIONS)
]


class _Source(KafkaGroupLogSource):
    topic = ""


def reading(_folder: Path, say: Say, runs: int) -> Results:
    """Measure group_log_*: the least of all shares of records of groups."""
    ratios, ours, through_spark = [], [], []
    with LocalCluster(brokers=1) as kafka:
        (cluster,) = parse_group_log({"kafka.bootstrap.servers": kafka.bootstrap_servers}).clusters
        spark = _session()
        for share in SHARES:
            topic = f"log-{share}"
            _fill(kafka.bootstrap_servers, topic, share, RECORDS)
            reads = _reads(spark, kafka.bootstrap_servers, cluster, topic)
            rates = [_rate(read, RECORDS, round(RECORDS * share), runs) for read in reads]
            say(
                f"{share:.1%} of groups, records a second: "
                + ", ".join(f"{way} {rate:,.0f}" for way, rate in zip(WAYS, rates, strict=True))
            )
            ours.append(rates[0])
            through_spark.append(rates[1])
            ratios.append(rates[0] / max(rates[2:]))
        size, aggregates = _bytes_of_commits(cluster, f"log-{SHARES[0]}")
        spark.stop()
    found = {"group_log_x": ratios, "group_log_records": ours}
    found |= {"group_log_spark_records": through_spark}
    return {name: Measured(min(of), tuple(of)) for name, of in found.items()} | {
        "group_log_commit_bytes": median([size / aggregates])
    }


def _reads(spark: Any, servers: str, cluster: Cluster, topic: str) -> list[Callable[[], int]]:
    """Return what reads the topic and counts records of groups, in the order of `WAYS`."""
    default = {"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False}
    return [
        lambda: _ours(cluster, topic),
        lambda: _through_spark(spark, servers, topic),
        lambda: _plain(Consumer(default), topic, _polled),
        lambda: _plain(Consumer(default), topic, _consumed),
    ]


def _rate(read: Callable[[], int], count: int, wanted: int, runs: int) -> float:
    """Return the records a second of the median run, after one that warms up."""
    read()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        found = read()
        times.append(time.perf_counter() - start)
        if found != wanted:
            raise RuntimeError(f"{found} records of groups, {wanted} were written")
    return count / statistics.median(times)


def _session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    return SparkSession.builder.master(f"local[{PARTITIONS}]").config(map=settings).getOrCreate()


# --- what is read ---


def _fill(servers: str, topic: str, share: float, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": count}
    )
    groups = _group_records()
    every = round(1 / share)
    for at in range(count):
        commit = (
            COMMIT_KEYS[at % len(COMMIT_KEYS)],
            struct.pack(">hqihq", 3, at, 7, 0, 1_763_802_000_000),
        )
        key, value = groups[at // every % len(groups)] if at % every == 0 else commit
        producer.produce(topic, value, key, partition=at * PARTITIONS // count)
        if at % 10_000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("not all records were written")


def _group_records() -> list[tuple[bytes, bytes]]:
    """Return keys and values as the coordinator of Kafka 4.3 writes them."""
    group, topic_id = {"group_id": "payments"}, UUID(int=7).bytes
    subscription = {
        "topics": ["orders"],
        "user_data": None,
        "owned_partitions": [],
        "generation_id": 4,
        "rack_id": None,
    }
    assignment = {
        "assigned_partitions": [{"topic": "orders", "partitions": list(range(8))}],
        "user_data": None,
    }
    members = [
        {
            "member_id": f"payments-{number}-{UUID(int=number)}",
            "group_instance_id": None,
            "client_id": f"payments-{number}",
            "client_host": "/10.0.0.7",
            "rebalance_timeout": 300_000,
            "session_timeout": 45_000,
            "subscription": struct.pack(">h", 3) + write_message(SUBSCRIPTION, 3, subscription),
            "assignment": struct.pack(">h", 3) + write_message(ASSIGNMENT, 3, assignment),
        }
        for number in range(3)
    ]
    classic = {
        "protocol_type": "consumer",
        "generation": 4,
        "protocol": "range",
        "leader": members[0]["member_id"],
        "current_state_timestamp": 1_763_802_000_000,
        "members": members,
    }
    current = {
        "member_epoch": 5,
        "previous_member_epoch": 4,
        "state": 0,
        "assigned_partitions": [
            {"topic_id": topic_id, "partitions": list(range(8)), "assignment_epochs": None}
        ],
        "partitions_pending_revocation": [],
    }
    return [
        _record(CLASSIC, 3, {"group": "payments"}, classic),
        _record(EPOCH, 0, group, {"epoch": 5, "metadata_hash": 99}),
        _record(CURRENT, 0, group | {"member_id": str(UUID(int=9))}, current),
    ]


def _record(
    number: int, version: int, key: dict[str, Any], value: dict[str, Any]
) -> tuple[bytes, bytes]:
    record_type = RECORD_TYPES[number]
    return (
        struct.pack(">h", number) + write_message(record_type.key, 0, key),
        struct.pack(">h", version) + write_message(record_type.value, version, value),
    )


# --- who reads it ---


def _ours(cluster: Cluster, topic: str) -> int:
    return sum(
        sum(record == "record" for record in batch["record"].to_pylist())
        for batch in _batches(cluster, topic)
    )


def _bytes_of_commits(cluster: Cluster, topic: str) -> tuple[int, int]:
    """Return what rows of commits add to a file of all rows, and how many aggregates they have."""
    rows = pa.Table.from_batches(_batches(cluster, topic))
    is_of_commits = pc.equal(rows["record"], "commits")
    sizes = []
    for written in (rows, rows.filter(pc.invert(is_of_commits))):
        pq.write_table(written, file := io.BytesIO())
        sizes.append(len(file.getvalue()))
    aggregates: int = pc.sum(pc.list_value_length(rows["offset_commits"])).as_py()
    return sizes[0] - sizes[1], aggregates


def _batches(cluster: Cluster, topic: str) -> Iterator[pa.RecordBatch]:
    with closing(LogWatcher(cluster, topic, TIMEOUT_MS)) as watcher:
        seen = watcher.ask_extent()
    spans = [
        Span("c", seen.cluster_id, seen.topic_id, partition, 0, end)
        for partition, end in seen.ends.items()
    ]
    options = parse_group_log(
        {"kafka.bootstrap.servers": "not-asked:1", "requestTimeout": f"{TIMEOUT_MS}ms"}
    )
    return GroupLog(options, topic).rows(cluster, spans, datetime.now(UTC), time.sleep)


def _through_spark(spark: Any, servers: str, topic: str) -> int:
    source = type("Source", (_Source,), {"topic": topic})
    spark.dataSource.register(source)
    frame = spark.read.format(source.name()).option("kafka.bootstrap.servers", servers).load()
    return int(frame.where("record = 'record'").count())


def _plain(client: Consumer, topic: str, messages: Callable[[Consumer], Iterable[Any]]) -> int:
    """Read every partition to its end; return how many records are of groups."""
    found = 0
    for partition in range(PARTITIONS):
        asked = TopicPartition(topic, partition, 0)
        _, end = client.get_watermark_offsets(asked, 10)
        client.assign([asked])
        for message in messages(client):
            found += message.key()[:2] not in {b"\0\0", b"\0\1"}
            if message.offset() + 1 == end:
                break
    client.close()
    return found


def _polled(client: Consumer) -> Iterable[Any]:
    while True:
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            yield message


def _consumed(client: Consumer) -> Iterable[Any]:
    while True:
        yield from client.consume(500, 1.0)
