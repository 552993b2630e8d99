import itertools
import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.schedule import Offset, Turn, due_at, latest_end, mint_stream, plan, poll_id, spread, ticks, turns

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


@given(st.integers(1, 2_000), intervals)
def test_clusters_are_due_one_after_the_other_within_the_beat(clusters, beat):
    after = spread(clusters, beat)
    assert len(after) == clusters
    assert after[0] == 0
    assert all(0 <= later - earlier <= 25 for earlier, later in itertools.pairwise(after))
    assert after[-1] < max(1, beat / 4)
    if clusters <= beat // 4:
        assert len({*after}) == clusters


@given(st.integers(2, 2_000), intervals, st.data())
def test_a_cluster_keeps_its_time_within_the_beat_when_others_come_and_go(clusters, beat, data):
    after, gone = spread(clusters, beat), data.draw(st.integers(0, clusters - 1))
    fewer = spread(clusters - 1, beat)
    if clusters * 25 <= beat // 4:
        assert fewer[:gone] == after[:gone]
    others = after[:gone] + after[gone + 1 :]
    assert all(abs(now - before) <= 25 for now, before in zip(fewer, others, strict=True))


def test_few_clusters_are_due_nearly_together():
    assert spread(1, 30_000) == [0]
    assert spread(16, 30_000) == list(range(0, 400, 25))
    assert (spread(300, 30_000)[-1], spread(300, 10_000)[-1]) == (7_475, 2_491)


BEAT = 1_000


class Run:
    """A query that plans batches: polls on the beat, due times of a cluster with a longer interval."""

    def __init__(self, start: Offset, at: int, polls: int = 1) -> None:
        self.offset, self.at, self.polls = start, at, polls
        self.begins = True

    def next(self, at: int | None = None) -> Offset:
        """The next batch, planned on the beat, or when the driver came to it."""
        due = due_at(self.offset, self.at if at is None else at, BEAT, self.polls)
        self.offset = plan(self.offset, due, BEAT, self.polls, OPTIONS, begins=self.begins)
        self.begins, self.at = False, self.offset.due_ms
        return self.offset


@given(counts, st.integers(1, 90), st.integers(1, 40))
def test_a_cluster_is_due_after_each_interval_of_its_own(polls, beats, batches):
    run = Run(Offset(), NOW, polls)
    planned = [run.next() for _ in range(batches)]
    due = [turn for each in planned for turn in turns(each, beats * BEAT, BEAT).values()]
    assert [turn.number for turn in due] == list(range(0, polls * batches, beats))
    assert all(later.follows(earlier) for earlier, later in itertools.pairwise(due))


@given(st.lists(st.integers(0, 9_000), max_size=40), st.integers(2, 8))
def test_a_cluster_is_due_with_the_first_poll_after_its_time_when_polls_are_missed(delays, beats):
    """Batches that take longer than the beat: a longer interval does not become longer still."""
    run, interval = Run(Offset(), NOW), beats * BEAT
    planned = [run.next()] + [run.next(run.at + late) for late in delays]
    due = {each.scheduled_ms for each in planned if turns(each, interval, BEAT)}
    for before, each in itertools.pairwise(planned):
        times = range(NOW, each.scheduled_ms + 1, interval)
        is_due = any(before.scheduled_ms < time <= each.scheduled_ms for time in times)
        assert (each.scheduled_ms in due) == is_due


def test_a_query_begins_with_a_poll_of_every_cluster():
    """Also of those that came into the configuration, and of all with --once."""
    run = Run(Offset(), NOW)
    for _ in range(3):
        run.next()
    again = Run(run.offset, run.at)
    planned = [again.next() for _ in range(9)]
    assert [each.first for each in planned] == list(range(3, 12)), "numbers have no holes"
    assert [each.first for each in planned if turns(each, 4 * BEAT, BEAT)] == [3, 7, 11]
    last = Run(again.offset, again.at).next()
    assert turns(last, 4 * BEAT, BEAT) == {0: Turn(12, last.scheduled_ms, 0, -1)}


def test_after_a_clock_was_set_back_every_cluster_is_due_at_once():
    run = Run(Offset(), NOW)
    for _ in range(6):
        run.next()
    back = run.next(NOW - 10**7)
    assert list(turns(back, 60 * BEAT, BEAT)) == [0]
    assert [list(turns(run.next(), 2 * BEAT, BEAT)) for _ in range(3)] == [[], [0], []]


def test_a_turn_follows_another_if_the_cluster_was_not_polled_between():
    first = Turn(7, NOW, 3, 2)
    assert Turn(11, NOW, 4, 3).follows(first), "of each fourth poll"
    assert Turn(8, NOW, 5, 3).follows(first), "a whole interval was missed"
    assert not Turn(15, NOW, 5, 4).follows(first), "another process polled number 11"
    assert not Turn(11, NOW + 9, 4, 3).follows(first), "of another run"
    assert not first.follows(None)


@given(st.lists(st.integers(0, 9_000), max_size=40), st.integers(1, 4), st.integers(100, 20_000))
def test_what_is_asked_beside_is_due_with_the_first_poll_after_its_time(delays, beats, every):
    """Of its own beat, which may be none of the cluster's interval. With the first poll of all everything is due."""
    run, interval = Run(Offset(), NOW), beats * BEAT
    planned = [run.next()] + [run.next(run.at + late) for late in delays]
    found = [(each.scheduled_ms, turn) for each in planned for turn in turns(each, interval, BEAT).values()]
    assert found[0][1].is_due(every, interval)
    for (_, before), (_, turn) in itertools.pairwise(found):
        times = [NOW + passed * interval for passed in (before.passed, turn.passed)]
        is_due = (times[1] - NOW) // every > (times[0] - NOW) // every
        assert turn.is_due(every, interval) == is_due
        assert turn.follows(before)


def test_a_poll_ends_in_time_for_the_next_batch():
    assert latest_end(0.0, 30.0, 30.0) == 15.0
    assert latest_end(0.0, 10.0, 2.0) == latest_end(6.0, 10.0, 2.0) == 9.0
    assert latest_end(9.5, 10.0, 1.0) == 12.0, "2.5 s, at least"


def test_offsets_survive_the_checkpoint():
    offset = plan(Offset(), NOW, 1_000, 2, OPTIONS)
    assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset
    assert Offset.from_json(Offset().to_json()) == Offset()


def test_an_offset_of_before_clusters_had_intervals_of_their_own_is_taken_over():
    offset = plan(Offset(), NOW, BEAT, 3, OPTIONS)
    older = {name: value for name, value in offset.to_json().items() if name not in {"since_ms", "before_ms"}}
    taken = Offset.from_json(older | {"version": 1})
    assert taken == offset
    assert list(turns(taken, BEAT, BEAT)) == [0, 1, 2], "the batch is run again whole"


@pytest.mark.parametrize(
    "foreign", [{}, {"version": 2}, {"version": 1}, {"version": 2, "n": 3}, {**Offset().to_json(), "more": 1}]
)
def test_a_foreign_offset_is_refused(foreign):
    with pytest.raises(ValueError, match="start the query with a new checkpoint"):
        Offset.from_json(foreign)
