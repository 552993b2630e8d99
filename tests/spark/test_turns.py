"""Rounds of polls and of the controllers' log in Spark make the rows that the rules make of them in
one process.
"""

import random
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.rules import takes
from jobs.run import session
from jobs.upkeep.upkeep import expire_bronze
from schemas import bronze
from schemas.lake import Lake, LakeError
from tests.support import turns
from tests.support.cluster_logs import span
from tests.support.copies import moved
from tests.support.histories import START
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake
from tests.support.stored import Row, append, as_text, newest_states, rows_of
from tests.support.turns import ALIAS, HAND_OVER, Life, lived

LATER = START + timedelta(days=1)
TABLES = [table for tables in OF_POLLS.values() for table in tables]
SEED, BATCHES, SILENCES = 5, 24, 1
"""Of a life in which the log tells, then polls, then the log again."""


def history_of(spark: SparkSession, lake: Lake) -> Engine:
    servers = {"kafka.controller.bootstrap.servers": "127.0.0.1:1"}
    return Engine(
        spark, Config(lake, "", {ALIAS: servers}, {}, cluster_log={}, hand_over=HAND_OVER), Polls()
    )


class Bronze:
    """Rows of a life that nobody has put into the lake yet."""

    def __init__(self, life: Life, lake: Lake) -> None:
        self.lake = lake
        self._polls = turns.Lake(life).bronze
        self._log = life.log
        self._since = START - timedelta(days=1)

    def keep(self, until: datetime) -> None:
        """Put into the lake what was there by then."""
        polls = [row for row in self._polls if self._since < self._due(row) <= until]
        log = [
            row | {"day": at.date()}
            for at, rows in self._log
            if self._since < at <= until
            for row in rows
        ]
        for table, rows in ((bronze.METADATA_POLLS, polls), (bronze.CLUSTER_LOG, log)):
            if rows:
                append(self.lake, table, rows)
        self._since = until

    def _due(self, row: Row) -> datetime:
        due = {
            each["poll_id"]: each["scheduled_at"]
            for each in self._polls
            if each["record"] == "poll"
        }
        at: datetime = due[row["poll_id"]]
        return at


def told(rows: list[Row]) -> list[str]:
    return as_text(
        [{name: value for name, value in row.items() if name != "updated_at"} for row in rows]
    )


def check_same(lake: Lake, expected: turns.Lake) -> None:
    for table in TABLES:
        rows = [dict.fromkeys(table.column_names) | row for row in expected.rows(table.full_name)]
        assert told(rows_of(lake, table)) == told(rows), table.full_name


def test_polls_take_over_from_the_log_and_the_log_from_polls(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One round of each turn. The one in which polls take over is killed, and finished."""
    life, lake = lived(random.Random(2), 8, SILENCES), new_lake(spark, tmp_path)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    each, expected = turns.Lake(life), turns.Lake(life)
    for at in times:
        each.round(at)
    changes = (
        at for at, (one, other) in zip(times, pairwise(each.turns), strict=False) if one != other
    )
    rows = Bronze(life, lake)
    for at in (next(changes), next(changes), times[-1]):
        rows.keep(at)
        expected.round(at)
        history = history_of(spark, lake)
        if expected.turns[-1] == "polls":
            with killed_after(3), pytest.raises(KilledError):
                history.round(LATER)
            history_of(spark, lake)
        else:
            assert history.round(LATER)
    assert expected.turns == ["log", "polls", "log"]
    check_same(lake, expected)


@pytest.mark.soak
def test_rounds_make_what_the_rules_say(spark: SparkSession, tmp_path: Path) -> None:
    """Killed between the commits of a round in which polls take over, too."""
    life, lake = lived(random.Random(SEED), BATCHES, SILENCES), new_lake(spark, tmp_path)
    rows, expected = Bronze(life, lake), turns.Lake(life)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    history = history_of(spark, lake)
    for at in (*times[4::9], times[-1]):
        rows.keep(at)
        expected.round(at)
        is_turn = expected.turns[-2:] == ["log", "polls"]
        if is_turn:
            with killed_after(3), pytest.raises(KilledError):
                history.round(LATER)
            with killed_at("done", before=True), pytest.raises(KilledError):
                history_of(spark, lake)
            history = history_of(spark, lake)
        else:
            assert history.round(LATER)
    check_same(lake, expected)
    changes = [one for one, other in pairwise([*expected.turns, ""]) if one != other]
    assert changes[:3] == ["log", "polls", "log"]
    states = {(row["history"], row["cluster"]): row for row in newest_states(lake)}
    assert states["silver", ALIAS]["told_by"] == expected.turns[-1]

    quiet = span("read", 10_000, 10_001, LATER)
    append(lake, bronze.CLUSTER_LOG, [quiet | {"day": LATER.date()}])
    expire_bronze(spark, lake, timedelta(days=1), LATER + timedelta(days=30))
    assert {row["day"] for row in rows_of(lake, bronze.CLUSTER_LOG)} == {str(LATER.date())}, (
        "it is not history yet"
    )

    with pytest.raises(LakeError, match="the controllers' log of prod is part of its history"):
        history.again(ALIAS)
    history.round(LATER + timedelta(minutes=4))
    expire_bronze(spark, lake, timedelta(days=1), LATER + timedelta(days=30))
    assert not rows_of(lake, bronze.CLUSTER_LOG)


@pytest.mark.soak
def test_a_lake_that_moves_between_rounds_gives_what_the_rules_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whoever tells then: the log, or polls."""
    life = lived(random.Random(SEED), BATCHES, SILENCES)
    rows, expected = Bronze(life, new_lake(spark, tmp_path)), turns.Lake(life)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    for number, at in enumerate((*times[4::9], times[-1])):
        rows.keep(at)
        expected.round(at)
        assert history_of(spark, rows.lake).round(LATER)
        rows.lake = moved(spark, rows.lake, tmp_path / str(number))
    assert {"log", "polls"} <= {*expected.turns}
    check_same(rows.lake, expected)


@pytest.mark.soak
def test_the_log_of_a_large_cluster_that_polls_told_changes_the_partitions_that_it_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are brought by a join: all as the log takes over, and then those that its records
    need.
    """
    life, lake = (
        lived(random.Random(SEED), BATCHES, 0, log_begins=BATCHES // 2),
        new_lake(spark, tmp_path),
    )
    rows, expected = Bronze(life, lake), turns.Lake(life)
    begin, end = life.log[0][0], life.log[-1][0]
    times = [
        begin - timedelta(milliseconds=1),
        begin,
        begin + (end - begin) / 2,
        end + timedelta(seconds=1),
    ]
    for at in times:
        expected.round(at)
    assert expected.turns == ["polls", "log", "log", "log"]
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 1)
    monkeypatch.setattr(session, "COMPILED_FROM", 10**9)  # plans are compiled in long runs
    history = history_of(spark, lake)
    for at in times:
        rows.keep(at)
        while history.round(LATER):
            pass
    (state,) = [row for row in newest_states(lake) if row["history"] == "silver"]
    assert (state["parts"] > 1, state["told_by"]) == (True, "log")
    check_same(lake, expected)


@pytest.mark.soak
def test_gold_that_is_made_apart_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """By a job of its own, of silver that is there."""
    life, lake = lived(random.Random(SEED), BATCHES, SILENCES), new_lake(spark, tmp_path)
    rows, expected = Bronze(life, lake), turns.Lake(life)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    servers = {"kafka.controller.bootstrap.servers": "127.0.0.1:1"}
    config = Config(lake, "", {ALIAS: servers}, {}, cluster_log={}, hand_over=HAND_OVER)
    made, gold = (
        Engine(spark, config, Polls(["silver"])),
        Engine(spark, config, Polls(["isr_shrink", "leader_churn"])),
    )
    for at in (*times[4::9], times[-1]):
        rows.keep(at)
        expected.round(at)
        assert made.round(LATER)
        gold.round(LATER)
    check_same(lake, expected)
