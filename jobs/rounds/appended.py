"""Rows of a table of bronze that commits have appended since the last round that took some."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import newest_version
from jobs.run.driver import committed_at
from schemas.lake import Lake
from schemas.table import Table

READ_WITHIN = timedelta(hours=4)
"""So long before VACUUM takes a file that compaction has replaced, rounds read it no more."""

VERSIONS_A_ROUND = 500
"""How many commits of a log a round takes at most."""


def upto(spark: SparkSession, lake: Lake, table: Table, first: int, newest: int) -> int:
    """The version up to which a round takes what commits from `first` on have appended:
    VERSIONS_A_ROUND of them, or all up to the `newest` where files between may be gone, as all rows
    are read then.
    """
    last = min(newest, first - 1 + VERSIONS_A_ROUND)
    return last if last == newest or is_kept(spark, lake, table, first) else newest


def new_versions(spark: SparkSession, lake: Lake, table: Table, last: int) -> tuple[int, int]:
    """The version after which a round reads, -1 where the table was made again since `last`, and
    the one up to which it does; the same where nothing is new.
    """
    newest = newest_version(spark, lake, table)
    since = -1 if newest < last else last
    return since, upto(spark, lake, table, since + 1, newest) if newest > max(since, 0) else since


def appended(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    first: int,
    last: int,
    *,
    planned: datetime | None = None,
) -> DataFrame:
    """The rows that versions `first` to `last` appended; those of all versions where files between
    may be gone.

    `planned`: when the round was planned that is made again. Delta reads no version that is older
    than replaced files are kept, so of such a round all rows are read that had been read by then:
    of one batch perhaps more than planned.
    """
    if is_kept(spark, lake, table, first):
        return lake.read_appended(spark, table, first, last)
    if planned is None:
        return lake.read_version(spark, table, last)
    return lake.read(spark, table).where(F.col("read_at") <= F.lit(planned))


def is_kept(spark: SparkSession, lake: Lake, table: Table, first: int) -> bool:
    """Whether the files that versions from `first` on appended will be there long enough."""
    since = committed_at(spark, lake.identifier(table), first)
    return since is not None and is_kept_since(table, since)


def is_kept_since(table: Table, since: datetime) -> bool:
    """Whether the files that commits since a time appended are there for long enough to be read."""
    return since >= datetime.now(UTC) - timedelta(hours=table.log_hours) + READ_WITHIN
