"""Transactions that were made by hand, of a cluster of their own, and questions about them."""

from typing import Any

from schemas import transactions
from schemas.table import Table
from tests.support.incident import at
from tests.support.incident_questions import Ask, columns

Row = dict[str, Any]
WEST = {"cluster_id": "id-west", "cluster": "west"}
EARLIER = {"since": "2026-11-01T11:00:00Z", "cluster": "west"}


_OF_COORDINATOR = {
    "aborted_by_coordinator": 1,
    "timed_out": 1,
    "total_ms": 950,
    "longest_ms": 66_000,
}


def transaction(id_: str, started: float, **more: Any) -> Row:
    """A row of gold.transactions; times are given as seconds after noon."""
    row = {
        **WEST,
        "id": id_,
        "transactional_id": id_,
        "pattern": id_.rstrip("-0123456789"),
        "log_partition": 3,
        "producer_id": 7,
        "producer_epoch": 1,
        "timeout_ms": 60_000,
        "started_at": at(started),
        "is_begin_read": True,
        "first_offset": 10,
        "last_offset": 11,
        "leader_epoch": 4,
        "first_leader_epoch": 4,
        "coordinator_moved": False,
        "updated_at": at(0),
    }
    for name in ("prepared", "ended"):
        moment = more.pop(name, None)
        row |= {f"{name}_after": at(moment), f"{name}_before": at(moment)}
    return row | more


def transaction_rows() -> dict[Table, list[Row]]:
    """One that its coordinator does not abort, one that it aborted, one whose markers could not be
    written, and counts of two log partitions.
    """
    told = [
        transaction(
            "app-1",
            -600,
            state="Ongoing",
            last_record_at=at(-600),
            stuck="overdue",
            overdue_since=at(-530),
            seen_at=at(90),
            partition_count=3,
            partitions=[
                {"topic": "orders", "partitions": [0, 1]},
                {"topic": "__consumer_offsets", "partitions": [7]},
            ],
        ),
        transaction(
            "app-2",
            -300,
            state="CompleteAbort",
            last_record_at=at(-234),
            prepared=-235,
            ended=-234,
            outcome="aborted",
            aborted_by="coordinator",
            reason="timed_out",
            reason_sureness="inferred",
            close_reason="ended",
            partition_count=1,
            partitions=[{"topic": "orders", "partitions": [0]}],
        ),
        transaction(
            "pay-7",
            -101,
            state="CompleteCommit",
            last_record_at=at(50),
            prepared=-100,
            ended=50,
            outcome="committed",
            stuck_completing_since=at(-70),
            close_reason="ended",
            partition_count=1,
            partitions=[{"topic": "bills", "partitions": [4]}],
        ),
    ]
    counts = [
        counted(3, "app", 40, begun=100, committed=90, aborted_by_client=4, **_OF_COORDINATOR),
        counted(4, "app", 10, begun=20, committed=20, epochs_raised=9, total_ms=190),
        counted(4, "", 5, begun=1, committed=1, total_ms=10),
    ]
    return {transactions.TRANSACTIONS: told, transactions.TRANSACTION_COUNTS: counts}


def counted(log_partition: int, pattern: str, ids: int, **counts: int) -> Row:
    """A row of internal.transaction_counts."""
    none = dict.fromkeys(
        (
            *("begun", "committed", "aborted_by_client", "aborted_by_coordinator"),
            *("aborted_by_unknown", "timed_out", "epochs_raised", "producer_ids_given", "removed"),
            "total_ms",
        ),
        0,
    )
    ends = ("committed", "aborted_by_client", "aborted_by_coordinator", "aborted_by_unknown")
    row = none | counts
    return {
        **WEST,
        "log_partition": log_partition,
        "pattern": pattern,
        "hour": at(0),
        "counted_since": at(60),
        "read_at": at(60),
        "ids_min": ids,
        "ids_max": 2 * ids,
        "completed": sum(row[name] for name in ends),
        "updated_at": at(61),
        "is_live": True,
        **row,
    }


class Transactions:
    def test_transactions(self, ask: Ask) -> None:
        told = ("transactional_id", "seconds_min", "seconds_max", "outcome", "reason", "topics")
        assert columns(ask("transactions", **EARLIER), *told) == [
            ("app-1", 690, 700, None, None, ["orders", "__consumer_offsets"]),
            ("pay-7", 151, 151, "committed", None, ["bills"]),
            ("app-2", 66, 66, "aborted", "timed_out", ["orders"]),
        ]
        assert columns(ask("transactions"), "transactional_id") == [("app-1",), ("pay-7",)]
        assert columns(ask("transactions", topic="bills", **EARLIER), "producer_id") == [(7,)]
        assert columns(ask("transactions", at_least=600), "transactional_id") == [("app-1",)]
        assert ask("transactions", broker=9, **EARLIER) == []
        assert ask("transactions", cluster="prod") == []

    def test_stuck_transactions(self, ask: Ask) -> None:
        told = ("transactional_id", "stuck", "stuck_since", "stuck_s", "timeout_s", "seen_at")
        (row,) = ask("stuck_transactions")
        assert columns([row], *told) == [("app-1", "overdue", -530, 630, 60, 90)]
        tool = "kafka-transactions.sh --bootstrap-server HOST:PORT forceTerminateTransaction"
        assert row["command"] == f"{tool} --transactionalId 'app-1'"
        then = ask("stuck_transactions", until="2026-11-01T12:00:20Z")
        assert columns(then, *told[:4]) == [
            ("app-1", "overdue", -530, 550),
            ("pay-7", "stuck_completing", -70, 90),
        ]
        assert then[1]["command"] is None
        assert columns(
            ask("stuck_transactions", until="2026-11-01T12:00:20Z", topic="bills"), "outcome"
        ) == [("committed",)]
        assert ask("stuck_transactions", until="2026-11-01T11:50:00Z") == []
        assert ask("stuck_transactions", at_least=631) == []
        assert ask("stuck_transactions", broker=9) == []
        assert ask("stuck_transactions", cluster="prod") == []

    def test_transactional_ids(self, ask: Ask) -> None:
        rows = ask("transactional_ids")
        told = ("pattern", "ids_min", "ids_max", "begun", "committed", "timed_out", "mean_ms")
        assert columns(rows, *told) == [
            ("app", 50, 100, 120, 110, 1, 9),
            (None, 5, 10, 1, 1, 0, 10),
        ]
        assert columns(rows, "epochs_raised", "longest_ms", "first_hour") == [
            (9, 66_000, 0),
            (0, None, 0),
        ]
        assert (
            ask("transactional_ids", until="2026-11-01T11:00:00Z", since="2026-11-01T10:00:00Z")
            == []
        )
        assert ask("transactional_ids", cluster="prod") == []
