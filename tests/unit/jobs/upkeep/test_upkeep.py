"""Which days of bronze may go, and when upkeep is due."""

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.upkeep import upkeep
from jobs.upkeep.expiry import note
from jobs.upkeep.lake_clock import ClockError
from jobs.upkeep.upkeep import check_clock, droppable_days, next_due
from schemas import bronze, gold, internal, silver
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.memory_lake import MemoryLake, without_spark

WEEK = timedelta(days=7)
TODAY = date(2026, 11, 21)
DAYS = [TODAY - timedelta(days=n) for n in (12, 9, 8, 7, 1, 0)]


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(TODAY.year, TODAY.month, TODAY.day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "needed_from", "cutoff"),
    [
        (at(12), None, date(2026, 11, 14)),
        (at(0) - timedelta(minutes=1), None, date(2026, 11, 13)),
        (at(0), None, date(2026, 11, 14)),
        (at(12), TODAY, date(2026, 11, 14)),
        (at(12), date(2026, 11, 14), date(2026, 11, 14)),
        (at(12), date(2026, 11, 13), date(2026, 11, 13)),
        (at(12), date(2026, 11, 11), date(2026, 11, 10)),
        (at(12), DAYS[0], None),
        (at(12), date(2026, 11, 1), None),
        (at(12).astimezone(timezone(timedelta(hours=-11))), None, date(2026, 11, 14)),
    ],
)
def test_days_that_are_over_for_long_enough_go_up_to_the_first_that_is_needed(
    now, needed_from, cutoff
):
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
def test_no_row_goes_that_is_younger_or_needed_and_no_day_stays_that_may_go(
    days, retention, minute, needed_from
):
    now = at(0) + timedelta(minutes=minute)
    cutoff = droppable_days(days, retention, now, needed_from)
    gone = {day for day in days if cutoff is not None and day < cutoff}
    for day in days:
        last_row = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, minutes=1)
        may_go = last_row <= now - retention and (needed_from is None or day < needed_from)
        assert (day in gone) == may_go


# --- when upkeep is due ---


@pytest.fixture
def lake():
    with without_spark():
        yield MemoryLake()


def test_a_new_lake_is_kept_up_six_hours_from_now_on(lake):
    assert next_due(None, lake, at(0)) == at(6)
    assert next_due(None, lake, at(5)) == at(6), "it has noted that"
    assert next_due(None, lake, at(7)) == at(6)


def test_upkeep_that_is_noted_for_a_time_to_come_is_due(lake):
    note(None, lake, internal.UPKEEP, at(12))
    assert next_due(None, lake, at(12)) == at(18)
    assert next_due(None, lake, at(11, 59)) == at(11, 59)


@pytest.mark.parametrize(
    ("table", "closed"),
    [
        (silver.TOPIC_SNAPSHOTS, "NOT is_current"),
        (gold.ISR_EPISODES, "NOT is_live"),
        (internal.LAG_STATES, None),
        (bronze.METADATA_POLLS, None),
    ],
)
def test_what_rounds_write_whole_is_not_compacted(table, closed):
    assert upkeep._closed_part(table) == closed


@pytest.mark.parametrize(
    ("of_process", "of_lake", "why"),
    [
        (None, None, None),
        ("it went back", None, "it went back"),
        (None, "it is ahead", "it is ahead"),
    ],
)
def test_a_clock_that_is_doubted_drops_nothing(monkeypatch, of_process, of_lake, why):
    monkeypatch.setattr(upkeep, "CLOCK", SimpleNamespace(doubt=lambda: of_process))
    polls = SimpleNamespace(contradict=lambda _: of_lake)
    monkeypatch.setattr(upkeep, "last_polls", lambda *_: polls)
    with nullcontext() if why is None else pytest.raises(ClockError, match=f"^{why}; nothing was"):
        check_clock(None, None, at(0))


STREAM = "20261121T000000Z-0a1b2c"


def first_needed(lake):
    """The day of the oldest poll that some history has not had."""
    queries = [history.needs[bronze.METADATA_POLLS] for history in (Polls, GroupLag)]
    found = [
        ask(lake, query.format(rows="bronze.metadata_polls", states="internal.state"))
        for query in queries
    ]
    return min(
        (day for ((day,),) in (map(dict.values, rows) for rows in found) if day is not None),
        default=None,
    )


def headers(n, offsets=None):
    """Of a poll, and of the answer about offsets where that was asked."""
    of_poll = {
        "poll_id": f"{STREAM}/{n:012}",
        "stream": STREAM,
        "n": n,
        "day": TODAY + timedelta(days=n),
    }
    of_poll |= {"cluster": "prod", "cluster_id": "id"}
    answer = (
        []
        if offsets is None
        else [of_poll | {"record": "answer", "kind": "offsets", "outcome": offsets}]
    )
    return [of_poll | {"record": "poll", "outcome": "ok"}, *answer]


@pytest.mark.parametrize(("taken", "needed_from"), [(None, 1), (0, 1), (1, 3), (2, 3), (3, None)])
def test_polls_stay_until_what_they_asked_of_offsets_was_taken(taken, needed_from):
    offsets = (None, "ok: 1 of 2 groups", "failed: broker 1", "ok", None)
    polls = [header for n, outcome in enumerate(offsets) for header in headers(n, outcome)]
    state = {"cluster": "prod", "cluster_id": "id", "round": 1}
    states = [state | {"history": "silver", "taken": {STREAM: 100}, "memory": "{}"}]
    if taken is not None:
        states.append(
            state | {"history": "group_lag", "memory": "{}", "done_poll": f"{STREAM}/{taken:012}"}
        )
    with duckdb_lake(
        {bronze.METADATA_POLLS: polls, internal.STATE: states}, internal.VIEWS
    ) as lake:
        day = first_needed(lake)
    assert day == (None if needed_from is None else TODAY + timedelta(days=needed_from))


def test_polls_that_wait_keep_no_days_of_other_clusters():
    """They are of a cluster that came back from an old snapshot, or was taken out of the
    configuration meanwhile.
    """
    state = {
        "cluster": "prod",
        "cluster_id": "id",
        "round": 1,
        "history": "silver",
        "taken": {STREAM: 1},
        "waiting": [f"{STREAM}/{0:012}", f"{STREAM}/{1:012}"],
        "memory": "{}",
    }
    polls = [header for n in range(3) for header in headers(n)]
    with duckdb_lake(
        {bronze.METADATA_POLLS: polls, internal.STATE: [state]}, internal.VIEWS
    ) as lake:
        day = first_needed(lake)
    assert day == TODAY + timedelta(days=2), "the first that silver has not had"
