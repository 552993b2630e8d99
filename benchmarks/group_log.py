"""Reading the coordinators' log, side by side: this source on one core and through Spark, and plain
confluent-kafka loops.

``python -m benchmarks.group_log [--quick]``. Topics in the layout of `__consumer_offsets` on a real
broker hold offset commits of 50 groups to 8 partitions each and, among them, records of another
group: a classic group of three members, a KIP-848 group's epoch and what a member has, in turn.
Ours decodes every commit too, to aggregates; the plain loops pass over commits by the first two
bytes of the key. kafka-python has no classes for these records, so the plain loops decode the rest
with the struct module; ours decodes every type and version, to Arrow. Rates are records read a
second, commits included, medians of the runs; ratios are to the faster of the two loops as they
come. The tuned one fetches without pauses and takes 10,000 messages at once: what is left to gain
in Python. The last line says what an aggregate takes in a Parquet file of its own batch.
"""

from __future__ import annotations

import argparse
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

from benchmarks.aims import aim
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

    from metadata_source.options import Cluster

SHARES: Final = (0.001, 0.01, 0.1)
RECORDS: Final = 500_000
QUICK_RECORDS: Final = 100_000
PARTITIONS: Final = 2
RUNS: Final = 3
_TUNED: Final = {"fetch.queue.backoff.ms": 1}
"""By default a full queue stops fetching for a second, six times what it takes to empty it."""
WAYS: Final = ("ours, one core", "ours, Spark", "poll()", "consume(500)", "consume, tuned")
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


def main() -> None:
    """Print the table, then the aims and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_RECORDS:,} records and one run of each"
    )
    quick = parser.parse_args().quick
    count, runs = (QUICK_RECORDS, 1) if quick else (RECORDS, RUNS)
    print(
        f"records a second, {count:,} records, medians of {runs}; times the faster of poll() and "
        "consume(500)"
    )
    print(
        f"{'groups':>7}" + "".join(f"{way:>16}" for way in WAYS) + f"{'one core':>10}{'Spark':>8}"
    )
    ratios = []
    with LocalCluster(brokers=1) as kafka:
        (cluster,) = parse_group_log({"kafka.bootstrap.servers": kafka.bootstrap_servers}).clusters
        spark = _session()
        for share in SHARES:
            topic = f"log-{share}"
            _fill(kafka.bootstrap_servers, topic, share, count)
            reads = _reads(spark, kafka.bootstrap_servers, cluster, topic)
            rates = [_rate(read, count, round(count * share), runs) for read in reads]
            ours, through_spark, *plain, _ = rates
            ratios.append((share, ours / max(plain)))
            figures = "".join(f"{rate:>16,.0f}" for rate in rates)
            print(
                f"{share:>7.1%}{figures}{ours / max(plain):>9.1f}x"
                f"{through_spark / max(plain):>7.1f}x",
                flush=True,
            )
        size, aggregates = _bytes_of_commits(cluster, f"log-{SHARES[0]}")
        spark.stop()
    print(f"{size / aggregates:.0f} bytes an aggregate of commits, {aggregates:,} of them")
    for share, ratio in ratios:
        print(aim(f"the faster plain loop's time, one core, {share:.1%} of groups", ratio, ">=", 3))


def _reads(spark: Any, servers: str, cluster: Cluster, topic: str) -> list[Callable[[], int]]:
    """Return what reads the topic and counts records of groups, in the order of `WAYS`."""
    default = {"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False}
    return [
        lambda: _ours(cluster, topic),
        lambda: _through_spark(spark, servers, topic),
        lambda: _plain(Consumer(default), topic, _polled),
        lambda: _plain(Consumer(default), topic, _consumed),
        lambda: _plain(Consumer(default | _TUNED), topic, _drained),
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
    """Read every partition to its end; return how many records were decoded."""
    found = []
    for partition in range(PARTITIONS):
        asked = TopicPartition(topic, partition, 0)
        _, end = client.get_watermark_offsets(asked, 10)
        client.assign([asked])
        for message in messages(client):
            key = message.key()
            if key[:2] not in {b"\0\0", b"\0\1"}:
                found.append(_DECODERS[int.from_bytes(key[:2])](key, message.value()))
            if message.offset() + 1 == end:
                break
    client.close()
    return len(found)


def _polled(client: Consumer) -> Iterable[Any]:
    while True:
        message = client.poll(1.0)
        if message is not None and message.error() is None:
            yield message


def _consumed(client: Consumer) -> Iterable[Any]:
    while True:
        yield from client.consume(500, 1.0)


def _drained(client: Consumer) -> Iterable[Any]:
    while True:
        messages = client.consume(10_000, 0)
        if not messages and (message := client.poll(0.5)) is not None:
            messages = [message]
        yield from (message for message in messages if message.error() is None)


# --- the records by the struct module ---

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


def _string(data: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _SHORT.unpack_from(data, at)
    end = at + 2 + max(0, length)
    return (None if length < 0 else data[at + 2 : end].decode()), end


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(data, at)
    end = at + 4 + max(0, length)
    return (None if length < 0 else data[at + 4 : end]), end


def _partitions(data: bytes, at: int) -> tuple[list[tuple[str | None, tuple[int, ...]]], int]:
    (count,) = _INT.unpack_from(data, at)
    at += 4
    topics = []
    for _ in range(count):
        name, at = _string(data, at)
        (length,) = _INT.unpack_from(data, at)
        topics.append((name, struct.unpack_from(f">{length}i", data, at + 4)))
        at += 4 + 4 * length
    return topics, at


def _classic(key: bytes, value: bytes) -> dict[str, Any]:
    """Decode type 2 in version 3."""
    group, _ = _string(key, 2)
    protocol_type, at = _string(value, 2)
    (generation,) = _INT.unpack_from(value, at)
    protocol, at = _string(value, at + 4)
    leader, at = _string(value, at)
    state_timestamp, count = struct.unpack_from(">qi", value, at)
    at += 12
    members = []
    for _ in range(count):
        member_id, at = _string(value, at)
        instance_id, at = _string(value, at)
        client_id, at = _string(value, at)
        client_host, at = _string(value, at)
        timeouts = struct.unpack_from(">ii", value, at)
        subscription, at = _bytes(value, at + 8)
        assignment, at = _bytes(value, at)
        members.append(
            (
                member_id,
                instance_id,
                client_id,
                client_host,
                timeouts,
                _subscription(subscription),
                _partitions(assignment, 2)[0],
            )
        )
    return {
        "group": group,
        "protocol_type": protocol_type,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "state_timestamp": state_timestamp,
        "members": members,
    }


def _subscription(data: bytes) -> tuple[Any, ...]:
    (count,) = _INT.unpack_from(data, 2)
    at = 6
    topics = []
    for _ in range(count):
        topic, at = _string(data, at)
        topics.append(topic)
    user_data, at = _bytes(data, at)
    owned, at = _partitions(data, at)
    (generation,) = _INT.unpack_from(data, at)
    rack, _ = _string(data, at + 4)
    return topics, user_data, owned, generation, rack


def _epoch(key: bytes, value: bytes) -> dict[str, Any]:
    """Decode type 3, whose one tagged field is the hash."""
    group, _ = _string(key, 2)
    (epoch,) = _INT.unpack_from(value, 2)
    tagged = value[6]
    return {"group": group, "epoch": epoch, "hash": _LONG.unpack_from(value, 9)[0] if tagged else 0}


def _current(key: bytes, value: bytes) -> dict[str, Any]:
    """Decode type 8, of lists that are shorter than 127."""
    group, at = _string(key, 2)
    member, _ = _string(key, at)
    epoch, previous, state = struct.unpack_from(">iib", value, 2)
    at = 11
    lists = []
    for _ in range(2):
        topics = []
        count, at = value[at] - 1, at + 1
        for _ in range(count):
            topic_id, length = UUID(bytes=value[at : at + 16]), value[at + 16] - 1
            topics.append((topic_id, struct.unpack_from(f">{length}i", value, at + 17)))
            at += 17 + 4 * length + 1
        lists.append(topics)
    return {
        "group": group,
        "member": member,
        "epoch": epoch,
        "previous": previous,
        "state": state,
        "lists": lists,
    }


_DECODERS: Final = {CLASSIC: _classic, EPOCH: _epoch, CURRENT: _current}


if __name__ == "__main__":
    main()
