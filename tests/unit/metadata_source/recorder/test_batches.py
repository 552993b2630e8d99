"""What a batch of the stream holds, by its offsets and the entries of a spool: no files, no
Spark.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.recorder import batches
from metadata_source.recorder.batches import (
    CLOCK,
    HANDED_OVER,
    LOST,
    Gap,
    batch,
    continues,
    planned,
)
from metadata_source.recorder.news import News
from metadata_source.recorder.offsets import Offset, Span
from metadata_source.recorder.spool import Entry
from tests.support.examples import examples

STREAM, A, B = "20261121T010405Z-00000000", "session-a", "session-b"


class Made:
    """Entries of a spool, in their order: `add` one."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.numbers: dict[str, int] = {}

    def add(self, cluster: str, at_s: float, flags: str = "", size: int = 100) -> Entry:
        """`flags`: K a key frame, F a failed poll."""
        self.numbers[cluster] = self.numbers.get(cluster, 0) + 1
        begin = sum(entry.end - entry.begin for entry in self.entries)
        entry = Entry(
            len(self.entries) + 1,
            cluster,
            self.numbers[cluster],
            round(at_s * 1000),
            News.QUIET,
            "K" in flags,
            "F" not in flags,
            "run",
            1,
            begin,
            begin + size,
            1,
            0,
        )
        self.entries.append(entry)
        return entry

    def series(self, cluster: str, flags: str) -> None:
        """A poll each second: `K.F` is a key frame, one that follows it, and one that failed."""
        for flag in flags:
            self.add(cluster, self.numbers.get(cluster, 0), flag)

    def but(self, *seqs: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.seq not in seqs]


def plan(start: Offset, entries, session: str = A, **given) -> Offset:
    return planned(start, entries, session=session, stream=STREAM, **given)


def seqs(start: Offset, end: Offset, entries) -> dict[int, int]:
    """Entry -> number."""
    return {entry.seq: n for n, entry in batch(start, end, entries).polls}


def test_numbers_count_by_cluster_and_carry_on():
    made = Made()
    made.series("east", "K.")
    made.series("west", "K")
    first = plan(Offset(), made.entries, after=0)
    assert first.clusters == {"east": Span(0, 1, 2), "west": Span(0, 0, 1)}
    assert (first.seq, first.session, first.from_ms, first.to_ms) == (3, A, 0, 1_000)
    assert seqs(Offset(), first, made.entries) == {1: 0, 2: 1, 3: 0}
    made.series("east", "..")
    second = plan(first, made.entries[3:])
    assert second.clusters == {"east": Span(2, 3, 4), "west": Span(1, 0, 1)}
    assert seqs(first, second, made.entries) == {4: 2, 5: 3}
    assert batch(first, second, made.entries).gaps == []


def test_a_late_poll_of_a_slow_cluster_keeps_its_number_and_its_time():
    made = Made()
    made.series("slow", "K")
    made.series("quick", "K....")
    first = plan(Offset(), made.entries, after=0)
    late = made.add("slow", 0.5)
    second = plan(first, [late])
    assert seqs(first, second, made.entries) == {late.seq: 1}
    assert (second.from_ms, second.to_ms) == (500, 500)
    assert second.clusters["quick"] == Span(5, 4, 5)


def test_polls_that_the_spool_lacks_are_one_row_and_the_rest_counts_from_a_key_frame_on():
    made = Made()
    made.series("east", "K....F.K.")
    start = plan(Offset(), made.entries[:1], after=0)
    end = plan(start, made.entries[1:])
    found = batch(start, end, made.but(3, 4))
    assert {entry.seq: n for n, entry in found.polls} == {2: 1, 6: 5, 8: 7, 9: 8}, (
        "a failed poll is no difference"
    )
    assert found.gaps == [Gap("east", 4, 3, LOST, 4_000), Gap("east", 6, 1, LOST, 6_000)]
    assert found.waits == {}
    assert found.gaps[0].error == (
        "3 polls recorded here, and the spool has lost them, or the polls whose differences they "
        "are"
    )
    assert found.gaps[1].error.startswith("1 poll recorded here")


def test_a_spool_that_is_gone_is_one_row_for_each_cluster():
    made = Made()
    made.series("east", "K...")
    made.series("west", "KK")
    end = plan(Offset(), made.entries, after=0)
    found = batch(Offset(), end, [])
    assert found.polls == []
    assert [(gap.cluster, gap.n, gap.count, gap.at_ms) for gap in found.gaps] == [
        ("east", 3, 4, 3_000),
        ("west", 1, 2, 3_000),
    ]
    start = plan(Offset(), made.entries[:1], after=0)
    end = plan(start, made.entries[1:])
    assert {gap.error_kind for gap in batch(start, end, []).gaps} == {LOST}


def test_a_cluster_waits_for_its_key_frame_beyond_the_batch():
    made = Made()
    made.series("east", "K....K.")
    start = plan(Offset(), made.entries[:1], after=0)
    left = made.but(2)
    first = plan(start, left[1:3])
    assert first.clusters == {"east": Span(1, 3, 4)}
    assert first.waits == {"east": LOST}
    assert batch(start, first, left).gaps == [Gap("east", 3, 3, LOST, 3_000)]
    made.series("west", "K")
    second = plan(first, [left[3], made.entries[-1]])
    assert second.waits == {"east": LOST}
    assert seqs(first, second, made.entries) == {8: 0}
    third = plan(second, left[4:])
    assert third.waits == {}
    assert seqs(second, third, left) == {6: 5, 7: 6}
    quiet = plan(first, [made.entries[-1]])
    assert quiet.waits == {"east": LOST}, "of a batch in which the cluster has nothing, too"


def test_a_cluster_whose_first_polls_were_lost_begins_with_a_key_frame():
    made = Made()
    made.series("east", "K")
    start = plan(Offset(), made.entries, after=0)
    made.series("west", "K.K")
    end = plan(start, made.entries[2:])
    assert end.clusters["west"] == Span(0, 2, 3)
    assert batch(start, end, made.but(2)).gaps == [Gap("west", 1, 2, LOST, 1_000)]
    assert seqs(start, end, made.but(2)) == {4: 2}


def test_another_session_counts_from_its_first_key_frame_after_what_the_stream_has():
    """A on, B elsewhere, A again: what A has not committed is one row of each cluster, and numbers
    carry on.
    """
    made = Made()
    made.series("east", "K..")
    of_b = replace(plan(Offset(), made.entries, after=0), session=B)
    again = Made()
    again.series("east", "K.F..K.")
    again.series("west", "F")
    for cluster in ("west", "north"):
        again.add(cluster, 9, "K")
    end = plan(of_b, again.entries, after=3)
    found = batch(of_b, end, again.entries)
    assert end.clusters == {"east": Span(3, 9, 7), "west": Span(0, 1, 2), "north": Span(0, 0, 1)}
    assert {entry.seq: n for n, entry in found.polls} == {6: 8, 7: 9, 8: 0, 9: 1, 10: 0}
    assert found.gaps == [Gap("east", 7, 5, HANDED_OVER, 4_000)]
    assert found.gaps[0].error == (
        "5 polls recorded here, and not committed before another machine, or another stream, took "
        "over"
    )
    assert (end.from_ms, end.to_ms) == (0, 9_000)


def test_a_failed_poll_after_what_was_handed_over_is_had_though_no_key_frame_has_come():
    made = Made()
    made.series("east", "K")
    of_b = replace(plan(Offset(), made.entries, after=0), session=B)
    made.series("east", ".F.")
    end = plan(of_b, made.entries, after=1)
    found = batch(of_b, end, made.entries)
    assert {entry.seq: n for n, entry in found.polls} == {3: 3}
    assert [(gap.n, gap.count, gap.error_kind) for gap in found.gaps] == [
        (2, 2, HANDED_OVER),
        (4, 1, HANDED_OVER),
    ]
    assert end.waits == found.waits == {"east": HANDED_OVER}


def test_another_session_that_has_nothing_of_a_cluster_yet_waits_for_its_key_frame():
    made = Made()
    made.series("east", "K")
    made.series("west", "K")
    of_b = replace(plan(Offset(), made.entries, after=0), session=B)
    end = plan(of_b, made.entries[:1], after=0)
    assert end.waits == {"west": HANDED_OVER}
    assert end.clusters["west"] == Span(1, 0, 1)


def test_a_spool_whose_numbers_begin_again_begins_again():
    made = Made()
    made.series("east", "K....")
    start = plan(Offset(), made.entries, after=0)
    again = replace(Made().add("east", 9, "K"), seq=6)
    end = plan(start, [again])
    assert end.clusters == {"east": Span(5, 5, 1)}
    assert seqs(start, end, [again]) == {6: 5}
    assert seqs(Offset(), start, [*made.entries, again]) == {n + 1: n for n in range(5)}, (
        "a batch that is made again has its own"
    )


def test_a_batch_after_a_broken_one_begins_with_a_key_frame_and_the_rest_is_lost():
    made = Made()
    made.series("east", "K...K.")
    start = plan(Offset(), made.entries[:1], after=0)
    end = plan(start, made.entries[1:], after=1)
    found = batch(start, end, made.entries)
    assert {entry.seq: n for n, entry in found.polls} == {5: 4, 6: 5}
    assert found.gaps == [Gap("east", 3, 3, LOST, 3_000)]


def test_polls_by_a_clock_that_was_ahead_are_left_out_until_a_key_frame_of_a_believed_one():
    made = Made()
    made.series("east", "K..F.K.")
    start = plan(Offset(), made.entries[:1], after=0)
    end = plan(start, made.entries[1:], doubted=(0.5, 3.5))
    found = batch(start, end, made.entries)
    assert {entry.seq: n for n, entry in found.polls} == {4: 3, 6: 5, 7: 6}, (
        "the failed poll says itself why"
    )
    assert found.gaps == [Gap("east", 2, 2, CLOCK, 2_000), Gap("east", 4, 1, CLOCK, 4_000)]
    assert (
        found.gaps[0].error
        == "2 polls recorded here by a clock that was ahead, before the polls that are kept said so"
    )


def test_whether_a_spool_has_what_comes_after_an_offset():
    start = Offset(STREAM, A, 7)
    assert continues(start, A, 7)
    assert not continues(start, B, 7)
    assert not continues(start, A, 6), "an old copy"


def test_a_batch_takes_no_more_than_it_may(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_BYTES", 250)
    made = Made()
    for number in range(5):
        made.add("east", number, "K")
    made.add("east", 9, "K", size=900)
    start, sizes, left = Offset(), [], made.entries
    while left:
        end = plan(start, left, after=0 if start == Offset() else None)
        sizes.append(len(batch(start, end, made.entries).polls))
        start, left = end, made.entries[end.seq :]
    assert sizes == [2, 2, 1, 1]
    end = plan(replace(Offset(STREAM, B, 9, to_ms=3_000)), made.entries, after=4)
    assert end.seq == 5, "what is passed over does not count"
    small = Made()
    small.series("east", "KKKKKK")
    end = plan(replace(Offset(STREAM, B, 9, to_ms=3_000)), small.entries, after=4)
    assert end.seq == 6, "nor with those that follow"


ENTRIES = st.lists(
    st.tuples(st.sampled_from(["east", "west", "north"]), st.sampled_from(["", "K", "F"])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(100))
@given(
    ENTRIES,
    st.lists(st.integers(1, 8), min_size=1, max_size=10),
    st.sets(st.integers(1, 40)),
    st.integers(0, 12),
)
def test_each_poll_is_had_once_or_counted_however_batches_are_cut(made_of, cuts, gone, skipped):
    """Numbers of a cluster have no holes; a difference is never had after a poll that nobody
    has.
    """
    made = Made()
    for number, (cluster, flags) in enumerate(made_of):
        made.add(cluster, number, flags)
    there = made.but(*gone)
    start, had, seen = Offset(), {}, {}
    while left := [entry for entry in there if entry.seq > start.seq]:
        cut = left[: cuts[len(had) % len(cuts)]]
        after = min(skipped, cut[-1].seq) if start == Offset() else None
        end = plan(start, cut, after=after)
        found = batch(start, end, there)
        assert batch(start, end, [*there]) == found, "again the same"
        assert end.waits == found.waits
        for n, entry in found.polls:
            seen.setdefault(entry.cluster, []).append((n, n, entry))
        for gap in found.gaps:
            seen.setdefault(gap.cluster, []).append((gap.n - gap.count + 1, gap.n, None))
        had |= {entry.seq: n for n, entry in found.polls}
        start = end
    for cluster, runs in seen.items():
        runs.sort(key=lambda run: run[0])
        assert [run[0] for run in runs] == [0, *(run[1] + 1 for run in runs[:-1])], (
            "no number is missing or there twice"
        )
        is_whole = False
        for _, _, entry in runs:
            if entry is None:
                is_whole = False
            elif entry.ok:
                assert is_whole or entry.is_key_frame, cluster
                is_whole = True
        numbers = [(entry.number - first) for first, _, entry in runs if entry is not None]
        assert len(set(numbers)) <= 1, "numbers of the spool and of the stream go side by side"
    assert all(gone.isdisjoint({seq}) for seq in had)


@pytest.mark.parametrize("kind", [LOST, HANDED_OVER, CLOCK])
def test_each_kind_says_why_in_one_line(kind):
    assert "\n" not in Gap("east", 3, 2, kind, 0).error
