"""Lakes of groups whose rebalances a log and polls tell of, and their history."""

import json
import shutil
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.configuration.config import Config, Thresholds
from jobs.histories.rebalances import RebalanceHistory
from jobs.rounds.commit import replace_rows
from jobs.rounds.engine import Engine
from jobs.rules.coordinators import coordinators
from metadata_source.columns.polls import MEMBER
from metadata_source.schedule import poll_id
from schemas import internal, silver
from schemas.in_spark import read_view
from schemas.lake import VIEWS, Lake
from tests.support import stored
from tests.support.group_records import CONSUMER, Log, at, classic, classic_member
from tests.support.lakes import utc

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
    """A classic group in this state. If the group is Stable, its members name their partitions."""
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


def of_group(spark: SparkSession, lake: Lake, name: str, group_id: str) -> list[Row]:
    rows = [row for row in rows_of(spark, lake, name) if row["group_id"] == group_id]
    return sorted(rows, key=lambda row: (row["began_before"], row.get("first_offset") or 0))
