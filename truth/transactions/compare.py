"""Gold's transactions held against the coordinators' log, and that against what producers did."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from truth.transactions.aborts import BUMPS, CLIENT, around, cause_of, causes, may_guess
from truth.transactions.asked import compare_held_up, compare_open
from truth.transactions.counted import compare_counts
from truth.transactions.history import History, Row
from truth.transactions.logged import NO_TIMEOUT, ONGOING, Logged, Transaction
from truth.transactions.score import Score
from truth.transactions.written import Act, Written

LONG: Final = timedelta(minutes=5)
CHECKED_EVERY: Final = timedelta(seconds=10)
COMPLETES_WITHIN: Final = timedelta(seconds=30)


def compare(written: Written, log: Logged, history: History) -> Score:
    """Hold all of a history against all that was written down."""
    score = Score(
        acts=len(written.acts),
        records=len(log.records),
        transactions=len(log.transactions),
        rows=len(history.rows),
        patterns=len(history.counts),
    )
    acts = _by_id(written.acts)
    score.faults += _of_producers(acts, log)
    score.faults += _rows(acts, log, history.rows, score)
    for rows in history.looked:
        score.looked += len(rows)
        score.faults += _look(log, rows)
    score.faults += compare_counts(acts, log, history.counts)
    score.faults += compare_open(written.hanging, log, history, score)
    score.faults += compare_held_up(written, log, history, score)
    return score


def _by_id(acts: Sequence[Act]) -> dict[str, list[Act]]:
    found: dict[str, list[Act]] = {}
    for act in acts:
        found.setdefault(act.transactional_id, []).append(act)
    return found


def _of_producers(acts: Mapping[str, Sequence[Act]], log: Logged) -> Iterator[str]:
    """Each transaction of the log was asked for, and each act that succeeded is in the log."""
    for each in log.transactions:
        mine = acts.get(each.transactional_id, ())
        if each.records[0].state == ONGOING and not _one(mine, "begin", each.started_at):
            yield f"{each}: no producer began it then"
        if each.outcome == "committed":
            assert each.prepared_at is not None  # noqa: S101 - it has an outcome
            if not _one(mine, "commit", each.prepared_at):
                yield f"{each}: committed, and no producer asked for it"
        if each.outcome == "aborted" and not causes(each, mine):
            yield f"{each}: aborted, and nobody asked for it, nor was it late"
    for of_id in acts.values():
        yield from _of_acts(of_id, log)


def _of_acts(acts: Sequence[Act], log: Logged) -> Iterator[str]:
    """The acts of one id."""
    begun: Act | None = None
    for act in acts:
        if act.action == "begin":
            begun = act
        elif act.is_done and act.action in {"commit", "abort"}:
            outcome = "committed" if act.action == "commit" else "aborted"
            if not any(
                each.transactional_id == act.transactional_id
                and each.outcome == outcome
                and (_ended_by(each, act) or _repeats(act, begun, each))
                for each in log.transactions
            ):
                yield f"{act}: the log has no such transaction"


def _one(acts: Sequence[Act], action: str, at: datetime) -> bool:
    return any(act.action == action and around(act, at) for act in acts)


def _ended_by(transaction: Transaction, act: Act) -> bool:
    return transaction.prepared_at is not None and around(act, transaction.prepared_at)


def _repeats(act: Act, begun: Act | None, transaction: Transaction) -> bool:
    """Whether an abort came after the coordinator's own, for the time-out: from version 2 on that
    raised the epoch by one, and a coordinator takes the abort for a repetition of it (KIP-890).
    """
    return (
        act.action == "abort"
        and begun is not None
        and around(begun, transaction.started_at)
        and transaction.is_late
        and transaction.last.client_version >= BUMPS
    )


def _rows(
    acts: Mapping[str, Sequence[Act]], log: Logged, rows: Sequence[Row], score: Score
) -> Iterator[str]:
    """Each transaction that is worth a row has one, as the log has it, and no other one has."""
    found = {(row.transactional_id, row.started_at): row for row in rows}
    if len(found) < len(rows):
        yield f"{len(rows) - len(found)} rows of transactions that have another one"
    for each in log.transactions:
        row = found.pop((each.transactional_id, each.started_at), None)
        truly = causes(each, acts.get(each.transactional_id, ()))
        if each.outcome == "aborted":
            yield from _cause(each, row, truly, score)
        due = each.completed_at is not None and (
            each.completed_at - each.started_at > _long_after(each) or bool(_stuck(each))
        )
        if row is not None:
            score.moved += bool(row.coordinator_moved)
            score.stuck += bool(_stuck(each))
            yield from (f"{each}: {fault}" for fault in _row(each, row))
            if not due and cause_of(row) in {None, CLIENT}:
                yield f"{each}: an ordinary transaction has a row"
        elif due:
            yield f"{each}: long or stuck, and it has no row"
    yield from (f"{row}: the log has no such transaction" for row in found.values())


def _cause(
    each: Transaction, row: Row | None, truly: frozenset[str], score: Score
) -> Iterator[str]:
    score.aborts += bool(truly) and CLIENT not in truly
    cause = cause_of(row)
    if cause in truly:
        return
    is_exact = row is not None and row.reason_sureness == "exact"
    if may_guess(each, cause) and not is_exact:
        score.guessed += 1
        return
    found = "no row" if row is None else f"{cause}, {row.reason_sureness}"
    yield f"{each}: aborted as {' or '.join(sorted(truly)) or 'nobody knows'}, history has {found}"


def _long_after(each: Transaction) -> timedelta:
    return LONG if each.last.timeout_ms == NO_TIMEOUT else min(LONG, each.timeout)


def _stuck(each: Transaction) -> dict[str, datetime]:
    """Since when it was stuck, and how, by the name of the column."""
    found = {}
    overdue = each.started_at + each.timeout + CHECKED_EVERY
    if each.prepared_at is not None and each.prepared_at > overdue:
        found["overdue_since"] = overdue
    if each.prepared_at is not None and each.completed_at is not None:
        due = each.prepared_at + COMPLETES_WITHIN
        if each.completed_at > due:
            found["stuck_completing_since"] = due
    return found


def _row(each: Transaction, row: Row) -> Iterator[str]:
    """A row of a transaction that is over: all is known exactly."""
    first, last, stuck = each.records[0], each.last, _stuck(each)
    wanted = {
        "log_partition": last.log_partition,
        "producer_id": last.producer_id,
        "producer_epoch": last.producer_epoch,
        "timeout_ms": last.timeout_ms,
        "is_begin_read": True,
        "state": last.state,
        "last_record_at": last.updated_at,
        "prepared_after": each.prepared_at,
        "prepared_before": each.prepared_at,
        "ended_after": each.completed_at,
        "ended_before": each.completed_at,
        "outcome": each.outcome,
        "stuck": None,
        "overdue_since": stuck.get("overdue_since"),
        "stuck_completing_since": stuck.get("stuck_completing_since"),
        "close_reason": "ended",
        "first_leader_epoch": first.leader_epoch,
        "leader_epoch": last.leader_epoch,
        "coordinator_moved": first.leader_epoch != last.leader_epoch,
        "first_offset": first.offset,
        "last_offset": last.offset,
        "partition_count": max((len(record.places) for record in each.records), default=0) or None,
        "is_live": False,
    }
    for name, value in wanted.items():
        if (has := getattr(row, name)) != value:
            yield f"{name} is {value}, history has {has}"
    if each.outcome == "committed" and (row.aborted_by, row.reason) != (None, None):
        yield f"committed, history has aborted by {row.aborted_by}"


def _look(log: Logged, rows: Sequence[Row]) -> Iterator[str]:
    """Rows of a moment before the end: nothing in them was wrong then."""
    of_log = {(each.transactional_id, each.started_at): each for each in log.transactions}
    for row in rows:
        each = of_log.get((row.transactional_id, row.started_at))
        if each is None:
            yield f"{row}: before the end, and the log has no such transaction"
            continue
        yield from (f"{row}, before the end: {fault}" for fault in _earlier(each, row))


def _earlier(each: Transaction, row: Row) -> Iterator[str]:
    at = next((record for record in each.records if record.offset == row.last_offset), None)
    if at is None:
        yield f"it has no record at offset {row.last_offset}"
        return
    if (row.state, row.last_record_at) != (at.state, at.updated_at):
        yield f"state {at.state} at {at.updated_at}, history has {row.state}"
    nothing_until = row.seen_at if row.is_live else None
    later = next((record for record in each.records if record.offset > at.offset), None)
    if nothing_until is not None and later is not None and later.written_at < nothing_until:
        yield f"{later.state} at {later.written_at}, history has nothing until {nothing_until}"
    if row.prepared_before is not None and row.prepared_before != each.prepared_at:
        yield f"prepared at {each.prepared_at}, history has {row.prepared_before}"
    if row.outcome is not None and row.outcome != each.outcome:
        yield f"{each.outcome}, history has {row.outcome}"
    if row.stuck is not None and row.seen_at is not None:
        state = each.state_at(row.seen_at) or ""
        is_stuck = state == ONGOING if row.stuck == "overdue" else state.startswith("Prepare")
        if not is_stuck:
            yield f"{state} at {row.seen_at}, history has {row.stuck}"
