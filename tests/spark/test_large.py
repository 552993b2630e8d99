"""The history of large clusters is that of small ones: what is compared in parts, and written in parts, makes the same
rows.
"""

import gc
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from jobs.common import session
from jobs.common.commit import append_rows
from jobs.common.config import Config
from jobs.history import HISTORIES, History
from jobs.rules import takes
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.lake import Lake
from schemas.silver import PARTITION_SNAPSHOTS
from schemas.table import PART
from tests.lakes import new_lake, rows_of
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, RandomCluster
from tests.support.kills import KilledError, killed_at

POLLS = 24
SEEDS = {"a": 1, "b": 2, "c": 3}
OF_A_RUN = {PART, "updated_at"}


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Answer]]:
    return {alias: RandomCluster(alias, seed, kinds=["configs"]).answers(POLLS) for alias, seed in SEEDS.items()}


@pytest.fixture(scope="module")
def small(
    spark: SparkSession, histories: Mapping[str, Sequence[Answer]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """All tables, of rounds that hold each cluster as one."""
    lake = new_lake(spark, tmp_path_factory.mktemp("small"))
    bring(spark, lake, histories, 0, POLLS)
    History(spark, config(lake)).catch_up(whole=True)
    return tables(lake)


def bring(spark: SparkSession, lake: Lake, histories: Mapping[str, Sequence[Answer]], since: int, until: int) -> None:
    """Append to bronze what a poller has of these answers."""
    rows = []
    for alias, answers in histories.items():
        there = {answer.poll_id: answer for answer in answers[since:until]}
        for row in bronze_rows(alias, list(answers)):
            if row["poll_id"] in there:
                answer = there[row["poll_id"]]
                row["day"] = answer.scheduled_at.date()
                if row["record"] == "poll" and answer.ok:
                    row["partition_count"] = sum(len(topic["partitions"]) for topic in answer.topics.values())
                rows.append(row)
    append_rows(spark, lake, METADATA_POLLS, rows)


def config(lake: Lake) -> Config:
    return Config(lake, "", {}, {}, None, kinds={"c": "redpanda"})  # type: ignore[arg-type]


def tables(lake: Lake) -> dict[str, list[str]]:
    """Each row of each table of history as text, without what differs from run to run."""
    return {
        table.full_name: rows_of(lake, table, without=OF_A_RUN)
        for of_history in HISTORIES.values()
        for table in of_history
    }


def check_same(made: Mapping[str, Sequence[Any]], wanted: Mapping[str, Sequence[Any]]) -> None:
    for table, rows in wanted.items():
        assert made[table] == rows, table


def check_parts(spark: SparkSession, lake: Lake) -> None:
    """Live rows lie in parts, and those of large clusters in several."""
    rows = lake.read(spark, PARTITION_SNAPSHOTS).select("is_current", PART).distinct().collect()
    assert all(row.is_current == (row[PART] is not None) for row in rows)
    assert len({row[PART] for row in rows if row.is_current and row[PART] >= 16}) > 1


def test_large_clusters_have_the_history_of_small_ones(
    spark: SparkSession,
    histories: dict[str, list[Answer]],
    small: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over random lives of clusters, with what is stale, while they grow. Each round is made twice: all of it is in the
    tables already, and nobody has said so.
    """
    lake = new_lake(spark, tmp_path)
    cuts: list[dict[str, int]] = []
    for size, since, until in ((3, 0, 8), (1, 8, POLLS)):
        monkeypatch.setattr(takes, "PARTITIONS_A_PART", size)
        bring(spark, lake, histories, since, until)
        while is_killed_before_done(spark, lake):
            pass
        cuts.append({row["cluster"]: row["parts"] for row in stored.rows_of(lake, STATE) if row["history"] == "silver"})
        # Plans are compiled at first; later it would cost more than it tells.
        monkeypatch.setattr(session, "COMPILED_FROM", 10**9)
    at_first, later = cuts
    assert len({parts > 1 for parts in at_first.values()}) == 2, "at first some clusters are small"
    assert all(later[cluster] > parts for cluster, parts in at_first.items()), "later each is in more parts than before"
    check_parts(spark, lake)
    History(spark, config(lake)).catch_up(whole=True)
    check_same(tables(lake), small)
    isr = {(row["cluster"], row["isr"] is None) for row in stored.rows_of(lake, PARTITION_SNAPSHOTS)}
    assert isr == {("a", False), ("b", False), ("c", True)}


def is_killed_before_done(spark: SparkSession, lake: Lake) -> bool:
    """Make one round, and end before it is said to be done; whether there was one. Rounds that are not done are made
    again first.
    """
    history = History(spark, config(lake))
    with killed_at("done", before=True):
        try:
            history.catch_up()
        except KilledError:
            return True
    return False


def test_a_large_round_lets_go_of_its_frames(
    spark: SparkSession, histories: dict[str, list[Answer]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds its rows in Java: a driver would have no memory left after some rounds of a million partitions."""
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 3)
    lake = new_lake(spark, tmp_path)
    bring(spark, lake, histories, 0, 8)
    history = History(spark, config(lake))
    gc.collect()
    before = held_in_java()
    gc.disable()
    try:
        assert history.round(datetime.now(UTC))
        assert held_in_java() < before + 20
    finally:
        gc.enable()


def held_in_java() -> int:
    return sum(isinstance(each, JavaObject) for each in gc.get_objects())
