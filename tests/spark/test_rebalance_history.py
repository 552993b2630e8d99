"""Rebalances in gold, from the log and from polls: however runs are cut and cut off, and whatever
is missing.
"""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Thresholds
from jobs.histories import rebalances
from jobs.histories.rebalances import JOB, RebalanceHistory
from jobs.rounds import plan as rounds
from jobs.rounds.live import part_of
from jobs.rounds.plan import OvertakenError
from jobs.upkeep import expiry
from jobs.upkeep.expiry import expire_history
from schemas import bronze, groups, internal
from schemas.lake import Lake
from schemas.table import Table
from tests.support import lakes, stored
from tests.support.broken_folds import broken_for
from tests.support.copies import moved
from tests.support.group_records import Log, at, classic, classic_member
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake
from tests.support.rebalance_lakes import (
    Row,
    a_copy,
    alpha,
    history_of,
    of_cluster,
    of_group,
    rows_of,
    run,
    settle,
    worker,
    write_silver,
)
from tests.support.retained import is_live, keys, was_over
from tests.support.stored import newest_states, version


@pytest.fixture(scope="module")
def polled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of which silver is written, and nothing else."""
    lake = new_lake(spark, tmp_path_factory.mktemp("polled") / "lake")
    write_silver(lake)
    return lake


@pytest.fixture(scope="module")
def whole(spark: SparkSession, polled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose gold was made at one go."""
    lake = a_copy(polled, tmp_path_factory.mktemp("whole") / "lake")
    stored.append(lake, bronze.GROUP_LOG, alpha())
    settle(spark, lake, 400)
    run(spark, lake)
    return lake


def test_what_the_log_and_polls_say_together(spark: SparkSession, whole: Lake) -> None:
    orders = of_group(spark, whole, "gold.rebalances", "orders")
    assert [
        (row["generation"], row["partitions_unassigned"], row["coordinator"]) for row in orders
    ] == [(1, 1, 1), *((generation, 1, 2) for generation in (2, 3, 4, 5, 6, 7))]
    (moved,) = (
        row
        for row in of_group(spark, whole, "gold.group_events", "orders")
        if row["event"] == "coordinator_moved"
    )
    assert (moved["prev_broker_id"], moved["broker_id"], moved["began_before"]) == (1, 2, at(60))
    assert [row["coordinator_move_id"] for row in orders] == [
        None,
        moved["id"],
        None,
        None,
        None,
        None,
        None,
    ]
    assert [row["followed_coordinator_move"] for row in orders[2:]] == [False] * 5
    # The log has the end of the join phase, 65; a poll saw it go on at 60, and the one before did
    # not.
    assert (
        orders[1]["narrowed_after"],
        orders[1]["narrowed_before"],
        orders[1]["began_before"],
    ) == (at(50), at(60), at(65))
    assert (orders[6]["narrowed_after"], orders[6]["narrowed_before"]) == (at(220), at(230))
    _, in_two_phases = of_group(spark, whole, "gold.rebalances", "cooperative")
    assert [in_two_phases[name] for name in ("phases", "narrowed_after", "narrowed_before")] == [
        2,
        at(170),
        at(180),
    ]
    members = of_group(spark, whole, "gold.rebalance_members", "orders")
    assert {row["began_before"] for row in members if row["rebalance_id"] == orders[1]["id"]} == {
        at(65)
    }
    storms = {row["kind"]: row for row in of_group(spark, whole, "gold.rebalance_storms", "orders")}
    assert (storms["storm"]["rebalances"], storms["storm"]["last_before"]) == (7, at(232))
    assert storms["crash_loop"]["rebalances"] == 5


def test_topics_that_the_log_names_by_id_have_names(spark: SparkSession, whole: Lake) -> None:
    members = of_group(spark, whole, "gold.rebalance_members", "заказы-🐘")
    assert {each["topic"] for row in members for each in row["after"] or ()} == {"t"}
    made, joined, emptied, again = of_group(spark, whole, "gold.rebalances", "заказы-🐘")
    assert (
        joined["partitions_kept"],
        joined["partitions_moved"],
        joined["partitions_unassigned"],
        joined["followed_coordinator_move"],
    ) == (2, 2, 0, True)
    assert (made["end_reason"], emptied["end_reason"], again["is_open"]) == (
        "completed",
        "emptied",
        True,
    )
    events = [row["event"] for row in of_group(spark, whole, "gold.group_events", "заказы-🐘")]
    assert events == ["created", "coordinator_moved", "deleted", "created"]


def test_nothing_is_made_up_where_records_were_lost(spark: SparkSession, whole: Lake) -> None:
    before, after = of_group(spark, whole, "gold.rebalances", "lossy")
    assert (
        before["generation"],
        after["generation"],
        after["prev_generation"],
        after["members_joined"],
    ) == (1, 4, None, None)
    groups = {
        row["group_id"]
        for row in rows_of(spark, whole, "gold.group_events")
        if row["event"] == "records_lost"
    }
    assert groups == {"lossy", "beside", "cut-short"}
    told = [
        (row["first_offset"], row["generation"])
        for row in of_group(spark, whole, "gold.rebalances", "cut-short")
    ]
    assert told == [(100, 1), (102, 2), (104, 3), (102, 2), (104, 3)]


def test_polls_tell_of_a_cluster_whose_log_is_not_read(spark: SparkSession, whole: Lake) -> None:
    app = of_group(spark, whole, "gold.rebalances", "app")
    assert [(row["source"], row["began_before"], row["end_reason"]) for row in app] == [
        ("polls", at(20), "completed"),
        ("polls", at(90), "completed"),
        ("polls", at(200), "emptied"),
    ]
    assert [row["followed_coordinator_move"] for row in app] == [None, True, False]
    assert [row["is_open"] for row in of_group(spark, whole, "gold.rebalances", "stuck")] == [
        False,
        True,
    ]


@pytest.mark.soak
@pytest.mark.parametrize("another_run", [True, False])
def test_a_cluster_whose_fold_fails_is_left_out_and_comes_back(
    spark: SparkSession, polled: Lake, whole: Lake, tmp_path: Path, *, another_run: bool
) -> None:
    """The log of the others is read on meanwhile: gamma's has what alpha's has."""
    lake = a_copy(polled, tmp_path / "lake")
    history, rows = history_of(spark, lake), alpha()
    gamma = [row | {"cluster": "gamma", "cluster_id": "id-gamma"} for row in rows]
    with broken_for(rebalances, "alpha"):
        for end, since in ((20, 0), (len(rows), 20)):
            stored.append(lake, bronze.GROUP_LOG, [*rows[since:end], *gamma[since:end]])
            settle(spark, lake, 400)
            history.catch_up(whole=True)
        assert list(history.left_out) == ["alpha"]
        told = stored.rows_of(lake, groups.REBALANCES)
        assert {row["cluster"] for row in told} == {"beta", "gamma"}
    if another_run:
        history = history_of(spark, lake)
    else:
        history.left_out.clock = lambda: time.monotonic() + 3_600
    history.catch_up(whole=True)
    for table in RebalanceHistory.tables:
        expected = stored.rows_of(whole, table)
        found = [row for row in stored.rows_of(lake, table) if row["cluster"] != "gamma"]
        assert as_text(found) == as_text(expected), table.full_name
    by_log = [row for row in stored.rows_of(lake, groups.REBALANCES) if row["source"] == "log"]
    of_alpha, of_gamma = (
        [row for row in by_log if row["cluster"] == each] for each in ("alpha", "gamma")
    )
    assert len(of_alpha) == len(of_gamma) > 0
    (log,) = (row for row in newest_states(lake) if (row["history"], row["cluster"]) == (JOB, ""))
    assert json.loads(log["memory"]) == {"version": version(lake, bronze.GROUP_LOG)}


def as_text(rows: Iterable[Row]) -> list[str]:
    return stored.as_text(
        [{name: value for name, value in row.items() if name != "updated_at"} for row in rows]
    )


def in_pieces(rows: list[Row], *ends: int) -> Iterable[list[Row]]:
    """The rows in pieces that end anywhere, within batches too."""
    for begin, end in pairwise([0, *ends, len(rows)]):
        yield rows[begin:end]


PLANNED = partial(killed_at, "plan", before=False)
ANYWHERE = (
    (30, 8, [PLANNED]),
    (210, 38, [partial(killed_after, 1), partial(killed_after, 3)]),
    (400, None, [partial(killed_after, 2), partial(killed_after, 4)]),
)
"""Pieces: up to which second polls are in silver, where the piece ends, how the runs die that make
it.
"""


@pytest.fixture(scope="module")
def piecemeal(spark: SparkSession, polled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same lake, made in pieces by runs that died between two tables, with bronze compacted and
    cut off behind them.
    """
    lake = a_copy(polled, tmp_path_factory.mktemp("piecemeal") / "lake")
    log = lake.identifier(bronze.GROUP_LOG)
    # The pieces end within batches; more of the log, and more polls, come before a round that was
    # cut off is made again. Those who make it again die too.
    pieces = list(in_pieces(alpha(), *(end for _, end, _ in ANYWHERE[:-1])))
    for piece, (settled, _, kills) in zip(pieces, ANYWHERE, strict=True):
        stored.append(lake, bronze.GROUP_LOG, piece)
        settle(spark, lake, settled)
        for kill in kills:
            with kill(), pytest.raises(KilledError):
                run(spark, lake)
        if piece is pieces[-2]:
            written = [table for table in RebalanceHistory.tables if version(lake, table)]
            assert written, "nothing is compacted"
            for table in (bronze.GROUP_LOG, *written[:2]):
                spark.sql(f"OPTIMIZE {lake.identifier(table)}")
            run(spark, lake)
            # Its day is over: whole files go, as with retention.
            spark.sql(f"DELETE FROM {log} WHERE day <= '{piece[-1]['day']}'")
    history_of(spark, lake, Thresholds(storm=2))
    run(spark, lake)
    return lake


@pytest.mark.soak
@pytest.mark.parametrize("table", RebalanceHistory.tables, ids=lambda table: table.name)
def test_runs_cut_and_cut_off_give_what_one_gives(
    piecemeal: Lake, whole: Lake, table: Table
) -> None:
    rows = stored.rows_of(piecemeal, table)
    assert len(rows) == len({tuple(row[name] for name in table.key) for row in rows})
    assert lakes.rows_of(piecemeal, table) == lakes.rows_of(whole, table)


@pytest.mark.soak
def test_a_lake_that_moves_between_runs_gives_what_one_gives(
    spark: SparkSession, polled: Lake, whole: Lake, tmp_path: Path
) -> None:
    """Each time with rows of bronze that no run has taken."""
    lake = a_copy(polled, tmp_path / "lake")
    pieces = in_pieces(alpha(), *(end for _, end, _ in ANYWHERE[:-1]))
    for number, (piece, (settled, *_)) in enumerate(zip(pieces, ANYWHERE, strict=True)):
        stored.append(lake, bronze.GROUP_LOG, piece[: len(piece) // 2])
        settle(spark, lake, settled)
        run(spark, lake)
        stored.append(lake, bronze.GROUP_LOG, piece[len(piece) // 2 :])
        lake = moved(spark, lake, tmp_path / str(number))
    run(spark, lake)
    for table in RebalanceHistory.tables:
        assert lakes.rows_of(lake, table) == lakes.rows_of(whole, table), table.full_name


@pytest.mark.soak
def test_polls_give_way_to_the_log_and_a_run_to_one_that_takes_over(
    spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    lake = a_copy(whole, tmp_path / "lake")
    app, stuck = Log("app", log_partition=1), Log("stuck", log_partition=34)
    app.batch(85, classic(7, [classic_member("a1", has={"t": [0, 1, 2, 3]})], state_seconds=84))
    app.batch(111, classic(8, [classic_member("a1", has={"t": [0, 1]})], state_seconds=110))
    stuck.batch(405, classic(3, [classic_member("a1", has={"t": [0]})], state_seconds=404))
    stored.append(lake, bronze.GROUP_LOG, of_cluster("beta", app, stuck))
    settle(spark, lake, 420)
    first = history_of(spark, lake)
    second = history_of(spark, lake)
    with pytest.raises(OvertakenError, match="makes rebalance_history of"):
        first.catch_up()
    second.catch_up()

    def told(group_id: str) -> list[tuple[Any, ...]]:
        names = (
            "source",
            "generation",
            "began_before",
            "narrowed_before",
            "ended_before",
            "end_reason",
        )
        return [
            tuple(row[name] for name in names)
            for row in of_group(spark, lake, "gold.rebalances", group_id)
        ]

    assert told("app") == [
        ("polls", None, at(20), None, at(20), "completed"),
        ("log", 7, at(84), None, at(85), "completed"),
        (
            "log",
            8,
            at(110),
            at(90),
            at(111),
            "completed",
        ),  # a poll saw it go on before the end of its join phase
    ]
    assert told("stuck") == [
        ("polls", None, at(50), None, at(50), "completed"),
        ("log", 3, at(404), at(180), at(405), "completed"),
    ]
    assert told("forgotten") == [("polls", None, at(190), None, None, None)]
    assert [source for source, *_ in told("gone")] == ["polls"] * 3
    known = {row["id"] for row in rows_of(spark, lake, "gold.rebalances")}
    assert {row["rebalance_id"] for row in rows_of(spark, lake, "gold.rebalance_members")} <= known


def test_a_round_without_news_commits_nothing(
    spark: SparkSession, whole: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while it notes how far the log was read, up to rows of a cluster whose id nobody
    knows.
    """
    monkeypatch.setattr(rounds, "ALL_STATES_EVERY", 1)
    lake = a_copy(whole, tmp_path / "lake")
    history = history_of(spark, lake)
    before = (
        spark.sql(f"DESCRIBE HISTORY {lake.identifier(internal.ROUNDS)} LIMIT 1")
        .collect()[0]
        .version
    )
    settle(spark, lake, 430)
    quiet = Log("orders", log_partition=1, next_offset=500)
    quiet.span("read", 500, 510, 430)
    # Nor is what offset commits came to, or the marker of a transaction, or a commit that could not
    # be read.
    commits = quiet.rows[0] | {
        "record": "commits",
        "group_id": "orders",
        "chunk": 0,
        "offset_commits": [{"commits": 4}],
    }
    undecoded = commits | {
        "record": "record",
        "next_offset": None,
        "offset": 504,
        "type": 1,
        "error": "cut off",
    }
    quiet.rows += [
        commits,
        commits | {"record": "marker", "group_id": None, "chunk": None},
        undecoded,
    ]
    stored.append(lake, bronze.GROUP_LOG, of_cluster("alpha", quiet))
    assert not history.round(datetime.now(UTC))
    assert (
        spark.sql(f"DESCRIBE HISTORY {lake.identifier(internal.ROUNDS)} LIMIT 1")
        .collect()[0]
        .version
        == before
    )
    read_to = version(lake, bronze.GROUP_LOG)
    stored.append(
        lake,
        bronze.GROUP_LOG,
        [row | {"cluster_id": None} for row in of_cluster("stranger", quiet)],
    )
    history.catch_up(whole=True)
    of_groups = [row for row in newest_states(lake) if row["history"] == JOB]
    noted = {row["cluster"]: json.loads(row["memory"]) for row in of_groups}
    assert noted["alpha"]["positions"]["1"] == [0, 510]
    (read_at,) = (row["last_seen_at"] for row in of_groups if row["cluster"] == "alpha")
    assert read_at == quiet.rows[0]["read_at"], "up to then somebody observed its groups"
    assert noted[""] == {"version": read_to}
    assert {
        row["round"] for row in stored.rows_of(lake, internal.STATE) if row["history"] == JOB
    } == {row["round"] for row in newest_states(lake) if row["history"] == JOB}, (
        "old states are replaced"
    )


@pytest.mark.soak
def test_what_was_over_goes_and_groups_that_are_gone_are_forgotten(
    spark: SparkSession, whole: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = a_copy(whole, tmp_path / "lake")

    def drop(cutoff: datetime) -> None:
        monkeypatch.setattr(expiry, "cutoff_of", lambda *_: cutoff)
        expire_history(spark, lake, {"silver": None, "gold": timedelta(0)}, datetime.now(UTC))

    def remembered() -> set[str]:
        return {
            row["group_id"]
            for row in stored.rows_of(lake, internal.GROUP_STATES)
            if row["cluster"] == "beta"
        }

    before = {table: stored.rows_of(lake, table) for table in groups.TABLES}
    drop(at(150))
    of_rebalances = before[groups.REBALANCES]
    kept = {row["id"] for row in of_rebalances if not was_over(groups.REBALANCES, row, at(150))}
    straddling = {
        row["id"] for row in of_rebalances if row["id"] in kept and row["began_before"] < at(150)
    }
    assert straddling
    assert len(kept) < len(of_rebalances)
    for table, rows in before.items():
        left = [row for row in rows if not was_over(table, row, at(150))]
        if table is groups.REBALANCE_MEMBERS:
            left = [row for row in rows if row["rebalance_id"] in kept]
            assert straddling & {row["rebalance_id"] for row in left}, (
                "members stay as long as their rebalance"
            )
        assert keys(table, stored.rows_of(lake, table)) == keys(table, left), table.full_name

    drop(at(300))
    name = next(f"g{n}" for n in range(1_000) if part_of(f"g{n}") == part_of("app"))
    stored.append(
        lake,
        bronze.GROUP_LOG,
        of_cluster("beta", Log(name).batch(350, classic(1, [worker(1, [0])]))),
    )
    assert {"app", "gone", "stuck"} <= remembered(), "what is remembered goes with news of its part"
    settle(spark, lake, 420)
    history_of(spark, lake).catch_up()
    assert "app" not in remembered(), "it was gone at 290"
    assert {name, "gone", "stuck"} <= remembered()
    for table in groups.TABLES:
        assert not any(
            row["group_id"] == "app" and is_live(table, row) for row in stored.rows_of(lake, table)
        )
