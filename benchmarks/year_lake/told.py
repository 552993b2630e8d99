"""What happened to a cluster, as rows from which sources.sql makes those of each table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.year_lake.clusters import WEEK, Placed
from benchmarks.year_lake.lives import rows, states
from jobs.rules.ids import row_id

if TYPE_CHECKING:
    import duckdb

    from benchmarks.year_lake.clusters import Cluster
    from benchmarks.year_lake.lives import Row


def put(database: duckdb.DuckDBPyConnection, clusters: list[Cluster]) -> None:
    """Put these rows into tables; k is the number of the cluster."""
    for cluster in clusters:
        for name, found in _told(cluster).items():
            database.register("found", pa.Table.from_pylist(found))
            chosen = f"SELECT CAST({cluster.number} AS INT) AS k, * FROM found"
            is_new = cluster is clusters[0]
            into = f"CREATE TABLE {name} AS" if is_new else f"INSERT INTO {name} BY NAME"
            database.execute(f"{into} {chosen}")
            database.unregister("found")


def _told(of: Cluster) -> dict[str, list[Row]]:
    alike: dict[Placed, list[Row]] = {}
    topics: dict[str, Row] = {}
    for name, partition, placed in of.partitions():
        topic = topics.setdefault(
            name,
            {
                "topic": name,
                "topic_id": row_id(of.number, name)[:22],
                "partitions": 0,
                "min_isr": placed.min_isr,
            },
        )
        topic["partitions"] += 1
        one = {"topic": name, "topic_id": topic["topic_id"], "partition": partition}
        alike.setdefault(placed, []).append(one)
    told: dict[str, list[Row]] = {"alike": [], "named": [*topics.values()]}
    for number, (placed, partitions) in enumerate(alike.items()):
        told["alike"].append({"alike": number, "partitions": partitions})
        for name, found in rows(placed, states(placed, of.outages)).items():
            told.setdefault(name, []).extend(row | {"alike": number} for row in found)
    held = {
        broker: sum(len(each) for placed, each in alike.items() if broker in placed.replicas)
        for broker in range(of.brokers)
    }
    sizes = {"groups": of.groups, "weeks": of.weeks, "topics": of.topics, "ends": of.weeks * WEEK}
    return told | {
        "clusters": [sizes],
        "stale": [dict(zip(("broker_id", "n", "m"), each, strict=True)) for each in of.stale],
        "stuck": [dict(zip(("g", "n", "m"), each, strict=True)) for each in of.stuck],
        "outages": [
            {
                "broker_id": out.broker,
                "n": out.since,
                "m": out.until,
                "partitions": held[out.broker],
            }
            for out in of.outages
        ],
    }
