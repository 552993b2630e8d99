"""The timeline, and the views over groups' tables: Spark answers as DuckDB does
(tests/unit/schemas/test_views.py), and reads no more than it must.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from schemas import views
from schemas.in_spark import read_view
from schemas.lake import Lake
from schemas.table import View
from tests.support import group_views, random_group_views, random_held_up, stored
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.group_states import at
from tests.support.lakes import new_lake, utc
from tests.support.timeline_rows import rows_of_log, rows_of_polls

ROWS = group_views.merged(
    [
        group_views.by_hand(),
        *(random_group_views.by_chance(seed) for seed in range(2)),
        random_group_views.removals(0),
        rows_of_polls(),
        rows_of_log(),
        random_held_up.held_up_by_chance(0),
    ]
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = new_lake(spark, tmp_path_factory.mktemp("views") / "lake")
    for table, rows in ROWS.items():
        stored.append(made, table, rows)
    return made


@pytest.fixture(scope="module")
def other(lake: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_lake(ROWS, views.VIEWS) as made:
        yield made


def as_text(row: dict[str, Any]) -> str:
    """A row that can be compared."""

    def plain(value: Any) -> str:
        return utc(value).isoformat() if isinstance(value, datetime) else str(value)

    return json.dumps(row, default=plain)


@pytest.mark.parametrize(
    "view", [*views.OF_GROUPS, views.INCIDENT_TIMELINE], ids=lambda view: view.name
)
def test_spark_answers_as_duckdb_does(
    spark: SparkSession, lake: Lake, other: duckdb.DuckDBPyConnection, view: View
) -> None:
    found = sorted(
        as_text(row.asDict(recursive=True)) for row in read_view(spark, lake, view).collect()
    )
    assert found == sorted(map(as_text, ask(other, f"SELECT * FROM {view.full_name}")))
    assert len(found) > 20


def test_what_is_random_comes_to_all_answers(other: duckdb.DuckDBPyConnection) -> None:
    """Or nothing is compared by it."""
    (row,) = ask(
        other,
        """
        SELECT count_if(followed_coordinator_move) AS followed,
          count_if(NOT followed_coordinator_move) AS alone,
          count_if(coordinator IS NULL) AS unknown, count_if(narrowed_after IS NOT NULL) AS after,
          count_if(narrowed_before IS NOT NULL) AS before,
          count_if(partitions_unassigned > 0) AS unassigned,
          count_if(partitions_unassigned = 0) AS assigned,
          count_if(partitions_unassigned IS NULL) AS not_known
        FROM gold.rebalances WHERE cluster LIKE 'chance%'
        """,
    )
    assert min(row.values()) > 10, row


@pytest.mark.parametrize(
    ("view", "scans"),
    [(views.REBALANCES, 4), (views.REBALANCE_MEMBERS, 3)],
    ids=["rebalances", "rebalance_members"],
)
def test_what_is_filtered_by_is_filtered_in_every_read(
    spark: SparkSession, lake: Lake, view: View, scans: int
) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.maxMetadataStringLength", "4000")  # how much a plan tells of a scan
    rows = read_view(own, lake, view).where(
        f"began_before BETWEEN '{at(100)}' AND '{at(200)}' AND cluster = 'moves' AND group_id = "
        "'here'"
    )
    plan = rows._jdf.queryExecution().executedPlan().toString()
    told = [
        line
        for line in plan.splitlines()
        if re.search(r"FileScan parquet .*/internal/rebalance(?:s|_members)\]", line)
    ]
    assert len(told) == scans
    for scan in told:
        (pushed,) = re.findall(r"PushedFilters: \[(.*?)\], ReadSchema", scan)
        assert {"GreaterThanOrEqual(began_before", "LessThanOrEqual(began_before"} <= set(
            re.findall(r"\w+ThanOrEqual\(began_before", pushed)
        )
        assert {"EqualTo(cluster,moves)", "EqualTo(group_id,here)"} <= set(
            re.findall(r"EqualTo\([^)]*\)", pushed)
        )


def test_a_context_that_nobody_asks_for_is_not_made(spark: SparkSession, lake: Lake) -> None:
    plan = (
        read_view(spark, lake, views.REBALANCES)
        .select("id")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert plan.count("FileScan") == 2  # of what is told, and of lives: from when on the log tells
