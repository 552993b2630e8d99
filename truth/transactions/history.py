"""The history that a lake has of transactions, as typed rows."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from schemas.bronze import METADATA_POLLS
from schemas.lake import Lake
from schemas.silver import OPEN_TRANSACTIONS
from schemas.transactions import TRANSACTIONAL_IDS, TRANSACTIONS
from schemas.views import HELD_UP
from truth.lake import rows_of
from truth.transactions.written import Place


@dataclass(frozen=True)
class Row:
    """A row of gold.transactions. Columns as there."""

    transactional_id: str
    pattern: str
    log_partition: int
    producer_id: int | None
    producer_epoch: int | None
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
    is_live: bool

    def __str__(self) -> str:
        return f"{self.transactional_id} from {self.started_at:%H:%M:%S.%f}"


@dataclass(frozen=True)
class Counts:
    """Rows of gold.transactional_ids of one pattern, added up over hours. Columns as there."""

    pattern: str
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
    completed: int
    total_ms: int
    longest_ms: int | None
    longest_completing_ms: int | None
    most_partitions: int | None


@dataclass(frozen=True)
class Open:
    """A row of silver.open_transactions. Columns as there."""

    opened_by: str
    is_hanging: bool
    state: str | None
    producer_id: int | None
    started_at: datetime | None
    start_offset: int | None
    prev_sent_at: datetime | None
    valid_from: datetime
    last_seen_sent_at: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True)
class HeldUp:
    """A row of gold.held_up. Columns as there."""

    group_id: str
    topic: str
    partition: int
    last_stable: int
    records: int
    opened_by: str | None
    is_hanging: bool | None
    valid_from: datetime
    valid_to: datetime | None

    @property
    def place(self) -> Place:
        """The partition."""
        return self.topic, self.partition


@dataclass(frozen=True)
class Answered:
    """An answer to enrichment transactions that told all."""

    asked_at: datetime
    answered_at: datetime


@dataclass(frozen=True)
class History:
    """All of it. `looked`: gold.transactions at moments before, each as it was then."""

    rows: Sequence[Row]
    counts: Sequence[Counts] = ()
    open: Sequence[Open] = ()
    held_up: Sequence[HeldUp] = ()
    answers: Sequence[Answered] = ()
    looked: Sequence[Sequence[Row]] = ()


def rows(lake: Lake) -> list[Row]:
    """The rows of gold.transactions, now."""
    return rows_of(lake, TRANSACTIONS, Row)


def history(lake: Lake, looked: Sequence[Sequence[Row]]) -> History:
    """All that a lake has, with what it had before."""
    return History(
        rows=rows(lake),
        counts=_added_up(rows_of(lake, TRANSACTIONAL_IDS, Counts)),
        open=rows_of(lake, OPEN_TRANSACTIONS, Open),
        held_up=rows_of(lake, HELD_UP, HeldUp),
        answers=rows_of(
            lake,
            METADATA_POLLS,
            Answered,
            "record = 'answer' AND kind = 'transactions' AND outcome = 'ok'",
        ),
        looked=looked,
    )


def _added_up(of_hours: Sequence[Counts]) -> list[Counts]:
    found: dict[str, Counts] = {}
    for row in of_hours:
        known = found.get(row.pattern)
        found[row.pattern] = row if known is None else _sum(known, row)
    return list(found.values())


def _sum(one: Counts, other: Counts) -> Counts:
    """Two hours of one pattern as one: the same ids may be in both."""
    names = [field.name for field in fields(Counts) if field.name != "pattern"]
    values = {}
    for name in names:
        both = [each for each in (getattr(one, name), getattr(other, name)) if each is not None]
        is_most = name.startswith(("longest", "most", "ids_min"))
        values[name] = max(both, default=None) if is_most else sum(both)
    return Counts(one.pattern, **values)
