"""Who truly aborted a transaction, by what producers wrote down, and whether history may differ."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from truth.transactions.history import Row
from truth.transactions.logged import Transaction
from truth.transactions.written import Act

CLIENT: Final = "client"
FENCED: Final = "fenced"
TIMED_OUT: Final = "timed_out"

SLACK: Final = timedelta(milliseconds=50)
"""Between clocks of producers and brokers, all of one machine, cut to the millisecond."""
GUESSES_WITHIN: Final = timedelta(seconds=5)
"""From version 2 on an abort is inferred to be a fence if a producer begins so soon after it."""
BUMPS: Final = 2
"""The version of transactions from which on each end raises the epoch."""


def causes(transaction: Transaction, acts: Iterable[Act]) -> frozenset[str]:
    """All that may have aborted it: client | fenced | timed_out. `acts`: of its id."""
    found = {TIMED_OUT} if transaction.is_late else set()
    at = transaction.prepared_at
    for act in acts:
        if at is not None and around(act, at):
            found |= {"abort": {CLIENT}, "init": {FENCED}}.get(act.action, set())
    return frozenset(found)


def around(act: Act, at: datetime) -> bool:
    """Whether a moment is between question and answer of an act."""
    return act.asked_at - SLACK <= at and (act.answered_at is None or at <= act.answered_at + SLACK)


def cause_of(row: Row | None) -> str | None:
    """The cause that a row has; without one an ordinary abort is its client's."""
    if row is None:
        return CLIENT
    return row.reason if row.aborted_by == "coordinator" else row.aborted_by


def may_guess(transaction: Transaction, cause: str | None) -> bool:
    """Whether the documented rule infers this cause where it is another one."""
    if transaction.last.client_version < BUMPS or transaction.prepared_at is None:
        return False
    began = transaction.initialized_at
    is_soon = began is not None and began - transaction.prepared_at <= GUESSES_WITHIN
    return cause == (FENCED if is_soon else CLIENT)
