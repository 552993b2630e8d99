"""Log directories in the timeline: those that fail and are back, and replicas that move between
them.
"""

from datetime import timedelta
from typing import Any

from schemas import silver
from schemas.lake import VIEWS
from schemas.storage import STORAGE
from schemas.table import Table
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import CLUSTER, NOON, at
from tests.support.timeline_rows import polled

Row = dict[str, Any]
ONLINE, FAILED = {"is_online": True}, {"is_online": False}
DAY = 86_400


def timeline(rows: dict[Table, list[Row]]) -> list[tuple[Any, ...]]:
    """Events: seconds of both bounds, kind, replica, broker, before, after, inference."""
    with duckdb_lake(rows, VIEWS) as lake:
        found = ask(lake, "SELECT * FROM gold.incident_timeline ORDER BY began_before, what")
    return [
        (
            *(
                row[name] and (row[name] - NOON).total_seconds()
                for name in ("began_after", "began_before")
            ),
            row["what"],
            row["topic"] and f"{row['topic']}-{row['partition']}",
            *(row[name] for name in ("broker_id", "before", "after", "inferred")),
        )
        for row in found
    ]


def size(level: str, log_dir: str, first: int, last: int, *, replicas: int = 1, **more: Any) -> Row:
    """A replica on broker 1 in a day: told from `first` to `last`; replicas=0: then it was gone."""
    return {
        **CLUSTER,
        "day": (NOON + timedelta(seconds=first)).date(),
        "broker_id": 1,
        "log_dir": log_dir,
        "level": level,
        "topic": "orders",
        "partition": 0,
        "replicas": replicas,
        "first_at": at(first),
        "last_at": at(last),
    } | more


def answers(*days: tuple[int, int]) -> list[Row]:
    """Both directories of broker 1 on days with answers from and until a time."""
    of_dir = {"topic": None, "partition": None, "replicas": 3}
    return [size("log_dir", each, *day) | of_dir for day in days for each in ("/d1", "/d2")]


def moves(*rows: Row) -> list[tuple[Any, ...]]:
    return [(*row[:4], *row[5:]) for row in timeline({STORAGE: [*rows]})]


def test_directories_that_fail_and_are_back() -> None:
    dirs = silver.LOG_DIRS
    rows = [
        *polled(dirs, {0: ONLINE, 60: FAILED, 90: ONLINE}, broker_id=1, log_dir="/d1"),
        # Its broker is gone, and back with another disk.
        *polled(dirs, {0: ONLINE, 60: FAILED, 80: None, 100: ONLINE}, broker_id=2, log_dir="/d1"),
        *polled(dirs, {0: FAILED}, broker_id=3, log_dir="/d1"),
        # Another size of the volume is no event.
        *polled(dirs, {0: ONLINE, 50: ONLINE | {"total_bytes": 7}}, broker_id=4, log_dir="/d1"),
    ]
    failed, online = ("log_dir_failed", None), ("log_dir_online", None)
    assert timeline({dirs: rows}) == [
        (None, 0, *failed, 3, None, "/d1", None),
        (50, 60, *failed, 1, None, "/d1", None),
        (50, 60, *failed, 2, None, "/d1", None),
        (80, 90, *online, 1, None, "/d1", None),
        (70, 100, *online, 2, None, "/d1", None),
    ]


def test_a_replica_that_moves_to_another_directory() -> None:
    """It moves for two days; the second one has the end."""
    began, moved = "replica_move_began", "replica_moved"
    found = moves(
        *answers((0, 600), (DAY, DAY + 1_800)),
        size("partition", "/d1", 0, 0),
        size("future", "/d2", 60, 600),
        size("partition", "/d1", DAY, DAY + 1_200, replicas=0),
        size("future", "/d2", DAY, DAY + 600),
        size("partition", "/d2", DAY + 1_200, DAY + 1_800),
        # Of another partition that was there all the time.
        size("partition", "/d2", DAY, DAY + 1_800, partition=1),
    )
    assert found == [
        (None, 60, began, "orders-0", None, "/d2", None),
        (DAY + 600, DAY + 1_200, moved, "orders-0", "/d1", "/d2", None),
    ]


def test_a_move_that_nobody_saw_is_inferred_and_what_is_gone_has_not_moved() -> None:
    """A move took less than a beat: where the replica lay before, it lies no more."""
    found = moves(
        *(size("partition", "/d1", 0, 600, replicas=0, partition=each) for each in range(5)),
        size("partition", "/d2", 600, 600),
        # One came later, one is gone from both, one is on another broker, one is nowhere.
        size("partition", "/d2", 1_200, 1_800, partition=1),
        size("partition", "/d2", 0, 600, replicas=0, partition=2),
        size("partition", "/d2", 600, 600, broker_id=2, partition=3),
    )
    assert found == [(0, 600, "replica_moved", "orders-0", "/d1", "/d2", "not seen to move")]


def test_a_move_that_was_cancelled_and_begins_again_the_next_day_is_two() -> None:
    began = ("replica_move_began", "orders-0", None, "/d2", None)
    found = moves(
        *answers((0, 1_200), (DAY, DAY + 1_200)),
        size("future", "/d2", 60, 600),
        size("future", "/d2", DAY, DAY + 1_200),
    )
    assert found == [(None, 60, *began), (None, DAY, *began)]


def test_a_move_over_a_day_that_nobody_observed_begins_once() -> None:
    found = moves(
        *answers((0, 600), (2 * DAY, 2 * DAY + 1_200)),
        size("future", "/d2", 60, 600),
        size("future", "/d2", 2 * DAY, 2 * DAY + 1_200),
    )
    assert found == [(None, 60, "replica_move_began", "orders-0", None, "/d2", None)]


def test_a_move_that_the_first_answer_of_a_day_shows_as_over_was_seen_to_move() -> None:
    found = moves(
        *answers((0, 600), (DAY, DAY + 1_200)),
        size("future", "/d2", 60, 600),
        size("partition", "/d1", DAY, DAY, replicas=0),
        size("partition", "/d2", DAY, DAY),
    )
    assert found[1:] == [(600, DAY, "replica_moved", "orders-0", "/d1", "/d2", None)]
