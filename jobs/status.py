"""Say how recording fares: the last good poll of each cluster, failures, gaps, what waits, sizes,
the last upkeep.

spark-submit jobs/status.py --config FILE [--format table|json|prometheus]

Writes nothing. Exit status: 0, or 3 when a threshold of `status` in the configuration is crossed,
or 1 when it could not be told.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.configuration.config import Config, load
from jobs.configuration.limits import CROSSED
from jobs.run.cli import parser_of, reported
from jobs.run.driver import folder_bytes
from jobs.run.session import spark_session
from kafka_metadata_history.answers.status import Facts, Size, judge
from kafka_metadata_history.answers.status_sql import facts_of
from kafka_metadata_history.answers.status_text import FORMS
from schemas import bronze, silver
from schemas.in_spark import check_tables, read_sql, table_exists
from schemas.internal import STATE
from schemas.lake import TABLES
from schemas.table import Table

JOB = "status"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake, clusters, poll, status")
    parser.add_argument(
        "--format", choices=tuple(FORMS), default="table", help="(default %(default)s)"
    )
    arguments = parser.parse_args(argv)

    def run() -> int:
        config = load(arguments.config)
        facts = facts_in_spark(spark_session(JOB), config, datetime.now(UTC))
        crossed = judge(facts, config.limits)
        print(FORMS[arguments.format](facts, crossed), end="")
        return CROSSED if crossed else 0

    return reported(JOB, run)


def facts_in_spark(spark: SparkSession, config: Config, now: datetime) -> Facts:
    """Return the facts that the lake holds. Raises LakeError, in one line: no tables, or another
    version.
    """
    lake = config.lake
    check_tables(spark, lake, (*bronze.TABLES, silver.POLL_GAPS, STATE))

    def sizes() -> list[Size]:
        with ThreadPoolExecutor(4, JOB) as side_by_side:
            found = side_by_side.map(lambda table: _size(spark, config, table), TABLES)
            return [size for size in found if size is not None]

    return facts_of(lambda sql: read_sql(spark, lake, sql).toArrow(), sizes, config, now)


def _size(spark: SparkSession, config: Config, table: Table) -> Size | None:
    """Out of Delta's log; None where there is no such table yet."""
    if not table_exists(spark, config.lake, table):
        return None
    detail = spark.sql(f"DESCRIBE DETAIL {config.lake.identifier(table)}").select(
        "sizeInBytes", "numFiles", "location"
    )
    (row,) = detail.collect()
    return Size(
        table.full_name,
        row.sizeInBytes,
        row.numFiles,
        folder_bytes(spark, f"{row.location}/_delta_log"),
    )


if __name__ == "__main__":
    sys.exit(main())
