"""Lag in gold, from polls: however runs are cut and cut off, and what is asked for by nobody costs
nothing.
"""

import shutil
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories import lag as of_lag
from jobs.histories.lag import JOB, GroupLag
from jobs.rounds.engine import Engine
from jobs.upkeep.due import take_what_is_left
from metadata_source.schedule import poll_id
from schemas import bronze, consumption, internal, views
from schemas.in_spark import read_view
from schemas.lake import Lake
from tests.support import stored
from tests.support.broken_folds import broken_for
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake, utc
from tests.support.stored import newest_states, version

Row = dict[str, Any]
STREAM = "20260101T000000Z-0a1b2c"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Said = dict[str, dict[tuple[str, int], tuple[int | None, int | None]] | str]
"""By group, the answer of a visit: committed offset and end of each partition, or why there is
none.
"""


def at(number: int, seconds: float = 0) -> datetime:
    return BEGIN + timedelta(minutes=number, seconds=seconds)


def polled(
    cluster: str, number: int, said: Said | None, *, outcome: str = "ok", enriched: str = "ok"
) -> list[Row]:
    """The rows of a poll; without any offsets if nothing is `said`."""
    key = {
        "poll_id": poll_id(STREAM, number),
        "stream": STREAM,
        "n": number,
        "cluster": cluster,
        "day": BEGIN.date(),
    }
    header = key | {
        "record": "poll",
        "chunk": 0,
        "cluster_id": f"id-{cluster}",
        "scheduled_at": at(number),
        "received_at": at(number, 1),
        "outcome": outcome,
    }
    answers = [
        header
        | {"record": "answer", "kind": kind, "received_at": None, "outcome": of_kind}
        | {"asked_at": at(number), "answered_at": at(number, 1) if of_kind == "ok" else None}
        for kind, of_kind in (("groups", "ok"), ("offsets", enriched))
        if kind == "groups" or said is not None
    ]
    told = []
    for group, partitions in sorted((said or {}).items()):
        bare = dict.fromkeys(("topic", "partition", "committed_offset", "log_end", "error"))
        bare |= {
            "group_id": group,
            "is_simple": group == "simple",
            "commit_read_before": at(number, 2),
        }
        if isinstance(partitions, str):
            told.append(bare | {"error": partitions, "commit_read_before": None})
        elif not partitions:
            told.append(bare)
        else:
            told += [
                bare
                | {
                    "topic": topic,
                    "partition": partition,
                    "committed_offset": offset,
                    "log_end": end,
                }
                for (topic, partition), (offset, end) in sorted(partitions.items())
            ]
    chunks = [told[since : since + 2] for since in range(0, len(told), 2)]
    offsets = [
        key | {"record": "offsets", "chunk": n, "offsets": chunk} for n, chunk in enumerate(chunks)
    ]
    return [header, *answers, *offsets]


def history() -> list[list[Row]]:
    """The polls of two clusters, a batch for each."""
    batches = []
    for number in range(14):
        of_alpha: Said = {
            "orders": {("t", 0): (10 * number, 10 * number + 5), ("t", 1): (7, 20 + number)},
            "idle": {("t", 0): (3, 3)},
            "заказы-🐘": {},
        }
        if number < 6:
            of_alpha["simple"] = {("u", 0): (4, 9)}
        if number == 3:
            of_alpha["idle"] = "failed: no answer"
        elif number > 8:
            of_alpha["idle"] = {("t", 0): (3, None)}
        if number > 9:
            of_alpha["simple"] = {("u", 0): (1, 9)}
        alpha = polled("alpha", number, of_alpha)
        if number == 7:
            alpha = polled("alpha", number, {}, enriched="failed: 2 of 3 brokers did not answer")
        beta: Said | None = {"orders": {("t", 0): (number, 50)}} if number % 2 else None
        batches.append([*alpha, *polled("beta", number, beta), *polled("gamma", number, None)])
    return batches


def config_of(lake: Lake, enrich: str = "offsets") -> Config:
    clusters = {"alpha": {"kafka.bootstrap.servers": "localhost:9092", "enrich": enrich}}
    return Config(lake, "", clusters, {"pollInterval": "30s"})


def run(spark: SparkSession, lake: Lake) -> None:
    Engine(spark, config_of(lake), GroupLag()).catch_up(whole=True)


def in_order(spark: SparkSession, lake: Lake) -> dict[str, list[str]]:
    """Every row of the tables, without what differs from run to run."""
    found = {}
    for table in GroupLag.tables:
        rows = lake.read(spark, table).drop("updated_at").collect()
        plain = [
            {name: utc(value) for name, value in row.asDict(recursive=True).items()} for row in rows
        ]
        found[table.full_name] = sorted(map(repr, plain))
    return found


@pytest.fixture(scope="module")
def empty(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return new_lake(spark, tmp_path_factory.mktemp("empty") / "lake")


def a_copy(lake: Lake, root: Path) -> Lake:
    shutil.copytree(str(lake), root)
    return Lake(root=str(root))


@pytest.fixture(scope="module")
def whole(spark: SparkSession, empty: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose lag was made at one go."""
    lake = a_copy(empty, tmp_path_factory.mktemp("whole") / "lake")
    stored.append(lake, bronze.METADATA_POLLS, [row for batch in history() for row in batch])
    run(spark, lake)
    return lake


def of_group(lake: Lake, cluster: str, group: str) -> list[Row]:
    rows = [
        row
        for row in stored.rows_of(lake, consumption.GROUP_LAG)
        if (row["cluster"], row["group_id"]) == (cluster, group)
    ]
    return sorted(rows, key=lambda row: row["first_poll"])


def test_what_polls_say_of_lag(spark: SparkSession, whole: Lake) -> None:
    assert [(row["lag_min"], row["lag_max"]) for row in of_group(whole, "alpha", "orders")][:3] == [
        (None, 18),
        (13, 19),
        (14, 20),
    ]
    *_, last = of_group(whole, "alpha", "orders")
    statuses = [
        (bad["partition"], bad["burrow_status"], bad["lag_max"]) for bad in last["not_well"]
    ]
    assert statuses == [(1, "STALL", 26), (0, "WARNING", 5)], (
        "a lag that never shrinks is a warning to Burrow"
    )
    assert (last["burrow_status"], last["partitions_without_progress"], last["valid_to"]) == (
        "ERROR",
        1,
        None,
    )
    idle = of_group(whole, "alpha", "idle")
    assert [(row["lag_min"], row["lag_max"], row["partitions_unknown"]) for row in idle] == [
        (None, 0, 0),
        (0, 0, 0),
        (None, None, 1),
    ], "what could not be told at 3 and 7 is as it was"
    assert [
        (row["first_poll"][-2:], row["end_reason"]) for row in of_group(whole, "alpha", "simple")
    ] == [("00", None), ("01", "gone"), ("10", None), ("11", None)]
    assert {row["is_simple"] for row in of_group(whole, "alpha", "simple")} == {True}
    (bare,) = of_group(whole, "alpha", "заказы-🐘")
    assert (bare["partitions"], bare["lag_max"], bare["valid_to"]) == (0, None, None)
    assert len(of_group(whole, "beta", "orders")) == 7
    removed = read_view(spark, whole, views.REMOVED_COMMITS).toArrow().to_pylist()
    assert [
        (row["group_id"], row["source"], row["reason"], row["committed_offset"]) for row in removed
    ] == [("simple", "polls", "group_deleted", 4)]
    assert (removed[0]["removed_after"], removed[0]["removed_before"]) == (at(5, 1), at(6, 2))
    noted = {
        row["cluster"]: row["done_poll"] for row in newest_states(whole) if row["history"] == JOB
    }
    assert noted == {"alpha": poll_id(STREAM, 13), "beta": poll_id(STREAM, 13)}


@pytest.mark.soak
def test_runs_cut_and_cut_off_give_what_one_gives(
    spark: SparkSession, empty: Lake, whole: Lake, tmp_path: Path
) -> None:
    lake = a_copy(empty, tmp_path / "lake")
    batches = history()
    begin = 0
    for end, kills in (
        (4, [partial(killed_at, "plan", before=False)]),
        (14, [partial(killed_after, 2)]),
    ):
        for batch in batches[begin:end]:
            stored.append(lake, bronze.METADATA_POLLS, batch)
        begin = end
        for kill in kills:
            with kill(), pytest.raises(KilledError):
                run(spark, lake)
    # Few polls a round, as after a long time off.
    few = Config(lake, "", config_of(lake).clusters, {"pollInterval": "30s"}, polls_per_round=2)
    Engine(spark, few, GroupLag()).catch_up(whole=True)
    assert in_order(spark, lake) == in_order(spark, whole)


@pytest.mark.soak
def test_a_cluster_whose_fold_fails_is_left_out_and_comes_back(
    spark: SparkSession, empty: Lake, whole: Lake, tmp_path: Path
) -> None:
    lake, batches = a_copy(empty, tmp_path / "lake"), history()
    lag = Engine(spark, config_of(lake), GroupLag())
    with broken_for(of_lag, "alpha"):
        for part in (batches[:7], batches[7:]):
            stored.append(lake, bronze.METADATA_POLLS, [row for batch in part for row in batch])
            lag.catch_up()
        assert list(lag.left_out) == ["alpha"]
        assert len(of_group(lake, "beta", "orders")) == 7
        assert {row["cluster"] for row in stored.rows_of(lake, consumption.GROUP_LAG)} == {"beta"}
    lag.left_out.clock = lambda: time.monotonic() + 3_600
    lag.catch_up(whole=True)
    assert in_order(spark, lake) == in_order(spark, whole)


def test_where_nothing_is_new_nothing_is_done_and_what_is_left_is_taken(
    spark: SparkSession, whole: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = a_copy(whole, tmp_path / "lake")
    lag = Engine(spark, config_of(lake), GroupLag())
    lag.catch_up()
    before = {
        table: version(lake, table) for table in (*GroupLag.tables, internal.ROUNDS, internal.STATE)
    }

    def is_nothing(*_: object, **__: object) -> None:
        raise AssertionError("bronze was read")

    with monkeypatch.context() as patch:
        patch.setattr(GroupLag, "_polls", is_nothing)
        assert not lag.round(datetime.now(UTC))
    last = history()[-1]
    quiet = [
        row | {"n": 14, "poll_id": poll_id(STREAM, 14)} for row in last if row["cluster"] == "gamma"
    ]
    stored.append(lake, bronze.METADATA_POLLS, quiet)
    assert not lag.round(datetime.now(UTC))
    assert {table: version(lake, table) for table in before} == before
    stopped = config_of(lake, "none")
    stored.append(lake, bronze.METADATA_POLLS, polled("alpha", 15, {}))
    take_what_is_left(spark, stopped)
    assert {row["end_reason"] for row in of_group(lake, "alpha", "orders")} >= {"gone"}
    before = {table: version(lake, table) for table in before}
    stored.append(lake, bronze.METADATA_POLLS, polled("alpha", 16, None))
    take_what_is_left(spark, stopped)
    assert {table: version(lake, table) for table in before} == before


def test_numbers_of_one_cluster_say_nothing_of_another(spark: SparkSession, tmp_path: Path) -> None:
    """A cluster that came later has small ones when another one's are large."""
    lake = new_lake(spark, tmp_path)
    said: Said = {"orders": {("t", 0): (1, 2)}}
    stored.append(lake, bronze.METADATA_POLLS, polled("alpha", 1_000, said))
    lag = Engine(spark, config_of(lake), GroupLag())
    lag.history._version = version(lake, bronze.METADATA_POLLS)
    stored.append(
        lake, bronze.METADATA_POLLS, [*polled("beta", 3, said), *polled("alpha", 1_001, None)]
    )
    news = lag.history.due(lag.context(), datetime.now(UTC))
    assert {
        place: [each.poll[-4:] for each in visits] for place, visits in news.visits.items()
    } == {("beta", "id-beta"): ["0003"]}
    assert [rows.count() for _, rows in news.rows] == [1]
