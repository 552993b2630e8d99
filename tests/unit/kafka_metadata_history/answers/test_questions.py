"""What a question asks: its window, its filters; and the lines beside an answer, of rows that an
engine found.
"""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kafka_metadata_history.answers.questions import QueryError, question, reach

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 10, 31, tzinfo=UTC)
KNOWN = pa.table({"cluster": ["prod"], "since": [NOON - timedelta(days=2)], "until": [NOON]})


@pytest.mark.parametrize(
    ("since", "until", "window"),
    [
        ("2 hours", None, (NOON - timedelta(hours=2), NOON)),
        ("2 hours", "1 day", (NOON - timedelta(hours=26), NOON - timedelta(days=1))),
        ("2026-10-31", "2026-10-31T06:00:00", (MIDNIGHT, MIDNIGHT + timedelta(hours=6))),
        ("2026-10-31T02:00:00+02:00", "12h", (MIDNIGHT, NOON - timedelta(hours=12))),
        ("2026-11-01T12:00:00Z", None, (NOON, NOON)),
    ],
)
def test_the_window_of_a_question(
    since: str, until: str | None, window: tuple[datetime, datetime]
) -> None:
    asked = question("timeline", since, until, {}, NOON)
    assert (asked.since, asked.until) == window


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(QueryError, match="--since 2026-11-01 12:00:00Z is after --until"):
        question("timeline", "2026-11-01T12:00:00Z", "1s", {}, NOON)


@pytest.mark.parametrize(
    ("given", "seconds"), [("5 minutes", 300), ("1500ms", 2), ("2026-11-01T11:59:59Z", 1)]
)
def test_at_least_is_whole_seconds_and_no_less(given: str, seconds: int) -> None:
    asked = question("SELECT :at_least AS x", "1 day", None, {"at_least": given}, NOON)
    assert asked.sql == f"SELECT {seconds} AS x"


def gaps(*told: bool) -> pa.Table:
    """Gaps of ten seconds and a bit, of which the controllers' log told some."""
    begins = [NOON - timedelta(minutes=10 - number, microseconds=-1) for number in range(len(told))]
    return pa.table(
        {
            "cluster": ["prod"] * len(told),
            "gap_start": begins,
            "gap_end": [begin + timedelta(seconds=10) for begin in begins],
            "reason": ["not_polled"] * len(told),
            "error_kinds": pa.array([[]] * len(told), pa.list_(pa.string())),
            "is_told": list(told),
        }
    )


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            [True],
            (
                "gap of prod: 2026-11-01 11:50:00Z to 2026-11-01 11:50:10Z (not_polled; the "
                "controllers' log told"
            ),
        ),
        ([False, False], "2 gaps, 20 s together (not_polled); `query --wide` lists them"),
        (
            [True, True],
            (
                "2 gaps, 20 s together (not_polled; the controllers' log told meanwhile); `query "
                "--wide`"
            ),
        ),
        (
            [True, False, True],
            "3 gaps, 30 s together (not_polled; the controllers' log told meanwhile in 2 of them);",
        ),
    ],
)
def test_gaps_are_one_line_unless_all_are_asked_for(told: list[bool], says: str) -> None:
    asked = question("timeline", "1 day", None, {}, NOON)

    def ask(sql: str) -> pa.Table:
        return gaps(*told) if "poll_gaps" in sql else KNOWN

    known, line = reach(asked, ask, 1)
    assert known.startswith("history of prod: ")
    assert line.startswith(says)
    assert [each.startswith("gap of prod: ") for each in reach(asked, ask, None)[1:]] == [
        True
    ] * len(told)


@pytest.mark.parametrize(("name", "is_said"), [("broker_states", True), ("timeline", False)])
def test_an_answer_that_only_the_controllers_log_has_says_where_nobody_reads_it(
    name: str, *, is_said: bool
) -> None:
    def ask(sql: str) -> pa.Table:
        if "broker_registrations" in sql:
            return pa.table({"cluster": [f"c{number}" for number in range(7)]})
        return gaps() if "poll_gaps" in sql else KNOWN

    *_, last = reach(question(name, "1 day", None, {}, NOON), ask)
    assert (
        last.startswith("the controllers' log of c0, c1, c2, c3, c4 and 2 more was not read, ")
        == is_said
    )


@pytest.mark.parametrize(
    ("count", "lines"),
    [
        (1, ["history of c0: 2026-10-31 12:00:00Z to 2026-11-01 12:00:00Z"]),
        (5, [f"history of c{n}: 2026-10-31 12:00:00Z to 2026-11-01 12:00:00Z" for n in range(5)]),
        (
            6,
            [
                (
                    "history of 6 clusters: the first begins 2026-10-31 12:00:00Z, the last "
                    "2026-10-31 12:00:00Z; the first ends 2026-11-01 12:00:00Z, the last "
                    "2026-11-01 12:00:00Z"
                )
            ],
        ),
    ],
)
def test_a_few_clusters_have_a_line_each(count: int, lines: list[str]) -> None:
    known = {"cluster": [f"c{n}" for n in range(count)], "until": [NOON] * count}
    table = pa.table(known | {"since": [NOON - timedelta(days=1)] * count})

    def ask(sql: str) -> pa.Table:
        return gaps() if "poll_gaps" in sql else table

    assert reach(question("timeline", "1 day", None, {}, NOON), ask) == lines


@pytest.mark.parametrize(
    ("since", "is_late"), [(None, True), (timedelta(hours=23), True), (timedelta(days=1), False)]
)
def test_a_window_whose_beginning_is_not_known_says_so(
    since: timedelta | None, *, is_late: bool
) -> None:
    begin = pa.array([since and NOON - since], pa.timestamp("us", "UTC"))
    table = pa.table({"cluster": ["prod"], "since": begin, "until": [NOON]})

    def ask(sql: str) -> pa.Table:
        return gaps() if "poll_gaps" in sql else table

    (line,) = reach(question("timeline", "1 day", None, {}, NOON), ask)
    assert line.endswith("; it lacks the beginning of the window") == is_late
