"""Patterns of transactional ids, and ids that are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.transactional_ids import LONGEST, pattern_of, shortened

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.mark.parametrize(
    ("transactional_id", "pattern"),
    [
        # Kafka Streams, exactly-once v2 and v1; Flink; Connect's workers and tasks; Spring.
        (f"app-{UUID}-3", "app"),
        ("app-0_12", "app"),
        ("prefix-0-17", "prefix"),
        ("connect-cluster-group-1", "connect-cluster-group"),
        ("group-connector-0", "group-connector"),
        ("tx-orders.events.12", "tx-orders.events"),
        ("payments", "payments"),
        (f"app-{UUID}-producer", "app-*-producer"),
        ("sink-5f2c0ffee0ddba11cafe-7", "sink"),
        ("deadbeef-7", "deadbeef"),
        (UUID, "*"),
        ("42", "*"),
        ("", "*"),
        ("número-4", "número"),
    ],
)
def test_the_pattern_of_an_id(transactional_id: str, pattern: str) -> None:
    assert pattern_of(transactional_id) == pattern


@given(st.text(), st.integers(0, 10**9))
def test_a_number_at_the_end_makes_no_other_pattern(text: str, number: int) -> None:
    assert pattern_of(f"{text}-{number}") == pattern_of(f"{text}-0")


@given(st.text(max_size=2 * LONGEST))
def test_texts_that_are_cut_are_bounded_and_others_stay(text: str) -> None:
    assert len(shortened(text) or "") <= LONGEST
    assert len(text) > LONGEST or shortened(text) == text
    assert len(pattern_of(text)) <= LONGEST


def test_texts_that_differ_stay_different() -> None:
    assert shortened("x" * 300) != shortened("x" * 299 + "y")
    assert shortened(None) is None
