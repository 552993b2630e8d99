"""Transactions in gold, from the coordinators' log in bronze: however runs are cut, and what
becomes due without a new record.
"""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.transactions import JOB, TransactionHistory
from jobs.rounds.engine import Engine
from schemas import internal, transactions
from schemas.lake import Lake
from tests.support import stored
from tests.support.lakes import new_lake, utc
from tests.support.stored import newest_states, version
from tests.support.transaction_log import Coordinator, rows_of
from tests.support.transaction_rounds import ms

Row = dict[str, Any]
DONE = "20260101T000000Z-0a1b2c/000000000001"


def config_of(lake: Lake) -> Config:
    clusters = {"alpha": {"kafka.bootstrap.servers": "localhost:9092"}}
    return Config(lake, "", clusters, transaction_log={})


def written() -> Coordinator:
    """One transaction that commits, one that times out, one whose producer is fenced, and one that
    nobody ends.
    """
    made = Coordinator(1)
    for of in ("good-1", "late-1", "fenced-1", "stuck-1"):
        made.init(of)
    made.add("stuck-1")
    made.add("good-1")
    made.end("good-1", is_commit=True)
    made.complete("good-1")
    made.add("fenced-1")
    made.now += 100
    made.init("fenced-1")
    made.add("late-1", 2)
    made.time_out("late-1")
    made.now += 50
    made.complete("late-1")
    return made


def caught_up(made: Coordinator, at: datetime) -> Row:
    """The row of a batch in which the log had nothing new."""
    silent = {"record": "read", "offset": made.offset, "next_offset": made.offset}
    return key_of(at) | silent | {"records": 0, "holes": 0, "caught_up_at": at}


def key_of(read_at: datetime) -> Row:
    of_cluster = {"cluster": "alpha", "cluster_id": "id-alpha", "log_partition": 3}
    return of_cluster | {"read_at": read_at, "day": read_at.date()}


def batches(made: Coordinator, cuts: list[int]) -> list[list[Row]]:
    """Rows of bronze of each batch; none of them is known to reach the log's end."""
    found = []
    for number, (since, until) in enumerate(itertools.pairwise([0, *cuts, made.offset])):
        read_at = ms(made.now) + timedelta(seconds=number)
        key = key_of(read_at)
        rows = [row for row in rows_of(made.log, since, until) if row["record"] == "transactions"]
        span = {"record": "read", "offset": since, "next_offset": until, "records": 0, "holes": 0}
        found.append([row | key for row in (*rows, span)])
    return found


def observed(lake: Lake, at: datetime) -> None:
    """Silver had a good poll at a time."""
    state = dict.fromkeys(internal.STATE.column_names) | {
        "history": "silver",
        "cluster": "alpha",
        "cluster_id": "id-alpha",
        "round": int(at.timestamp()),
        "done_poll": DONE,
        "done_at": at,
        "memory": "{}",
    }
    stored.append(lake, internal.STATE, [state])


def run(spark: SparkSession, lake: Lake) -> None:
    Engine(spark, config_of(lake), TransactionHistory()).catch_up(whole=True)


def rows_in(lake: Lake) -> dict[str, Row]:
    rows = stored.rows_of(lake, transactions.TRANSACTIONS)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["transactional_id"]: row for row in rows}


def plain(row: Row) -> Row:
    """A row without what differs from run to run."""
    left_out = {"updated_at", "seen_at"}
    return {name: utc(value) for name, value in row.items() if name not in left_out}


@pytest.fixture(scope="module")
def made() -> Coordinator:
    return written()


def test_rounds_make_the_rows_and_take_them_on(
    spark: SparkSession, tmp_path: Path, made: Coordinator
) -> None:
    whole, cut = (new_lake(spark, tmp_path / name) for name in ("whole", "cut"))
    late = ms(made.now) + timedelta(minutes=10)
    for lake in (whole, cut):
        # Polls are good for long, while the log is read late.
        observed(lake, late + timedelta(hours=1))
    stored.append(whole, transactions.TRANSACTION_LOG, batches(made, [])[0])
    run(spark, whole)
    for batch in batches(made, [11]):
        stored.append(cut, transactions.TRANSACTION_LOG, batch)
        run(spark, cut)
    found = rows_in(whole)
    assert {of: (row["aborted_by"], row["reason"]) for of, row in found.items()} == {
        "late-1": ("coordinator", "timed_out"),
        "fenced-1": ("coordinator", "fenced"),
        "stuck-1": (None, None),
    }
    assert (found["stuck-1"]["close_reason"], found["stuck-1"]["stuck"]) == (None, None)
    before = {table: version(cut, table) for table in (*TransactionHistory.tables, internal.ROUNDS)}
    engine = Engine(spark, config_of(cut), TransactionHistory())
    assert not engine.round(datetime.now(UTC)), "nothing is new"
    started = {table for table in before if table is not internal.ROUNDS}
    assert {table: version(cut, table) for table in started} == {t: before[t] for t in started}
    # It is of this partition alone, or of all.
    for lake, error in ((whole, None), (cut, "no leader answers for partitions 4")):
        of_log = caught_up(made, late) | {"error": error}
        stored.append(lake, transactions.TRANSACTION_LOG, [of_log])
        run(spark, lake)
    assert {of: plain(row) for of, row in rows_in(cut).items()} == {
        of: plain(row) for of, row in rows_in(whole).items()
    }
    stuck = rows_in(cut)["stuck-1"]
    assert (stuck["stuck"], stuck["close_reason"]) == ("overdue", None)
    (state,) = [
        row for row in newest_states(cut) if (row["history"], row["cluster"]) == (JOB, "alpha")
    ]
    assert dict(state["positions"]) == {"3": [0, made.offset]}
    counted = stored.rows_of(cut, transactions.TRANSACTION_COUNTS)
    assert sum(row["committed"] for row in counted) == 1
    assert sum(row["completed"] for row in counted) == 3
