"""Marks: which text and times are taken."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.upkeep.marks import mark
from kafka_metadata_history.answers.questions import QueryError

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_a_moment_is_now() -> None:
    made = mark("  quota raised ", None, None, None, NOW)
    told = (made["text"], made["since"], made["until"], made["cluster"], made["made_at"])
    assert told == ("quota raised", NOW, None, None, NOW)
    assert made["id"].startswith("20261101T120000000000Z-")
    assert made["id"] != mark("quota raised", None, None, None, NOW)["id"]
    assert made["made_by"]


def test_a_window_may_lie_ahead() -> None:
    made = mark("new disks", "1 hour", "2026-11-01T14:00:00Z", "prod", NOW)
    assert (made["since"], made["until"]) == (NOW - timedelta(hours=1), NOW + timedelta(hours=2))
    assert made["cluster"] == "prod"


@pytest.mark.parametrize(
    ("text", "since", "until", "says"),
    [
        ("", None, None, "the text of the mark is empty: say what is marked"),
        (" \t", None, None, "the text of the mark is empty: say what is marked"),
        ("x", None, "1 hour", "--since 2026-11-01 12:00:00Z is after --until 2026-11-01 11:00:00Z"),
        ("x", "soon", None, "'soon' is neither a time like 2026-11-21T10:00:00Z nor a duration"),
        ("x", None, "later", "'later' is neither a time like 2026-11-21T10:00:00Z nor a duration"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    text: str, since: str | None, until: str | None, says: str
) -> None:
    with pytest.raises(QueryError, match=says):
        mark(text, since, until, None, NOW)
