"""What polls say of open transactions, and of who waits for them, held against the log, what hangs,
and where a consumer stood still.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from truth.transactions.aborts import SLACK
from truth.transactions.history import Answered, HeldUp, History, Open
from truth.transactions.logged import Logged, Transaction
from truth.transactions.score import Score
from truth.transactions.written import Hanging, Written

LISTED_AFTER: Final = timedelta(seconds=10)
"""Coordinators are asked for transactions that are older."""
COMPLETES_WITHIN: Final = timedelta(seconds=30)
_NAMED_AFTER: Final = timedelta(minutes=1, seconds=6)
"""Rows of a lag begin a minute apart at the earliest, each with a poll, which come each 2 s."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def compare_open(
    hanging: Sequence[Hanging], log: Logged, history: History, score: Score
) -> Iterator[str]:
    """Rows of silver.open_transactions: each was so, and what answers had to show is there."""
    score.open += len(history.open)
    for row in history.open:
        yield from (
            f"{row.opened_by}, open by polls: {fault}" for fault in _open(row, log, hanging)
        )
    for each in log.transactions:
        if _shown(each, history.answers) and not any(_is_of(row, each) for row in history.open):
            yield f"{each}: answers had to show it, polls have no open transaction"
    for batch in hanging:
        if not any(row.is_hanging and row.opened_by == name_of(batch) for row in history.open):
            yield f"{name_of(batch)} hangs, polls have no such row"


def name_of(batch: Hanging) -> str:
    """What silver.open_transactions calls one that hangs."""
    topic, partition = batch.place
    return f"{batch.producer_id} on {topic}-{partition}"


def _open(row: Open, log: Logged, hanging: Sequence[Hanging]) -> Iterator[str]:
    if row.is_hanging:
        batch = next((each for each in hanging if name_of(each) == row.opened_by), None)
        if batch is None:
            yield "nothing hangs there"
        elif row.start_offset != batch.offset:
            yield f"it begins at {batch.offset}, polls have {row.start_offset}"
        elif row.valid_from < batch.written_at:
            yield f"written at {batch.written_at}, polls have it from {row.valid_from}"
        return
    each = next((each for each in log.transactions if _is_of(row, each)), None)
    if each is None:
        yield f"no such transaction began at {row.started_at}"
        return
    if row.producer_id not in {record.producer_id for record in each.records}:
        yield f"of producer id {each.last.producer_id}, polls have {row.producer_id}"
    # Shown by the answer that came at valid_from, and asked after prev_sent_at; so some moment
    # before it had this state. A coordinator decides before it writes, and forgets after.
    since = row.prev_sent_at or each.started_at
    states = _states(each, since - SLACK, row.valid_from + SLACK)
    if row.state not in states:
        yield f"{' or '.join(sorted(states))} at {row.valid_from}, polls have {row.state}"
    until = row.last_seen_sent_at
    if until is not None and each.completed_at is not None and until > each.completed_at + SLACK:
        yield f"over at {each.completed_at}, polls have it until {until}"


def _states(each: Transaction, since: datetime, until: datetime) -> set[str]:
    found = {record.state for record in each.records if since <= record.written_at <= until}
    return found | {each.state_at(since) or "nothing"}


def _is_of(row: Open, each: Transaction) -> bool:
    return (row.opened_by, row.started_at) == (each.transactional_id, each.started_at)


def _shown(each: Transaction, answers: Sequence[Answered]) -> bool:
    """Whether an answer that told all came while it was open for long."""
    ongoing_until = each.prepared_at or _NEVER
    long = each.started_at + max(each.timeout, LISTED_AFTER) + SLACK
    prepared = max(ongoing_until, each.started_at + COMPLETES_WITHIN) + SLACK
    over = each.completed_at or _NEVER
    spans = ((long, ongoing_until), (prepared, over))
    return any(
        since < answer.asked_at and answer.answered_at < until
        for since, until in spans
        if since < until
        for answer in answers
    )


def compare_held_up(written: Written, log: Logged, history: History, score: Score) -> Iterator[str]:
    """Rows of gold.held_up: the consumer stood there, and for one of these transactions."""
    for row in history.held_up:
        score.held_up += row.opened_by is not None
        yield from (
            f"{row.topic}-{row.partition} from {row.valid_from:%H:%M:%S}, held up: {fault}"
            for fault in _held_up(row, written, log)
        )
    for batch in written.hanging:
        if not any(row.opened_by == name_of(batch) for row in history.held_up):
            yield f"{name_of(batch)} holds up its readers, and gold.held_up has nothing of it"
    for each in log.transactions:
        shown = any(_is_of(row, each) for row in history.open)
        long = (each.completed_at or _NEVER) - each.started_at > _NAMED_AFTER
        for place in each.places & {position.place for position in written.positions}:
            if (
                shown
                and long
                and not any(
                    (row.opened_by, row.place) == (each.transactional_id, place)
                    for row in history.held_up
                )
            ):
                yield f"{each}: open by polls, and gold.held_up does not name it for {place}"


def _held_up(row: HeldUp, written: Written, log: Logged) -> Iterator[str]:
    """The position of the consumer is the last stable offset, once it has read up to there."""
    positions = [each for each in written.positions if each.place == row.place]
    if positions and row.last_stable not in {each.offset for each in positions}:
        yield f"a last stable offset of {row.last_stable}, at which no consumer ever stood"
    until = row.valid_to or _NEVER
    stood = [each.offset for each in positions if row.valid_from <= each.at <= until]
    if stood and min(stood) > row.last_stable:
        yield f"the consumer was at {min(stood)} by then, beyond {row.last_stable}"
    if row.opened_by is None or row.is_hanging:
        return
    open_then = [
        each
        for each in log.transactions
        if each.transactional_id == row.opened_by
        and row.place in each.places
        and each.started_at < until
        and (each.completed_at or _NEVER) > row.valid_from - LISTED_AFTER
    ]
    if not open_then:
        yield f"{row.opened_by} had no transaction there then"
