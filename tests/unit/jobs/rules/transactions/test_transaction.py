"""Who aborted a transaction and why, whether it is worth a row, and whether it is stuck: a case for
each rule.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.transactions.transaction import (
    Abort,
    Entry,
    Transaction,
    abort_of,
    continued,
    due_at,
    is_begin_of_next,
    is_pending,
    is_worth,
    of_entry,
    of_nothing,
    stuck_now,
    stuck_since,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def open_for(timeout_s: float = 60, **more: Any) -> Transaction:
    """A transaction that began at 0 s; times of `more` are given in seconds."""
    times = {
        name: at(value)
        for name, value in more.items()
        if name.endswith("_at") and value is not None
    }
    return Transaction(
        **{
            "transactional_id": "app-1",
            "state": "Ongoing",
            "first_offset": 1,
            "offset": 2,
            "updated_at": at(0),
            "started_at": at(0),
            "timeout_ms": int(timeout_s * 1_000),
            "producer_id": 7,
            "producer_epoch": 3,
            **more,
            **times,
        }
    )


def aborted(prepared_at: float | None, **more: Any) -> Transaction:
    completed = {"completed_at": None if prepared_at is None else prepared_at + 1}
    return open_for(
        **{
            "state": "CompleteAbort",
            "prepared_at": prepared_at,
            **completed,
            "updated_at": 1,
            **more,
        }
    )


OLD, NEW = {"client_version": 0}, {"client_version": 2}
WAS = {"ongoing_producer_id": 7, "ongoing_epoch": 3, "ongoing_version": 2}

ABORTS: dict[str, tuple[Transaction, Abort]] = {
    "committed": (open_for(state="CompleteCommit", prepared_at=1), Abort()),
    "fenced: the log tells": (
        aborted(5, aborted_by="coordinator"),
        Abort("coordinator", "fenced", "exact"),
    ),
    "timed_out: the coordinator's, after the time-out": (
        aborted(65, aborted_by="coordinator"),
        Abort("coordinator", "timed_out", "inferred"),
    ),
    "client: before version 2 the epoch tells": (
        aborted(5, **OLD, **WAS),
        Abort("client", None, "exact"),
    ),
    "coordinator: before version 2 the epoch rose": (
        aborted(5, **OLD, **WAS | {"ongoing_epoch": 2}),
        Abort("coordinator", "fenced", "exact"),
    ),
    "coordinator: the client was older": (
        aborted(5, **NEW, **WAS | {"ongoing_version": 1, "ongoing_epoch": 2}),
        Abort("coordinator", "fenced", "exact"),
    ),
    "coordinator: the epoch rose by two": (
        aborted(5, **NEW, **WAS | {"ongoing_epoch": 1}),
        Abort("coordinator", "fenced", "exact"),
    ),
    "client: most likely": (
        aborted(5, **NEW, **WAS | {"ongoing_epoch": 2}),
        Abort("client", None, "inferred"),
    ),
    "client: another epoch says nothing of another producer id": (
        aborted(5, **OLD, **WAS | {"ongoing_producer_id": 6, "ongoing_epoch": 1}),
        Abort("client", None, "inferred"),
    ),
    "timed_out: most likely, as it was late": (
        aborted(61, **NEW),
        Abort("coordinator", "timed_out", "inferred"),
    ),
    "fenced: a producer began at once": (
        aborted(5, initialized_at=9, **NEW),
        Abort("coordinator", "fenced", "inferred"),
    ),
    "client: a producer began later": (
        aborted(5, initialized_at=11, **NEW),
        Abort("client", None, "inferred"),
    ),
    "unknown: the record that decided was compacted away": (
        aborted(None, completed_at=400, **NEW),
        Abort(),
    ),
    "client: without a time-out none is late": (
        aborted(10_000, timeout_ms=2**31 - 1, **NEW),
        Abort("client", None, "inferred"),
    ),
}


@pytest.mark.parametrize("case", ABORTS)
def test_who_aborted_it_and_why(case: str) -> None:
    of, expected = ABORTS[case]
    assert abort_of(of) == expected


def test_an_abort_waits_for_the_next_record_where_that_may_tell() -> None:
    assert is_pending(aborted(5, **NEW))
    assert not is_pending(aborted(5, initialized_at=6, **NEW))
    assert not is_pending(aborted(61, **NEW)), "late: a time-out"
    assert not is_pending(aborted(5, aborted_by="client", **NEW))
    assert not is_pending(open_for())


@pytest.mark.parametrize(
    ("seconds", "epoch", "producer_id", "expected"),
    [(7, 4, 7, True), (11, 4, 7, False), (7, 5, 7, False), (7, 0, 8, True), (7, None, 7, True)],
)
def test_a_begin_explains_an_abort_of_the_epoch_before_if_it_is_soon(
    seconds: float, epoch: int | None, producer_id: int, expected: bool
) -> None:
    begun = entry(updated_at=at(seconds), producer_epoch=epoch, producer_id=producer_id)
    assert is_begin_of_next(aborted(5, **NEW), begun) == expected


STUCK: dict[str, tuple[Transaction, float, str | None, set[str]]] = {
    "overdue: time-out and check are over": (open_for(60), 71, "overdue", {"overdue"}),
    "not yet: the coordinator may still look": (open_for(60), 70, None, set()),
    "never: no time-out": (open_for(timeout_ms=2**31 - 1), 10**6, None, set()),
    "stuck_completing": (
        open_for(60, state="PrepareCommit", prepared_at=5),
        36,
        "stuck_completing",
        {"stuck_completing"},
    ),
    "not yet: markers are being written": (
        open_for(60, state="PrepareCommit", prepared_at=5),
        35,
        None,
        set(),
    ),
    "both, one after the other": (
        open_for(60, state="PrepareAbort", prepared_at=100),
        200,
        "stuck_completing",
        {"overdue", "stuck_completing"},
    ),
    "it was overdue": (aborted(71), 1_000, None, {"overdue"}),
    "it was late, and in time": (aborted(69), 1_000, None, set()),
    "it was completing for long": (aborted(5, completed_at=40), 1_000, None, {"stuck_completing"}),
}


@pytest.mark.parametrize("case", STUCK)
def test_whether_it_is_stuck_and_was(case: str) -> None:
    of, seen, now, since = STUCK[case]
    assert stuck_now(of, at(seen)) == now
    assert set(stuck_since(of, at(seen))) == since


@pytest.mark.parametrize(
    ("of", "seen", "expected"),
    [
        (open_for(60), 60, False),
        (open_for(60), 61, True),
        (open_for(900), 300, False),
        (open_for(900), 301, True),
        (aborted(5, aborted_by="coordinator"), 6, True),
        (aborted(5, aborted_by="client"), 6, False),
        (aborted(5, completed_at=36, aborted_by="client"), 36, True),
        (open_for(60, state="CompleteCommit", prepared_at=59, completed_at=61), 0, True),
        (open_for(60, state="CompleteCommit", prepared_at=59, completed_at=60), 900, False),
        (open_for(60, state="CompleteCommit", completed_at=900), 900, True),
    ],
)
def test_what_is_worth_a_row(of: Transaction, seen: float, expected: bool) -> None:
    assert is_worth(of, at(seen)) == expected


def test_it_is_due_when_it_is_long_then_overdue_then_completing_for_long() -> None:
    assert due_at(open_for(60), at(0)) == at(60)
    assert due_at(open_for(60), at(61)) == at(70)
    assert due_at(open_for(60), at(71)) is None
    assert due_at(open_for(900), at(0)) == at(300)
    assert due_at(open_for(60, state="PrepareAbort", prepared_at=10), at(0)) == at(40)
    assert due_at(aborted(5), at(0)) == at(10), "a fence may explain it until then"
    assert due_at(aborted(5, aborted_by="client"), at(0)) is None


def entry(**given: Any) -> Entry:
    begun = {"transactional_id": "app-1", "state": "Ongoing", "from_offset": 1, "offset": 2}
    return Entry(**begun | {"updated_at": at(0), "started_at": at(0)} | given)


def test_entries_of_two_batches_are_one_transaction() -> None:
    first = of_entry(
        entry(
            ongoing_epoch=3,
            producer_id=7,
            partitions={"t": [0, 1]},
            partition_count=2,
            timeout_ms=60_000,
        )
    )
    second = of_entry(
        entry(
            state="CompleteAbort",
            was_open=True,
            from_offset=9,
            offset=10,
            producer_id=7,
            producer_epoch=4,
            prepared_at=at(5),
            completed_at=at(6),
            leader_epoch=2,
        )
    )
    assert first is not None
    assert second is not None
    whole = continued(first, second)
    assert (whole.first_offset, whole.offset, whole.was_open) == (1, 10, False)
    assert (whole.partitions, whole.partition_count) == ({"t": [0, 1]}, 2)
    assert abort_of(whole) == Abort("coordinator", "fenced", "exact")


def test_an_entry_without_a_transaction_is_none() -> None:
    assert of_entry(entry(state="Empty")) is None
    assert of_entry(entry(started_at=None, state="Dead")) is None


def test_an_abort_of_nothing_is_the_clients() -> None:
    nothing = replace(aborted(0, **NEW), was_open=True)
    assert of_nothing(nothing).aborted_by == "client"
    assert of_nothing(replace(nothing, started_at=at(-1))).aborted_by is None
    assert of_nothing(replace(nothing, client_version=1)).aborted_by is None
