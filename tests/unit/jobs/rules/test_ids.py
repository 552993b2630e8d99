"""Ids of rows, and of observations in the controllers' log."""

import pytest

from jobs.rules.ids import log_id, offset_of, row_id, source_of

POLL, NEXT = "20261101T000000Z-00000000/000000000007", "20261101T000000Z-00000000/000000000008"


def test_an_id_is_the_md5_of_its_values_in_lines() -> None:
    # printf "id-prod\nt\n\n0" | md5sum
    assert row_id("id-prod", "t", None, 0) == "058f6f3f35a8f903be3265483ccd83bf"
    assert row_id("a", "b") != row_id("ab", "")


def test_a_record_lies_between_two_polls_in_the_order_of_offsets() -> None:
    in_order = ["", log_id("", 0), POLL, log_id(POLL, 9), log_id(POLL, 10), log_id(POLL, 2**40)]
    assert sorted([*in_order, NEXT]) == [*in_order, NEXT]


@pytest.mark.parametrize(
    ("observation", "offset", "source"),
    [
        (POLL, None, "polls"),
        ("", None, "polls"),
        (log_id("", 0), 0, "log"),
        (log_id(POLL, 2**40), 2**40, "log"),
    ],
)
def test_the_source_of_an_observation(observation: str, offset: int | None, source: str) -> None:
    assert (offset_of(observation), source_of(observation)) == (offset, source)


def test_where_there_is_no_observation_there_is_no_offset() -> None:
    assert offset_of(None) is None
