"""The lines beside an answer, of rows that an engine found."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kafka_metadata_history.answers.questions import question, reach

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
KNOWN = pa.table({"cluster": ["prod"], "since": [NOON - timedelta(days=2)], "until": [NOON]})


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
