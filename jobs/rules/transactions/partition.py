"""The transactions of one partition of the coordinators' log: those that are open, from round to
round, and those that end. All records of a transactional id are in one partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from jobs.rules.transactions import transaction as rules
from jobs.rules.transactions.transaction import Entry, Transaction

ENDED, NOT_SEEN, FORGOTTEN, LOST = "ended", "not_seen", "forgotten", "records_lost"

MOST_OPEN: Final = 2_000
"""Open transactions of a partition that are followed: the oldest."""


@dataclass(frozen=True)
class Gap:
    """Records were lost, or cut off."""


@dataclass(frozen=True)
class ReadTo:
    """The records up to here have no newer timestamp than `log_at`."""

    log_at: datetime


Read = Entry | Gap | ReadTo
"""Of a log partition, in the order of its records."""


@dataclass(frozen=True)
class OpenTransactions:
    """What is kept of a log partition. `open`: transactions by id that are open, or whose abort the
    id's next record may explain. `log_at`: the newest timestamp of the records that were read.
    `seen_at`: up to when the log is known to say nothing else. `not_followed`: open transactions
    that were left out since reading began, as more than MOST_OPEN were open.
    """

    open: dict[str, Transaction] = field(default_factory=dict)
    log_at: datetime | None = None
    seen_at: datetime | None = None
    not_followed: int = 0


@dataclass(frozen=True)
class ClosedTransaction:
    """A transaction of which nothing more will be said. `ended_before`: its markers were written,
    or its end would be known, by then; None: not known. `seen`: the observation that it is judged
    by.
    """

    transaction: Transaction
    reason: str
    ended_before: datetime | None
    seen: datetime | None


@dataclass
class _Open:
    open: dict[str, Transaction]
    seen: datetime | None
    """An observation of a round before: up to then what is open is known to have been."""
    log_at: datetime | None
    closed: list[ClosedTransaction] = field(default_factory=list)

    def close(self, of: Transaction, reason: str, ended_before: datetime | None = None) -> None:
        self.open.pop(of.transactional_id, None)
        if of.is_over:
            reason = FORGOTTEN if of.state == rules.DEAD else ENDED
            ended_before = of.completed_at or of.followed_at
        self.closed.append(ClosedTransaction(of, reason, ended_before, self.seen))


def fold(
    memory: OpenTransactions, news: Sequence[Read], until: datetime | None, at: datetime
) -> tuple[OpenTransactions, list[ClosedTransaction]]:
    """The memory after rows of a partition, in order, and the transactions that closed.

    `until`: up to when the log is known to say nothing else. `at`: of the round. The clock of a
    broker that is ahead of it does not count: else all that begins later would seem to last.
    """
    now = _Open(dict(memory.open), memory.seen_at, memory.log_at)
    for each in news:
        match each:
            case Entry():
                _take(now, each)
            case Gap():
                for of in tuple(now.open.values()):
                    now.close(of, LOST)
            case ReadTo(log_at):
                _pass(now, min(log_at, at))
    _settle(now, max((at for at in (now.log_at, until) if at is not None), default=None))
    kept = sorted(now.open.values(), key=lambda of: (of.started_at, of.first_offset))
    left_out = len(kept[MOST_OPEN:])
    times = [at for at in (now.log_at, until, memory.seen_at) if at is not None]
    return (
        OpenTransactions(
            {of.transactional_id: of for of in kept[:MOST_OPEN]},
            now.log_at,
            max(times, default=None),
            memory.not_followed + left_out,
        ),
        now.closed,
    )


def _take(now: _Open, entry: Entry) -> None:
    """Note an entry."""
    known = now.open.get(entry.transactional_id)
    more = rules.of_entry(entry)
    if more is None:
        if known is not None:
            if rules.is_pending(known) and rules.is_begin_of_next(known, entry):
                known = replace(known, initialized_at=entry.updated_at)
            if entry.state == rules.DEAD and not known.is_over:
                known = rules.forgotten(known, entry)
            now.close(known, NOT_SEEN, entry.from_timestamp)
        return
    if known is not None and known.started_at == more.started_at and not known.is_over:
        more = rules.continued(known, more)
    else:
        if known is not None:
            now.close(known, NOT_SEEN, entry.from_timestamp)
        more = rules.of_nothing(more)
    if more.is_over and not rules.is_pending(more):
        now.close(more, ENDED)
    elif (following := more.initialized_at or more.followed_at) is not None:
        now.close(more, NOT_SEEN, following)
    else:
        now.open[more.transactional_id] = more


def _pass(now: _Open, at: datetime) -> None:
    """Note that no record up to here is newer than a time."""
    now.log_at = max(at, now.log_at or at)
    _settle(now, now.log_at)


def _settle(now: _Open, at: datetime | None) -> None:
    """Close aborts that nothing explains, as the log says nothing else up to a time."""
    for each in tuple(now.open.values()):
        if at is not None and rules.is_explained_by_nothing(each, at):
            now.close(each, ENDED)


def due_at(memory: OpenTransactions) -> datetime | None:
    """The next observation by which an open transaction says something new; None: none."""
    times = (rules.due_at(of, memory.seen_at) for of in memory.open.values())
    return min((at for at in times if at is not None), default=None)
