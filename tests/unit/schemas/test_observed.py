"""When a cluster was observed (`silver.observed`), by each history, in DuckDB."""

from collections.abc import Mapping
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_metadata_history.answers.questions import text_of
from schemas import gold, internal, silver
from schemas.table import Table
from tests.support.examples import examples
from tests.support.incident import CLUSTER, NOON
from tests.support.sums_of_time import (
    ASKED,
    LAST,
    Row,
    at,
    happened,
    lasted,
    narrow,
    observed,
    poll,
    seconds,
    state,
    window,
)


def test_what_began_before_the_first_poll_was_not_observed_before_it() -> None:
    rows = observed([], LAST)
    rows[gold.ISR_EPISODES] = [
        lasted("closed")
        | {
            "began_after": None,
            "began_before": at(0),
            "topic": "t",
            "partition": 0,
            "level": "offline",
        }
    ]
    told = window(ASKED) | {"since": str(at(-60))}
    assert [seconds(row) for row in narrow(rows, text_of("time_at_level"), told)] == [(30, 95, 60)]
    # Retention has dropped the beginning: nobody knows when that was.
    rows[internal.STATE].append(
        state("retention of silver", 5) | {"cluster_id": None, "cluster": ""}
    )
    assert [seconds(row) for row in narrow(rows, text_of("time_at_level"), told)] == [(30, 95, 0)]


def gaps_of(
    rows: Mapping[Table, list[Row]], history: str
) -> list[tuple[float | None, float | None]]:
    def shown(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - NOON).total_seconds()

    (row,) = narrow(
        rows, "SELECT * FROM silver.observed WHERE history = :history", {"history": history}
    )
    found = [(shown(gap["gap_start"]), shown(gap["gap_end"])) for gap in row["gaps"]]
    return sorted(found, key=lambda gap: -1e9 if gap[0] is None else gap[0])


def told_by(*sources: tuple[str, int, int | None, int | None]) -> list[Row]:
    """source, from when, last seen, until when."""
    return [
        CLUSTER
        | {
            "source": source,
            "first_poll": poll(begin),
            "valid_from": at(begin),
            "interval_ms": 10_000,
        }
        | {"last_seen_at": at(last), "valid_to": at(end)}
        for source, begin, last, end in sources
    ]


@pytest.mark.parametrize(
    ("sources", "of_topics"),
    [
        ([("polls", 0, None, None)], [(None, 0), (100, 200), (305, None)]),
        # The log tells all the time that polls failed, or up to some time, or from some time on.
        ([("polls", 0, 50, 60), ("log", 60, None, None)], [(None, 0), (305, None)]),
        (
            [("polls", 0, 50, 60), ("log", 60, 150, 160), ("polls", 160, None, None)],
            [(None, 0), (150, 200), (305, None)],
        ),
        ([("polls", 0, 150, 160), ("log", 160, None, None)], [(None, 0), (100, 160), (305, None)]),
        # Twice: the gap is cut by both.
        (
            [
                ("log", 0, 120, 130),
                ("polls", 130, 170, 180),
                ("log", 180, 250, 260),
                ("polls", 260, None, None),
            ],
            [(None, 0), (120, 180), (305, None)],
        ),
        # Polls took over long after the log fell silent: what they asked meanwhile was not topics.
        ([("log", 0, 220, 260), ("polls", 260, None, None)], [(None, 0), (220, 260), (305, None)]),
        ([("log", 0, 150, 260), ("polls", 260, None, None)], [(None, 0), (150, 260), (305, None)]),
    ],
)
def test_the_controllers_log_tells_of_topics_what_polls_missed(
    sources: list[tuple[str, int, int | None, int | None]],
    of_topics: list[tuple[float | None, float | None]],
) -> None:
    rows = observed([(100, 200)], LAST) | {silver.HISTORY_SOURCES: told_by(*sources)}
    assert gaps_of(rows, "isr_shrink") == of_topics
    assert gaps_of(rows, "polls") == [(None, 0), (100, 200), (305, None)], (
        "brokers are listed by polls alone"
    )
    assert gaps_of(rows, "cluster_log") == gaps_of(rows, "group_log") == [(305, None)]


@pytest.mark.parametrize(
    ("done", "changed", "end"),
    [(280, 270, 305), (280, 280, 305), (280, 290, 280), (150, 290, 150)],
)
def test_a_history_that_trails_has_observed_no_more_than_it_took(
    done: int, changed: int, end: int
) -> None:
    rows = observed([(100, 200)], LAST)
    seen = {"last_seen_at": at(LAST), "changed_poll": poll(changed)}
    rows[internal.STATE] = [state("silver", LAST, **seen), state("isr_shrink", done)]
    assert gaps_of(rows, "isr_shrink") == [(None, 0), (100, min(200, end)), (end, None)]


def test_rows_of_several_clusters_are_counted_by_the_gaps_of_their_own() -> None:
    one, other = observed([(100, 200)], LAST) | happened(), observed([], ASKED)
    alias = {"cluster": "other", "cluster_id": "id-other"}
    rows = {table: list(own) for table, own in one.items()}
    for table, own in (other | {gold.ISR_EPISODES: one[gold.ISR_EPISODES]}).items():
        rows[table] = [*rows[table], *(row | alias for row in own)]
    found = narrow(rows, text_of("time_at_level"), window(ASKED))
    assert {
        (row["cluster"], row["topic"]): seconds(row) for row in found if row["topic"] == "lasts"
    } == {
        ("prod", "lasts"): (155, 774, 609),
        ("other", "lasts"): (764, 774, 0),
    }


moments = st.integers(0, 60)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(moments, max_size=6, unique=True).map(sorted),
    moments,
    st.lists(st.tuples(*[moments] * 4).map(sorted), min_size=1, max_size=3),
    st.booleans(),
    st.tuples(moments, moments).map(sorted),
)
def test_each_second_is_counted_once(
    ends: list[int], last: int, bounds: list[list[int]], is_open: bool, asked_of: list[int]
) -> None:
    """As a plain count of seconds has it; the least and what nobody observed are no more than the
    most.
    """
    gaps = [(begin, end) for begin, end in zip(ends[::2], ends[1::2], strict=False) if end <= last]
    unobserved = {second for begin, end in gaps for second in range(begin, end)} | set(
        range(last, 100)
    )
    since, until = asked_of
    rows, least, most, unseen, count = observed(gaps, last), 0, 0, 0, 0
    rows[gold.ISR_EPISODES] = []
    for number, (after, before, ended_after, ended_before) in enumerate(bounds):
        lasts = is_open and number == 0
        times = {"began_after": at(after), "began_before": at(before)}
        if not lasts:
            times |= {"ended_after": at(ended_after), "ended_before": at(ended_before)}
        rows[gold.ISR_EPISODES].append(
            CLUSTER
            | times
            | {"id": str(number), "topic": "t", "partition": number, "level": "offline"}
        )
        if before > until or (not lasts and ended_before < since):
            continue
        surely = {*range(max(before, since), min(until if lasts else ended_after, until))}
        maybe = {*range(max(after, since), min(until if lasts else ended_before, until))}
        count += 1
        least, most, unseen = (
            least + len(surely - unobserved),
            most + len(maybe),
            unseen + len(maybe & unobserved),
        )
    found = narrow(rows, text_of("time_at_level"), window(until) | {"since": str(at(since))})
    assert [seconds(row) for row in found] == ([(least, most, unseen)] if count else [])
    assert least + unseen <= most
