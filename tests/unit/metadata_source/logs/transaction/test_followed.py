"""Records that follow others of their id which were compacted away, or lie before a span."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.transaction_log import Coordinator, Written, key_of, rows_of, states_of


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def test_a_begin_after_an_open_transaction_says_by_when_that_had_ended() -> None:
    made = Coordinator()
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.now += 5_000
    made.init("a")
    log = [each for each in made.log if each.offset not in {2, 3}]
    (entry,) = states_of(rows_of(log, 0, made.offset))
    assert (entry["state"], entry["initialized_at"]) == ("Ongoing", None)
    assert entry["followed_at"] == utc(made.now)


def test_a_tombstone_that_is_the_first_record_of_its_id_has_an_entry() -> None:
    made = Coordinator()
    made.init("a")
    made.add("a")
    made.log.append(Written(2, made.now, 0, key_of("a"), None))
    (entry,) = states_of(rows_of(made.log, 2, 3))
    assert (entry["state"], entry["started_at"], entry["followed_at"]) == (
        "Dead",
        None,
        utc(made.now),
    )


def test_one_that_another_follows_says_when_and_one_that_is_open_does_not() -> None:
    made = Coordinator(1)
    made.init("a")
    made.now += 5_000
    made.add("a")
    made.end("a", is_commit=True)
    made.complete("a")
    made.now += 5_000
    made.add("a")
    # Of the first one its begin alone is left.
    log = [each for each in made.log if each.offset not in {2, 3}]
    first, second = states_of(rows_of(log, 0, made.offset))
    assert (first["state"], first["followed_at"]) == ("Ongoing", utc(made.now))
    assert (second["state"], second["followed_at"]) == ("Ongoing", None)


@pytest.mark.parametrize(
    ("follows_end", "compacted_away", "entries"),
    [
        pytest.param(True, set(), 0, id="all records are there"),
        pytest.param(True, {2}, 1, id="some were compacted away"),
        pytest.param(True, {1}, 1, id="some at the begin of the span"),
        pytest.param(False, set(), 1, id="perhaps some before the span"),
    ],
)
def test_the_first_record_after_others_that_were_compacted_away_has_an_entry(
    *, follows_end: bool, compacted_away: set[int], entries: int
) -> None:
    made = Coordinator(1)
    made.init("a")
    for other in ("b", "c"):
        made.init(other)
    made.now += 5_000
    for _ in range(2):
        made.add("a")
        made.end("a", is_commit=True)
        made.complete("a")
    log = [each for each in made.log if each.offset not in compacted_away]
    rows = rows_of(log, 1, made.offset, follows_end=follows_end)
    found = [each for each in states_of(rows) if each["transactional_id"] == "a"]
    assert [each["from_offset"] for each in found] == [3] * entries


def test_a_transaction_that_may_have_a_record_before_the_span_has_an_entry() -> None:
    made = Coordinator()
    made.init("a")
    made.add("a", 0)
    made.add("a", 1)
    made.end("a", is_commit=True)
    made.complete("a")
    (entry,) = states_of(rows_of(made.log, 2, 5))
    assert (entry["was_open"], entry["completed_offset"], entry["partitions"]) == (None, 4, None)
