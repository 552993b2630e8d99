"""Commits of a group, where records of its partition are missing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.groups.commits import commit_log

START = datetime(2026, 3, 1, tzinfo=UTC)


def committed(offset: int, value: int, producer: int | None) -> dict[str, Any]:
    at = START + timedelta(seconds=offset)
    entry = {
        "topic": "t",
        "partition": 0,
        "commits": 1,
        "gap_from": None,
        "gap_to": None,
        "fallen": 0,
    }
    entry |= {f"{end}_offset": offset for end in ("from", "to")} | {
        f"{end}_timestamp": at for end in ("from", "to")
    }
    entry |= {"first_committed": value, "last_committed": value, "removed_offset": None}
    row = {
        "record": "commits",
        "offset": offset,
        "next_offset": offset + 1,
        "offset_commits": [entry],
        "chunk": 0,
    }
    return row | {"producer_id": producer, "read_at": at}


def span(record: str, offset: int, next_offset: int) -> dict[str, Any]:
    row = {
        "record": record,
        "offset": offset,
        "next_offset": next_offset,
        "chunk": None,
        "producer_id": None,
    }
    return row | {"read_at": START + timedelta(seconds=offset)}


def marker(offset: int, producer: int) -> dict[str, Any]:
    row = span("marker", offset, offset + 1) | {"producer_id": producer, "is_committed": True}
    return row | {"timestamp": START + timedelta(seconds=offset)}


@pytest.mark.parametrize(("lost", "found"), [([], [[10], [30]]), ([span("lost", 11, 20)], [[30]])])
def test_a_transaction_that_was_open_when_records_were_lost_may_have_ended_among_them(
    lost: list[dict[str, Any]], found: list[list[int]]
) -> None:
    """The producer's next marker is of another transaction, whatever it says."""
    rows = [committed(10, 10, 3), *lost, committed(21, 30, 3), marker(25, 3)]
    made = commit_log(rows)
    assert [[each.first.committed] for each in made.of[("t", 0)]] == found
    assert made.breaks == [each["next_offset"] - 1 for each in lost]
