"""Cost and lag that differ from what members did are found."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local_cluster.members import Commit, Done
from truth.groups.costs import compare_costs, compare_lag
from truth.groups.score import Score
from truth.model.work import Work

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LAST = 99
"""Records come from second 0 on, one a second, and are done as they come, but for those of 60 to
63.
"""
RESTS_FROM = 120.0


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def done_at(offset: int) -> float:
    return 64 + offset / 1000 if 60 <= offset < 64 else offset + 0.1


DONE = [Done(at(done_at(n)), "a" if n < 60 else "b", 0, n) for n in range(LAST - 9)]
COMMITTED = [
    Commit(at(n), at(n + 0.05), 0, sum(each.at < at(n) for each in DONE), is_certain=True)
    for n in range(5, 200, 5)
    if n != 60
]
WORK = Work(DONE, COMMITTED, {0: [at(n) for n in range(LAST + 1)]}, at(RESTS_FROM))


def told(seconds: float, **columns: Any) -> dict[str, Any]:
    """A row of lag, of a poll that read commits at this time, and ends half a second later."""
    return {"first_poll": str(seconds), "valid_from": at(seconds), **columns}


def faults(row: dict[str, Any], work: Work = WORK) -> Score:
    seconds = float(row["first_poll"])
    entry = {
        "partition": 0,
        "committed_offset": 0,
        "commit_read_after": at(seconds - 0.1),
    }
    entry |= {"commit_read_before": at(seconds), "ends_read_before": at(seconds + 0.5)}
    score = Score()
    compare_lag([row], {row["first_poll"]: [entry]}, work, score)
    return score


@pytest.mark.parametrize(
    ("seconds", "least", "most", "fault"),
    [
        # Committed at 55: 55 records. At 62.2 the log has 63, 60 of which were done.
        (62.2, None, 8, None),
        (62.2, 5, 8, None),
        (62.2, 9, 8, "a lag of 8 at most, at least 9 by history"),
        (62.2, 5, 4, "a lag of 5 to 8, at most 4 by history"),
        (62.2, 5, 9, "a lag of 5 to 8, at most 9 by history"),
        # The end was read half a second later.
        (62.7, 5, 9, None),
        # A commit that is under way may be there or not.
        (65.04, 2, 11, None),
        (65.04, None, 12, "a lag of 0 to 11, at most 12 by history"),
        # Nobody does the last ten records.
        (130.0, 10, 10, None),
        (130.0, 9, 10, "at rest a lag of 10 to 10, 9 to 10 by history"),
        (130.0, 11, 11, "a lag of 10 at most, at least 11 by history"),
        # The visit before may have been from before producers rested.
        (121.0, 9, 10, None),
    ],
)
def test_lag_is_within_its_bounds_and_exact_at_rest(
    seconds: float, least: int | None, most: int, fault: str | None
) -> None:
    score = faults(told(seconds, lag_min=least, lag_max=most))
    assert [each.partition(": ")[2] for each in score.faults][:1] == (
        [] if fault is None else [fault]
    )
    assert (score.lags, score.at_rest) == (1, int(seconds >= RESTS_FROM + 3))


def test_a_commit_that_nobody_made_is_a_fault() -> None:
    early = told(4.0, lag_min=None, lag_max=4)
    assert ["nobody made" in each for each in faults(early).faults] == [True]
    assert faults(told(4.0, lag_min=None, lag_max=None)).lags == 0, "it was not known"


def test_a_commit_whose_answer_did_not_come_may_have_been_made() -> None:
    lost = Commit(at(60), at(60.5), 0, 60, is_certain=False)
    committed = sorted([*COMMITTED, lost], key=lambda each: each.called)
    work = replace(WORK, committed=committed)
    assert faults(told(62.2, lag_min=None, lag_max=3), work=work).faults == []
    assert faults(told(62.2, lag_min=None, lag_max=8), work=work).faults == []
    assert faults(told(66.0, lag_min=None, lag_max=6), work=work).faults != [], (
        "a later one was answered"
    )


def cost(**columns: Any) -> dict[str, Any]:
    row = {
        "topic": "t",
        "partition": 0,
        "began_before": at(61),
        "close_reason": "recovered",
        "last_commit_at": at(55),
        "first_commit_at": at(65),
        "commit_gap_ms": 10_000,
        "pause_ms_min": 2_000,
        "pause_ms_max": 10_000,
        "lag_back_before": at(70),
        "reprocessed_min": 0,
        "reprocessed_max": 4,
    }
    return row | columns


def compared(done: Sequence[Done] = DONE, **columns: Any) -> Score:
    score = Score()
    compare_costs([cost(**columns)], replace(WORK, done=done), score)
    return score


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, None),
        ({"pause_ms_min": 5_400}, "silent for 4960 ms, at least 5400 by history"),
        ({"pause_ms_max": None}, "a gap, and no longest pause"),
        ({"pause_ms_max": 4_500}, "silent for 4960 ms, at most 4500 by history"),
        ({"reprocessed_min": 1}, "0 done again, at least 1 by history"),
        (
            {"last_commit_at": at(-5), "first_commit_at": at(-4)},
            "nobody did anything about its gap",
        ),
        ({"close_reason": "next_rebalance", "pause_ms_min": 9_000}, None),
    ],
)
def test_pauses_are_within_their_bounds(columns: dict[str, Any], fault: str | None) -> None:
    score = compared(**columns)
    assert [each.partition(": ")[2] for each in score.faults] == ([] if fault is None else [fault])
    assert (score.costs, score.recovered) == (1, 1)


def test_records_that_were_done_twice_are_counted() -> None:
    again = [Done(at(64.5 + n / 100), "b", 0, n) for n in range(57, 60)]
    done = sorted([*DONE, *again], key=lambda each: each.at)
    score = compared(done, reprocessed_max=2)
    assert score.reprocessed == 3
    assert [each.partition(": ")[2] for each in score.faults] == [
        "3 done again, at most 2 by history"
    ]
