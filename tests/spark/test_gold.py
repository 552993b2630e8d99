"""Gold against the rules written a second time, over random histories; and however its runs are cut and cut off."""

import copy
import shutil
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import isr_shrink, leader_churn
from jobs.common.config import Thresholds
from jobs.common.progress import Window, new_window
from jobs.snapshot_history import apply_polls
from schemas import gold, silver
from schemas.lake import Lake, LakeError
from schemas.table import Table
from tests.lakes import new_lake
from tests.spark import events
from tests.spark.histories import RandomCluster, bronze_rows
from tests.spark.test_snapshot_history import KilledError, bronze_frame, utc

CLUSTERS = 40
POLLS = 45
JOBS = {
    isr_shrink.JOB: lambda lake, spark: isr_shrink.apply(lake, Thresholds(events.FLAPS, events.FLAP_WINDOW), spark),
    leader_churn.JOB: leader_churn.apply,
}
EVENTS = (*gold.ISR_TABLES, *gold.LEADER_TABLES)


def run(spark: SparkSession, lake: Lake) -> None:
    for job in JOBS.values():
        job(lake, spark.newSession())


def rows_of(spark: SparkSession, lake: Lake, table: Table) -> list[dict[str, Any]]:
    """Every row, without what differs from run to run."""
    rows = lake.read(spark, table).drop("updated_at").collect()
    return [{name: utc(value) for name, value in row.asDict(recursive=True).items()} for row in rows]


@pytest.fixture(scope="module")
def piecemeal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose gold was made in pieces, by runs that died between two tables, and others that did not."""
    lake = new_lake(spark, tmp_path_factory.mktemp("piecemeal"))
    parts: list[list[dict[str, Any]]] = [[], [], []]
    for seed in range(CLUSTERS):
        cluster = RandomCluster(f"g{seed:03d}", 9_000 + seed, kinds=["configs", "reassignments", "elr"])
        answers = cluster.answers(POLLS)
        batch_of = {answer.poll_id: answer.batch for answer in answers}
        last = answers[-1].batch + 1
        for row in bronze_rows(cluster.alias, answers):
            parts[batch_of[row["poll_id"]] * len(parts) // last].append(row)
    put = Window.put
    for part, survived in zip(parts, ((), (gold.ISR_CHANGES, gold.LEADER_CHANGES), EVENTS), strict=True):
        apply_polls(bronze_frame(spark, part), lake)

        def dying(
            window: Window, rows: Any, table: Table, within: str = "true", survived: tuple[Table, ...] = survived
        ) -> None:
            if table not in survived:
                raise KilledError
            put(window, rows, table, within)

        if survived:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Window, "put", dying)
                for job in JOBS.values():
                    with pytest.raises(KilledError):
                        job(lake, spark.newSession())
            # Silver goes on before the job is run again.
            continue
        run(spark, lake)
    run(spark, lake)
    return lake


@pytest.fixture(scope="module")
def backfilled(spark: SparkSession, piecemeal: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with the same silver, whose gold was made at one go."""
    lake = a_lake_of_the_same_silver(spark, piecemeal, tmp_path_factory.mktemp("backfilled"))
    run(spark, lake)
    return lake


@pytest.fixture(scope="module")
def settled(spark: SparkSession, backfilled: Lake) -> dict[str, tuple[dict[str, list[events.Row]], datetime]]:
    """By cluster id: its rows of silver as gold may know them, and when the last of these polls was answered."""
    found: dict[str, tuple[dict[str, list[events.Row]], datetime]] = {}
    for row in rows_of(spark, backfilled, silver.PROGRESS):
        if row["settled_poll"] is not None:
            at = row["applied_at"] if row["settled_poll"] == row["applied_poll"] else row["before_at"]
            found[row["cluster_id"]] = (defaultdict(list), (row["settled_poll"], at))
    for table in (
        silver.PARTITION_SNAPSHOTS,
        silver.BROKER_SNAPSHOTS,
        silver.CLUSTER_SNAPSHOTS,
        silver.TOPIC_CONFIGS,
        silver.REASSIGNMENTS,
        silver.PARTITION_ELR,
    ):
        for row in rows_of(spark, backfilled, table):
            silver_rows, (poll, _) = found[row["cluster_id"]]
            if row["first_poll"] > poll:
                continue
            known = copy.copy(row)
            if row["superseded_poll"] and row["superseded_poll"] > poll:
                known |= dict.fromkeys(
                    ("last_poll", "last_seen_sent_at", "superseded_poll", "superseded_at", "ended_as")
                )
            silver_rows[table.name].append(known)
    return {cluster_id: (rows, at) for cluster_id, (rows, (_, at)) in found.items()}


@pytest.mark.parametrize("table", EVENTS, ids=lambda table: table.name)
def test_runs_cut_and_cut_off_give_what_one_gives(
    spark: SparkSession, piecemeal: Lake, backfilled: Lake, table: Table
) -> None:
    one, other = (rows_of(spark, lake, table) for lake in (piecemeal, backfilled))
    assert len(one) == len({tuple(row[name] for name in table.key) for row in one})
    assert sorted(map(repr, one)) == sorted(map(repr, other))


def compare(found: list[dict[str, Any]], expected: list[events.Row]) -> None:
    names = list(expected[0]) if expected else []
    assert sorted(repr([row[name] for name in names]) for row in found) == sorted(
        repr([row[name] for name in names]) for row in expected
    )


def by_cluster(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["cluster_id"]].append(row)
    return found


def test_isr_events_are_as_the_rules_say(spark: SparkSession, backfilled: Lake, settled: dict[str, Any]) -> None:
    changes, episodes, incidents = (by_cluster(rows_of(spark, backfilled, table)) for table in gold.ISR_TABLES)
    seen: set[Any] = set()
    for cluster_id, (rows, now) in settled.items():
        expected = events.isr_changes(rows, now)
        compare(changes[cluster_id], expected)
        of_levels = events.isr_episodes(rows, expected)
        compare(episodes[cluster_id], of_levels)
        compare(incidents[cluster_id], events.broker_incidents(expected, of_levels))
        seen |= {row[name] for row in expected for name in ("change", "cause", "flapping", "ended_as")}
        seen |= {row[name] for row in of_levels for name in ("level", "ended_as")}
    assert seen >= {
        *("left", "absent", "rejoined", "joined"),
        *("broker_down", "reassignment", "lagging", "leader_stalled"),
        *(True, False, None),
        *("removed", "absent", "recreated", "unknown"),
        *gold.LEVELS,
    }


def test_leader_events_are_as_the_rules_say(spark: SparkSession, backfilled: Lake, settled: dict[str, Any]) -> None:
    changes, balance = (by_cluster(rows_of(spark, backfilled, table)) for table in gold.LEADER_TABLES)
    seen: set[Any] = set()
    for cluster_id, (rows, _) in settled.items():
        expected = events.leader_changes(rows)
        compare(changes[cluster_id], expected)
        compare(balance[cluster_id], events.leader_balance(rows))
        seen |= {
            row[name] for row in expected for name in ("epoch_semantics", "reason", "unclean", "last_known_leader")
        }
    assert seen >= {
        *("exact", "upper_bound", "unreliable"),
        *("preferred", "failover", "reassignment", "recovery", "offline", "unknown"),
        *("none", "suspected", "proven"),
        *(True, False),
    }


def a_lake_of_the_same_silver(spark: SparkSession, lake: Lake, root: Path) -> Lake:
    shutil.copytree(Path(str(lake)) / "silver", root / "silver")
    return new_lake(spark, root, gold.TABLES)


def test_two_runs_at_once_are_both_right_or_one_says_so(spark: SparkSession, backfilled: Lake, tmp_path: Path) -> None:
    lake = a_lake_of_the_same_silver(spark, backfilled, tmp_path / "lake")
    ended: list[Exception | None] = []

    def run_one() -> None:
        try:
            JOBS[leader_churn.JOB](lake, spark.newSession())
            ended.append(None)
        except LakeError as error:
            ended.append(error)

    runs = [InheritableThread(run_one, session=spark) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(ended) == 2
    assert None in ended
    assert all("another run of leader_churn writes it" in str(error) for error in ended if error)
    for table in gold.LEADER_TABLES:
        one, other = (rows_of(spark, each, table) for each in (lake, backfilled))
        assert sorted(map(repr, one)) == sorted(map(repr, other)), table.full_name


def test_a_run_that_was_overtaken_undoes_nothing(spark: SparkSession, backfilled: Lake, tmp_path: Path) -> None:
    lake = a_lake_of_the_same_silver(spark, backfilled, tmp_path / "lake")
    overtaken = spark.newSession()
    window = new_window(overtaken, lake, leader_churn.JOB)
    assert window is not None
    # Silver goes on, and a later run makes events of it.
    spark.sql(f"ALTER TABLE {lake.identifier(silver.PROGRESS)} SET TBLPROPERTIES ('later' = 'yes')")
    JOBS[leader_churn.JOB](lake, spark.newSession())
    before = rows_of(spark, lake, gold.LEADER_CHANGES)
    wrong = lake.read(overtaken, gold.LEADER_CHANGES).withColumn("reason", F.lit("unknown"))
    window.put(wrong, gold.LEADER_CHANGES)
    assert sorted(map(repr, rows_of(spark, lake, gold.LEADER_CHANGES))) == sorted(map(repr, before))
