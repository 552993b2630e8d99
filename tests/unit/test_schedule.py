import itertools
import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.schedule import Offset, due_at, mint_stream, plan, poll_id, ticks

NOW = 1_780_000_000_000
OPTIONS = {"kafka.bootstrap.servers": "one:9092"}
intervals = st.integers(100, 3_600_000)
counts = st.integers(1, 60)


def test_a_stream_is_named_after_its_start_in_utc():
    start = datetime(2026, 11, 21, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert re.fullmatch(r"20261121T010405Z-[0-9a-f]{8}", mint_stream(start))
    assert mint_stream(start) != mint_stream(start)


def test_a_new_stream_comes_after_the_newest_one_whatever_the_clock_says():
    now = datetime(2026, 11, 21, 1, 4, 5, tzinfo=UTC)
    for newest in ("20261121T010405Z-ffffffff", "20361121T010405Z-00000000"):
        assert mint_stream(now, newest) > newest
        assert plan(Offset(), NOW, 1_000, 1, {}, newest=newest).stream > newest
    assert mint_stream(now, "20361121T235959Z-00000000").startswith("20361122T000000Z-")
    assert mint_stream(now, "20261120T000000Z-00000000").startswith("20261121T010405Z-")


@given(st.lists(st.integers(0, 10**12 - 1), min_size=2))
def test_poll_ids_sort_as_their_numbers(numbers):
    stream = "20261121T010405Z-00000000"
    assert sorted(poll_id(stream, n) for n in numbers) == [poll_id(stream, n) for n in sorted(numbers)]


def test_the_first_batch_is_due_at_once_and_mints_the_stream():
    assert due_at(Offset(), NOW, 1_000, 1) == NOW
    offset = plan(Offset(), NOW, 1_000, 3, OPTIONS)
    assert (offset.first, offset.next, offset.scheduled_ms, offset.due_ms) == (0, 3, NOW, NOW + 3_000)
    assert offset.stream.startswith(f"{datetime.fromtimestamp(NOW / 1000, UTC):%Y%m%dT%H%M%SZ}-")


@given(intervals, counts, st.lists(st.tuples(st.integers(0, 10**8), st.booleans()), max_size=30))
def test_numbers_have_no_holes_and_times_keep_the_beat(interval, polls, delays):
    """However late Spark asks, and whether it waits (a running stream) or not (AvailableNow)."""
    now, offset = NOW, Offset()
    for late, available_now in delays:
        now += late
        due = due_at(offset, now, interval, polls)
        scheduled = min(due, now) if available_now else due
        following = plan(offset, scheduled, interval, polls, OPTIONS)
        assert following.first == offset.next
        assert following.next == following.first + polls
        assert following.stream == (offset.stream or following.stream)
        if offset.due_ms is not None and not available_now:
            assert scheduled >= offset.due_ms
            assert (scheduled - offset.due_ms) % interval == 0
            assert scheduled > now - interval
        now, offset = max(now, scheduled), following


def test_missed_ticks_get_no_number():
    offset = plan(Offset(), NOW, 1_000, 1, OPTIONS)
    assert due_at(offset, NOW + 400, 1_000, 1) == NOW + 1_000
    assert due_at(offset, NOW + 1_700, 1_000, 1) == NOW + 1_000
    assert due_at(offset, NOW + 7_300, 1_000, 1) == NOW + 7_000


def test_a_due_time_beyond_one_batch_means_at_once():
    hourly = plan(Offset(), NOW, 3_600_000, 1, OPTIONS)
    assert due_at(hourly, NOW + 5, 1_000, 1) == NOW + 5  # the interval was shortened
    assert due_at(hourly, NOW - 10**9, 3_600_000, 1) == NOW - 10**9  # the clock was set back


@given(st.integers(-(10**9), 10**9) | st.integers(-1_000, 1_000), intervals, counts)
def test_a_task_keeps_the_beat_or_begins_it_anew(late, interval, polls):
    """Late, or by a clock that is behind the driver's: then it must not wait until that clock has come up."""
    beat = ticks(NOW, NOW + late, interval, polls)
    assert len(beat) == polls
    assert all(later - earlier == interval for earlier, later in itertools.pairwise(beat))
    assert beat[0] == (NOW if -1_000 < late < interval else NOW + late)


def test_offsets_survive_the_checkpoint():
    offset = plan(Offset(), NOW, 1_000, 2, OPTIONS)
    assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset
    assert Offset.from_json(Offset().to_json()) == Offset()


@pytest.mark.parametrize("foreign", [{}, {"version": 2}, {"version": 1, "n": 3}, {**Offset().to_json(), "more": 1}])
def test_a_foreign_offset_is_refused(foreign):
    with pytest.raises(ValueError, match="start the query with a new checkpoint"):
        Offset.from_json(foreign)
