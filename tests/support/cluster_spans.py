"""Reads of the controllers' log without Spark, and what they say of its offsets."""

import itertools
from typing import Any

import pyarrow as pa

from local_cluster import LocalCluster
from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from tests.support.group_messages import without_nulls

SERVERS = "kafka.controller.bootstrap.servers"
NOT_COMPARED = {"read_at", "day"}


def options_of(cluster: LocalCluster, **more: str) -> dict[str, str]:
    return {
        SERVERS: cluster.controller_servers,
        "clusterId": cluster.cluster_id,
        "requestTimeout": "20s",
    } | more


def read(**options: str) -> list[dict[str, Any]]:
    """A batch read, without Spark and without nulls."""
    source = KafkaClusterLogSource(options)
    reader = source.reader(source.schema())
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    table = pa.Table.from_batches(batches, SCHEMA).drop_columns([*NOT_COMPARED])
    return [without_nulls(row) for row in table.to_pylist()]


def records(rows: list[dict[str, Any]], kind: str = "record") -> list[dict[str, Any]]:
    return [row for row in rows if row["record"] == kind]


def fates(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """The spans of the log: each begins where the one before it ends."""
    spans = [row for row in records(rows, "span") if row.get("snapshot_offset") is None]
    found = sorted((row["offset"], row["next_offset"], row["went"]) for row in spans)
    assert all(one[1] == next_[0] for one, next_ in itertools.pairwise(found))
    return [(went, start, end) for start, end, went in found]
