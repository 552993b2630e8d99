"""Directories that failed, as findings of incidents: between when and when they did."""

from typing import Any

from jobs.histories.findings import _SQL
from schemas import silver
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import CLUSTER, NOON, at

Row = dict[str, Any]


def row(log_dir: str, seen: int | None, began: int, last: int | None, ended: int | None) -> Row:
    """A state of a directory of broker 2. `seen`, `last`: when its broker told it otherwise, and
    when it told it so, last.
    """
    times = {"prev_sent_at": at(seen), "valid_from": at(began), "last_seen_sent_at": at(last)}
    return {
        **CLUSTER,
        **times,
        "valid_to": at(ended),
        "broker_id": 2,
        "log_dir": log_dir,
        "first_poll": f"s/{began:012d}",
        "is_online": False,
    }


def findings(*rows: Row) -> list[tuple[int | None, ...]]:
    sql = _SQL["log_dirs"].replace(":since", "TIMESTAMP '1970-01-01 00:00:00'")
    with duckdb_lake({silver.LOG_DIRS: rows}, []) as lake:
        found = ask(lake, sql.replace("{", "").replace("}", ""))
    times = ("began_after", "began_before", "ended_after", "ended_before")
    return sorted(
        (row["number"], *(row[name] and int((row[name] - NOON).total_seconds()) for name in times))
        for row in found
    )


def test_directories_that_failed_at_once_are_one() -> None:
    online = [row(each, None, 0, 10, 20) | {"is_online": True} for each in ("/d1", "/d2")]
    failed = [row(each, 10, 20, None, None) for each in ("/d1", "/d2")]
    assert findings(*online, *failed) == [(2, 10, 20, None, None)]


def test_a_directory_may_have_failed_before_its_broker_was_gone() -> None:
    """It is listed by 60 again; by 50 it was not."""
    online = row("/d1", None, 0, 10, 20) | {"is_online": True}
    assert findings(online, row("/d1", 50, 60, None, None)) == [(1, 10, 60, None, None)]


def test_when_it_failed_is_bounded_by_when_it_was_online_alone() -> None:
    online = row("/d1", None, 0, 10, 20) | {"is_online": True}
    unknown = row("/d1", 10, 20, 30, 40) | {"is_online": None}
    assert findings(online, unknown, row("/d1", 30, 40, None, None)) == [(1, 10, 40, None, None)]
    gone_meanwhile = [row("/d1", 10, 20, 30, 40), row("/d1", 50, 60, None, None)]
    found = findings(online, *gone_meanwhile)
    assert found == [(1, 10, 20, 30, 40), (1, 10, 60, None, None)]


def test_of_a_directory_that_had_failed_when_it_was_first_seen_nothing_is_known_before() -> None:
    assert findings(row("/d1", 50, 60, 70, 80)) == [(1, None, 60, 70, 80)]
