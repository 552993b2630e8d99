"""Which days of bronze may go."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.common.upkeep import droppable_days

WEEK = timedelta(days=7)
TODAY = date(2026, 11, 21)
DAYS = [TODAY - timedelta(days=n) for n in (12, 9, 8, 7, 1, 0)]


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(TODAY.year, TODAY.month, TODAY.day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "needed_from", "cutoff"),
    [
        (at(12), None, date(2026, 11, 14)),
        # The last batch of a day goes on for a minute.
        (at(0), None, date(2026, 11, 13)),
        (at(0, 1), None, date(2026, 11, 14)),
        (at(12), TODAY, date(2026, 11, 14)),
        (at(12), date(2026, 11, 14), date(2026, 11, 14)),
        (at(12), date(2026, 11, 13), date(2026, 11, 13)),
        (at(12), date(2026, 11, 11), date(2026, 11, 10)),
        (at(12), DAYS[0], None),
        (at(12), date(2026, 11, 1), None),
        (at(12).astimezone(timezone(timedelta(hours=-11))), None, date(2026, 11, 14)),
    ],
)
def test_days_that_are_over_for_long_enough_go_up_to_the_first_that_is_needed(now, needed_from, cutoff):
    assert droppable_days(DAYS, WEEK, now, needed_from) == cutoff
    assert droppable_days(reversed(DAYS), WEEK, now, needed_from) == cutoff


def test_where_nothing_may_go_there_is_no_cutoff():
    assert droppable_days([], WEEK, at(12), None) is None
    assert droppable_days(DAYS[3:], WEEK, at(12), None) is None
    assert droppable_days(DAYS, timedelta.max, at(12), None) is None


days_around = st.dates(TODAY - timedelta(days=30), TODAY + timedelta(days=1))


@given(
    st.sets(days_around),
    st.timedeltas(timedelta(0), timedelta(days=20)),
    st.integers(0, 1439),
    st.none() | days_around,
)
def test_no_row_goes_that_is_younger_or_needed_and_no_day_stays_that_may_go(days, retention, minute, needed_from):
    now = at(0) + timedelta(minutes=minute)
    cutoff = droppable_days(days, retention, now, needed_from)
    gone = {day for day in days if cutoff is not None and day < cutoff}
    for day in days:
        last_row = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, minutes=1)
        may_go = last_row <= now - retention and (needed_from is None or day < needed_from)
        assert (day in gone) == may_go
