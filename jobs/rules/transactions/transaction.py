"""A transaction, as far as the coordinators' log was read: what is known of it, by whom it was
aborted and why, whether it is worth a row, and whether it is stuck.

Times are those that records have, by the coordinator's clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from metadata_source.long_transactions import (
    COMPLETES_WITHIN,
    LONG,
    NO_TIMEOUT,
    WITH_EPOCH_BUMP,
)

ONGOING: Final = "Ongoing"
PREPARED: Final = ("PrepareCommit", "PrepareAbort")
COMPLETED: Final = ("CompleteCommit", "CompleteAbort")
ABORTS: Final = ("PrepareAbort", "CompleteAbort")
EMPTY: Final = "Empty"
DEAD: Final = "Dead"

CLIENT, COORDINATOR = "client", "coordinator"
TIMED_OUT, FENCED = "timed_out", "fenced"
EXACT, INFERRED = "exact", "inferred"
OVERDUE, STUCK_COMPLETING = "overdue", "stuck_completing"

CHECKED_EVERY: Final = timedelta(seconds=10)
"""So often a coordinator looks for transactions that timed out, as Kafka's default has it
(transaction.abort.timed.out.transaction.cleanup.interval.ms).
"""
FENCED_WITHIN: Final = timedelta(seconds=5)
"""A producer that begins so soon after an abort has most likely caused it."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What records of a transaction say. Columns as in bronze.transaction_states; `partitions`: by
    topic.
    """

    transactional_id: str
    state: str
    offset: int
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    ongoing_epoch: int | None = None
    timeout_ms: int | None = None
    prepared_at: datetime | None = None
    completed_at: datetime | None = None
    initialized_at: datetime | None = None
    followed_at: datetime | None = None
    aborted_by: str | None = None
    partition_count: int | None = None
    partitions: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry(Recorded):
    """An entry of bronze.transaction_states: records of one stretch."""

    from_offset: int
    from_timestamp: datetime | None = None
    from_leader_epoch: int | None = None
    was_open: bool | None = None
    client_transaction_version: int | None = None
    ongoing_client_version: int | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The entry that `states` of bronze.transaction_log has as a row."""
        topics = {each["topic"]: each["partitions"] for each in row["partitions"] or ()}
        return cls(**{each.name: row[each.name] for each in fields(cls)} | {"partitions": topics})


@dataclass(frozen=True, kw_only=True)
class Transaction(Recorded):
    """A transaction of an id: entries of bronze.transaction_states, joined.

    `first_offset`, `first_leader_epoch`: of the first of its records that was read. `was_open`:
    records before that were not. `ongoing_at`: when its last record in state Ongoing was made, as
    far as entries tell.
    """

    first_offset: int
    updated_at: datetime
    started_at: datetime
    first_leader_epoch: int | None = None
    was_open: bool = False
    client_version: int | None = None
    ongoing_version: int | None = None
    ongoing_producer_id: int | None = None
    ongoing_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        """Whether its markers are written, or its coordinator has forgotten it."""
        return self.state in COMPLETED or self.state == DEAD

    @property
    def timeout(self) -> timedelta | None:
        """Its time-out; None if it has none, or none is known."""
        if self.timeout_ms is None or self.timeout_ms >= NO_TIMEOUT:
            return None
        return timedelta(milliseconds=self.timeout_ms)

    @property
    def is_late(self) -> bool:
        """Whether it was prepared after its time-out."""
        return (
            self.timeout is not None
            and self.prepared_at is not None
            and self.prepared_at - self.started_at > self.timeout
        )

    @property
    def long_at(self) -> datetime:
        """When it has been open for so long that it has a row."""
        return self.started_at + min(self.timeout or LONG, LONG)

    @property
    def overdue_at(self) -> datetime | None:
        """When its coordinator should have aborted it; None without a time-out."""
        return None if self.timeout is None else self.started_at + self.timeout + CHECKED_EVERY


def of_entry(entry: Entry) -> Transaction | None:
    """An entry as a transaction; None of one that says of no transaction when it began."""
    if entry.started_at is None or entry.updated_at is None or entry.state == EMPTY:
        return None
    is_ongoing = entry.state == ONGOING
    return Transaction(
        **{each.name: getattr(entry, each.name) for each in fields(Recorded)},
        first_offset=entry.from_offset,
        updated_at=entry.updated_at,
        started_at=entry.started_at,
        first_leader_epoch=entry.from_leader_epoch,
        was_open=bool(entry.was_open),
        client_version=entry.client_transaction_version,
        ongoing_version=entry.ongoing_client_version,
        ongoing_producer_id=None if entry.ongoing_epoch is None else entry.producer_id,
        ongoing_at=entry.updated_at if is_ongoing else None,
    )


def continued(known: Transaction, more: Transaction) -> Transaction:
    """A transaction with what later entries say of it. A tombstone has no value of its own."""
    counts = [each.partition_count for each in (known, more) if each.partition_count is not None]
    return replace(
        more,
        first_offset=known.first_offset,
        first_leader_epoch=known.first_leader_epoch,
        was_open=known.was_open,
        client_version=known.client_version if more.state == DEAD else more.client_version,
        **_of_ongoing(more if more.ongoing_epoch is not None else known),
        ongoing_at=more.ongoing_at or known.ongoing_at,
        prepared_at=known.prepared_at or more.prepared_at,
        completed_at=known.completed_at or more.completed_at,
        aborted_by=known.aborted_by or more.aborted_by,
        partition_count=max(counts, default=None),
        partitions=more.partitions or known.partitions,
    )


def forgotten(of: Transaction, entry: Entry) -> Transaction:
    """A transaction whose id the coordinator removed, by the entry of that tombstone."""
    return replace(
        of,
        state=DEAD,
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
        followed_at=entry.followed_at,
    )


def _of_ongoing(of: Transaction) -> dict[str, Any]:
    names = ("ongoing_epoch", "ongoing_version", "ongoing_producer_id")
    return {name: getattr(of, name) for name in names}


def of_nothing(of: Transaction) -> Transaction:
    """A transaction of an id that had none open, by its client if it was aborted as it began: from
    version 2 on a client may abort though it added no partition.
    """
    is_of_nothing = (
        of.ongoing_epoch is None
        and of.state in ABORTS
        and of.prepared_at == of.started_at
        and _bumps(of)
    )
    return replace(of, was_open=False, aborted_by=CLIENT) if is_of_nothing else of


def is_begin_of_next(known: Transaction, entry: Entry) -> bool:
    """Whether an InitProducerId comes so soon after an abort that its producer most likely caused
    it: of the producer id's next epoch, if the id is the same.
    """
    if known.prepared_at is None or entry.updated_at is None:
        return False
    before, now = known.producer_epoch, entry.producer_epoch
    is_other_id = entry.producer_id != known.producer_id
    is_next = is_other_id or before is None or now is None or now - before in {0, 1}
    return is_next and entry.updated_at - known.prepared_at <= FENCED_WITHIN


@dataclass(frozen=True)
class Abort:
    """Who aborted a transaction, and why. `sureness`: exact | inferred. Null: not known."""

    by: str | None = None
    reason: str | None = None
    sureness: str | None = None


def abort_of(of: Transaction) -> Abort:
    """Who aborted a transaction, and why, as far as its records tell (docs/design/transactions.md).

    From version 2 on a client's abort looks like one of the coordinator: to tell them is a guess.
    """
    if of.state not in ABORTS:
        return Abort()
    by = of.aborted_by or _by_epochs(of)
    if by == COORDINATOR and of.prepared_at is not None:
        return Abort(by, TIMED_OUT, INFERRED) if of.is_late else Abort(by, FENCED, EXACT)
    if by is not None:
        return Abort(by, None, INFERRED if by == CLIENT and _bumps(of) else EXACT)
    if of.prepared_at is None:
        return Abort()
    if of.is_late:
        return Abort(COORDINATOR, TIMED_OUT, INFERRED)
    if of.initialized_at is not None and of.initialized_at - of.prepared_at <= FENCED_WITHIN:
        return Abort(COORDINATOR, FENCED, INFERRED)
    return Abort(CLIENT, None, INFERRED)


def _by_epochs(of: Transaction) -> str | None:
    """By whom it was aborted, by epochs of records of two batches; None if they do not tell."""
    before, epoch = of.ongoing_epoch, of.producer_epoch
    if before is None or epoch is None or of.ongoing_producer_id != of.producer_id:
        return None
    if of.prepared_at is None:
        return None
    if not _bumps(of):
        return COORDINATOR if epoch > before else CLIENT
    was_new = (of.ongoing_version or 0) >= WITH_EPOCH_BUMP
    return COORDINATOR if not was_new or epoch >= before + 2 else None


def _bumps(of: Transaction) -> bool:
    return (of.client_version or 0) >= WITH_EPOCH_BUMP


def is_pending(of: Transaction) -> bool:
    """Whether the id's next record may say who aborted it."""
    return (
        of.state == "CompleteAbort"
        and of.prepared_at is not None
        and of.initialized_at is None
        and not of.is_late
        and (of.aborted_by or _by_epochs(of)) is None
    )


def is_explained_by_nothing(of: Transaction, read_to: datetime) -> bool:
    """Whether a pending abort stays as it is known: the log was read past the time that counts."""
    settled_at = due_at(of, None) if is_pending(of) else None
    return settled_at is not None and read_to > settled_at


def stuck_since(of: Transaction, seen: datetime | None) -> dict[str, datetime]:
    """Since when it was overdue, and completing for too long, as of an observation, which counts
    while it is open.
    """
    found = {}
    # One that is forgotten may have been decided before.
    is_undecided = of.state == ONGOING or (of.state == DEAD and of.prepared_at is None)
    until = seen if is_undecided else of.prepared_at
    if of.overdue_at is not None and until is not None and until > of.overdue_at:
        found[OVERDUE] = of.overdue_at
    until = of.completed_at if of.state in COMPLETED else seen
    if of.prepared_at is not None and until is not None:
        due = of.prepared_at + COMPLETES_WITHIN
        if until > due:
            found[STUCK_COMPLETING] = due
    return found


def stuck_now(of: Transaction, seen: datetime | None) -> str | None:
    """How it is stuck, as of an observation; None if it is not."""
    found = stuck_since(of, seen)
    if of.state == ONGOING:
        return OVERDUE if OVERDUE in found else None
    return STUCK_COMPLETING if of.state in PREPARED and STUCK_COMPLETING in found else None


def is_worth(of: Transaction, seen: datetime | None) -> bool:
    """Whether it has a row, as of an observation: it was open for long, is or was stuck, or its
    coordinator aborted it.
    """
    is_complete = of.state in COMPLETED
    until = of.completed_at if is_complete else max(seen or of.updated_at, of.updated_at)
    is_long = until is not None and until > of.long_at
    return is_long or abort_of(of).by == COORDINATOR or bool(stuck_since(of, seen))


def due_at(of: Transaction, seen: datetime | None) -> datetime | None:
    """The next observation by which it says something new though nothing is written; None: none."""
    if of.is_over:
        return of.prepared_at + FENCED_WITHIN if is_pending(of) and of.prepared_at else None
    times = (
        of.long_at,
        of.overdue_at if of.state == ONGOING else None,
        of.prepared_at + COMPLETES_WITHIN if of.prepared_at is not None else None,
    )
    return min(
        (at for at in times if at is not None and (seen is None or at >= seen)), default=None
    )
