"""The part of a lag that open transactions hold up, for a consumer of committed records."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups.held_up import HeldUp, state
from tests.support.lag_rounds import Rounds, Said

NAMES = ("lag_max", "not_consumed_max", "held_up_min", "partitions_held_up")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        # Of each partition: committed offset, end, last stable offset. NAMES of the row.
        pytest.param([(90, 100, 100)], (10, 10, 0, 0), id="nothing is open"),
        pytest.param([(90, 100, 95)], (10, 5, 5, 1), id="both"),
        pytest.param([(90, 100, 90)], (10, 0, 10, 1), id="all of the lag is held up"),
        pytest.param([(90, 100, 91)], (10, 1, 9, 1), id="but for one record"),
        pytest.param([(90, 100, 40)], (10, 0, 10, 1), id="a commit beyond: it reads all records"),
        pytest.param([(90, 100, 120)], (10, 10, 0, 0), id="it rose after the end was asked"),
        pytest.param([(100, 100, None)], (0, 0, 0, 0), id="at the end nobody has to ask"),
        pytest.param([(100, 90, None)], (0, 0, 0, 0), id="a commit beyond the end"),
        pytest.param([(90, 100, None)], (10, None, None, None), id="it was not told"),
        pytest.param([(90, None, 95)], (None, None, None, None), id="the end was not"),
        pytest.param([(90, 100, 95), (5, 9, None)], (14, None, 5, 1), id="one of two"),
        pytest.param([(90, 100, 95), (5, None, None)], (None, None, 5, 1), id="one end of two"),
        pytest.param([(90, 100, 95), (100, 90, None)], (10, 5, 5, 1), id="beyond hides no other"),
        pytest.param([(1, 9, 5), (1, 9, 2), (1, 9, 9)], (24, 13, 11, 2), id="three partitions"),
    ],
)
def test_a_lag_is_what_is_not_consumed_and_what_is_held_up(
    said: list[tuple[Any, ...]], shown: tuple[Any, ...]
) -> None:
    told: Said = {("t", number): each for number, each in enumerate(said)}
    row = Rounds().all(told).last
    assert tuple(row[name] for name in NAMES) == shown
    held = row["held_up"]
    assert held is None if shown[2] is None else sum(each["records"] for each in held) == shown[2]


def test_a_row_names_the_partitions_that_are_held_up_those_with_most_records_first():
    told = {("t", n): (0, 10 + n % 7, 3) for n in range(120)} | {("s", 1): (0, 16, 3)}
    row = Rounds().all(told).last
    assert len(row["held_up"]) == 100
    assert row["partitions_held_up"] == 121
    assert row["held_up"][:2] == [
        {"topic": "s", "partition": 1, "last_stable": 3, "records": 13},
        {"topic": "t", "partition": 6, "last_stable": 3, "records": 13},
    ]
    records = [each["records"] for each in row["held_up"]]
    assert records == sorted(records, reverse=True)


def test_a_row_begins_when_a_transaction_ends():
    stable = (95, 95, 95, 100)
    rounds = Rounds().all(*({("t", 0): (90, 100, each)} for each in stable))
    # The second row has a least lag.
    assert rounds.of("not_consumed_max", "held_up_min") == [(5, 5), (5, 5), (10, 0)]


def test_more_than_a_bigint_holds_is_unknown():
    most = 2**63 - 1
    held = [HeldUp.of("t", n, 0, most, stable) for n, stable in enumerate((0, 1))]
    assert state(held, is_whole=True)["held_up_min"] is None
    assert state(held[:1], is_whole=True)["held_up_min"] == most


offsets = st.none() | st.integers(0, 9)


@given(st.lists(st.tuples(offsets, offsets, offsets), max_size=4))
def test_both_parts_are_the_lag(said: list[tuple[int | None, int | None, int | None]]):
    held = [HeldUp.of("t", number, *each) for number, each in enumerate(said)]
    is_whole = bool(said) and all(each.lag is not None for each in held)
    found = state(held, is_whole=is_whole)
    if found["not_consumed_max"] is not None:
        lag = sum(max(0, end - offset) for offset, end, _ in said if None not in (offset, end))
        assert found["not_consumed_max"] + (found["held_up_min"] or 0) == lag
        assert found["not_consumed_max"] >= 0
    for (offset, end, stable), each in zip(said, held, strict=True):
        if each.records and offset is not None and end is not None and stable is not None:
            readable = range(offset, min(stable, end))
            assert each.records == end - offset - len(readable)
