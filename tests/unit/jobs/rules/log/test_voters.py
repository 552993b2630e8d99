"""Voters of the quorum that the controllers' log adds and removes (KIP-853)."""

from datetime import datetime, timedelta
from typing import Any

from schemas import gold
from tests.support.cluster_logs import START, Entry, rows_of, rows_of_snapshot, span
from tests.support.log_cases import whole
from tests.support.log_rounds import LogLake

VOTERS = 6
_DIRECTORY = bytes(range(16))


def named(offset: int, *voters: int) -> Entry:
    """A VotersRecord."""
    at = START + timedelta(seconds=offset)
    return Entry(offset, 1, at, VOTERS, 0, told(*voters), is_control=True)


def told(*voters: int) -> dict[str, Any]:
    versions = {"min_supported_version": 0, "max_supported_version": 1}
    of = {"voter_directory_id": _DIRECTORY, "endpoints": [], "kraft_version_feature": versions}
    return {"version": 0, "voters": [{"voter_id": voter} | of for voter in voters]}


def changes(lake: LogLake) -> list[tuple[Any, ...]]:
    """Voters before and after, after when and by when, in seconds."""
    names = ("prev_voters", "voters", "began_after", "began_before")
    rows = sorted(lake.rows[gold.VOTER_CHANGES.full_name], key=lambda row: row["poll"])
    assert all(row["source"] == "log" for row in rows)
    return [
        tuple(
            (value - START).total_seconds() if isinstance(value, datetime) else value
            for value in (row[name] for name in names)
        )
        for row in rows
    ]


def test_voters_that_were_added_and_removed() -> None:
    """The first record names those who voted already, and one may name the same ones again."""
    log = rows_of([named(0, 2, 1), named(1, 1, 2), named(2, 3, 1, 2), named(3, 3, 1)])
    lake = whole(log)
    assert changes(lake) == [([1, 2], [1, 2, 3], 2, 2), ([1, 2, 3], [1, 3], 3, 3)]
    cut = LogLake()
    for row in log:
        cut.take([row])
    assert changes(cut) == changes(lake)


def test_voters_that_changed_while_the_log_was_lost_changed_between_two_observations() -> None:
    log = rows_of([named(0, 1, 2), named(1, 1, 2)])
    of_snapshot = (VOTERS, 0, told(1, 3), True)
    at = START + timedelta(seconds=7)
    snapshot: Any = rows_of_snapshot([of_snapshot], 9, 1, at)  # type: ignore[list-item]
    lake = whole([*log, span("lost", 2, 9), *snapshot])
    assert changes(lake) == [([1, 2], [1, 3], 1, 7)]


def test_a_log_that_names_no_voters_tells_none() -> None:
    """Those of a quorum that is not dynamic are in the configuration of its controllers."""
    lake = whole(rows_of([Entry(0, 1, START, 2, 0, {"leader_id": 1}, is_control=True)]))
    assert changes(lake) == []
