"""The named queries on lakes of known rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs.run.metadata_stream import newest_stream
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.opened import without_spark
from schemas import bronze, internal, silver
from schemas.in_spark import attach
from schemas.lake import Lake
from schemas.table import Table
from tests.support.lakes import new_lake
from tests.support.repository import ROOT

QUERIES = ROOT / "schemas" / "queries"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
BEGAN = NOON - timedelta(days=30)
STREAM = "20261101T110000Z-00000000"
NEWER = "20261101T114500Z-00000000"


def header(
    cluster: str, n: int, seconds_ago: float, error_kind: str | None = None
) -> dict[str, Any]:
    at = NOON - timedelta(seconds=seconds_ago)
    return {
        "poll_id": f"{STREAM}/{n:012d}",
        "stream": STREAM,
        "n": n,
        "cluster": cluster,
        "record": "poll",
        "chunk": 0,
        "day": at.date(),
        "interval_ms": 30_000,
        "scheduled_at": at,
        "received_at": None if error_kind else at,
        "outcome": "failed" if error_kind else "ok",
        "error_kind": error_kind,
    }


def progress(cluster: str, seconds_ago: float | None, **counts: Any) -> dict[str, Any]:
    never = {
        "history": "silver",
        "cluster": cluster,
        "round": 1,
        "refused_polls": 0,
        "stale_polls": 0,
        "memory": "{}",
        **counts,
    }
    if seconds_ago is None:
        return never
    return {**never, "last_seen_at": NOON - timedelta(seconds=seconds_ago), "interval_ms": 30_000}


def append(spark: SparkSession, lake: Lake, table: Table, rows: list[dict[str, Any]]) -> None:
    schema = StructType(
        [field for field in lake.read(spark, table).schema if field.name in rows[-1]]
    )
    frame = spark.createDataFrame(
        [tuple(row.get(name) for name in schema.names) for row in rows], schema
    ).coalesce(1)
    frame.write.format("delta").mode("append").save(lake.path(table))


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = new_lake(
        spark,
        tmp_path_factory.mktemp("queries"),
        (bronze.METADATA_POLLS, internal.STATE, silver.CLUSTER_SNAPSHOTS),
    )
    polls = [
        header("fine", 0, 4000, "timeout"),  # before :since
        header("fine", 1, 90),
        header("fine", 2, 60),
        header("fine", 3, 30, "unreachable"),
        header("down", 1, 181),
        header("down", 2, 31, "timeout"),
        header("down", 3, 1, "unreachable"),
        header("down", 4, -5),  # after :until
        header("never", 1, 10, "authentication"),
        header("quiet for a while", 1, 209),
        header("quiet for a while", 2, 179),
        header("other", 1, 40),
        header("other", 2, 10),
        # History has taken 0 and 1 of this stream, and then polls of a newer one.
        *(header("silenced", n, 70 - 30 * n) for n in range(3)),
        header("lagging", 1, 40),
        header("lagging", 2, 10),
    ]
    append(spark, lake, bronze.METADATA_POLLS, polls)
    append(
        spark,
        lake,
        internal.STATE,
        [
            progress("never", None),
            progress("down", 181),
            progress("fine", 90),
            progress("quiet", 86_400),
            progress("other", 86_400, refused_polls=2),
            progress("lagging", 40, stale_polls=1),
            progress("silenced", 40, taken={STREAM: 0, NEWER: 4}),
        ],
    )
    began = {
        "cluster_id": "id-fine",
        "cluster": "fine",
        "first_poll": f"{STREAM}/{0:012d}",
        "valid_from": BEGAN,
    }
    began |= {"valid_to": None, "part": 0}
    kind = {"kind": "kafka", "not_meaningful": []}
    append(spark, lake, silver.CLUSTER_SNAPSHOTS, [began | kind])
    attach(spark, lake)
    return lake


def test_health(spark: SparkSession, lake: Lake) -> None:
    text = (QUERIES / "health.sql").read_text()
    arguments = {"since": "2026-11-01T11:00:00Z", "until": "2026-11-01T12:00:00Z", "cluster": None}
    rows = spark.sql(text, arguments)
    assert rows.columns == [
        "cluster",
        "status",
        "last_good_poll_at",
        "age_s",
        "interval_s",
        "polls",
        "failed_polls",
        "last_error_kind",
        "ignored_polls",
        "refused_polls",
        "stale_polls",
        "history_from",
    ]
    counts = ("polls", "failed_polls", "ignored_polls", "refused_polls", "stale_polls")
    times = ("history_from", "last_good_poll_at", "age_s", "interval_s")
    names = ("cluster", *times, *counts, "last_error_kind", "status")
    by_spark, by_duckdb = (
        [
            tuple(
                value.astimezone(UTC) if isinstance(value, datetime) else value
                for value in map(row.get, names)
            )
            for row in found
        ]
        for found in (
            [row.asDict() for row in rows.collect()],
            without_spark(lake)(with_values(text, arguments)).to_pylist(),
        )
    )
    ago = {seconds: NOON - timedelta(seconds=seconds) for seconds in (10, 60, 179, 181, 86_400)}
    assert by_spark == by_duckdb
    assert by_spark == [
        ("silenced", None, ago[10], 10.0, 30.0, 3, 0, 2, 0, 0, None, "ignored"),
        ("down", None, ago[181], 181.0, 30.0, 3, 2, 0, 0, 0, "unreachable", "late"),
        ("never", None, None, None, 30.0, 1, 1, 0, 0, 0, "authentication", "late"),
        ("quiet", None, ago[86_400], 86_400.0, 30.0, 0, 0, 0, 0, 0, None, "late"),
        ("fine", BEGAN, ago[60], 60.0, 30.0, 3, 1, 0, 0, 0, "unreachable", "ok"),
        ("quiet for a while", None, ago[179], 179.0, 30.0, 2, 0, 0, 0, 0, None, "ok"),
        ("other", None, ago[10], 10.0, 30.0, 2, 0, 0, 2, 0, None, "refused"),
        ("lagging", None, ago[10], 10.0, 30.0, 2, 0, 0, 0, 1, None, "stale"),
    ]


@pytest.mark.parametrize(
    ("clusters", "stream"),
    [(["fine"], STREAM), (["fine", "silenced"], NEWER), (["quiet", "nobody"], None)],
)
def test_the_newest_stream_that_a_lake_has_of_clusters(
    spark: SparkSession, lake: Lake, clusters: list[str], stream: str | None
) -> None:
    """Known to bronze alone, to history too, to neither."""
    assert newest_stream(spark, lake, clusters) == stream
