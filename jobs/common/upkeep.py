"""Keeping the tables small: retention of bronze, compaction, and removal of files that nothing refers to."""

import json
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.commit import replace_rows
from metadata_source.options import MAX_BATCH_MS
from schemas import bronze
from schemas.internal import STATE, STATE_NOW
from schemas.lake import TABLES, Lake, read_view, table_exists
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.upkeep")

EVERY = timedelta(hours=6)
"""Time between two rounds of upkeep, whoever runs: a pipeline that keeps running, or one run after another."""

REMOVED_AFTER = timedelta(days=7)
"""Age at which VACUUM removes a file, from when a commit replaced it."""

OWN = ("OPTIMIZE", "VACUUM")
"""How the operations begin by which upkeep commits."""

HISTORY = "upkeep"
"""The row of internal.state that says when upkeep last began, and what each table's newest change was then."""


def next_due(spark: SparkSession, lake: Lake) -> datetime:
    """When the next round of upkeep is due; a new lake counts from now on."""
    if (last := _last(spark, lake)) is not None:
        return last[0] + EVERY
    now = datetime.now(UTC)
    _note(spark, lake, now, {})
    return now + EVERY


def keep_up(spark: SparkSession, lake: Lake, bronze_retention: timedelta) -> None:
    """Drop days of bronze past their retention, then compact and vacuum the tables that changed since the last upkeep.

    Not while a stream still has to read files older than a week: VACUUM takes what OPTIMIZE has replaced.
    """
    now = datetime.now(UTC)
    last_at, noted = _last(spark, lake) or (now, {})
    expire_bronze(spark, lake, bronze_retention, now)
    expire_group_log(spark, lake, bronze_retention, now)

    def tend(table: Table) -> tuple[str, int | None] | None:
        if not table_exists(spark, lake, table):
            return None
        # A table that nobody has written to, since it was made, has no files.
        name, before = lake.identifier(table), noted.get(table.full_name, 0)
        # Upkeep commits up to three times after a change: where it is not among so many, it was compacted since.
        commits = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 8").collect()
        change = next((commit.version for commit in commits if not commit.operation.startswith(OWN)), before)
        closed = _closed_part(table, now)
        if change != before or closed != _closed_part(table, last_at):
            spark.sql(f"OPTIMIZE {name} WHERE {closed}" if closed else f"OPTIMIZE {name}")
            spark.sql(f"VACUUM {name}")
        elif last_at < commits[0].timestamp.astimezone(UTC) + REMOVED_AFTER <= now:
            # Files that its last change replaced may go by now.
            spark.sql(f"VACUUM {name}")
        return table.full_name, change

    # Most tables have little to do, and listing their files waits more than it works.
    with ThreadPoolExecutor(4, "upkeep") as side_by_side:
        changes = dict(filter(None, side_by_side.map(tend, TABLES)))
    _note(spark, lake, now, changes)


def _last(spark: SparkSession, lake: Lake) -> tuple[datetime, Mapping[str, int | None]] | None:
    """When the last upkeep began, and the newest change of each table then; None where there was none."""
    rows = read_view(spark, lake, STATE_NOW).where(f"history = '{HISTORY}'").toArrow().to_pylist()
    return (rows[0]["done_at"], json.loads(rows[0]["memory"])) if rows else None


def _note(spark: SparkSession, lake: Lake, at: datetime, changes: Mapping[str, int | None]) -> None:
    row = {"history": HISTORY, "cluster": "", "round": 0, "done_at": at, "memory": json.dumps(changes)}
    replace_rows(spark, lake, STATE, [row], f"history = '{HISTORY}'")


def expire_bronze(spark: SparkSession, lake: Lake, retention: timedelta, now: datetime) -> None:
    """Drop days of polls that are older than `retention`, once they and all before them were taken into history."""
    memory = "struct<seen: map<string, bigint>, waiting: array<string>>"
    # Polls that wait are read again: none of theirs counts as taken.
    first_to_wait = "split_part(array_min(waiting), '/', 2)::bigint"
    is_taken = f"n <= seen[stream] AND coalesce(n < {first_to_wait}, true)"
    # Polls of an older stream that come after those of the newest are never taken.
    is_late = "stream < array_max(map_keys(seen)) AND coalesce(n > seen[stream], true)"
    needed = f"record = 'poll' AND NOT coalesce({is_taken}, false) AND NOT coalesce({is_late}, false)"
    states = _remembered(spark, lake, "silver", memory)
    _drop_days(spark, lake, bronze.METADATA_POLLS, states, needed, retention=retention, now=now)


def expire_group_log(spark: SparkSession, lake: Lake, retention: timedelta, now: datetime) -> None:
    """Drop days of the coordinators' log that were read longer ago than `retention`, once they and all before them were
    taken.
    """
    era, taken = (f"places[string(log_partition)][{index}]" for index in (0, 1))
    # Before a log was truncated it had offsets that it may not reach again for long.
    is_of_era = f"{era} <= 0 OR read_at >= timestamp_micros({era})"
    needed = f"{taken} IS NULL OR (coalesce(next_offset, offset + 1) > {taken} AND ({is_of_era}))"
    states = _remembered(spark, lake, "rebalance_history", "struct<places: map<string, array<bigint>>>")
    _drop_days(spark, lake, bronze.GROUP_LOG, states, needed, retention=retention, now=now)


def _remembered(spark: SparkSession, lake: Lake, history: str, memory: str) -> DataFrame:
    """`cluster`, and what the history remembers of it, in columns."""
    states = read_view(spark, lake, STATE_NOW).where(f"history = '{history}'")
    return states.select("cluster", F.from_json("memory", memory).alias("of")).select("cluster", "of.*")


def droppable_days(days: Iterable[date], retention: timedelta, now: datetime, needed_from: date | None) -> date | None:
    """The day before which days of bronze may go; None where none of `days`, those that it has, may.

    Those may that have been over for `retention`, and lie before the day of the oldest row that some history still
    needs.
    """

    def is_droppable(day: date) -> bool:
        over_at = datetime.combine(day, time(), UTC) + timedelta(days=1, milliseconds=MAX_BATCH_MS)
        return now - over_at >= retention and (needed_from is None or day < needed_from)

    droppable = [day for day in days if is_droppable(day)]
    return max(droppable) + timedelta(days=1) if droppable else None


def _drop_days(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    states: DataFrame,
    needed: str,
    *,
    retention: timedelta,
    now: datetime,
) -> None:
    """Drop days whole. Delta takes their files out of the table unread, which no append of another day conflicts with.

    `needed`: whether a history still needs a row of `table`, by what `states` have of its cluster.
    """
    if not table_exists(spark, lake, table):
        return
    rows = lake.read(spark, table)
    days = [row.day for row in rows.where(_closed(now)).select("day").distinct().collect()]
    old = droppable_days(days, retention, now, needed_from=None)
    if old is None:
        return
    known = rows.where(F.col("day") < old).join(F.broadcast(states), "cluster", "left")
    needed_from = known.where(needed).agg(F.min("day")).collect()[0][0]
    cutoff = droppable_days(days, retention, now, needed_from)
    if cutoff is not None:
        spark.sql(f"DELETE FROM {lake.identifier(table)} WHERE day < DATE'{cutoff}'")
        log.info("%s: days before %s are gone", table.full_name, cutoff)


def _closed_part(table: Table, now: datetime) -> str | None:
    """The part of a table that nobody writes to any more, as a condition on its partitions; None: all of it."""
    if "day" in table.partition_by:
        return _closed(now)
    # Live rows are written whole again and again.
    return f"NOT {table.live}" if table.live and table.live != "true" else None


def _closed(now: datetime) -> str:
    """The days of bronze that nothing is written to any more, as a condition on partitions alone."""
    return f"day < DATE'{now.astimezone(UTC).date()}'"
