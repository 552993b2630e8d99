"""Entries of a segment, packed and in ranges."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.recorder import segments
from metadata_source.recorder.news import News
from metadata_source.recorder.segments import Entry, Segment, packs, ranges


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 60))
def test_packs_hold_all_entries_in_their_order_and_no_more_than_they_may(sizes, most):
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    entries = [
        segments.Entry(
            place, "east", place, 0, News.QUIET, False, True, "run", 1, end - size, end, 1, 0
        )
        for place, (end, size) in enumerate(zip(ends, sizes, strict=True), 1)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "PACK_BYTES", most)
        found = list(packs(entries))
    assert [entry for pack in found for entry in pack] == entries
    assert all(found), "none is empty"
    assert all(
        sum(entry.end - entry.begin for entry in pack) <= most or len(pack) == 1 for pack in found
    )
    for pack, following in itertools.pairwise(found):
        assert sum(entry.end - entry.begin for entry in (*pack, following[0])) > most


def entry(seq: int, segment: int, begin: int, end: int) -> Entry:
    return Entry(seq, "east", seq, 0, News.QUIET, False, True, "run", segment, begin, end, 1, 0)


def test_ranges_are_of_entries_that_follow_each_other_in_one_segment():
    found = [entry(1, 1, 5, 9), entry(2, 1, 9, 12), entry(4, 1, 15, 16), entry(5, 2, 16, 20)]
    assert list(ranges(found)) == [(1, 5, 12), (1, 15, 16), (2, 16, 20)]
    assert list(ranges([])) == []


def test_an_entry_is_read_as_it_was_written(tmp_path):
    """Lines that are spoilt are none, and so is an entry whose bytes are not there."""
    segment = Segment(tmp_path, 7, run="run", schema_end=5, seq=3, numbers={"east": 3})
    written = [entry(4, 7, 5, 9), entry(5, 7, 9, 12), entry(6, 7, 12, 99)]
    spoilt = [b'["spoilt"]\n', b"7\n", b"{\n", written[0].line().replace(b"QUIET", b"LOUD")]
    segment.index.write_bytes(
        b"".join([segment.head(), *spoilt, *(each.line() for each in written)])
    )
    segment.arrows.write_bytes(bytes(12))
    assert segments.segment_ids(tmp_path) == [7]
    read = Segment(tmp_path, 7)
    assert read.more() == written[:2]
    assert (read.run, read.schema_end, read.seq, read.numbers) == ("run", 5, 3, {"east": 3})
    assert read.last == 5
    assert read.more() == [], "but once"
    read.remove()
    assert segments.segment_ids(tmp_path) == []
    assert Segment(tmp_path, 7).more() == []


def test_a_line_that_is_half_there_is_read_once_it_is_whole(tmp_path):
    segment, line = Segment(tmp_path, 7, run="run"), entry(1, 7, 5, 9).line()
    segment.arrows.write_bytes(bytes(12))
    segment.index.write_bytes(segment.head() + line[:5])
    read = Segment(tmp_path, 7)
    assert read.more() == []
    with segment.index.open("ab") as file:
        file.write(line[5:])
    assert read.more() == [entry(1, 7, 5, 9)]
