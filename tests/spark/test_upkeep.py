"""Retention, compaction and vacuum: what must stay stays, and the running query reads on."""

import os
import random
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from string import ascii_letters
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import replace_rows
from jobs.rounds.plan import OvertakenError, Rounds, states_of
from jobs.upkeep import upkeep
from jobs.upkeep.expiry import expire_history, kept_since
from jobs.upkeep.lake_clock import ClockError, LastPolls, last_polls, time_by_polls
from jobs.upkeep.upkeep import expire_bronze, expire_rounds, keep_up, next_due
from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from schemas.table import Table
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, RandomCluster
from tests.support.lakes import make_history, new_lake, rows_of
from tests.support.large_rounds import OF_A_RUN, in_memory

ALIASES = ("north", "south")
KEPT_FOR_EVER = {"silver": None, "gold": None}
MADE = (*silver.TABLES, *gold.ISR_TABLES, *gold.LEADER_TABLES)


def append(lake: Lake, histories: dict[str, list[Answer]], polls: slice) -> None:
    stored.append(lake, bronze.METADATA_POLLS, polled(histories, polls))


def polled(histories: dict[str, list[Answer]], polls: slice) -> list[dict[str, Any]]:
    """Rows of bronze; the first poll is a key frame."""
    return [
        row for alias, answers in histories.items() for row in bronze_rows(alias, answers[polls])
    ]


DAYS = [date(2026, 11, day) for day in (10, 11, 13, 14)]
A_DAY = 3
"""Polls of each cluster."""


def polls_due_on(
    day: date, numbers: DataFrame, cluster: str = "north", stream: str = "s"
) -> DataFrame:
    """Headers of these polls, a column `value` of their numbers."""
    return numbers.selectExpr(
        f"concat('{stream}/', lpad(CAST(value AS STRING), 12, '0')) AS poll_id",
        f"'{stream}' AS stream",
        "value AS n",
        f"'{cluster}' AS cluster",
        "'poll' AS record",
        "0 AS chunk",
        f"DATE'{day}' AS day",
        "'ok' AS outcome",
    )


def take(spark: SparkSession, lake: Lake, **polls: int) -> None:
    """Say that the first so many polls of each cluster are history."""
    rows = [
        {
            "history": "silver",
            "cluster": cluster,
            "round": 1,
            "taken": {"s": count - 1},
            "memory": "{}",
        }
        for cluster, count in polls.items()
    ]
    replace_rows(spark, lake, internal.STATE, rows, "history = 'silver'")


def test_retention_drops_days_that_are_old_and_history(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path, [bronze.METADATA_POLLS, internal.STATE])
    for cluster in ("north", "west"):
        days = [
            polls_due_on(
                day,
                spark.range(A_DAY * n, A_DAY * (n + 1)).withColumnRenamed("id", "value"),
                cluster,
            )
            for n, day in enumerate(DAYS)
        ]
        reduce(DataFrame.union, days).write.format("delta").mode("append").save(
            lake.path(bronze.METADATA_POLLS)
        )

    def days_left(older_than: date) -> list[date]:
        """Drop what is older than a day, and return the days that there are, each with all its
        rows.
        """
        now = datetime.combine(older_than, time(0, 2), UTC) + timedelta(days=7)
        expire_bronze(spark, lake, timedelta(days=7), now)
        left = lake.read(spark, bronze.METADATA_POLLS).groupBy("day").count().collect()
        assert {row["count"] for row in left} <= {2 * A_DAY, 2 * A_DAY + 1}
        return sorted(row.day for row in left)

    # One of an older stream, which came late: no round takes it.
    late = polls_due_on(DAYS[0], spark.range(1).withColumnRenamed("id", "value"), stream="r")
    late.write.format("delta").mode("append").save(lake.path(bronze.METADATA_POLLS))
    every = A_DAY * len(DAYS)
    take(spark, lake, north=every)
    assert days_left(date(2026, 11, 14)) == DAYS, "nothing of west is history yet"
    take(spark, lake, north=every, west=A_DAY - 1)
    assert days_left(date(2026, 11, 14)) == DAYS, "of west's first day one poll is not history"
    take(spark, lake, north=every, west=A_DAY)
    assert days_left(date(2026, 11, 10)) == DAYS, "nothing is old"
    assert days_left(date(2026, 11, 14)) == DAYS[1:], "of west no more is history"
    take(spark, lake, north=every, west=every)
    assert days_left(date(2026, 11, 14)) == DAYS[3:]
    number = version(spark, lake)
    assert days_left(date(2026, 11, 14)) == DAYS[3:]
    assert version(spark, lake) == number, "where nothing may go nothing is written"
    assert days_left(date(2026, 11, 15)) == []


def version(spark: SparkSession, lake: Lake) -> int:
    history = spark.sql(f"DESCRIBE HISTORY {lake.identifier(bronze.METADATA_POLLS)} LIMIT 1")
    return history.collect()[0].version


@pytest.mark.soak
def test_upkeep_and_appends_pass_each_other_in_either_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of two commits that overlapped, the one that came second had read an older version than the
    one before its own.
    """
    lake = new_lake(spark, tmp_path, [bronze.METADATA_POLLS])
    today = date(2026, 11, 21)
    polls = spark.readStream.format("rate").option("rowsPerSecond", 50).load()

    past = [today - timedelta(days=n) for n in range(1, 61)]
    old = reduce(
        DataFrame.union,
        (polls_due_on(day, spark.range(3).withColumnRenamed("id", "value")) for day in past),
    )
    old.write.format("delta").mode("append").save(lake.path(bronze.METADATA_POLLS))
    query = (
        polls_due_on(today, polls)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .format("delta")
        .start(lake.path(bronze.METADATA_POLLS))
    )
    overlapped: set[str] = set()
    all_of_them = {"DELETE", "OPTIMIZE", "STREAMING UPDATE"}
    try:
        while overlapped != all_of_them and past:
            cutoff = past.pop()
            spark.sql(
                f"DELETE FROM {lake.identifier(bronze.METADATA_POLLS)} WHERE day < DATE'{cutoff}'"
            )
            spark.sql(f"OPTIMIZE {lake.identifier(bronze.METADATA_POLLS)}")
            commits = spark.sql(
                f"DESCRIBE HISTORY {lake.identifier(bronze.METADATA_POLLS)}"
            ).collect()
            by_version = {commit.version: commit.operation for commit in commits}
            overlapped |= {
                commit.operation
                for commit in commits
                if commit.version > 1
                and any(
                    by_version[between] != commit.operation
                    for between in range(commit.readVersion + 1, commit.version)
                )
            }
        assert query.isActive
    finally:
        query.stop()
    assert overlapped == all_of_them
    left = lake.read(spark, bronze.METADATA_POLLS)
    numbers = sorted(row.n for row in left.where(F.col("day") == today).select("n").collect())
    assert numbers == [*range(len(numbers))], "nothing is lost, nothing is there twice"
    assert {row.day for row in left.select("day").distinct().collect()} == {today, *past, cutoff}
    rewritten = {
        commit.operationMetrics["numAddedFiles"]
        for commit in commits
        if commit.operation == "DELETE"
    }
    assert rewritten == {"0"}, "whole files went"


def data_files(lake: Lake, table: Table) -> int:
    """Files on disk, whether or not the table still refers to them; Delta's own log apart."""
    folder = Path(lake.path(table))
    return len([file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts])


def closed_files(spark: SparkSession, lake: Lake) -> int:
    """Files of the table in which the states of partitions are that are over."""
    closed = lake.read(spark, silver.PARTITION_SNAPSHOTS).where("NOT is_current")
    return closed.select("_metadata.file_path").distinct().count()


@pytest.mark.soak
def test_upkeep_between_rounds_changes_nothing_that_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """History with upkeep between its rounds, against that of all polls at one go: of polls that
    history has, bronze keeps none, the rest is the same.
    """
    histories = {
        alias: RandomCluster(alias, seed, kinds=["configs"]).answers(12)
        for seed, alias in enumerate(ALIASES, 1)
    }
    lake = new_lake(
        spark, tmp_path, [*bronze.TABLES, *silver.TABLES, *gold.TABLES, *internal.TABLES]
    )
    polls = lake.identifier(bronze.METADATA_POLLS)
    # VACUUM leaves files younger than a week alone; here it may take them at once.
    spark.sql(
        f"ALTER TABLE {polls} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval "
        "0 seconds')"
    )
    first, second, third = slice(0, 4), slice(4, 8), slice(8, 12)
    for part in (first, second):
        append(lake, histories, part)
        make_history(spark, lake)
    assert closed_files(spark, lake) > 1
    now = max(
        row["scheduled_at"] for row in polled(histories, second) if row["scheduled_at"]
    ) + timedelta(days=1)
    keep_up(spark, lake, timedelta(seconds=1), KEPT_FOR_EVER, now)
    assert lake.read(spark, bronze.METADATA_POLLS).isEmpty(), "all of it was old, and is history"
    assert data_files(lake, bronze.METADATA_POLLS) == 0, "VACUUM left files that nothing refers to"
    assert closed_files(spark, lake) == 1
    assert next_due(spark, lake, now) == now + upkeep.EVERY
    append(lake, histories, third)
    make_history(spark, lake)

    whole = in_memory([row for part in (first, second, third) for row in polled(histories, part)])
    assert whole[gold.LEADER_CHANGES.full_name]
    for table in MADE:
        assert rows_of(lake, table, without=OF_A_RUN) == whole[table.full_name], table.full_name


def gap(n: int) -> dict[str, Any]:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    counts = dict.fromkeys(("interval_ms", "failed_polls", "stale_polls", "refused_polls"), n)
    polls = {"after_poll": f"s/{n}", "until_poll": f"s/{n + 1}", "gap_start": at, "gap_end": at}
    return {
        "cluster_id": "id",
        "cluster": "north",
        **polls,
        **counts,
        "error_kinds": [],
        "reason": "failed",
    }


def coordinator(n: int) -> dict[str, Any]:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    of = {
        "cluster_id": "id",
        "cluster": "north",
        "log_partition": n,
        "poll": "s/1",
        "source": "polls",
        "is_move": False,
    }
    return {**of, "began_before": at, "followed_until": at}


def unreferenced(lake: Lake, table: Table) -> Path:
    """A file that is no part of the table, older than what VACUUM leaves alone."""
    file = Path(lake.path(table)) / "left.parquet"
    file.touch()
    os.utime(file, (0, 0))
    return file


@pytest.mark.soak
def test_upkeep_leaves_alone_what_did_not_change(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(
        spark,
        tmp_path,
        [silver.POLL_GAPS, silver.COORDINATORS, bronze.METADATA_POLLS, internal.STATE],
    )
    for n in range(2):
        stored.append(lake, silver.POLL_GAPS, [gap(n)])
        stored.append(lake, silver.COORDINATORS, [coordinator(n)])

    def left_of_two() -> tuple[bool, ...]:
        """Do the upkeep, and return whether it left unreferenced files of these tables."""
        files = [unreferenced(lake, table) for table in (silver.POLL_GAPS, silver.COORDINATORS)]
        keep_up(spark, lake, timedelta(days=7), KEPT_FOR_EVER, datetime.now(UTC))
        return tuple(file.exists() for file in files)

    def files(table: Table) -> int:
        return lake.read(spark, table).select("_metadata.file_path").distinct().count()

    assert left_of_two() == (False, False), "all is new"
    assert (files(silver.POLL_GAPS), files(silver.COORDINATORS)) == (1, 1)
    assert left_of_two() == (True, True), "nothing changed"
    stored.append(lake, silver.POLL_GAPS, [gap(2)])
    assert left_of_two() == (False, True)
    assert files(silver.POLL_GAPS) == 1

    # What was replaced last becomes old enough to be removed.
    began, _ = upkeep._last(spark, lake)
    became_old = (began - timedelta(hours=silver.COORDINATORS.log_hours)).timestamp() + 0.001
    for commit in (Path(lake.path(silver.COORDINATORS)) / "_delta_log").glob("*.json"):
        os.utime(commit, (became_old, became_old))
    assert left_of_two() == (True, False)


def due_poll(n: int, at: datetime, error_kind: str = "timeout") -> dict[str, Any]:
    return failed_poll(n) | {"scheduled_at": at, "day": at.date(), "error_kind": error_kind}


def test_nothing_is_dropped_by_a_clock_that_is_far_ahead(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And once it is right again, all is as if it had never been wrong: upkeep is due, and history
    is said to be whole from no time on that is still to come.
    """
    lake = new_lake(
        spark, tmp_path, [bronze.METADATA_POLLS, silver.POLL_GAPS, internal.STATE, internal.ROUNDS]
    )
    week, kept = timedelta(days=7), {"silver": timedelta(days=180), "gold": None}
    # Of a cluster that history does not wait for, so that age alone counts.
    now = datetime.now(UTC).replace(microsecond=0)
    minute, day, ahead = timedelta(minutes=1), timedelta(days=1), now + timedelta(days=400)
    stored.append(lake, silver.POLL_GAPS, [gap(1) | {"gap_end": now - 30 * day}])
    stored.append(
        lake, bronze.METADATA_POLLS, [due_poll(0, now - day - minute), due_poll(1, now - minute)]
    )
    take(spark, lake, north=2)

    def left() -> tuple[int, int]:
        return lake.read(spark, silver.POLL_GAPS).count(), lake.read(
            spark, bronze.METADATA_POLLS
        ).count()

    assert last_polls(spark, lake, now) == LastPolls(now - minute)
    assert last_polls(spark, lake, ahead) == LastPolls(now - minute, now - day - minute)
    assert last_polls(spark, lake, ahead, ["west"]) == LastPolls()
    with pytest.raises(
        ClockError, match=r"the newest poll in the lake was due at .*; nothing was dropped\. If"
    ):
        keep_up(spark, lake, week, kept, ahead)
    assert left() == (1, 2)
    assert upkeep._last(spark, lake) is None

    # A poll was refused for it, and ten minutes later one was believed.
    stored.append(lake, bronze.METADATA_POLLS, [due_poll(2, ahead - minute, "clock")])
    assert last_polls(spark, lake, ahead) == LastPolls(
        now - minute, now - day - minute, ahead - minute
    )
    stored.append(lake, bronze.METADATA_POLLS, [due_poll(3, ahead)])
    keep_up(spark, lake, week, kept, ahead)
    assert left() == (1, 4), "the polls say nothing yet of a day at that time"
    assert time_by_polls(spark, lake, ahead + day) == ahead + day

    noted = {"history": internal.retention_of("silver"), "cluster": "", "round": 0, "memory": "{}"}
    replace_rows(
        spark, lake, internal.STATE, [noted | {"done_at": ahead}], f"history = '{noted['history']}'"
    )
    assert next_due(spark, lake, now) == now
    keep_up(spark, lake, week, kept, now)
    assert next_due(spark, lake, now) == now + upkeep.EVERY
    assert kept_since(states_of(spark, lake), "silver") == now
    assert left() == (1, 4)


def failed_poll(n: int, error: str = "") -> dict[str, Any]:
    """A poll of today."""
    ids = {
        "poll_id": f"s/{n:012}",
        "stream": "s",
        "n": n,
        "cluster": "north",
        "record": "poll",
        "chunk": 0,
    }
    return {
        **ids,
        "day": datetime.now(UTC).date(),
        "outcome": "failed",
        "error_kind": "timeout",
        "error": error,
    }


@pytest.mark.soak
def test_the_current_day_is_compacted_and_its_log_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [bronze.METADATA_POLLS, internal.STATE])
    folder = Path(lake.path(bronze.METADATA_POLLS))
    log = folder / "_delta_log"

    def kept_up() -> set[str]:
        """Do the upkeep, and return the files of the table."""
        keep_up(spark, lake, timedelta(days=7), KEPT_FOR_EVER, datetime.now(UTC))
        rows = lake.read(spark, bronze.METADATA_POLLS)
        return {row[0] for row in rows.select("_metadata.file_name").distinct().collect()}

    for n in range(6):
        stored.append(lake, bronze.METADATA_POLLS, [failed_poll(n)])
        if stored.version(lake, bronze.METADATA_POLLS) % 2 == 0:
            DeltaTable(folder).create_checkpoint()
    old = (
        datetime.now(UTC) - timedelta(hours=bronze.METADATA_POLLS.log_hours, minutes=1)
    ).timestamp()
    for place, file in enumerate(sorted(file for file in log.glob("0*") if file.name < f"{5:020}")):
        os.utime(file, (old + place / 1000, old + place / 1000))
    assert len(kept_up()) == 1
    assert min(log.glob("*.json")).stem == f"{4:020}", (
        "the last checkpoint of what is old, and what follows it"
    )

    stored.append(
        lake,
        bronze.METADATA_POLLS,
        [failed_poll(6, "".join(random.choices(ascii_letters, k=6_000_000)))],
    )
    (large,) = {file.name for file in folder.rglob("*.parquet") if file.stat().st_size > 4_194_304}
    stored.append(lake, bronze.METADATA_POLLS, [failed_poll(7)])
    assert large in (files := kept_up())
    assert len(files) == 2, "files from 4 MB on are left alone"
    assert lake.read(spark, bronze.METADATA_POLLS).count() == 8


def test_of_leaders_of_the_coordinators_log_the_one_that_held_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [silver.COORDINATORS, internal.STATE])

    def led(partition: int, day: int) -> dict[str, Any]:
        at = datetime(2026, 11, day, tzinfo=UTC)
        return coordinator(partition) | {
            "poll": f"s/{day}",
            "began_before": at,
            "followed_until": at,
        }

    stored.append(
        lake,
        silver.COORDINATORS,
        [led(0, 1), led(0, 2), led(0, 9), led(1, 3), led(1, 4), led(2, 1)],
    )
    now = datetime(2026, 11, 12, 13, tzinfo=UTC)
    expire_history(spark, lake, {"silver": timedelta(days=7), "gold": None}, now)
    left = stored.rows_of(lake, silver.COORDINATORS)
    assert sorted((row["log_partition"], row["poll"]) for row in left) == [
        *[(0, "s/2"), (0, "s/9")],  # held until the 9th
        *[(1, "s/4"), (2, "s/1")],  # hold still
    ]


@pytest.mark.soak
def test_rounds_go_with_bronze_and_a_job_that_stood_still_still_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [internal.ROUNDS, internal.STATE])
    now = datetime.now(UTC)

    def done(history: str, number: int) -> dict[str, Any]:
        return {"history": history, "cluster": "north", "round": number, "memory": "{}"}

    def left() -> list[int]:
        expire_rounds(spark, lake, timedelta(days=7), now)
        return sorted(row["round"] for row in stored.rows_of(lake, internal.ROUNDS))

    old = {"at": now - timedelta(days=30), "writer": "before"}
    first = [old | {"round": n, "step": "started", "histories": ["silver"]} for n in (1, 2)]
    of_gold = old | {"round": 3, "step": "started", "histories": ["isr_shrink"]}
    planned = [old | {"round": n, "step": "planned", "histories": ["silver"]} for n in range(4, 8)]
    of_all = old | {"round": 8, "step": "planned", "histories": ["isr_shrink", "silver"]}
    stored.append(lake, internal.ROUNDS, [*first, of_gold, *planned, of_all])
    assert left() == [2, 3, 4, 5, 6, 7, 8], "nothing is done"
    stored.append(lake, internal.STATE, [done("silver", 6)])
    assert left() == [2, 3, 7, 8], "the last starts, and what is not done"
    stored.append(lake, internal.STATE, [done("silver", 8)])
    assert left() == [2, 3, 8], "of a round of several histories each has to be done"
    stored.append(lake, internal.STATE, [done("isr_shrink", 8)])
    assert left() == [2, 3, 8], "the last of all stays"
    stood_still = Rounds(spark, lake, ["silver"])
    other = Rounds(spark, lake, ["silver"])
    number = other.plan({}, now).round
    stored.append(lake, internal.STATE, [done("silver", number)])
    now += timedelta(days=30)
    stored.append(
        lake, internal.ROUNDS, [old | {"round": 12, "step": "planned", "histories": ["isr_shrink"]}]
    )
    assert left() == [3, number - 1, 12]
    with pytest.raises(OvertakenError):
        stood_still.plan({}, now)
