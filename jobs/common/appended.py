"""Rows of a table of bronze that commits have appended since the last round that took some."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession

from jobs.common.commit import newest_version
from schemas.lake import Lake
from schemas.table import Table

READ_WITHIN = timedelta(hours=4)
"""Before VACUUM takes a file that compaction has replaced, a round has so long to read the version that appended it."""

VERSIONS_A_ROUND = 500
"""How many commits of a log a round takes at most."""


def appended(spark: SparkSession, lake: Lake, table: Table, first: int, last: int) -> DataFrame:
    """The rows that versions `first` to `last` appended; those of all versions where files between may be gone."""
    oldest = _commits(spark, lake, table, first)[-1]
    files_stay = timedelta(hours=table.log_hours) - READ_WITHIN
    if oldest.version > first or oldest.timestamp.astimezone(UTC) < datetime.now(UTC) - files_stay:
        return lake.read_version(spark, table, last)
    return lake.read_appended(spark, table, first, last)


def _commits(spark: SparkSession, lake: Lake, table: Table, first: int) -> list[Row]:
    """The commits of a table from version `first` on, newest first; fewer where Delta has forgotten them."""
    number = newest_version(spark, lake, table) - first + 1
    while True:
        commits = spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT {number}").collect()
        if commits[-1].version <= first or len(commits) < number:
            return commits
        number = commits[0].version - first + 1  # others were added meanwhile
