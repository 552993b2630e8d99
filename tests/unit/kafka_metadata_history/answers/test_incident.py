"""The questions of an incident review, asked of a lake whose history is known, in DuckDB: what the
rules make of its polls, and rows of groups. That Spark answers the same is in
tests/spark/test_questions.py and tests/notebooks.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_metadata_history.answers import questions
from schemas import bronze, groups
from tests.support import (
    held_up_questions,
    incident_controllers,
    incident_groups_questions,
    incident_questions,
    incident_rows_questions,
    incident_storage_questions,
    transaction_questions,
)
from tests.support.duckdb_lake import asking
from tests.support.incident_questions import PARAMETERS, Ask, Row, in_seconds
from tests.support.known_rows import asked_rows


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking({bronze.METADATA_POLLS: [], **asked_rows()}) as asked:
        yield lambda name, **parameters: [
            in_seconds(row) for row in asked(questions.text_of(name), {**PARAMETERS, **parameters})
        ]


class TestIsr(incident_questions.Isr):
    pass


class TestLog(incident_questions.Log):
    pass


class TestControllers(incident_controllers.Controllers):
    pass


class TestLeaders(incident_questions.Leaders):
    pass


class TestReviews(incident_questions.Reviews):
    pass


class TestIncidents(incident_rows_questions.Incidents):
    pass


class TestStorage(incident_storage_questions.Storage):
    pass


class TestGroups(incident_groups_questions.Groups):
    pass


class TestHeldUp(held_up_questions.HeldUp):
    pass


class TestTransactions(transaction_questions.Transactions):
    pass


def at(seconds: float) -> datetime:
    return datetime(2026, 11, 1, 12, 1, tzinfo=UTC).replace(
        second=int(seconds), microsecond=round(seconds % 1 * 1e6)
    )


def test_shares_are_of_the_time_in_which_a_group_is_known() -> None:
    """Records of billing were lost at 70 s; search was deleted at 81.2 s, and reports before all
    that.
    """
    known_since = {"billing": at(10)}
    deleted = {"search": at(21.2), "reports": datetime(2026, 11, 1, 11, 59, tzinfo=UTC)}

    def with_a_gap(row: Row) -> Row:
        group = row["group_id"]
        return row | {
            "known_since": known_since.get(group, row["known_since"]),
            "valid_to": deleted.get(group, row.get("valid_to")),
        }

    known = asked_rows()
    with asking(
        known | {groups.GROUP_LIVES: list(map(with_a_gap, known[groups.GROUP_LIVES]))}
    ) as asked:
        rows = {
            row["group_id"]: row for row in asked(questions.text_of("group_stability"), PARAMETERS)
        }
    assert rows.keys() == {"billing", "search", "shop", "audit", "fresh"}
    billing, search = rows["billing"], rows["search"]
    assert (billing["rebalances"], billing["seconds_min"]) == (8, pytest.approx(14))
    # Six that took a second each, and from 70 to 88 at most.
    assert (billing["per_hour"], billing["percent_min"], billing["percent_max"]) == pytest.approx(
        (720, 20, 60)
    )
    assert (search["per_hour"], search["percent_min"]) == pytest.approx((3600 / 76.2, 120 / 76.2))


def test_every_question_is_asked_here() -> None:
    modules = (
        *(incident_questions, incident_groups_questions, incident_rows_questions),
        incident_controllers,
        held_up_questions,
        transaction_questions,
        incident_storage_questions,
    )
    files = [module.__file__ for module in modules]
    texts = "".join(Path(file).read_text() for file in files)
    asked = set(re.findall(r'ask\("(\w+)"', texts))
    assert asked == set(questions.names()) - {"health"}, "health is in tests/spark/test_queries.py"
