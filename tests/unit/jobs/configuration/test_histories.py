"""Since when rows wait for each history, by the queries of the registry, as DuckDB answers them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import pyarrow as pa
import pytest

from jobs.configuration.config import Config
from kafka_metadata_history.answers.status_sql import status_of
from schemas import bronze, internal, silver
from schemas.groups import REBALANCES
from schemas.in_duckdb import in_duckdb
from schemas.internal import STATE
from schemas.lake import Lake, resolved
from schemas.table import Table
from tests.support.duckdb_lake import duckdb_lake

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
S = timedelta(seconds=1)
STREAM = "20261101T110000Z-00000000"
Row = dict[str, Any]


def poll_id(n: int) -> str:
    return f"{STREAM}/{n:012d}"


def header(n: int, **more: Any) -> Row:
    """Of a poll that was due ten seconds after the one before, the last one of ten just now."""
    due = NOW - (9 - n) * 10 * S
    times = {"scheduled_at": due, "sent_at": due, "received_at": due + S, "answered_at": due + S}
    place = {"cluster": "prod", "poll_id": poll_id(n), "stream": STREAM, "n": n, "day": due.date()}
    return place | times | {"record": "poll", "outcome": "ok", "cluster_id": "id-prod"} | more


def state(history: str, done: int | None, **more: Any) -> Row:
    """Its row of internal.states, after a poll."""
    row: Row = {"history": history, "cluster": "prod", "round": 1, "memory": "{}"}
    if done is not None:
        row |= {"done_poll": poll_id(done), "done_at": NOW - (9 - done) * 10 * S + S}
    return row | more


def of_silver(done: int, **more: Any) -> Row:
    return state("silver", done, **{"taken": {STREAM: done}} | more)


def waits(states: Sequence[Row], rows: Mapping[Table, Sequence[Row]] | None = None) -> Row:
    """By name, since when rows of the cluster wait."""
    polls = [header(n) for n in range(10)]
    given = {bronze.METADATA_POLLS: polls, bronze.GROUP_LOG: (), bronze.CLUSTER_LOG: ()}
    given |= {silver.POLL_GAPS: (), REBALANCES: (), **(rows or {}), STATE: states}
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "enrich": "offsets"}
    config = Config(Lake(root="/lake"), "/lake/checkpoints", {"prod": options}, group_log={})
    one_by_one = Lock()
    with duckdb_lake(given, internal.VIEWS) as lake:

        def ask(sql: str) -> pa.Table:
            with one_by_one:
                return lake.sql(in_duckdb(resolved(sql, lambda name: name))).to_arrow_table()

        found = status_of(ask, lambda: (), config, NOW)
    (cluster,) = found.clusters
    return {each.history: each.since for each in cluster.waiting}


def test_each_history_that_is_made_has_something_that_waits() -> None:
    assert list(waits([])) == ["silver", "gold", "group log", "rebalance cost", "lag", "incidents"]


@pytest.mark.parametrize(
    ("states", "since"),
    [
        ([of_silver(9)], None),
        ([of_silver(7)], NOW - 10 * S),
        ([of_silver(9, waiting=[poll_id(4), poll_id(5)])], NOW - 50 * S),
        ([], NOW - 90 * S),
    ],
)
def test_polls_wait_that_silver_has_not_taken_or_not_decided_about(
    states: list[Row], since: datetime | None
) -> None:
    assert waits(states)["silver"] == since


@pytest.mark.parametrize(
    ("isr_shrink", "leader_churn", "changed", "since"),
    [
        (9, 9, 9, None),
        (4, 9, 9, NOW - 49 * S),
        (4, 3, 4, NOW - 59 * S),
        (4, 4, 4, None),
        (4, 3, 5, NOW - 59 * S),
        (9, None, 4, datetime(2026, 11, 1, 11, tzinfo=UTC)),
        (None, None, None, None),
    ],
)
def test_since_when_gold_lacks_changes_of_silver(
    isr_shrink: int | None, leader_churn: int | None, changed: int | None, since: datetime | None
) -> None:
    golds = {"isr_shrink": isr_shrink, "leader_churn": leader_churn}
    states = [state(name, done) for name, done in golds.items() if done is not None]
    changed_poll = None if changed is None else poll_id(changed)
    assert waits([of_silver(9, changed_poll=changed_poll), *states])["gold"] == since


def test_gold_that_waits_where_the_log_alone_has_told() -> None:
    told = of_silver(9, taken={}, changed_poll="/log/00000000000000000007", done_at=NOW - 7 * S)
    assert waits([told])["gold"] == NOW - 7 * S


@pytest.mark.parametrize(("done", "since"), [(3, NOW - 30 * S), (9, None), (None, NOW - 90 * S)])
def test_offsets_wait_that_lag_has_not_had(done: int | None, since: datetime | None) -> None:
    told = [header(n, record="answer", kind="offsets") for n in range(0, 10, 3)]
    others = [header(n) for n in (4, 7)]
    failed = header(2, record="answer", kind="offsets", outcome="failed: nobody")
    states = [] if done is None else [state("group_lag", done)]
    polls = {bronze.METADATA_POLLS: [*told, *others, failed]}
    assert waits(states, polls)["lag"] == since
    assert waits(states, {bronze.METADATA_POLLS: [*others, failed]})["lag"] is None


@pytest.mark.parametrize(
    ("positions", "since"),
    [(None, NOW - 30 * S), ({"1": [0, 10]}, NOW - 20 * S), ({"1": [0, 20]}, None)],
)
def test_rows_of_the_log_wait_that_rebalances_have_not_had(
    positions: dict[str, list[int]] | None, since: datetime | None
) -> None:
    def read(record: str, offset: int, end: int, at: datetime) -> Row:
        place = {"cluster": "prod", "log_partition": 1, "offset": offset, "next_offset": end}
        return place | {"record": record, "read_at": at, "day": at.date()}

    log = [
        read("read", 5, 10, NOW - 30 * S),
        read("lost", 10, 17, NOW - 20 * S),
        read("read", 17, 20, NOW - 10 * S),
    ]
    states = [state("rebalance_history", None, positions=positions)]
    assert waits(states, {bronze.GROUP_LOG: log})["group log"] == since


@pytest.mark.parametrize(
    ("taken_until", "since"), [(None, NOW - 60 * S), (NOW - 60 * S, NOW - 50 * S), (NOW, None)]
)
def test_rebalances_wait_that_have_no_cost_yet(
    taken_until: datetime | None, since: datetime | None
) -> None:
    told = {"cluster": "prod", "source": "log", "group_type": "classic"}
    ended = [
        told | {"id": str(n), "ended_before": NOW - n * S, "updated_at": NOW - n * S}
        for n in (60, 50)
    ]
    first = ended[0] | {"updated_at": NOW - 70 * S}
    others = [
        first | {"group_type": "share"},
        first | {"ended_before": None},
        first | {"source": "polls"},
    ]
    states = [state("rebalance_cost", None, cluster="", done_at=taken_until)]
    assert waits(states, {REBALANCES: [*ended, *others]})["rebalance cost"] == since
