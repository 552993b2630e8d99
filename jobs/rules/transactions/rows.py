"""Rows of tables of transactions: without `updated_at`, and what Delta computes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self, TypedDict

from jobs.rules.ids import row_id
from jobs.rules.silver.rows import OfCluster
from jobs.rules.transactions import transaction as rules
from jobs.rules.transactions.partition import LOST, ClosedTransaction, OpenTransactions
from jobs.rules.transactions.transaction import Transaction
from metadata_source.transactional_ids import pattern_of


class TopicPartitions(TypedDict):
    """Partitions of a topic that a transaction wrote to."""

    topic: str
    partitions: list[int]


class TransactionRow(OfCluster):
    """gold.transactions."""

    id: str
    transactional_id: str
    pattern: str
    log_partition: int
    producer_id: int | None
    producer_epoch: int | None
    client_transaction_version: int | None
    timeout_ms: int | None
    started_at: datetime
    is_begin_read: bool
    state: str
    last_record_at: datetime
    prepared_after: datetime | None
    prepared_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    outcome: str | None
    aborted_by: str | None
    reason: str | None
    reason_sureness: str | None
    stuck: str | None
    overdue_since: datetime | None
    stuck_completing_since: datetime | None
    seen_at: datetime | None
    close_reason: str | None
    first_leader_epoch: int | None
    leader_epoch: int | None
    coordinator_moved: bool | None
    first_offset: int
    last_offset: int
    partition_count: int | None
    partitions: list[TopicPartitions] | None


class TransactionCounts(OfCluster):
    """internal.transaction_counts."""

    log_partition: int
    pattern: str
    hour: datetime
    counted_since: datetime
    read_at: datetime
    ids_min: int
    ids_max: int
    begun: int
    committed: int
    aborted_by_client: int
    aborted_by_coordinator: int
    aborted_by_unknown: int
    timed_out: int
    epochs_raised: int
    producer_ids_given: int
    removed: int
    completed: int
    total_ms: int
    longest_ms: int | None
    longest_completing_ms: int | None
    most_partitions: int | None
    is_live: bool


def rows_of(
    cluster: OfCluster,
    log_partition: int,
    memory: OpenTransactions,
    closed: list[ClosedTransaction],
) -> dict[str, TransactionRow]:
    """The rows of a partition's transactions that are worth one, by id."""
    open_ = (ClosedTransaction(of, "", None, memory.seen_at) for of in memory.open.values())
    found = {}
    for each in (*closed, *open_):
        if rules.is_worth(each.transaction, each.seen):
            row = _row(cluster, log_partition, each)
            found[row["id"]] = row
    return found


def _row(cluster: OfCluster, log_partition: int, closed: ClosedTransaction) -> TransactionRow:
    of, is_live = closed.transaction, not closed.reason
    abort, is_pending = rules.abort_of(of), is_live and rules.is_pending(of)
    since = rules.stuck_since(of, closed.seen)
    return {
        **cluster,
        "id": _id(cluster["cluster_id"], log_partition, of),
        "transactional_id": of.transactional_id,
        "pattern": pattern_of(of.transactional_id),
        "log_partition": log_partition,
        "producer_id": of.producer_id,
        "producer_epoch": of.producer_epoch,
        "client_transaction_version": of.client_version,
        "timeout_ms": of.timeout_ms,
        "started_at": of.started_at,
        "is_begin_read": not of.was_open,
        "state": of.state,
        "last_record_at": of.updated_at,
        "prepared_after": of.prepared_at or (None if is_live else of.ongoing_at or of.started_at),
        "prepared_before": of.prepared_at or of.completed_at or closed.ended_before,
        "ended_after": of.completed_at or (None if is_live else of.updated_at),
        "ended_before": of.completed_at or closed.ended_before,
        "outcome": _OUTCOMES.get(of.state),
        "aborted_by": None if is_pending else abort.by,
        "reason": None if is_pending else abort.reason,
        "reason_sureness": None if is_pending else abort.sureness,
        "stuck": rules.stuck_now(of, closed.seen) if is_live else None,
        "overdue_since": since.get(rules.OVERDUE),
        "stuck_completing_since": since.get(rules.STUCK_COMPLETING),
        "seen_at": closed.seen if is_live or closed.reason == LOST else None,
        "close_reason": closed.reason or None,
        "first_leader_epoch": of.first_leader_epoch,
        "leader_epoch": of.leader_epoch,
        "coordinator_moved": _moved(of),
        "first_offset": of.first_offset,
        "last_offset": of.offset,
        "partition_count": of.partition_count,
        "partitions": [
            {"topic": topic, "partitions": partitions}
            for topic, partitions in of.partitions.items()
        ]
        or None,
    }


_OUTCOMES = {
    **dict.fromkeys(("PrepareCommit", "CompleteCommit"), "committed"),
    **dict.fromkeys(("PrepareAbort", "CompleteAbort"), "aborted"),
}


def _moved(of: Transaction) -> bool | None:
    if of.first_leader_epoch is None or of.leader_epoch is None:
        return None
    return of.first_leader_epoch != of.leader_epoch


def _id(cluster_id: str, log_partition: int, of: Transaction) -> str:
    """A transaction of which records were lost in between has a row for each part."""
    return row_id(
        *("transaction", cluster_id, log_partition, of.transactional_id),
        *(of.started_at.isoformat(), of.first_leader_epoch, of.first_offset),
    )


_SUMS = (
    *("begun", "committed", "aborted_by_client", "aborted_by_coordinator", "aborted_by_unknown"),
    *("timed_out", "epochs_raised", "producer_ids_given", "removed", "total_ms"),
)
_ENDS = ("committed", "aborted_by_client", "aborted_by_coordinator", "aborted_by_unknown")
_MOST = ("longest_ms", "longest_completing_ms", "most_partitions")


@dataclass(frozen=True)
class Counts:
    """Counts of a pattern and hour, of a partition of the log: internal.transaction_counts."""

    ids_min: int = 0
    ids_max: int = 0
    begun: int = 0
    committed: int = 0
    aborted_by_client: int = 0
    aborted_by_coordinator: int = 0
    aborted_by_unknown: int = 0
    timed_out: int = 0
    epochs_raised: int = 0
    producer_ids_given: int = 0
    removed: int = 0
    completed: int = 0
    total_ms: int = 0
    longest_ms: int | None = None
    longest_completing_ms: int | None = None
    most_partitions: int | None = None

    def plus(self, row: Mapping[str, Any]) -> Self:
        """These counts with those of a row of bronze.transaction_log."""
        sums = {name: getattr(self, name) + (row[name] or 0) for name in _SUMS}
        known = {name: (getattr(self, name), row[name]) for name in _MOST}
        most: dict[str, Any] = {
            name: max((each for each in both if each is not None), default=None)
            for name, both in known.items()
        }
        ids = row["ids"] or 0
        sums |= {"ids_min": max(self.ids_min, ids), "ids_max": self.ids_max + ids}
        return replace(self, **sums, **most, completed=sum(sums[name] for name in _ENDS))


@dataclass(frozen=True)
class HourCounts:
    """Counts, and when the first and the last batch was planned that they count."""

    counts: Counts
    counted_since: datetime
    read_at: datetime

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Those of a row of internal.transaction_counts."""
        counts = Counts(**{each.name: row[each.name] for each in fields(Counts)})
        return cls(counts, row["counted_since"], row["read_at"])
