"""Retention, compaction and vacuum: what must stay stays, and the running query reads on."""

import shutil
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs import pipeline, snapshot_history
from jobs.common import upkeep
from jobs.common.config import Config
from jobs.common.upkeep import expire_bronze, next_due
from jobs.snapshot_history import apply_polls
from schemas import bronze, silver
from schemas.lake import Lake, LakeError
from schemas.table import Table
from tests.lakes import UP_TO_SILVER, new_lake
from tests.spark.histories import Answer, RandomCluster, bronze_rows
from tests.spark.test_snapshot_history import COMPARED, bronze_frame, rows_of

ALIASES = ("north", "south", "west")


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Answer]]:
    return {alias: RandomCluster(alias, seed, kinds=["configs"]).answers(40) for seed, alias in enumerate(ALIASES)}


def append(spark: SparkSession, lake: Lake, histories: dict[str, list[Answer]], polls: slice) -> None:
    rows = [row for alias, answers in histories.items() for row in bronze_rows(alias, answers[polls])]
    bronze_frame(spark, rows).write.format("delta").mode("append").save(lake.path(bronze.METADATA_POLLS))


def polls_of(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """cluster -> poll id -> its rows."""
    polls: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        polls[row.cluster][row.poll_id].append(row)
    return polls


def key(row: Row) -> tuple:
    return tuple(str(row[name]) for name in bronze.METADATA_POLLS.key)


def test_retention_takes_what_is_old_and_history_and_nothing_that_later_polls_need(
    spark: SparkSession, histories: dict[str, list[Answer]], tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, UP_TO_SILVER)
    append(spark, lake, histories, slice(None))

    def polls() -> DataFrame:
        return lake.read(spark, bronze.METADATA_POLLS)  # afresh: a frame stays with the version that it read first

    # Nothing of `west` is history yet: its polls are older than any retention, and stay.
    apply_polls(polls().where("cluster <> 'west'"), lake)
    before = polls_of(polls().collect())
    # In the middle of a batch of `north`: its key frame is older, and needed.
    scheduled = {(alias, a.poll_id): a.scheduled_at for alias, answers in histories.items() for a in answers}
    key_frames = {
        alias: [poll for poll, rows in sorted(of_alias.items()) if any(row.key_frame for row in rows)]
        for alias, of_alias in before.items()
    }
    middle = next(a for a in histories["north"][15:] if a.ok and a.poll_id not in key_frames["north"])
    # Polls are due 15 s apart; between two, so that the seconds until it is looked at make no difference.
    oldest = middle.scheduled_at - timedelta(seconds=14)

    expire_bronze(spark, lake, datetime.now(UTC) - oldest)

    after = polls_of(polls().collect())
    assert after["west"].keys() == before["west"].keys()
    for alias in ("north", "south"):
        young = [poll for poll in sorted(before[alias]) if scheduled[alias, poll] >= oldest]
        needed = [
            max(frame for frame in key_frames[alias] if frame <= poll)
            if before[alias][poll][0].outcome == "ok"
            else poll
            for poll in young
        ]
        kept = [poll for poll in sorted(before[alias]) if poll >= min(needed)]
        assert sorted(after[alias]) == kept
        assert len(kept) < len(before[alias]), "retention took nothing"
        for poll in kept:
            assert sorted(map(key, after[alias][poll])) == sorted(map(key, before[alias][poll]))
    assert min(after["north"]) < middle.poll_id

    expire_bronze(spark, lake, datetime.now(UTC) - oldest)
    assert polls().count() == sum(len(rows) for polls_by_id in after.values() for rows in polls_by_id.values())

    # All of it is old, and nothing depends on it any more: a cluster that is down keeps nothing for ever.
    expire_bronze(spark, lake, timedelta(0))
    assert set(polls_of(polls().collect())) == {"west"}


def data_files(lake: Lake, table: Table) -> int:
    """Files on disk, whether or not the table still refers to them; Delta's own log apart."""
    folder = Path(lake.path(table))
    return len([file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts])


def test_upkeep_between_batches_changes_nothing_that_counts(
    spark: SparkSession, histories: dict[str, list[Answer]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job with upkeep after each batch, against one run without: bronze shrinks, silver is the same."""
    lake = new_lake(spark, tmp_path / "lake", UP_TO_SILVER)
    polls = lake.identifier(bronze.METADATA_POLLS)
    # VACUUM leaves files younger than a week alone; here it may take them at once.
    spark.sql(f"ALTER TABLE {polls} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')")
    monkeypatch.setattr(upkeep, "EVERY", timedelta(0))
    config = Config(lake, str(tmp_path / "checkpoints"), {}, {}, bronze_retention=timedelta(seconds=1))
    for part in (slice(0, 10), slice(10, 20)):
        append(spark, lake, histories, part)
    snapshot_history.run(spark, config, once=True)
    append(spark, lake, histories, slice(20, 40))
    snapshot_history.run(spark, config, once=True)

    assert lake.read(spark, bronze.METADATA_POLLS).isEmpty(), "all of it was old, and is history"
    whole = new_lake(spark, tmp_path / "whole", UP_TO_SILVER)
    for part in (slice(0, 10), slice(10, 20), slice(20, 40)):
        append(spark, whole, histories, part)
    apply_polls(whole.read(spark, bronze.METADATA_POLLS), whole)
    for table in COMPARED:
        assert rows_of(spark, lake, table) == rows_of(spark, whole, table), table.full_name

    assert data_files(lake, bronze.METADATA_POLLS) == 0, "VACUUM left files that nothing refers to"
    partitions = lake.identifier(silver.PARTITION_SNAPSHOTS)
    history = spark.sql(f"DESCRIBE HISTORY {partitions}")
    assert history.where("operation = 'OPTIMIZE'").count() >= 1
    assert spark.sql(f"DESCRIBE DETAIL {partitions}").collect()[0].numFiles == 2, (
        "one file of open rows, one of history"
    )

    monkeypatch.undo()
    assert timedelta(hours=5) < next_due(spark, lake) - datetime.now(UTC) <= upkeep.EVERY


def test_silver_that_was_removed_is_not_begun_anew_in_the_middle(
    spark: SparkSession, histories: dict[str, list[Answer]], tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path / "lake", UP_TO_SILVER)
    config = Config(lake, str(tmp_path / "checkpoints"), {}, {}, bronze_retention=timedelta(days=10_000))
    append(spark, lake, histories, slice(0, 10))
    snapshot_history.run(spark, config, once=True)
    shutil.rmtree(tmp_path / "lake" / "silver")
    append(spark, lake, histories, slice(10, 20))
    for run in (snapshot_history.run, pipeline.run):
        with pytest.raises(LakeError, match=r"silver.progress is not in .* remove .*/snapshot_history too"):
            run(spark, config, once=True)
    shutil.rmtree(config.checkpoint(snapshot_history.QUERY))
    snapshot_history.run(spark, config, once=True)
    (progress,) = lake.read(spark, silver.PROGRESS).where("cluster = 'north'").collect()
    assert progress.applied_poll <= histories["north"][19].poll_id
    first = lake.read(spark, silver.BROKER_SNAPSHOTS).where("cluster = 'north'").agg(F.min("first_poll")).collect()
    assert first[0][0] == min(a.poll_id for a in histories["north"] if a.ok)
