"""Storms and crash loops that are missing, or are others, are found."""

from dataclasses import replace

import pytest

from tests.support.small_group import (
    A_ALONE,
    GROUP,
    at,
    happened,
    person,
    rebalance,
)
from truth.groups.history import History, Rebalance, Storm
from truth.groups.storms import compare_loops, compare_storms, storms


def joins(count: int, apart: float, client_id: str = "x") -> list[Rebalance]:
    """Rebalances in each of which a client joins."""
    joined = replace(person(None, A_ALONE), client_id=client_id)
    return [rebalance(n, n + 1, n * apart, ("member_joined",), joined) for n in range(count)]


LOOPED = [happened("crash_loop", 0, A_ALONE, before=())]


def storm(kind: str, count: int, apart: float, client_id: str | None = None) -> Storm:
    return Storm(GROUP, kind, client_id, at(0), at((count - 1) * apart), count)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (joins(2, 60), []),
        (joins(4, 60), [storm("crash_loop", 4, 60, "x")]),
        (joins(6, 60), [storm("storm", 6, 60), storm("crash_loop", 6, 60, "x")]),
        # Less than ten minutes apart: five of them take ten.
        (joins(5, 150), [storm("crash_loop", 5, 150, "x")]),
        (joins(5, 149), [storm("storm", 5, 149), storm("crash_loop", 5, 149, "x")]),
        (joins(3, 300), []),
        ([*joins(3, 60), *joins(1, 0, "y")], [storm("crash_loop", 3, 60, "x")]),
    ],
)
def test_what_lies_in_a_window_that_holds_enough_is_a_storm(rows, wanted):
    assert list(storms(GROUP, rows)) == wanted


def test_a_storm_that_is_missing_or_another_is_found():
    rows = joins(4, 60)
    right = storm("crash_loop", 4, 60, "x")
    assert list(compare_storms(LOOPED, History(rows, [], [right]))) == []
    for told in (
        [],
        [replace(right, rebalances=3)],
        [replace(right, last_before=at(1))],
        [right, right],
    ):
        assert list(compare_storms(LOOPED, History(rows, [], told)))
    # It crashed thrice and stayed, so that it joined four times: less than that was not told as
    # often as it joined.
    assert list(compare_loops(LOOPED, History(rows, [], [right]))) == []
    (fault,) = compare_loops(LOOPED, History(joins(3, 60), [], [storm("crash_loop", 3, 60, "x")]))
    assert fault == "x joined 4 times, 3 are in its crash loop"
