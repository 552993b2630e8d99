"""History of transactions that differs from what producers did and coordinators wrote is found."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from truth.transactions.asked import name_of
from truth.transactions.compare import compare
from truth.transactions.counted import pattern_of
from truth.transactions.history import Answered, Counts, HeldUp, History, Open, Row
from truth.transactions.logged import Record, logged
from truth.transactions.written import Act, Hanging, Place, Position, Written

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS, HELD, HANGS = ("orders", 0), ("held", 0), ("held", 1)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def act(of: str, action: str, seconds: float, *, error: str | None = None) -> Act:
    return Act(of, action, at(seconds - 0.2), at(seconds + 0.2), error)


def transaction(
    of: str,
    *states: tuple[float, str],
    places: frozenset[Place] = frozenset({ORDERS}),
    version: int = 0,
    **more: Any,
) -> Iterator[Record]:
    """Records of one transaction: in these states, at these seconds."""
    for seconds, state in states:
        numbers = {"epoch": 0, "leader_epoch": 0, "timeout_ms": 60_000} | more
        if isinstance(numbers["leader_epoch"], dict):
            numbers["leader_epoch"] = numbers["leader_epoch"].get(state, 0)
        yield Record(
            log_partition=0,
            offset=0,
            leader_epoch=numbers["leader_epoch"],
            transactional_id=of,
            producer_id=1,
            producer_epoch=numbers["epoch"] + (state.endswith("Abort") and of == "fenced-1"),
            client_version=version,
            state=state,
            timeout_ms=numbers["timeout_ms"],
            started_at=None if state == "Empty" else at(states[0][0]),
            updated_at=at(seconds),
            written_at=at(seconds),
            places=frozenset() if state.startswith(("Complete", "Empty")) else places,
        )


def committed(begin: float, prepared: float, completed: float) -> tuple[tuple[float, str], ...]:
    return (begin, "Ongoing"), (prepared, "PrepareCommit"), (completed, "CompleteCommit")


def aborted(begin: float, prepared: float, completed: float) -> tuple[tuple[float, str], ...]:
    return (begin, "Ongoing"), (prepared, "PrepareAbort"), (completed, "CompleteAbort")


RECORDS = [
    *transaction("app-1", (0, "Empty")),
    *transaction("app-1", *committed(1, 2, 2.5)),
    *transaction("app-1", *aborted(3, 4, 4.5)),
    *transaction("late-1", *aborted(10, 24, 24.5), timeout_ms=2_000),
    *transaction(
        "stuck-1",
        *committed(30, 31, 101),
        places=frozenset({ORDERS, HELD}),
        leader_epoch={"CompleteCommit": 1},
    ),
    *transaction("fenced-1", *aborted(110, 111, 111.5)),
    *transaction("fenced-1", (112, "Empty"), epoch=2),
]
LOG = logged(replace(record, offset=offset) for offset, record in enumerate(RECORDS))
HANGING = Hanging(HANGS, 2**40, 0, at(0))
WRITTEN = Written(
    [
        act("app-1", "init", 0),
        act("app-1", "begin", 1),
        act("app-1", "commit", 2),
        act("app-1", "begin", 3),
        act("app-1", "abort", 4),
        act("late-1", "begin", 10),
        act("late-1", "commit", 26, error="it is aborted"),
        act("stuck-1", "begin", 30),
        act("stuck-1", "commit", 31),
        act("fenced-1", "begin", 110),
        Act("fenced-1", "init", at(110.9), at(112.1)),
    ],
    [HANGING],
    [Position(at(50), HELD, 5), Position(at(50), HANGS, 0)],
)


def row(of: str, first: int, last: int, **more: Any) -> Row:
    begin, prepared, end = LOG.records[first], LOG.records[last - 1], LOG.records[last]
    columns: dict[str, Any] = {
        "transactional_id": of,
        "pattern": pattern_of(of),
        "log_partition": 0,
        "producer_id": 1,
        "producer_epoch": end.producer_epoch,
        "timeout_ms": end.timeout_ms,
        "started_at": begin.started_at,
        "is_begin_read": True,
        "state": end.state,
        "last_record_at": end.updated_at,
        "prepared_after": prepared.updated_at,
        "prepared_before": prepared.updated_at,
        "ended_after": end.updated_at,
        "ended_before": end.updated_at,
        "outcome": "aborted" if end.state.endswith("Abort") else "committed",
        "aborted_by": None,
        "reason": None,
        "reason_sureness": None,
        "stuck": None,
        "overdue_since": None,
        "stuck_completing_since": None,
        "seen_at": None,
        "close_reason": "ended",
        "first_leader_epoch": begin.leader_epoch,
        "leader_epoch": end.leader_epoch,
        "coordinator_moved": begin.leader_epoch != end.leader_epoch,
        "first_offset": first,
        "last_offset": last,
        "partition_count": len(begin.places),
        "is_live": False,
    }
    return Row(**columns | more)


BY_COORDINATOR = {"aborted_by": "coordinator", "reason_sureness": "inferred"}
LATE = row("late-1", 7, 9, reason="timed_out", overdue_since=at(22), **BY_COORDINATOR)
STUCK = row("stuck-1", 10, 12, stuck_completing_since=at(61))
FENCED = row("fenced-1", 13, 15, **BY_COORDINATOR | {"reason_sureness": "exact"}, reason="fenced")
STILL_STUCK = replace(
    STUCK,
    state="PrepareCommit",
    last_record_at=at(31),
    last_offset=11,
    ended_after=None,
    ended_before=None,
    stuck="stuck_completing",
    seen_at=at(70),
    is_live=True,
)


def counts(pattern: str, **more: int) -> Counts:
    names = [name for name in Counts.__dataclass_fields__ if name != "pattern"]
    columns = dict.fromkeys(names, 0) | {
        "ids_min": 1, "ids_max": 1, "begun": 1, "completed": 1, "most_partitions": 1,
        "producer_ids_given": 1,
    }  # fmt: skip
    return Counts(pattern, **columns | more)


COUNTS = (
    counts(
        "app", begun=2, completed=2, committed=1, aborted_by_client=1, total_ms=3_000,
        longest_ms=1_500, longest_completing_ms=500,
    ),
    counts("late", aborted_by_unknown=1, timed_out=1, total_ms=14_500, longest_ms=14_500),
    counts("stuck", committed=1, total_ms=71_000, longest_ms=71_000, most_partitions=2),
    counts(
        "fenced", aborted_by_coordinator=1, epochs_raised=1, total_ms=1_500, longest_ms=1_500
    ),
)  # fmt: skip
OPEN = Open(
    "stuck-1", False, "PrepareCommit", 1, at(30), None, at(62), at(63), at(99), at(102)
)  # fmt: skip
OPEN_HANGING = Open(name_of(HANGING), True, None, 2**40, None, 0, at(1), at(2), None, None)
HELD_UP = HeldUp("reader", *HELD, 5, 1, "stuck-1", False, at(40), at(102))
HELD_UP_HANGING = HeldUp("reader", *HANGS, 0, 1, name_of(HANGING), True, at(4), None)
HISTORY = History(
    rows=(LATE, STUCK, FENCED),
    counts=COUNTS,
    open=(OPEN, OPEN_HANGING),
    held_up=(HELD_UP, HELD_UP_HANGING),
    answers=(Answered(at(64), at(65)),),
    looked=((STILL_STUCK,),),
)


def test_history_that_agrees() -> None:
    score = compare(WRITTEN, LOG, HISTORY)
    assert score.faults == []
    assert (score.transactions, score.rows, score.looked) == (5, 3, 1)
    assert (score.aborts, score.stuck, score.moved, score.held_up) == (2, 2, 1, 2)


def spoilt(name: str, index: int, **more: Any) -> Callable[[], History]:
    """History in which one row of a kind has another value."""

    def spoil() -> History:
        rows = list(getattr(HISTORY, name))
        rows[index] = replace(rows[index], **more)
        return replace(HISTORY, **{name: rows})

    return spoil


def without(name: str, index: int) -> Callable[[], History]:
    def spoil() -> History:
        rows = list(getattr(HISTORY, name))
        del rows[index]
        return replace(HISTORY, **{name: rows})

    return spoil


def seen(**more: Any) -> Callable[[], History]:
    """Another row before the end."""
    return lambda: replace(HISTORY, looked=((replace(STILL_STUCK, **more),),))


WRONG = {
    "a transaction that was late has no row": without("rows", 0),
    "one that was stuck has none": without("rows", 1),
    "one that was fenced has none": without("rows", 2),
    "an ordinary one has a row": lambda: replace(
        HISTORY, rows=(*HISTORY.rows, row("app-1", 1, 3))
    ),
    "one that nobody began has a row": lambda: replace(
        HISTORY, rows=(*HISTORY.rows, row("app-1", 1, 3, started_at=at(1.1)))
    ),
    "a row twice": lambda: replace(HISTORY, rows=(*HISTORY.rows, STUCK)),
    "another outcome": spoilt("rows", 1, outcome="aborted"),
    "fenced, and it was late": spoilt("rows", 0, reason="fenced"),
    "aborted by its client, and it was fenced": spoilt("rows", 2, aborted_by="client", reason=None),
    "late, and it was fenced": spoilt("rows", 2, reason="timed_out"),
    "another time of preparing": spoilt("rows", 1, prepared_before=at(32)),
    "another end": spoilt("rows", 1, ended_after=at(80)),
    "never overdue": spoilt("rows", 0, overdue_since=None),
    "never stuck": spoilt("rows", 1, stuck_completing_since=None),
    "overdue for nothing": spoilt("rows", 1, overdue_since=at(40)),
    "its coordinator never moved": spoilt("rows", 1, coordinator_moved=False),
    "another leader epoch": spoilt("rows", 1, leader_epoch=0),
    "another epoch": spoilt("rows", 2, producer_epoch=0),
    "fewer partitions": spoilt("rows", 1, partition_count=1),
    "still open at the end": spoilt("rows", 1, is_live=True, close_reason=None),
    "stuck at the end": spoilt("rows", 1, stuck="stuck_completing"),
    "another first record": spoilt("rows", 1, first_offset=11),
    "nothing was written before the end, though it was": seen(seen_at=at(101.5)),
    "overdue before the end, though it was prepared": seen(stuck="overdue"),
    "decided before the end otherwise": seen(outcome="aborted"),
    "a row before the end that the log has not": seen(started_at=at(29)),
    "a record before the end that the log has not": seen(last_offset=3),
    "a pattern without counts": without("counts", 0),
    "a pattern too many": lambda: replace(HISTORY, counts=(*COUNTS, counts("more"))),
    "fewer commits": spoilt("counts", 0, committed=0),
    "a commit more": spoilt("counts", 0, committed=2),
    "another abort": spoilt("counts", 0, aborted_by_unknown=1),
    "aborted by its coordinator": spoilt(
        "counts", 0, aborted_by_client=0, aborted_by_coordinator=1
    ),
    "no time-out": spoilt("counts", 1, timed_out=0),
    "no epoch was raised": spoilt("counts", 3, epochs_raised=0),
    "begun once more": spoilt("counts", 0, begun=3),
    "another longest": spoilt("counts", 2, longest_ms=50_000),
    "another sum": spoilt("counts", 2, total_ms=50_000),
    "most partitions": spoilt("counts", 2, most_partitions=3),
    "an id more": spoilt("counts", 0, ids_min=2),
    "polls do not show it": without("open", 0),
    "polls do not show that it hangs": without("open", 1),
    "open in another state": spoilt("open", 0, state="Ongoing"),
    "open by another producer": spoilt("open", 0, producer_id=2),
    "open since another time": spoilt("open", 0, started_at=at(31)),
    "open after its end": spoilt("open", 0, last_seen_sent_at=at(105)),
    "it hangs from elsewhere on": spoilt("open", 1, start_offset=1),
    "something hangs that does not": spoilt("open", 1, opened_by="7 on held-1"),
    "held up by nobody": spoilt("held_up", 0, opened_by=None),
    "held up by another one": spoilt("held_up", 0, opened_by="app-1"),
    "held up at another offset": spoilt("held_up", 0, last_stable=4),
    "nobody is held up by the one that hangs": without("held_up", 1),
}  # fmt: skip


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG)
def test_a_difference_of_history_is_found(spoil: Callable[[], History]) -> None:
    assert compare(WRITTEN, LOG, spoil()).faults


ACTS = {
    "a commit that succeeded is not in the log": act("app-1", "commit", 50),
    "an abort that succeeded is not in the log": act("app-1", "abort", 50),
}


@pytest.mark.parametrize("more", ACTS.values(), ids=ACTS)
def test_an_act_that_the_log_lacks_is_found(more: Act) -> None:
    assert compare(replace(WRITTEN, acts=[*WRITTEN.acts, more]), LOG, HISTORY).faults


@pytest.mark.parametrize("action", ["begin", "commit", "abort"])
def test_a_transaction_that_nobody_asked_for_is_found(action: str) -> None:
    acts = [
        each for each in WRITTEN.acts if (each.action, each.transactional_id) != (action, "app-1")
    ]
    assert compare(replace(WRITTEN, acts=acts), LOG, HISTORY).faults


@pytest.mark.parametrize(("version", "is_repetition"), [(1, False), (2, True)])
def test_an_abort_after_the_coordinators_own_is_a_repetition(
    version: int, is_repetition: bool
) -> None:
    """KIP-890: of version 2 it is answered without an error, and writes nothing."""
    records = transaction("late-1", *aborted(1, 14, 14.5), timeout_ms=2_000, version=version)
    log = logged(replace(record, offset=offset) for offset, record in enumerate(records))
    written = Written([act("late-1", "begin", 1), act("late-1", "abort", 26)])
    faults = compare(written, log, History([], [])).faults
    assert is_repetition != any("the log has no such transaction" in fault for fault in faults)


def test_an_abort_may_be_guessed_as_documented_alone() -> None:
    """From version 2 on a producer that begins soon after its own abort looks like a fence."""
    records = [
        *transaction("app-1", *aborted(1, 2, 2.5), version=2),
        *transaction("app-1", (4, "Empty"), version=2),
    ]
    log = logged(replace(record, offset=offset) for offset, record in enumerate(records))
    written = Written([act("app-1", "begin", 1), act("app-1", "abort", 2), act("app-1", "init", 4)])
    guess = replace(
        row("app-1", 1, 3, reason="fenced", **BY_COORDINATOR),
        started_at=at(1), state="CompleteAbort", last_record_at=at(2.5), outcome="aborted",
        prepared_after=at(2), prepared_before=at(2), ended_after=at(2.5), ended_before=at(2.5),
        first_offset=0, last_offset=2,
    )  # fmt: skip
    of_pattern = counts("app", aborted_by_unknown=1, total_ms=1_500, longest_ms=1_500)
    score = compare(written, log, History([guess], [of_pattern]))
    assert (score.faults, score.guessed) == ([], 1)
    exact = replace(guess, reason_sureness="exact")
    assert compare(written, log, History([exact], [of_pattern])).faults
