"""Rebalances in gold, from the log and from polls: however runs are cut and cut off, and whatever
is missing.
"""

import json
import shutil
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config, Thresholds
from jobs.histories import rebalances
from jobs.histories.rebalances import JOB, RebalanceHistory
from jobs.rounds import plan as rounds
from jobs.rounds.commit import replace_rows
from jobs.rounds.engine import Engine
from jobs.rounds.live import part_of
from jobs.rounds.plan import OvertakenError
from jobs.rules.coordinators import coordinators
from jobs.upkeep import expiry
from jobs.upkeep.expiry import expire_history
from metadata_source.columns.polls import MEMBER
from metadata_source.schedule import poll_id
from schemas import bronze, groups, internal, silver
from schemas.in_spark import read_view
from schemas.lake import VIEWS, Lake
from schemas.table import Table
from tests.support import lakes, stored
from tests.support.broken_folds import broken_for
from tests.support.group_records import CONSUMER, Log, at, classic, classic_member
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake, utc
from tests.support.retained import is_live, keys, was_over
from tests.support.stored import newest_states, version

Row = dict[str, Any]
CLUSTERS = ("alpha", "beta")
"""Of beta there are only polls."""
STREAM = "20260101T000000Z-0a1b2c"
INTERVAL_S = 10
THRESHOLDS = Thresholds(storm=3)
TOPIC_ID = "TTTTTTTTTTTTTTTTTTTTTT"


# --- what silver says: polls are ten seconds apart, answered at once ---


def poll(seconds: float) -> str:
    return poll_id(STREAM, int(seconds) // INTERVAL_S)


def state(
    cluster: str,
    began: float,
    ended: float | None = None,
    *,
    end_reason: str | None = None,
    **columns: Any,
) -> Row:
    """A row of a snapshot table that held from one poll to another; none before the first of
    all.
    """
    row: Row = {
        "cluster_id": f"id-{cluster}",
        "cluster": cluster,
        "first_poll": poll(began),
        "valid_from": at(began),
        "prev_poll": poll(began - INTERVAL_S) if began else None,
        "prev_sent_at": at(began - INTERVAL_S) if began else None,
        "interval_ms": INTERVAL_S * 1000,
        **columns,
    }
    if ended is not None:
        last = at(ended - INTERVAL_S)
        row |= {
            "last_poll": poll(ended - INTERVAL_S),
            "last_seen_at": last,
            "last_seen_sent_at": last,
        }
        row |= {"superseded_poll": poll(ended), "valid_to": at(ended), "end_reason": end_reason}
    return row


def led(cluster: str, partition: int, *leaders: tuple[float, int]) -> Iterable[Row]:
    """States of a partition of __consumer_offsets: from when on which broker leads it."""
    ends = [*(began for began, _ in leaders[1:]), None]
    for number, ((began, leader), ended) in enumerate(zip(leaders, ends, strict=True)):
        before = (
            {
                "prev_leader": leaders[number - 1][1],
                "prev_leader_epoch": number - 1,
                "prev_error_code": 0,
            }
            if number
            else {}
        )
        yield state(
            cluster, began, ended, topic="__consumer_offsets", partition=partition, error_code=0,
            leader=leader, leader_epoch=number, replicas=[1, 2, 3], isr=[1, 2, 3],
            offline_replicas=[], **before,
        )  # fmt: skip


def topic(
    cluster: str, name: str, partitions: int, began: float = 0, topic_id: str = TOPIC_ID
) -> Row:
    return state(
        cluster,
        began,
        topic=name,
        topic_id=topic_id,
        error_code=0,
        is_internal=False,
        partition_count=partitions,
    )


def described(cluster: str, group_id: str, *seen: tuple[float, Row | None]) -> Iterable[Row]:
    """States of a classic group: from when on what was answered; None: it was gone."""
    for number, (began, now) in enumerate(seen):
        if now is None:
            continue
        ended, following = seen[number + 1] if number + 1 < len(seen) else (None, now)
        before = seen[number - 1][1] if number else None
        yield state(
            cluster,
            began,
            ended,
            end_reason="gone" if following is None else None,
            group_id=group_id,
            **now,
            **{f"prev_{name}": value for name, value in (before or {}).items()},
        )


def classic_group(name: str, **has: list[int]) -> Row:
    """A classic group in this state; what its members have is told where it is Stable."""
    nothing = dict.fromkeys(field.name for field in MEMBER)
    members = [
        nothing
        | {"member_id": member, "client_id": "app", "client_host": "/10.0.0.9"}
        | {"assigned": [(None, "t", partitions)] if name == "Stable" else None}
        for member, partitions in has.items()
    ]
    return {
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": name,
        "assignor": "range",
        "members": [tuple(member.values()) for member in members],
    }


def settle(spark: SparkSession, lake: Lake, seconds: float) -> None:
    """Say that the polls up to then are in silver."""
    rows = [
        {
            "history": "silver",
            "cluster": cluster,
            "cluster_id": f"id-{cluster}",
            "round": 1,
            "done_poll": poll(seconds),
            "done_at": at(seconds),
            "changed_poll": poll(seconds),
            "interval_ms": INTERVAL_S * 1000,
            "memory": json.dumps({"enriched": {"groups": {}}}),
        }
        for cluster in CLUSTERS
    ]
    replace_rows(spark, lake, internal.STATE, rows, "history = 'silver'")


# --- what the log says ---


def of_cluster(cluster: str, *logs: Log) -> list[Row]:
    """The rows of these logs in bronze, with what each batch went through."""
    rows = [
        {"cluster": cluster, "cluster_id": f"id-{cluster}", **row}
        for log in logs
        for row in log.rows
    ]
    return sorted(rows, key=lambda row: (row["read_at"], row["offset"]))


def worker(number: int, partitions: list[int], client_id: str = "worker") -> Row:
    return classic_member(f"w{number}", has={"t": partitions}) | {"client_id": client_id}


def alpha() -> list[Row]:
    """The groups of cluster alpha."""
    orders = Log("orders", log_partition=1, leader_epoch=0)
    orders.batch(5, classic(0))
    orders.batch(21, classic(1, [worker(1, [0, 1]), worker(2, [2], "other")], state_seconds=20))
    orders.leader_epoch = 1
    orders.batch(
        66, classic(2, [worker(1, [0, 1, 2])], state_seconds=65)
    )  # its coordinator moved at 60
    for number, seconds in enumerate((200, 205, 210, 215)):  # a worker that dies and comes again
        members = [worker(1, [0, 1]), worker(10 + number, [2])]
        orders.batch(seconds + 1, classic(3 + number, members, state_seconds=seconds))
    orders.batch(233, classic(7, [worker(1, [0, 1]), worker(13, [2])], state_seconds=232))
    unicode = Log("заказы-🐘", log_partition=2)
    member, second = CONSUMER.member("m1"), CONSUMER.member("m2")
    unicode.batch(
        30,
        member,
        CONSUMER.epoch(1),
        CONSUMER.target("m1", {TOPIC_ID: [0, 1, 2, 3]}),
        CONSUMER.target_epoch(1),
    )
    unicode.batch(34, CONSUMER.current("m1", 1, {TOPIC_ID: [0, 1, 2, 3]}))
    unicode.batch(100, second, CONSUMER.epoch(2))
    unicode.batch(
        101,
        CONSUMER.target("m1", {TOPIC_ID: [0, 1]}),
        CONSUMER.target("m2", {TOPIC_ID: [2, 3]}),
        CONSUMER.target_epoch(2),
        CONSUMER.current("m2", 2, {}, waits=True),
    )
    unicode.batch(103, CONSUMER.current("m1", 2, {TOPIC_ID: [0, 1]}))
    unicode.batch(
        160, CONSUMER.current("m2", 2, {TOPIC_ID: [2, 3]})
    )  # its coordinator moved meanwhile, at 130
    unicode.batch(240, *CONSUMER.gone("m2"), *CONSUMER.gone("m1"), CONSUMER.epoch(3))
    unicode.batch(250, *CONSUMER.deleted())  # its coordinator moved when it was gone, at 260
    unicode.batch(
        280,
        member,
        CONSUMER.epoch(1),
        CONSUMER.target("m1", {TOPIC_ID: [0]}),
        CONSUMER.target_epoch(1),
    )
    lossy, beside = Log("lossy", log_partition=3), Log("beside", log_partition=3, next_offset=1_000)
    lossy.batch(15, classic(1, [worker(1, [0])], state_seconds=14))
    beside.batch(16, classic(5, [worker(2, [1])], state_seconds=15))
    lossy.span("lost", 1_002, 2_000, 120)
    lossy.batch(130, classic(4, [worker(1, [0]), worker(3, [2])], state_seconds=129))
    late = Log("late", log_partition=3, next_offset=3_000)
    late.batch(140, classic(1, [worker(4, [3])], state_seconds=139))
    cut_short = Log("cut-short", log_partition=4)
    cut_short.batch(18, classic(1, [worker(1, [0])], state_seconds=17))
    cut_short.batch(48, classic(2, [worker(1, [0]), worker(2, [1])], state_seconds=47))
    cut_short.batch(49, classic(3, [worker(1, [0])], state_seconds=48))
    cut_short.span("truncated", 106, 102, 70)
    cut_short.batch(80, classic(2, [worker(5, [0])], state_seconds=79))
    cut_short.batch(90, classic(3, [worker(5, [0]), worker(6, [1])], state_seconds=89))
    cooperative = Log("cooperative", log_partition=5)
    for seconds, *members in (
        (100, worker(1, [0, 1, 2, 3])),
        (205, worker(1, [0, 1]), worker(2, [])),
        (261, worker(1, [0, 1]), worker(2, [2, 3])),
    ):
        generation = len(cooperative.rows) + 1
        cooperative.batch(
            seconds + 1,
            classic(generation, members, protocol="cooperative-sticky", state_seconds=seconds),
        )
    return of_cluster("alpha", orders, unicode, lossy, beside, late, cut_short, cooperative)


def write_silver(lake: Lake) -> None:
    blank = dict.fromkeys(silver.PARTITION_SNAPSHOTS.column_names)
    stored.append(
        lake,
        silver.COORDINATORS,
        coordinators(
            (
                blank | row
                for row in [
                    *led("alpha", 1, (0, 1), (60, 2)),
                    *led("alpha", 2, (0, 2), (130, 3), (260, 1)),
                    *led("alpha", 3, (0, 3)),
                    *led("alpha", 4, (0, 1), (250, 3)),
                    *led("alpha", 5, (0, 1)),
                    *(
                        state
                        for partition in range(50)
                        for state in led("beta", partition, (0, 1), (100, 2))
                    ),
                ]
            ),
            (),
        ),
    )
    topics = [
        topic("alpha", "t", 4),
        topic("beta", "t", 4),
        topic("beta", "__consumer_offsets", 50, topic_id="offsets"),
    ]
    stored.append(lake, silver.TOPIC_SNAPSHOTS, topics)
    stable, larger = (
        classic_group("Stable", a1=[0, 1, 2, 3]),
        classic_group("Stable", a1=[0, 1], a2=[2, 3]),
    )
    groups = [
        # Bounds of the begin of what the log tells.
        *described(
            "alpha",
            "orders",
            (30, classic_group("Stable", w1=[0, 1], w2=[2])),
            (60, classic_group("PreparingRebalance", w1=[])),
            (70, classic_group("Stable", w1=[0, 1, 2])),
            (230, classic_group("PreparingRebalance", w1=[])),
            (240, classic_group("Stable", w1=[0, 1], w13=[2])),
        ),
        *described(
            "alpha",
            "cooperative",
            (110, classic_group("Stable", w1=[0, 1, 2, 3])),
            (180, classic_group("PreparingRebalance", w1=[])),
            (190, classic_group("PreparingRebalance", w1=[], w2=[])),
            (210, classic_group("Stable", w1=[0, 1], w2=[])),
            (270, classic_group("Stable", w1=[0, 1], w2=[2, 3])),
        ),
        *described(
            "beta",
            "app",
            (20, stable),
            (90, classic_group("PreparingRebalance", a1=[])),
            (120, larger),
            (200, classic_group("Empty")),
            (290, None),
        ),
        *described(
            "beta", "stuck", (50, stable), (180, classic_group("CompletingRebalance", a1=[]))
        ),
        *described("beta", "forgotten", (190, classic_group("CompletingRebalance", a1=[]))),
        *described("beta", "gone", (40, stable), (70, None), (310, stable)),
    ]
    stored.append(lake, silver.GROUP_SNAPSHOTS, groups)


def a_copy(lake: Lake, root: Path) -> Lake:
    shutil.copytree(str(lake), root)
    return Lake(root=str(root))


@pytest.fixture(scope="module")
def polled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of which silver is written, and nothing else."""
    lake = new_lake(spark, tmp_path_factory.mktemp("polled") / "lake")
    write_silver(lake)
    return lake


def history_of(spark: SparkSession, lake: Lake, thresholds: Thresholds = THRESHOLDS) -> Engine:
    config = Config(lake, "", {}, {}, timedelta(days=7), thresholds=thresholds)
    return Engine(spark, config, RebalanceHistory())


def run(spark: SparkSession, lake: Lake) -> None:
    history_of(spark, lake).catch_up(whole=True)


@cache
def rows_of(spark: SparkSession, lake: Lake, name: str) -> list[Row]:
    """Every row of a table or view of a lake that changes no more, without what differs from run to
    run.
    """
    (frame,) = [
        *(lake.read(spark, table) for table in RebalanceHistory.tables if table.full_name == name),
        *(read_view(spark, lake, view) for view in VIEWS if view.full_name == name),
    ]
    rows = frame.drop("updated_at").collect()
    return [
        {name: utc(value) for name, value in row.asDict(recursive=True).items()} for row in rows
    ]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, polled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose gold was made at one go."""
    lake = a_copy(polled, tmp_path_factory.mktemp("whole") / "lake")
    stored.append(lake, bronze.GROUP_LOG, alpha())
    settle(spark, lake, 400)
    run(spark, lake)
    return lake


def of_group(spark: SparkSession, lake: Lake, name: str, group_id: str) -> list[Row]:
    rows = [row for row in rows_of(spark, lake, name) if row["group_id"] == group_id]
    return sorted(rows, key=lambda row: (row["began_before"], row.get("first_offset") or 0))


def test_what_the_log_and_polls_say_together(spark: SparkSession, whole: Lake) -> None:
    orders = of_group(spark, whole, "gold.rebalances", "orders")
    assert [
        (row["generation"], row["partitions_unassigned"], row["coordinator"]) for row in orders
    ] == [
        (1, 1, 1),
        *((generation, 1, 2) for generation in (2, 3, 4, 5, 6, 7)),
    ]
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
    ) == (
        at(50),
        at(60),
        at(65),
    )
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
    ) == (
        1,
        4,
        None,
        None,
    )
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
    """After a minute it notes how far the log was read, up to rows of a cluster whose id nobody
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
