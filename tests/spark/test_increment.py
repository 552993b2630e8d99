"""What a run of the event jobs reads follows what is new, however long the history is."""

from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.history import ENDS, History, fill_gold, repeat_gold, repeated_gold, restart_for_a_hundred, write_silver
from benchmarks.increment import jobs_of, measured
from jobs.common.config import Thresholds
from schemas import gold, silver
from schemas.lake import Lake

SHORT, LONG = History(topics=25, restarts=15), History(topics=25, restarts=165)
"""2,500 and 25,000 changes, and a few: both end with the restart of the same broker."""

WITHOUT_HISTORY = (silver.CLUSTER_SNAPSHOTS, silver.REASSIGNMENTS, silver.PARTITION_ELR)


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[History, Lake]:
    """A short and a long history of one cluster, both in gold."""
    made = {history: Lake(root=str(tmp_path_factory.mktemp(f"after-{history.changes}"))) for history in (SHORT, LONG)}
    for history, lake in made.items():
        write_silver(spark, lake, history)
    fill_gold(spark, made[SHORT], SHORT, jobs_of(made[SHORT]).values())
    repeat_gold(spark, made[LONG], LONG, made[SHORT], SHORT)
    return made


def test_generated_history_is_what_history_is(spark: SparkSession, lakes: dict[History, Lake]) -> None:
    """Each state follows the one before, and says what that was."""
    state = ("error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")
    for history, lake in lakes.items():
        rows = lake.read(spark, silver.PARTITION_SNAPSHOTS).orderBy("topic", "partition", "first_poll").collect()
        assert len(rows) == history.changes
        assert sum(row.is_current for row in rows) == 10 * (history.topics + 1)
        for before, row in zip([None, *rows], rows, strict=False):
            if row.prev_poll is None:
                assert before is None or before.is_current
                assert all(row[f"prev_{name}"] is None for name in state)
            else:
                assert (before.topic, before.partition) == (row.topic, row.partition)
                assert before.superseded_poll == row.first_poll
                assert all(row[f"prev_{name}"] == before[name] for name in state)


def test_the_same_changes_read_the_same_however_long_the_history(
    spark: SparkSession, lakes: dict[History, Lake]
) -> None:
    """What had ended before is not missed even where its files are gone."""
    take_history_away(spark, lakes[LONG])
    before = lakes[SHORT].read(spark, gold.ISR_CHANGES).count()
    reads = {}
    for history, lake in lakes.items():
        restart_for_a_hundred(spark, lake, history.restarts)
        reads[history] = {job: measured(spark, run).reads for job, run in jobs_of(lake).items()}
        for job, run in jobs_of(lake).items():
            nothing_new = measured(spark, run).reads
            assert set(nothing_new) == {silver.PROGRESS.full_name, gold.PROGRESS.full_name}, job
    assert lakes[SHORT].read(spark, gold.ISR_CHANGES).count() == before + 100
    for of_job in reads[SHORT].values():
        assert of_job[silver.PARTITION_SNAPSHOTS.full_name].rows >= 100
    assert reads[SHORT] == reads[LONG]


@pytest.mark.soak
def test_repeated_events_are_what_the_jobs_make(spark: SparkSession, tmp_path: Path) -> None:
    short, long = Lake(root=str(tmp_path / "short")), Lake(root=str(tmp_path / "long"))
    for history, lake in ((SHORT, short), (LONG, long)):
        write_silver(spark, lake, history)
        fill_gold(spark, lake, history, jobs_of(lake).values())
    for table, repeated in repeated_gold(spark, LONG, short, SHORT).items():
        names = [name for name in table.column_names if name != "updated_at"]
        made = long.read(spark, table).select(*names)
        assert made.count() == repeated.count(), table.full_name
        assert made.exceptAll(repeated.select(*names)).isEmpty(), table.full_name


def take_history_away(spark: SparkSession, lake: Lake) -> None:
    """Remove the files of each table in which nothing is that ended after the last run, or shortly before."""
    done = lake.read(spark, gold.PROGRESS).agg(F.min("done_at")).collect()[0][0]
    for table, end in ENDS.items():
        newest = F.max(F.coalesce(end, F.lit("9999-12-31").cast("timestamp")))
        files = lake.read(spark, table).groupBy(F.col("_metadata.file_path")).agg(newest).collect()
        old = [unquote(urlparse(file).path) for file, at in files if at < done - Thresholds().flap_window]
        assert old or table in WITHOUT_HISTORY, table.full_name
        for file in old:
            Path(file).unlink()
