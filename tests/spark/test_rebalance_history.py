"""Rebalances in gold, from the log and from polls: however runs are cut and cut off, and whatever is missing."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs import rebalance_history
from jobs.common.config import Thresholds
from jobs.common.progress import Window
from jobs.common.writes import upsert
from metadata_source.schedule import poll_id
from schemas import bronze, gold, silver
from schemas.lake import Lake, ensure_tables
from schemas.table import Table
from tests.group_records import CONSUMER, Log, at, classic, classic_member
from tests.spark.test_snapshot_history import KilledError, utc

Row = dict[str, Any]
STREAM = "20260101T000000Z-0a1b2c"
INTERVAL_S = 10
WRITTEN = (gold.REBALANCES, gold.REBALANCE_MEMBERS, gold.GROUP_EVENTS, gold.REBALANCE_STORMS, gold.GROUP_STATES)
THRESHOLDS = Thresholds(storm=3)
TOPIC_ID = "TTTTTTTTTTTTTTTTTTTTTT"


# --- what silver says: polls are ten seconds apart, answered at once ---


def poll(seconds: float) -> str:
    return poll_id(STREAM, int(seconds) // INTERVAL_S)


def state(
    cluster: str, began: float, ended: float | None = None, *, ended_as: str | None = None, **columns: Any
) -> Row:
    """A row of a snapshot table that held from one poll to another; none before the first of all."""
    row: Row = {
        "cluster_id": f"id-{cluster}",
        "cluster": cluster,
        "first_poll": poll(began),
        "first_seen_at": at(began),
        "prev_poll": poll(began - INTERVAL_S) if began else None,
        "prev_sent_at": at(began - INTERVAL_S) if began else None,
        "interval_ms": INTERVAL_S * 1000,
        **columns,
    }
    if ended is not None:
        last = at(ended - INTERVAL_S)
        row |= {"last_poll": poll(ended - INTERVAL_S), "last_seen_at": last, "last_seen_sent_at": last}
        row |= {"superseded_poll": poll(ended), "superseded_at": at(ended), "ended_as": ended_as}
    return row


def led(cluster: str, partition: int, *leaders: tuple[float, int]) -> Iterable[Row]:
    """States of a partition of __consumer_offsets: from when on which broker leads it."""
    ends = [*(began for began, _ in leaders[1:]), None]
    for number, ((began, leader), ended) in enumerate(zip(leaders, ends, strict=True)):
        before = (
            {"prev_leader": leaders[number - 1][1], "prev_leader_epoch": number - 1, "prev_error_code": 0}
            if number
            else {}
        )
        yield state(
            cluster, began, ended, topic="__consumer_offsets", partition=partition, error_code=0, leader=leader,
            leader_epoch=number, replicas=[1, 2, 3], isr=[1, 2, 3], offline_replicas=[], **before,
        )  # fmt: skip


def topic(cluster: str, name: str, partitions: int, began: float = 0, topic_id: str = TOPIC_ID) -> Row:
    return state(
        cluster, began, topic=name, topic_id=topic_id, error_code=0, is_internal=False, partition_count=partitions
    )


def append(spark: SparkSession, lake: Lake, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    columns = [column for column in table.columns if column.generated_as is None]
    schema = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in columns))
    values = [tuple(row.get(name) for name in schema.names) for row in rows]
    if values:
        frame = spark.createDataFrame(values, schema).coalesce(1)
        frame.write.format("delta").mode("append").save(lake.path(table))


def settle(spark: SparkSession, lake: Lake, clusters: Iterable[str], seconds: float) -> None:
    """Say that the polls up to then are in silver."""
    rows = [
        {
            "cluster": cluster,
            "cluster_id": f"id-{cluster}",
            "seen": {STREAM: int(seconds) // INTERVAL_S},
            "applied_poll": poll(seconds),
            "applied_at": at(seconds),
            "applied_sent_at": at(seconds),
            "applied_interval_ms": INTERVAL_S * 1000,
            "settled_poll": poll(seconds),
            "absent": [],
            "error_kinds": [],
            **dict.fromkeys(("late_polls", "failed_polls", "refused_polls", "stale_polls"), 0),
            "enriched": {"groups": (poll(seconds), at(seconds), at(seconds), INTERVAL_S * 1000)},
        }
        for cluster in clusters
    ]
    schema = StructType.fromDDL(", ".join(f"`{column.name}` {column.type}" for column in silver.PROGRESS.columns))
    frame = spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)
    upsert(frame, lake, silver.PROGRESS)


# --- what the log says ---


def of_cluster(cluster: str, *logs: Log) -> list[Row]:
    """The rows of these logs in bronze, with what each batch went through."""
    rows = [{"cluster": cluster, "cluster_id": f"id-{cluster}", **row} for log in logs for row in log.rows]
    return sorted(rows, key=lambda row: (row["read_at"], row["offset"]))


def worker(number: int, partitions: list[int], client_id: str = "worker") -> Row:
    return classic_member(f"w{number}", has={"t": partitions}) | {"client_id": client_id}


def alpha() -> list[Row]:
    """Five groups and more of cluster alpha."""
    orders = Log("orders", log_partition=1)
    orders.batch(5, classic(0))
    orders.batch(21, classic(1, [worker(1, [0, 1]), worker(2, [2], "other")], state_seconds=20))
    orders.batch(66, classic(2, [worker(1, [0, 1, 2])], state_seconds=65))  # its coordinator moved at 60
    for number, seconds in enumerate((200, 205, 210, 215)):  # a worker that dies and comes again
        members = [worker(1, [0, 1]), worker(10 + number, [2])]
        orders.batch(seconds + 1, classic(3 + number, members, state_seconds=seconds))
    unicode = Log("заказы-🐘", log_partition=2)
    member, second = CONSUMER.member("m1"), CONSUMER.member("m2")
    unicode.batch(
        30, member, CONSUMER.epoch(1), CONSUMER.target("m1", {TOPIC_ID: [0, 1, 2, 3]}), CONSUMER.target_epoch(1)
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
    unicode.batch(160, CONSUMER.current("m2", 2, {TOPIC_ID: [2, 3]}))  # its coordinator moved meanwhile, at 130
    unicode.batch(240, *CONSUMER.gone("m2"), *CONSUMER.gone("m1"), CONSUMER.epoch(3))
    unicode.batch(250, *CONSUMER.deleted())  # its coordinator moved when it was gone, at 260
    unicode.batch(280, member, CONSUMER.epoch(1), CONSUMER.target("m1", {TOPIC_ID: [0]}), CONSUMER.target_epoch(1))
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
    return of_cluster("alpha", orders, unicode, lossy, beside, late, cut_short)


def write_alpha_silver(spark: SparkSession, lake: Lake) -> None:
    append(
        spark,
        lake,
        silver.PARTITION_SNAPSHOTS,
        [
            *led("alpha", 1, (0, 1), (60, 2)),
            *led("alpha", 2, (0, 2), (130, 3), (260, 1)),
            *led("alpha", 3, (0, 3)),
            *led("alpha", 4, (0, 1), (250, 3)),
        ],
    )
    append(spark, lake, silver.TOPIC_SNAPSHOTS, [topic("alpha", "t", 4)])


def new_lake(spark: SparkSession, folder: Path) -> Lake:
    lake = Lake(root=str(folder))
    ensure_tables(spark, lake, (*bronze.TABLES, *silver.TABLES, *gold.TABLES))
    return lake


def run(spark: SparkSession, lake: Lake) -> None:
    rebalance_history.apply(lake, THRESHOLDS, spark.newSession())


def rows_of(spark: SparkSession, lake: Lake, table: Table) -> list[Row]:
    """Every row, without what differs from run to run."""
    rows = lake.read(spark, table).drop("updated_at").collect()
    return [{name: utc(value) for name, value in row.asDict(recursive=True).items()} for row in rows]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose gold was made at one go."""
    lake = new_lake(spark, tmp_path_factory.mktemp("whole"))
    write_alpha_silver(spark, lake)
    append(spark, lake, bronze.GROUP_LOG, alpha())
    settle(spark, lake, ["alpha"], 400)
    run(spark, lake)
    return lake


def rebalances_of(spark: SparkSession, lake: Lake, group_id: str) -> list[Row]:
    rows = [row for row in rows_of(spark, lake, gold.REBALANCES) if row["group_id"] == group_id]
    return sorted(rows, key=lambda row: (row["began_by"], row["first_offset"]))


def test_what_the_log_and_polls_say_together(spark: SparkSession, whole: Lake) -> None:
    for table in WRITTEN:
        print(table.full_name)
        for row in rows_of(spark, whole, table):
            print("  ", {k: str(v) for k, v in row.items() if v is not None})
    orders = rebalances_of(spark, whole, "orders")
    assert [row["generation"] for row in orders] == [1, 2, 3, 4, 5, 6]


def in_pieces(rows: list[Row], *ends: int) -> Iterable[list[Row]]:
    """The rows in pieces that end anywhere, within batches too."""
    for begin, end in pairwise([0, *ends, len(rows)]):
        yield rows[begin:end]


def dying_after(survived: int) -> Callable[..., None]:
    """Window.put that kills the run when it has written so many tables."""
    put, left = Window.put, iter(range(survived))

    def put_or_die(*arguments: Any) -> None:
        if next(left, None) is None:
            raise KilledError
        put(*arguments)

    return put_or_die


@pytest.fixture(scope="module")
def piecemeal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same lake, made in pieces by runs that died between two tables, with bronze compacted and cut off behind them."""
    lake = new_lake(spark, tmp_path_factory.mktemp("piecemeal"))
    write_alpha_silver(spark, lake)
    rows = alpha()
    for survived, piece in enumerate(in_pieces(rows, 8, 21, 31, 44, 52)):
        append(spark, lake, bronze.GROUP_LOG, piece)
        settle(spark, lake, ["alpha"], (piece[-1]["read_at"] - at(0)).total_seconds() // INTERVAL_S * INTERVAL_S)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Window, "put", dying_after(survived % 5))
            with pytest.raises(KilledError):
                run(spark, lake)
        # The next piece, and more polls, come before the job is run again; every other time it gets to its end.
        if survived % 2:
            run(spark, lake)
            spark.sql(f"OPTIMIZE {lake.identifier(bronze.GROUP_LOG)}")
            spark.sql(f"DELETE FROM {lake.identifier(bronze.GROUP_LOG)} WHERE read_at < '{piece[0]['read_at']}'")
    settle(spark, lake, ["alpha"], 400)
    run(spark, lake)
    return lake


@pytest.mark.parametrize("table", WRITTEN, ids=lambda table: table.name)
def test_runs_cut_and_cut_off_give_what_one_gives(
    spark: SparkSession, piecemeal: Lake, whole: Lake, table: Table
) -> None:
    one, other = (rows_of(spark, lake, table) for lake in (piecemeal, whole))
    assert len(one) == len({tuple(row[name] for name in table.key) for row in one})
    assert sorted(map(repr, one)) == sorted(map(repr, other))
