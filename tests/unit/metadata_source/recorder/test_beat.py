"""When a cluster is polled, asked and recorded whole: arithmetic."""

from datetime import UTC, date, datetime

import pytest

from metadata_source.recorder.beat import (
    Beat,
    KeyFrame,
    QuestionBeats,
    begins_after_ms,
    is_key_due,
    wall_ms,
)
from tests.support.for_each import for_each

BEAT = Beat(1_000.0, 2_000)


@for_each("interval_ms", [1_000, 2_000, 5_000, 10_000, 30_000, 60_000])
def test_no_two_clusters_are_due_at_once_while_the_interval_has_room_for_them(interval_ms):
    begins = [begins_after_ms(place) for place in range(interval_ms)]
    assert begins[0] == 0
    assert begins[-1] < interval_ms * 100
    assert len({begin % interval_ms for begin in begins}) == interval_ms


@pytest.mark.parametrize(
    ("now_s", "tick"),
    [
        (999.9, -1),
        (0.0, -1),
        (1_000.0, 0),
        (1_001.999, 0),
        (1_002.0, 1),
        (1_009.5, 4),
        (1_000.0 + 2 * 10**6, 10**6),
    ],
)
def test_the_last_tick_that_is_due(now_s, tick):
    assert BEAT.passed(now_s) == tick


@for_each("interval_ms", [100, 300, 333, 500, 700, 1_100, 30_000])
def test_a_tick_is_due_at_its_time(interval_ms):
    """Whatever floats make of it: a tick that seemed not to be due at its own time would be made
    twice.
    """
    beat = Beat(40_376.117572517, interval_ms)
    assert [beat.passed(beat.at(tick)) for tick in range(2_000)] == list(range(2_000))


@pytest.mark.parametrize(
    ("tick", "now_s", "missed"),
    [
        (0, 1_000.5, []),
        (0, 1_001.9, []),
        (0, 1_002.0, [1]),
        (0, 1_005.0, [1, 2]),
        (3, 1_006.1, []),
        (3, 1_008.1, [4]),
        (3, 1_006.0 - 1, []),
        (0, 1_000.0 + 2 * 60, list(range(1, 61))),
        (0, 1_000.0 + 2 * 1_000, list(range(941, 1_001))),
    ],
)
def test_ticks_that_passed_while_a_poll_ran(tick, now_s, missed):
    assert list(BEAT.missed(tick, now_s)) == missed


@pytest.mark.parametrize(
    ("now_s", "wait_s"), [(1_000.0, 1.0), (1_000.5, 0.75), (1_001.8, 0.1), (1_002.5, 0.0)]
)
def test_an_entry_waits_half_of_the_time_before_the_next_tick(now_s, wait_s):
    assert BEAT.answers_until(0, now_s) - now_s == pytest.approx(wait_s)


def test_an_entry_waits_a_second_at_most():
    assert Beat(0.0, 30_000).answers_until(2, 60.5) == 61.5


def test_the_time_of_day_follows_the_clock_as_it_is():
    assert wall_ms(100.0, 100.25, 1_780_000_000_250) == 1_780_000_000_000
    assert wall_ms(100.0, 100.25, 50_250) == 50_000, "it was set back"


def asked(
    every_ms: dict[str, int], interval_ms: int, ticks: int, failing: tuple[int, ...] = ()
) -> list[str]:
    """What is asked with each poll; nothing with those that fail."""
    questions, found = QuestionBeats(every_ms), []
    for tick in range(ticks):
        due = () if tick in failing else questions.due(tick * interval_ms)
        questions.asked(due, tick * interval_ms)
        found.append("".join(due))
    return found


@pytest.mark.parametrize(
    ("every_ms", "interval_ms", "failing", "found"),
    [
        ({"a": 1_000, "b": 2_000}, 1_000, (), ["ab", "a", "ab", "a", "ab"]),
        ({"a": 500}, 1_000, (), ["a", "a", "a", "a", "a"]),
        ({"a": 1_500}, 1_000, (), ["a", "", "a", "a", ""]),
        ({"a": 3_000}, 1_000, (0, 3), ["", "a", "", "", "a"]),
        ({"a": 60_000}, 1_000, (), ["a", "", "", "", ""]),
        ({}, 1_000, (), ["", "", "", "", ""]),
    ],
)
def test_each_question_has_a_beat_of_its_own_and_stays_due_until_it_is_asked(
    every_ms, interval_ms, failing, found
):
    assert asked(every_ms, interval_ms, 5, failing) == found


def test_only_what_is_asked_at_all_is_asked_at_once():
    assert QuestionBeats({"configs": 1, "groups": 1}).among(("reassignments", "configs")) == (
        "configs",
    )


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("last", "due_s", "at", "is_due"),
    [
        (None, 5.0, "2026-11-26T12:00:00", True),
        (KeyFrame(date(2026, 11, 26), 5.0), 7.0, "2026-11-26T12:00:00", False),
        (KeyFrame(date(2026, 11, 26), 5.0), 304.9, "2026-11-26T12:00:00", False),
        (KeyFrame(date(2026, 11, 26), 5.0), 305.0, "2026-11-26T12:00:00", True),
        (KeyFrame(date(2026, 11, 26), 5.0), 7.0, "2026-11-26T23:59:59.999", False),
        (KeyFrame(date(2026, 11, 26), 5.0), 7.0, "2026-11-27T00:00:00", True),
        (KeyFrame(date(2026, 11, 26), 5.0), 7.0, "2026-11-25T23:00:00", True),
    ],
    ids=[
        "first",
        "soon",
        "not yet",
        "five minutes",
        "before midnight",
        "midnight",
        "the clock was set back",
    ],
)
def test_what_is_recorded_whole(last, due_s, at, is_due):
    assert is_key_due(last, due_s, ms(at)) is is_due
