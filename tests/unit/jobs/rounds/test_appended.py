"""Which versions of a table of bronze a round reads."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.rounds import appended as of_bronze
from jobs.rounds.appended import (
    READ_WITHIN,
    VERSIONS_A_ROUND,
    appended,
    is_kept,
    is_kept_since,
    new_versions,
    upto,
)
from schemas.bronze import CLUSTER_LOG, METADATA_POLLS

SPARK: Any = None
NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


class Log:
    """A table by its commits: version and hours since. `meanwhile`: others come as it is read."""

    def __init__(self, *ages: float, first: int = 0, meanwhile: int = 0) -> None:
        self.commits = [
            SimpleNamespace(version=version, timestamp=NOW - age * HOUR)
            for version, age in enumerate(ages, first)
        ]
        self.meanwhile = meanwhile
        self.read: list[tuple[Any, ...]] = []

    def sql(self, query: str) -> Any:
        most = int(query.rpartition("LIMIT ")[2])
        for _ in range(self.meanwhile):
            newest = self.commits[-1].version + 1
            self.commits.append(SimpleNamespace(version=newest, timestamp=NOW))
        self.meanwhile = 0
        return SimpleNamespace(collect=lambda: self.commits[::-1][:most])

    def identifier(self, _: Any) -> str:
        return "t"

    def read_appended(self, _: Any, __: Any, first: int, last: int) -> Any:
        return "appended", first, last

    def read_version(self, _: Any, __: Any, version: int) -> Any:
        return "version", version


class Stopped(datetime):
    """A clock that shows NOW, however long other tests take."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return NOW.astimezone(tz)


@pytest.fixture(autouse=True)
def _newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_bronze, "datetime", Stopped)
    monkeypatch.setattr(of_bronze, "newest_version", lambda _, lake, __: lake.commits[-1].version)


def kept(log: Log, first: int) -> bool:
    spark: Any = log
    return is_kept(spark, spark, METADATA_POLLS, first)


YOUNG = METADATA_POLLS.log_hours - READ_WITHIN / HOUR - 0.1
OLD = YOUNG + 0.2
"""Hours after which a file that was replaced is there for long enough, and no more."""


def test_a_file_is_read_only_if_it_stays_for_hours() -> None:
    assert is_kept_since(METADATA_POLLS, NOW - YOUNG * HOUR)
    assert not is_kept_since(METADATA_POLLS, NOW - OLD * HOUR)
    assert is_kept_since(METADATA_POLLS, (NOW - YOUNG * HOUR).astimezone())


def test_what_versions_appended_is_kept_as_long_as_the_oldest_of_them() -> None:
    log = Log(OLD, OLD, YOUNG, 0)
    assert [kept(log, first) for first in range(4)] == [False, False, True, True]


def test_versions_that_the_log_has_lost_are_not_kept() -> None:
    log = Log(YOUNG, 0, 0, first=5)
    assert [kept(log, first) for first in (4, 5, 7)] == [False, True, True]


def test_commits_that_come_meanwhile_hide_none() -> None:
    """Those asked for are the newest ones: more have to be asked for."""
    assert kept(Log(YOUNG, 0, 0, meanwhile=2), 0)
    assert not kept(Log(OLD, 0, 0, meanwhile=2), 0)


MOST = VERSIONS_A_ROUND


@pytest.mark.parametrize(
    ("first", "newest", "is_there", "last"),
    [
        (0, 0, True, 0),
        (0, MOST - 1, True, MOST - 1),
        (0, MOST, True, MOST - 1),
        (7, MOST + 7, True, MOST + 6),
        # All rows are read, so all versions are taken.
        (0, MOST, False, MOST),
        (0, MOST - 1, False, MOST - 1),
    ],
)
def test_a_round_takes_so_many_versions(
    monkeypatch: pytest.MonkeyPatch, first: int, newest: int, is_there: bool, last: int
) -> None:
    monkeypatch.setattr(of_bronze, "is_kept", lambda *_: is_there)
    lake: Any = None
    assert upto(SPARK, lake, CLUSTER_LOG, first, newest) == last


@pytest.mark.parametrize(
    ("last", "newest", "expected"),
    [
        (-1, 0, (-1, -1)),
        (-1, 1, (-1, 1)),
        (1, 1, (1, 1)),
        (1, 3, (1, 3)),
        # It was made again.
        (5, 3, (-1, 3)),
        (5, 0, (-1, -1)),
    ],
)
def test_versions_after_the_last_are_new(last: int, newest: int, expected: tuple[int, int]) -> None:
    """The first version makes the table, and has no rows."""
    log: Any = Log(*[0] * (newest + 1))
    assert new_versions(log, log, CLUSTER_LOG, last) == expected


def test_all_rows_are_read_where_files_between_may_be_gone() -> None:
    young, old = Log(YOUNG, 0, 0), Log(OLD, 0, 0)
    for log, expected in ((young, ("appended", 0, 2)), (old, ("version", 2))):
        given: Any = log
        assert appended(given, given, METADATA_POLLS, 0, 2) == expected
