"""Keeping the tables small: retention, compaction, and removal of files that nothing refers to."""

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.histories import HISTORIES
from jobs.rounds.commit import delete_rows
from jobs.run.driver import clean_log
from jobs.run.side_by_side import side_by_side
from jobs.upkeep.expiry import correct_noted, expire_history, note
from jobs.upkeep.lake_clock import ClockError, last_polls, time_by_polls
from jobs.upkeep.undo import close_upgrade
from metadata_source.clock import CLOCK
from schemas.in_spark import read_view, table_exists
from schemas.internal import ROUNDS, STATE, STATE_NOW, UPKEEP
from schemas.lake import TABLES, Lake
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.upkeep")

EVERY = timedelta(hours=6)
"""Time between two rounds of upkeep, whoever runs."""

OWN = ("OPTIMIZE", "VACUUM")
"""How the operations begin by which upkeep commits."""


def next_due(spark: SparkSession, lake: Lake, now: datetime) -> datetime:
    """When the next round of upkeep is due; a new lake counts from now on. An upkeep that is noted
    for a time to come had a clock that was ahead: the next one is due.
    """
    if (last := _last(spark, lake)) is not None:
        return last[0] + EVERY if last[0] <= now else now
    note(spark, lake, UPKEEP, now)
    return now + EVERY


def keep_up(
    spark: SparkSession,
    lake: Lake,
    bronze_retention: timedelta,
    kept: Mapping[str, timedelta | None],
    now: datetime,
) -> None:
    """Drop what is past its retention, then compact and vacuum the tables that changed since the
    last upkeep.

    `kept`: how long rows of silver and gold are kept, by schema. VACUUM takes files that were
    replaced before `Table.log_hours`, and the log loses what is older. Raises ClockError, and does
    nothing, where this process or the lake does not believe that it is `now`.
    """
    check_clock(spark, lake, now)
    last_at, noted = _last(spark, lake) or (now, {})
    if last_at > now:
        last_at = datetime.min.replace(tzinfo=UTC)
    close_upgrade(spark, lake, now)
    correct_noted(spark, lake, kept, now)
    if (by_polls := time_by_polls(spark, lake, now)) is not None:
        expire_bronze(spark, lake, bronze_retention, by_polls)
        expire_rounds(spark, lake, bronze_retention, by_polls)
        expire_history(spark, lake, kept, by_polls)

    def tend(table: Table) -> tuple[str, int | None] | None:
        if not table_exists(spark, lake, table):
            return None
        # A table that nobody has written to, since it was made, has no files.
        name, before = lake.identifier(table), noted.get(table.full_name, 0)
        # Upkeep commits up to three times after a change: where it is not among so many, it was
        # compacted since.
        commits = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 8").collect()
        change = next(
            (commit.version for commit in commits if not commit.operation.startswith(OWN)), before
        )
        has_changed = change != before
        if has_changed:
            closed = _closed_part(table)
            spark.sql(f"OPTIMIZE {name} WHERE {closed}" if closed else f"OPTIMIZE {name}")
        # Files that its last change replaced may go later.
        if (
            has_changed
            or last_at
            < commits[0].timestamp.astimezone(UTC) + timedelta(hours=table.log_hours)
            <= now
        ):
            spark.sql(f"VACUUM {name}")
            clean_log(spark, name)
        return table.full_name, change

    changes = dict(filter(None, side_by_side(tend, TABLES)))
    note(spark, lake, UPKEEP, now, json.dumps(changes))


def check_clock(spark: SparkSession, lake: Lake, now: datetime) -> None:
    """Raise ClockError where this process or the lake does not believe that it is `now`."""
    if (doubt := CLOCK.doubt() or last_polls(spark, lake, now).contradict(now)) is not None:
        raise ClockError(
            f"{doubt}; nothing was dropped. If the clock is right, upkeep comes after the next "
            "good poll"
        )


def _last(spark: SparkSession, lake: Lake) -> tuple[datetime, Mapping[str, int | None]] | None:
    """When the last upkeep began, and the newest change of each table then; None where there was
    none.
    """
    rows = read_view(spark, lake, STATE_NOW).where(f"history = '{UPKEEP}'").toArrow().to_pylist()
    return (rows[0]["done_at"], json.loads(rows[0]["memory"])) if rows else None


def expire_bronze(spark: SparkSession, lake: Lake, retention: timedelta, now: datetime) -> None:
    """Drop days of bronze that are older than `retention`, once all rows up to their end were taken
    into history.

    They go whole: Delta takes their files out of the table unread, which no append of another day
    conflicts with.
    """
    needed: dict[Table, list[str]] = {each: [] for each in TABLES if each.schema == "bronze"}
    for history in HISTORIES:
        for table, query in history.needs.items():
            needed.setdefault(table, []).append(query)
    for table, queries in needed.items():
        if not table_exists(spark, lake, table):
            continue
        rows = lake.read(spark, table)
        days = [row.day for row in rows.where(_closed(now)).select("day").distinct().collect()]
        if (old := droppable_days(days, retention, now, needed_from=None)) is None:
            continue
        aged, states = rows.where(F.col("day") < old), read_view(spark, lake, STATE_NOW)
        found = [spark.sql(query, rows=aged, states=states).collect()[0][0] for query in queries]
        first = min((day for day in found if day is not None), default=None)
        if (cutoff := droppable_days(days, retention, now, needed_from=first)) is not None:
            spark.sql(f"DELETE FROM {lake.identifier(table)} WHERE day < DATE'{cutoff}'")
            log.info("%s: the days before %s were dropped", table.full_name, cutoff)


def expire_rounds(spark: SparkSession, lake: Lake, retention: timedelta, now: datetime) -> None:
    """Drop the rounds of days that are older than `retention`, as bronze has dropped the polls that
    they took.

    The last round, those that are not done, and the last start of each history stay: the next run
    asks for them, and a job that stood still for long finds there that another one has taken over.
    """
    if not table_exists(spark, lake, ROUNDS):
        return
    rows = lake.read(spark, ROUNDS)
    days = [row.day for row in rows.where(_closed(now)).select("day").distinct().collect()]
    if (cutoff := droppable_days(days, retention, now, needed_from=None)) is None:
        return
    started = rows.where("step = 'started'").select(
        F.explode("histories").alias("history"), "round"
    )
    needed = [row[1] for row in started.groupBy("history").agg(F.max("round")).collect()]
    needed.append(rows.agg(F.max("round")).collect()[0][0])
    done = lake.read(spark, STATE).groupBy("history").agg(F.max("round")).collect()
    so_far = ", ".join(f"'{row[0]}', {row[1]}" for row in done)
    is_done = (
        f"forall(histories, history -> coalesce(element_at(map({so_far}), history), 0) >= round)"
    )
    is_over = f"(step = 'started' OR {is_done})" if done else "step = 'started'"
    old = f"day < DATE'{cutoff}' AND round NOT IN ({', '.join(map(str, needed))}) AND {is_over}"
    if not rows.where(old).isEmpty():
        delete_rows(spark, lake, ROUNDS, old)
        log.info("%s: the rounds before %s were dropped", ROUNDS.full_name, cutoff)


def droppable_days(
    days: Iterable[date], retention: timedelta, now: datetime, needed_from: date | None
) -> date | None:
    """The day before which days of bronze may go; None where none of `days`, those that it has,
    may.

    Those may that have been over for `retention`, and lie before the day of the oldest row that
    some history still needs.
    """
    length = timedelta(days=1)
    old = [day for day in days if now - datetime.combine(day, time(), UTC) - length >= retention]
    droppable = [day for day in old if needed_from is None or day < needed_from]
    return max(droppable) + timedelta(days=1) if droppable else None


def _closed_part(table: Table) -> str | None:
    """The part of a table that nobody writes whole again and again, as live rows are, as a
    condition on its partitions; None: all of it. Appends, as to the current day of bronze, do not
    meet compaction.
    """
    return f"NOT {table.live}" if table.live and table.live != "true" else None


def _closed(now: datetime) -> str:
    """The days of bronze to which nothing is written any more, as a condition on partitions."""
    return f"day < DATE'{now.astimezone(UTC).date()}'"
