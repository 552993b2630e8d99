"""Reads of the log of groups without Spark, and a topic in its layout."""

import struct
import time
from contextlib import closing
from datetime import UTC, datetime

import pyarrow as pa
from confluent_kafka import Producer

from metadata_source.columns.group_log import SCHEMA
from metadata_source.logs.topic.positions import LogPosition, Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import Cluster, parse_group_log
from tests.support.group_log import log_of
from tests.support.group_messages import key_bytes, value_bytes

RAW = "group-log-raw"
"""A plain topic in the layout of the log: no coordinator minds what is done to it."""
GROUP = (key_bytes(3, {"group_id": "g"}), value_bytes(3, 0, {"epoch": 7, "metadata_hash": 0}))
COMMIT = (struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 0), struct.pack(">hqihq", 3, 5, -1, 0, 1))


def reach(servers: str, **options: str) -> Cluster:
    given = {"kafka.bootstrap.servers": servers} | {
        name.replace("__", "."): value for name, value in options.items()
    }
    return parse_group_log(given).clusters[0]


def look(cluster: Cluster, topic: str = RAW, timeout_ms: int = 10_000):
    with closing(LogWatcher(cluster, topic, timeout_ms)) as watcher:
        return watcher.ask_extent()


def position(seen, **offsets: int) -> LogPosition:
    return LogPosition(
        seen.cluster_id, seen.topic_id, {int(name[1:]): offset for name, offset in offsets.items()}
    )


def rows_of(
    cluster: Cluster, start: int, end: int, topic: str = RAW, timeout_ms: int = 10_000
) -> list[dict]:
    """The rows that a read of partition 0 yields."""
    return rows_of_span(
        cluster, Span("c", "id", look(cluster, topic).topic_id, 0, start, end), topic, timeout_ms
    )


def rows_of_span(
    cluster: Cluster, span: Span, topic: str = RAW, timeout_ms: int = 10_000
) -> list[dict]:
    return rows_of_spans(cluster, [span], topic, timeout_ms)


def rows_of_spans(
    cluster: Cluster, between: list[Span], topic: str, timeout_ms: int = 10_000
) -> list[dict]:
    batches = list(log_of(topic, timeout_ms).rows(cluster, between, datetime.now(UTC), time.sleep))
    return pa.Table.from_batches(batches, SCHEMA).drop_columns("read_at").to_pylist()


def only(rows: list[dict], record: str) -> list[dict]:
    return [row for row in rows if row["record"] == record]


def without_commits(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["record"] != "commits"]


def summary(rows: list[dict]) -> list[tuple]:
    """Of what was gone through: what, from where, up to where."""
    spans_ = ("read", "lost", "truncated")
    return [
        (row["record"], row["offset"], row["next_offset"])
        for row in rows
        if row["record"] in spans_
    ]


def produce(
    servers: str, records, topic: str = RAW, partition: int = 0, at_ms: int = 0, **more
) -> None:
    """Write records, with the time of now where none is given."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 20,
            **more,
        }
    )
    for key, value in records:
        producer.produce(topic, value, key, partition=partition, timestamp=at_ms)
        producer.poll(0)
    assert producer.flush(30) == 0
