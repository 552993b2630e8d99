"""The history of large clusters is that of small ones: what is compared in parts, and written in
parts, makes the same rows.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds import large
from jobs.rounds.engine import Engine
from jobs.rules import takes
from jobs.run import session
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.lake import Lake
from schemas.silver import PARTITION_SNAPSHOTS
from schemas.table import PART
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, Answer, RandomCluster
from tests.support.kills import KilledError, killed_at
from tests.support.lakes import new_lake, rows_of
from tests.support.large_rounds import OF_A_RUN, in_memory

POLLS = 24
SEEDS = {"a": 9, "b": 3, "c": 1}
KINDS = {"c": "redpanda"}
LATER = START + timedelta(days=1)
TABLES = {table.full_name: table for of_history in OF_POLLS.values() for table in of_history}


@pytest.fixture
def histories() -> dict[str, list[Answer]]:
    return {
        alias: RandomCluster(alias, seed, kinds=["configs"]).answers(POLLS)
        for alias, seed in SEEDS.items()
    }


def bring(lake: Lake, histories: Mapping[str, Sequence[Answer]], since: int, until: int) -> None:
    """Append to bronze what a poller has of these answers."""
    taken = {answer.poll_id for answers in histories.values() for answer in answers[since:until]}
    stored.append(
        lake, METADATA_POLLS, [row for row in polled(histories) if row["poll_id"] in taken]
    )


def polled(histories: Mapping[str, Sequence[Answer]]) -> list[dict[str, Any]]:
    """Rows of bronze."""
    return [
        row for alias, answers in histories.items() for row in bronze_rows(alias, list(answers))
    ]


def config(lake: Lake) -> Config:
    return Config(lake, "", {}, {}, None, kinds=KINDS)  # type: ignore[arg-type]


def check_parts(spark: SparkSession, lake: Lake) -> None:
    """Live rows lie in parts, and those of large clusters in several."""
    rows = lake.read(spark, PARTITION_SNAPSHOTS).select("is_current", PART).distinct().collect()
    assert all(row.is_current == (row[PART] is not None) for row in rows)
    assert len({row[PART] for row in rows if row.is_current and row[PART] >= 16}) > 1


def test_a_large_cluster_is_made_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two rounds, of which the second is killed before it is done."""
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 1)
    monkeypatch.setattr(session, "COMPILED_FROM", 10**9)
    lake, answers = new_lake(spark, tmp_path), RandomCluster("b", 7, kinds=["configs"]).answers(8)
    bring(lake, {"b": answers}, 0, 4)
    assert Engine(spark, config(lake), Polls()).round(LATER)
    bring(lake, {"b": answers}, 4, 8)
    assert is_killed_before_done(spark, lake)
    Engine(spark, config(lake), Polls()).catch_up(whole=True)
    assert parts(lake)["b"] > 1
    check_parts(spark, lake)
    monkeypatch.undo()
    for table, rows in in_memory(polled({"b": answers})).items():
        assert rows_of(lake, TABLES[table], without=OF_A_RUN) == rows, table


@pytest.mark.soak
def test_large_clusters_have_the_history_of_small_ones(
    spark: SparkSession,
    histories: dict[str, list[Answer]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over random lives of clusters, with what is stale, while they grow; against the rules for
    small ones, without Spark. Rounds of many polls are made twice: all of it is in the tables
    already, and nobody has said so.
    """
    lake = new_lake(spark, tmp_path)
    grown = POLLS // 3
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 3)
    bring(lake, histories, 0, grown)
    assert is_killed_before_done(spark, lake)
    history = Engine(spark, config(lake), Polls())
    with frames_let_go():
        assert history.round(LATER)
    # Plans are compiled at first; later it would cost more than it tells.
    monkeypatch.setattr(session, "COMPILED_FROM", 10**9)
    while is_killed_before_done(spark, lake):
        pass
    Engine(spark, config(lake), Polls()).catch_up()
    at_first = parts(lake)
    monkeypatch.setattr(takes, "PARTITIONS_A_PART", 1)
    bring(lake, histories, grown, POLLS)
    while is_killed_before_done(spark, lake):
        pass
    Engine(spark, config(lake), Polls()).catch_up()
    later = parts(lake)
    assert len({parts > 1 for parts in at_first.values()}) == 2, "at first some clusters are small"
    assert all(later[cluster] > parts for cluster, parts in at_first.items()), (
        "later each is in more parts than before"
    )
    check_parts(spark, lake)
    Engine(spark, config(lake), Polls()).catch_up(whole=True)
    monkeypatch.undo()
    for table, rows in in_memory(polled(histories), KINDS).items():
        assert rows_of(lake, TABLES[table], without=OF_A_RUN) == rows, table
    isr = {
        (row["cluster"], row["isr"] is None) for row in stored.rows_of(lake, PARTITION_SNAPSHOTS)
    }
    assert isr == {(cluster, cluster in KINDS) for cluster in histories}


def test_partitions_without_replicas_are_counted_as_one(spark: SparkSession) -> None:
    """A server that is not Kafka may name none. Spark refuses the first one of none."""
    ids = "cluster string, first_poll string, topic string, partition int, leader int"
    state = "isr array<int>, replicas array<int>, error_code int, prev_error_code int"
    schema = f"{ids}, {state}, superseded_poll string, _min_isr int"
    rows = [("a", "s/1", "t", n, None, [], [], 3, None, None, None) for n in range(3)]
    named, times = large._summed(spark.createDataFrame(rows, schema), ["a"])
    assert (named.count(), times) == (1, {"a": {("t", 0, "s/1"): 3}})


def parts(lake: Lake) -> dict[str, int]:
    """Into how many parts each cluster is cut."""
    return {
        row["cluster"]: row["parts"]
        for row in stored.rows_of(lake, STATE)
        if row["history"] == "silver"
    }


def is_killed_before_done(spark: SparkSession, lake: Lake) -> bool:
    """Make one round, and end before it is said to be done; whether there was one. Rounds that are
    not done are made again first.
    """
    history = Engine(spark, config(lake), Polls())
    with killed_at("done", before=True):
        try:
            history.catch_up()
        except KilledError:
            return True
    return False


@contextmanager
def frames_let_go() -> Iterator[None]:
    """Each holds its rows in Java: a driver would have no memory left after some rounds of a
    million partitions.
    """
    gc.collect()
    before = held_in_java()
    gc.disable()
    try:
        yield
        assert held_in_java() < before + 20
    finally:
        gc.enable()


def held_in_java() -> int:
    return sum(isinstance(each, JavaObject) for each in gc.get_objects())
