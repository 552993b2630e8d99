import re
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from metadata_source.schedule import mint_stream, poll_id


def test_a_stream_is_named_after_its_start_in_utc():
    start = datetime(2026, 11, 21, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert re.fullmatch(r"20261121T010405Z-[0-9a-f]{8}", mint_stream(start))
    assert mint_stream(start) != mint_stream(start)


def test_a_new_stream_comes_after_the_newest_one_whatever_the_clock_says():
    now = datetime(2026, 11, 21, 1, 4, 5, tzinfo=UTC)
    for newest in ("20261121T010405Z-ffffffff", "20361121T010405Z-00000000"):
        assert mint_stream(now, newest) > newest
    assert mint_stream(now, "20361121T235959Z-00000000").startswith("20361122T000000Z-")
    assert mint_stream(now, "20261120T000000Z-00000000").startswith("20261121T010405Z-")


@given(st.lists(st.integers(0, 10**12 - 1), min_size=2))
def test_poll_ids_sort_as_their_numbers(numbers):
    stream = "20261121T010405Z-00000000"
    assert sorted(poll_id(stream, n) for n in numbers) == [
        poll_id(stream, n) for n in sorted(numbers)
    ]
