"""Rounds that are killed, overtaken, or lose what they wrote: the tables come to be the same."""

import json
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.histories import poll_inputs
from jobs.rounds import commit
from jobs.rounds.commit import version_of
from jobs.rounds.engine import Engine
from jobs.rounds.lost_rounds import lost_rounds
from jobs.rounds.plan import OvertakenError
from jobs.run.cli import one_line
from schemas import gold, silver
from schemas.internal import ROUNDS, STATE
from schemas.lake import Lake
from schemas.lost_commits import mend_lost_commits
from tests.support.broken_folds import broken_for
from tests.support.disks import full_after, small_disk
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.poll_lakes import (
    LATER,
    OTHER,
    TABLES,
    Tables,
    all_compared,
    assert_same,
    by_rules,
    compared,
    copied,
    history_of,
    made,
    optimize,
    states,
    versions,
    written_since,
)
from tests.support.power_cuts import cut_power
from tests.support.stored import Row, rounds_of, rows_of, version


def test_a_killed_round_is_finished_beside_upkeep(half: Lake, polls: list[Row]) -> None:
    """As `half` was made."""
    taken = {cluster: dict(row["taken"]) for cluster, row in states(half).items()}
    rows = [row for row in polls if row["n"] <= taken[row["cluster"]].get(row["stream"], -1)]
    assert len(rows) < len(polls)
    made = by_rules(rows)
    assert_same(half, all_compared(made))


@pytest.mark.soak
def test_killed_anywhere_a_round_is_finished_by_the_next_run(
    spark: SparkSession, polled: Lake, whole: Tables, tmp_path: Path
) -> None:
    """A lake's first round, and one that replaces rows, killed after each of its commits, and by
    the run that finishes it when all are made, which has other thresholds, while what was written
    is compacted. Rounds of few polls make what one round makes of all.
    """
    lake = copied(polled, tmp_path)
    history = history_of(spark, lake, polls_per_round=6)
    for before in (True, False):
        with killed_at("plan", before=before), pytest.raises(KilledError):
            history.round(LATER)
    with killed_after(4), pytest.raises(KilledError):
        finish(spark, lake)
    with killed_at("done", before=True), pytest.raises(KilledError):
        finish(spark, lake)
    history = finish(spark, lake)
    check_finished(lake, 1)

    history, before = history_of(spark, lake, polls_per_round=6), versions(lake)
    with killed_after(1), pytest.raises(KilledError):
        history.round(LATER)
    for commits in (2, 3, 5, 6, 7, 8):
        with killed_after(commits), pytest.raises(KilledError):
            finish(spark, lake)
        if commits == 3:
            optimize(spark, lake, *written_since(before, lake))
    with killed_at("done", before=False), pytest.raises(KilledError):
        finish(spark, lake)
    check_finished(lake, 2)
    overtaken(history, lake)
    check_made_once(spark, lake, whole)


def finish(spark: SparkSession, lake: Lake) -> Engine:
    return history_of(spark, lake, polls_per_round=6, thresholds=OTHER)


def check_finished(lake: Lake, rounds: int) -> None:
    done = {
        f"round {row['round']}" for row in rows_of(lake, STATE) if row["round"]
    }  # The lake's own row has none.
    assert len(done) == rounds
    for table in TABLES:
        assert set(rounds_of(lake, table)) <= done, table.full_name


def check_made_once(spark: SparkSession, lake: Lake, whole: Tables) -> None:
    assert not finish(spark, lake).round(LATER), (
        "the round of the one that was overtaken is nobody's"
    )
    for table in TABLES:
        of_table = rounds_of(lake, table)
        assert len(of_table) == len(set(of_table)), (
            f"{table.full_name}: a round was committed twice"
        )
    assert_same(lake, whole)


@pytest.mark.soak
def test_a_disk_that_is_full_in_the_middle_of_a_round_costs_nothing_but_time(
    spark: SparkSession, polled: Lake, whole: Lake, tmp_path: Path
) -> None:
    """Nothing is to be deleted but what fills the disk: files that were half written belong to no
    table.
    """
    with small_disk(tmp_path / "disk", 64) as disk:
        lake = copied(polled, disk / "lake")
        history, before = history_of(spark, lake), versions(lake)
        with full_after(disk, 3), pytest.raises((Py4JJavaError, PySparkException)) as raised:
            history.round(LATER)
        assert "No space left on device" in one_line(raised.value)
        assert len(written_since(before, lake)) == 3
        made(spark, lake)
        assert_same(lake, whole)


# --- power cuts ---


@pytest.mark.soak
def test_rounds_that_a_power_cut_took_from_a_table_are_folded_again(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of one table both rounds are gone, of another the second; all are noted as done."""
    lake = copied(half, tmp_path)
    assert history_of(spark, lake, polls_per_round=6).round(LATER)
    assert lost_rounds(lake) == []
    first = int(rounds_of(lake, silver.TOPIC_SNAPSHOTS)[0].removeprefix("round "))
    written = [
        version_of(spark, lake, silver.TOPIC_SNAPSHOTS, first - n, or_later=n > 0) for n in (0, 1)
    ]
    assert written[0] == written[1] is not None
    assert version_of(spark, lake, silver.TOPIC_SNAPSHOTS, first - 1) is None
    for table, commits in ((silver.PARTITION_SNAPSHOTS, 2), (gold.ISR_EPISODES, 1)):
        cut_power(lake, table, commits)
    assert [line.partition(" in ")[0] for line in mend_lost_commits(lake)] == [
        "silver.partition_snapshots",
        "silver.partition_snapshots",
        "gold.isr_episodes",
    ]
    assert [(each.tables, each.is_last) for each in lost_rounds(lake)] == [
        (("silver.partition_snapshots",), True),
        (("gold.isr_episodes", "silver.partition_snapshots"), True),
    ]
    assert not history_of(spark, lake, polls_per_round=6).round(LATER)
    said = [record.getMessage().partition(" lost round ") for record in caplog.records]
    assert [tables for tables, is_lost, _ in said if is_lost] == [
        "silver.partition_snapshots",
        "gold.isr_episodes, silver.partition_snapshots",
    ]
    assert_same(lake, whole)
    assert lost_rounds(lake) == []


# --- a cluster whose fold fails ---


@pytest.mark.soak
def test_a_cluster_whose_fold_fails_is_left_out_and_comes_back(
    spark: SparkSession,
    polled: Lake,
    whole: Tables,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lake, now = copied(polled, tmp_path), [0.0]
    history = history_of(spark, lake)
    history.left_out.clock = lambda: now[0]

    def catch_up(maker: Engine) -> None:
        if maker.left_out.take_back():
            maker._go_back()
        while maker._timed_round(LATER):
            pass

    with broken_for(poll_inputs, "c1"):
        catch_up(history)
        assert states(lake).keys() == {"c0"}
        for table in (silver.PARTITION_SNAPSHOTS, gold.ISR_EPISODES):
            expected = [row for row in whole[table] if json.loads(row)["cluster"] == "c0"]
            assert expected
            assert compared(table, rows_of(lake, table)) == expected
        (row,) = states(lake, "left out of silver").values()
        assert row["cluster"] == "c1"
        assert row["why"].startswith("KeyError: 'leader_epoch' (__call__, line ")
        now[0] = 59.0
        planned = version(lake, ROUNDS)
        catch_up(history)
        assert version(lake, ROUNDS) == planned, "left out, it costs nothing"
        now[0] = 61.0
        catch_up(history)
        # Another run finds a round that was planned and cannot be folded.
        history = history_of(spark, lake)
        catch_up(history)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.partition(", since")[0].rpartition(" for ")[2] for line in said] == [
        "60 s",
        "120 s",
        "120 s",
    ]
    history.left_out.clock = lambda: time.monotonic() + 3_600
    catch_up(history)
    assert_same(lake, whole)
    assert list(history.left_out) == []


def overtaken(history: Engine, lake: Lake) -> None:
    """Let a run make a round of histories that another one has taken over: it ends, and writes none
    of their tables.
    """
    before = versions(lake)
    with pytest.raises(
        OvertakenError, match=r"^another run \(.*\) makes .*silver.* now; nothing is lost.*$"
    ) as raised:
        history.round(LATER)
    assert "\n" not in str(raised.value)
    assert versions(lake) == before


# --- where the session does not let us overwrite ---


def test_a_merge_writes_the_same(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "can_replace", lambda _: False)
    lake = copied(half, tmp_path)
    history, before = history_of(spark, lake), versions(lake)
    with killed_after(4), pytest.raises(KilledError):
        history.round(LATER)
    optimize(spark, lake, *written_since(before, lake))
    made(spark, lake)
    assert_same(lake, whole)
