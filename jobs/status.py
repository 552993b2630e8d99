"""Say how recording fares: the last good poll of each cluster, failures, gaps, what waits, sizes, the last upkeep.

spark-submit jobs/status.py --config FILE [--format table|json|prometheus]

Writes nothing. Exit status: 0, or 3 when a threshold of `status` in the configuration is crossed, or 1 when it could
not be told.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import parser_of, reported
from jobs.common.config import Config, load
from jobs.common.group_log import NOT_TAKEN
from jobs.common.session import spark_session
from jobs.common.status import Facts, Row, Size, clusters_of, judge
from jobs.common.status_text import FORMS
from jobs.common.upkeep import HISTORY
from metadata_source.options import MAX_BATCH_MS
from schemas import bronze, silver
from schemas.in_spark import check_tables, read_view, table_exists
from schemas.internal import STATE, STATE_NOW
from schemas.lake import TABLES
from schemas.table import Table

JOB = "status"
CROSSED = 3

_POLLS = (
    *("cluster", "poll_id", "stream", "n", "scheduled_at", "sent_at", "received_at", "outcome"),
    *("error_kind", "error"),
)
_STATES = """
SELECT history, cluster, round, done_poll, done_at, changed_poll, last_seen_at, refused_polls, stale_polls,
  of.seen, of.waiting
FROM (
  SELECT *, from_json(memory, 'seen map<string, bigint>, waiting array<string>') AS of FROM {states}
)
"""
_LOGS = f"""
SELECT cluster, max(read_at) AS read_at, min(read_at) FILTER (WHERE {NOT_TAKEN}) AS waits_since,
  coalesce(sum(next_offset - offset) FILTER (WHERE record = 'lost'), 0L) AS lost
FROM {{rows}} LEFT JOIN (
  SELECT cluster, from_json(memory, 'places map<string, array<bigint>>').places AS places
  FROM {{states}} WHERE history = 'rebalance_history'
) USING (cluster)
GROUP BY cluster
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake, clusters, poll, status")
    parser.add_argument("--format", choices=tuple(FORMS), default="table", help="(default %(default)s)")
    arguments = parser.parse_args(argv)

    def run() -> int:
        config = load(arguments.config)
        facts = facts_of(spark_session(JOB), config, datetime.now(UTC))
        crossed = judge(facts, config.limits)
        print(FORMS[arguments.format](facts, crossed), end="")
        return CROSSED if crossed else 0

    return reported(JOB, run)


def facts_of(spark: SparkSession, config: Config, now: datetime) -> Facts:
    """Return the facts that the lake holds. Raises LakeError, in one line: no tables, or another version."""
    lake, intervals = config.lake, config.poll_intervals
    check_tables(spark, lake, (*bronze.TABLES, silver.POLL_GAPS, STATE))
    window = config.limits.window_of(max(intervals.values()))
    since = now - window
    # All rows of a batch have the day on which its first poll was due.
    first_day = (since - timedelta(milliseconds=MAX_BATCH_MS)).date()
    states = read_view(spark, lake, STATE_NOW)

    def recent(table: Table, time: str) -> DataFrame:
        rows = lake.read(spark, table).where(F.col("cluster").isin(*config.clusters) & (F.col(time) >= F.lit(since)))
        return rows.where(F.col("day") >= F.lit(first_day)) if "day" in table.partition_by else rows

    def logs() -> list[Row] | None:
        if config.group_log is None:
            return None
        # Each stretch that was read has a row that says so: its records need not be looked at.
        rows = recent(bronze.GROUP_LOG, "read_at").where("record <> 'record'")
        return _rows(spark.sql(_LOGS, rows=rows, states=states))

    with ThreadPoolExecutor(4, JOB) as side_by_side:

        def asked(question: Callable[[], Any]) -> Callable[[], Any]:
            return side_by_side.submit(question).result

        headers = asked(
            lambda: _rows(recent(bronze.METADATA_POLLS, "scheduled_at").where("record = 'poll'").select(*_POLLS))
        )
        told = asked(lambda: _rows(spark.sql(_STATES, states=states)))
        gaps = asked(lambda: _rows(recent(silver.POLL_GAPS, "gap_end").select("cluster", "gap_start", "gap_end")))
        of_logs = asked(logs)
        sizes = list(side_by_side.map(lambda table: _size(spark, config, table), TABLES))
        clusters = clusters_of(intervals, headers=headers(), states=told(), gaps=gaps(), logs=of_logs())
    return Facts(
        now,
        str(lake),
        window,
        clusters,
        [size for size in sizes if size is not None],
        max((row["done_at"] for row in told() if row["history"] == HISTORY), default=None),
        max((row["round"] for row in told()), default=0),
    )


def _rows(frame: DataFrame) -> list[Row]:
    """The rows; maps as dictionaries, times in UTC."""
    rows: list[Row] = frame.toArrow().to_pylist(maps_as_pydicts="strict")
    return rows


def _size(spark: SparkSession, config: Config, table: Table) -> Size | None:
    """Out of Delta's log; None where there is no such table yet."""
    if not table_exists(spark, config.lake, table):
        return None
    detail = spark.sql(f"DESCRIBE DETAIL {config.lake.identifier(table)}").select("sizeInBytes", "numFiles")
    (row,) = detail.collect()
    return Size(table.full_name, row.sizeInBytes, row.numFiles)


if __name__ == "__main__":
    sys.exit(main())
