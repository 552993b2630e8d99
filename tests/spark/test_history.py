"""Rounds of polls in the lake: who makes them, and of what."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from jobs.rounds import plan as rounds
from jobs.rounds.plan import Rounds
from schemas import silver
from schemas.bronze import METADATA_POLLS
from schemas.internal import ROUNDS, STATE
from schemas.lake import Lake
from schemas.table import Table
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, Answer, good_answer
from tests.support.kills import KilledError, killed_after
from tests.support.lakes import new_lake
from tests.support.poll_lakes import (
    LATER,
    Tables,
    assert_same,
    copied,
    history_of,
    made,
    states,
    versions,
)
from tests.support.stored import Row, append, newest_states, rows_of, version

# --- several at once ---


def test_two_runs_that_plan_at_once_never_plan_the_same_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [ROUNDS, STATE])
    planned: list[int] = []

    def plan(of: str) -> None:
        rounds = Rounds(spark, lake, [of])
        planned.extend(rounds.plan({"of": of}, LATER).round for _ in range(2))

    threads = [
        InheritableThread(plan, args=(of,), session=spark) for of in ("silver", "isr_shrink")
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(planned) == len(set(planned)) == 4
    assert sorted(row["round"] for row in rows_of(lake, ROUNDS)) == list(range(1, 7))


@pytest.mark.soak
def test_histories_apart_are_those_made_together(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path
) -> None:
    """Silver is made by one, and gold of it by others."""
    lake = copied(half, tmp_path)
    made(spark, lake, "silver")
    made(spark, lake, "leader_churn")
    made(spark, lake, "isr_shrink")
    assert_same(lake, whole)


@pytest.mark.soak
def test_histories_apart_finish_what_was_begun_together(
    spark: SparkSession,
    polled: Lake,
    whole: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who makes a part finishes a round of all; and silver is made further while a round of gold is
    not done yet. Old states are replaced by every other round.
    """
    monkeypatch.setattr(rounds, "ALL_STATES_EVERY", 2)
    lake = copied(polled, tmp_path)
    with killed_after(5), pytest.raises(KilledError):
        history_of(spark, lake, polls_per_round=4).round(LATER)
    apart = history_of(spark, lake, "silver", polls_per_round=4)
    assert apart.round(LATER)
    isrs = history_of(spark, lake, "isr_shrink")
    with killed_after(1), pytest.raises(KilledError):
        isrs.round(LATER)
    assert apart.round(LATER)
    assert not apart.round(LATER)
    made(spark, lake, "leader_churn")
    made(spark, lake, "isr_shrink")
    assert_same(lake, whole)
    assert len(rows_of(lake, STATE)) < 3 * len(newest_states(lake))


# --- quiet ---


class Polled:
    """Two clusters that are polled by one stream; their times are now."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.begin = datetime.now(UTC) - timedelta(seconds=30)
        self.answers: dict[str, list[Answer]] = {"busy": [], "calm": []}
        self.written: set[tuple[str, str]] = set()

    def poll(
        self, n: int, epoch: int, *, calm: bool = True, stream: str = "20261101T000000Z-00000000"
    ) -> None:
        """Append the poll of both clusters in which the leader of `busy` has this epoch; `calm`: of
        that too.
        """
        for alias in ("busy", "calm") if calm else ("busy",):
            shown = epoch if alias == "busy" else 0
            leader = {"error_code": 0, "leader": shown % 2, "leader_epoch": shown}
            partition = {**leader, "replicas": [0, 1], "isr": [0, 1], "offline_replicas": []}
            at = self.begin + timedelta(seconds=n)
            answer = good_answer(
                stream, n, at, {0: None, 1: None}, {"orders": [partition]}, batch=n
            )
            self.answers[alias].append(replace(answer, cluster_id=f"id-{alias}"))
        rows = [
            row for alias, answers in self.answers.items() for row in bronze_rows(alias, answers)
        ]
        append(
            self.lake,
            METADATA_POLLS,
            [r for r in rows if (r["cluster"], r["poll_id"]) not in self.written],
        )
        self.written |= {(row["cluster"], row["poll_id"]) for row in rows}


def test_a_round_is_made_of_what_says_something_new(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path)
    polled = Polled(lake)

    def now(after: int = 5) -> datetime:
        return polled.begin + timedelta(seconds=after)

    polled.poll(0, 1)
    history = history_of(spark, lake)
    assert history.round(now())
    assert {row["round"] for row in rows_of(lake, STATE) if row["cluster"]} == {2}
    assert not history.round(now())

    polled.poll(1, 1)
    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now())
    assert (versions(lake), version(lake, ROUNDS)) == before, "a quiet round commits nothing"

    polled.poll(2, 2)
    assert history.round(now())
    assert {alias: row["round"] for alias, row in states(lake).items()} == {"busy": 3, "calm": 2}
    assert {alias: row["round"] for alias, row in states(lake, "isr_shrink").items()} == {
        "busy": 3,
        "calm": 2,
    }
    assert states(lake)["busy"]["last_poll"].endswith("2")
    assert states(lake)["calm"]["last_poll"].endswith("0")

    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now())
    assert (versions(lake), version(lake, ROUNDS)) == before
    assert history.round(now(after=190)), "polls are noted after three minutes"
    assert states(lake)["calm"]["last_poll"].endswith("2")
    polled.poll(3, 2)
    assert not history.round(now())
    assert states(lake)["calm"]["last_poll"].endswith("2")
    assert history.round(now(after=190))
    assert {row["last_poll"][-1] for row in states(lake).values()} == {"3"}
    same = before[0] | {STATE.full_name: before[0][STATE.full_name] + 2}
    assert versions(lake) == same, "notes are kept in one table"

    polled.poll(4, 1, calm=False)
    assert history.round(now()), "an answer of a lagging broker waits"
    assert states(lake)["busy"]["stale_polls"] == 1
    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now()), "polls that wait are no news"
    assert not history.round(now(after=1_000))
    polled.poll(5, 1, stream="20261031T000000Z-00000000")
    for each in (history, history_of(spark, lake)):
        assert not each.round(now(after=1_000)), "a poll of an older stream comes too late"
    assert (versions(lake), version(lake, ROUNDS) - 1) == before


def test_numbers_of_one_cluster_say_nothing_of_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow cluster, or one that came later, has small ones when another one's are large; and the
    rows of a poll are read from the commits that have them.
    """
    lake, stream = new_lake(spark, tmp_path), "20261101T000000Z-00000000"

    def polled(alias: str, n: int, epoch: int, *, batch: int = 0) -> list[Row]:
        partition = {
            "leader": 1,
            "leader_epoch": epoch,
            "replicas": [1],
            "isr": [1],
            "offline_replicas": [],
        }
        topics = {"t": [{"error_code": 0} | partition]}
        answer = good_answer(
            stream, n, START + timedelta(seconds=n), {1: None}, topics, batch=batch
        )
        answer.cluster_id = f"id-{alias}"
        return bronze_rows(alias, [answer])

    append(lake, METADATA_POLLS, polled("fast", 1_000, 1))
    history = made(spark, lake)
    append(lake, METADATA_POLLS, [*polled("slow", 0, 1), *polled("fast", 1_001, 1)])
    append(lake, METADATA_POLLS, [*polled("slow", 1, 2), *polled("fast", 1_002, 2)])
    looked = versions_read(monkeypatch)
    assert history.round(LATER)
    assert {alias: row["last_poll"][-4:] for alias, row in states(lake).items()} == {
        "slow": "0001",
        "fast": "1002",
    }
    of_partitions = rows_of(lake, silver.PARTITION_SNAPSHOTS)
    assert sorted(
        (row["cluster"], row["leader_epoch"], row["first_poll"][-4:]) for row in of_partitions
    ) == [*(("fast", 1, "1000"), ("fast", 2, "1002")), *(("slow", 1, "0000"), ("slow", 2, "0001"))]
    newest = version(lake, METADATA_POLLS)
    assert looked == [(newest - 1, newest), (newest - 1, newest)], (
        "the headers, then the rows of those polls"
    )
    looked.clear()
    assert not history.round(LATER)
    assert looked == [], "without a commit nothing is read"
    for epoch in (3, 4, 5):  # Batches that come while a round is made.
        append(lake, METADATA_POLLS, polled("fast", 1_000 + epoch, epoch))
    assert history.round(LATER)
    assert looked == [(newest + 1, newest + 3)] * 2
    assert states(lake)["fast"]["last_poll"].endswith("1005"), "one round takes them all"


def versions_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The versions of bronze whose rows are read from now on: first and last."""
    found: list[tuple[int, int]] = []
    read_appended = Lake.read_appended

    def read(lake: Lake, spark: SparkSession, table: Table, first: int, last: int) -> Any:
        found.append((first, last))
        return read_appended(lake, spark, table, first, last)

    monkeypatch.setattr(Lake, "read_appended", read)
    return found
