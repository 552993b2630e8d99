"""The views over groups' tables, in DuckDB: cases made by hand. That Spark answers the same is in
tests/spark/test_views.py.
"""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from schemas import bronze, consumption, groups, views
from tests.support import group_views, random_held_up
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.group_states import at
from tests.support.group_views import BEGINS, ENDED, HIDDEN, MONTHS, MOVES, TOPICS, by_id, poll

Row = dict[str, Any]


@pytest.fixture(scope="module")
def lake() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_lake(group_views.by_hand(), views.OF_GROUPS) as made:
        yield made


def rows_of(lake: duckdb.DuckDBPyConnection, view: str, cluster: str) -> list[Row]:
    return ask(lake, f"SELECT * FROM gold.{view} WHERE cluster = '{cluster}'")


def test_moves_are_events_of_the_groups_that_were_there(lake: duckdb.DuckDBPyConnection) -> None:
    found = rows_of(lake, "group_events", MOVES)
    assert {
        (
            row["group_id"],
            row["prev_broker_id"],
            row["broker_id"],
            row["began_after"],
            row["began_before"],
        )
        for row in found
    } == {
        *((group, 1, 2, at(190), at(201)) for group in ("here", "gone", "just there")),
        *((group, 2, -1, at(390), at(401)) for group in ("here", "late", "back", "just there")),
        *((group, -1, 1, at(400), at(411)) for group in ("here", "late", "back", "just there")),
    }
    assert len({row["id"] for row in found}) == len(found) == 11
    assert {(row["event"], row["source"], row["log_partition"]) for row in found} == {
        ("coordinator_moved", "polls", 3)
    }


def test_coordinators_and_the_moves_that_rebalances_followed(
    lake: duckdb.DuckDBPyConnection,
) -> None:
    move = {
        (row["group_id"], row["poll"]): row["id"] for row in rows_of(lake, "group_events", MOVES)
    }
    told = by_id(
        ask(lake, f"SELECT * FROM gold.rebalances WHERE cluster IN ('{MOVES}', 'never polled')"),
        *("coordinator", "followed_coordinator_move", "coordinator_move_id"),
    )
    assert told == {
        **{
            name: (coordinator, followed, number and move["here", poll(int(number))])
            for name, (_, _, coordinator, followed, number) in group_views.ASKED.items()
        },
        "made after the move": (2, False, None),
        "of a partition that is not polled": (None, None, None),
        "of no known partition": (None, None, None),
        "never polled": (None, None, None),
    }


def test_a_move_has_the_id_that_it_always_had(lake: duckdb.DuckDBPyConnection) -> None:
    (row,) = ask(
        lake,
        f"SELECT id, poll FROM gold.group_events WHERE group_id = 'gone' AND cluster = '{MOVES}'",
    )
    # md5 of "id-moves\ngone\ncoordinator_moved\ns/000000000020"
    assert row == {"id": "b5d24054cf0fd5efc5859a57a6aab077", "poll": poll(20)}


def test_nobody_coordinates_while_the_topic_is_gone(lake: duckdb.DuckDBPyConnection) -> None:
    names = ("group_id", "broker_id", "prev_sent_at", "valid_from", "valid_to")
    assert {
        tuple(row[name] for name in names) for row in rows_of(lake, "group_coordinators", ENDED)
    } == {
        ("here", 1, None, at(1), at(201)),
        ("here", 2, at(390), at(401), None),
    }
    assert len(rows_of(lake, "group_coordinators", ENDED)) == 2
    assert by_id(
        rows_of(lake, "rebalances", ENDED), "coordinator", "followed_coordinator_move"
    ) == {
        "while there": (1, False),
        "meanwhile": (None, None),
        # Who led before the topic came back is not known, so it may have moved.
        "soon after": (2, None),
        "long after": (2, False),
    }


def test_leaders_and_moves_months_away_count(lake: duckdb.DuckDBPyConnection) -> None:
    assert by_id(
        rows_of(lake, "rebalances", MONTHS), "coordinator", "followed_coordinator_move"
    ) == {
        "led for months": (1, False),
        "went on for months, to the move": (1, True),
        "goes on since before the move": (1, True),
        "went on for months, not to the move": (1, False),
        "long after the last news": (2, False),
    }


def test_coordinators_over_time(lake: duckdb.DuckDBPyConnection) -> None:
    rows = [row for row in rows_of(lake, "group_coordinators", MOVES) if row["group_id"] == "back"]
    names = ("broker_id", "prev_sent_at", "valid_from", "valid_to")
    assert [
        tuple(row[name] for name in names)
        for row in sorted(rows, key=lambda row: row["valid_from"])
    ] == [
        (1, None, at(1), at(201)),
        (2, at(190), at(201), at(401)),
        (-1, at(390), at(401), at(411)),
        (1, at(400), at(411), at(601)),
        (-1, at(590), at(601), at(611)),
        (1, at(600), at(611), None),
    ]


def test_polls_bound_the_begins_of_classic_rebalances(lake: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(lake, "rebalances", BEGINS)
    assert by_id(rows, "narrowed_after", "narrowed_before") == {
        **{name: tuple(case[-2:]) for name, case in group_views.BEGUN.items()},
        "goes on": (at(20), at(31)),
        "of another type": (None, None),
        "of polls": (None, None),
    }
    found = by_id(
        rows,
        "began_after",
        "began_before",
        "duration_ms_min",
        "duration_ms_max",
        "since_previous_ms",
    )
    # It is 36 s then from the end of the one before to its begin.
    assert found["emptied"] == (at(85), at(140), 20_000, 31_000, 36_000)
    assert found["known closer"] == (at(25), at(50), 20_000, 26_000, 6_000)
    assert found["seen while it went on"] == (None, at(50), 20_000, 31_000, None)
    assert found["before the poll that would have shown it"] == (None, at(25), 1_000, 6_000, None)
    assert found["before any poll"] == (None, at(20), 20_000, None, None)
    assert found["of another type"] == (None, at(50), 1_000, None, None)
    assert found["goes on"] == (None, at(50), None, None, None)
    assert by_id(rows, "is_open")["goes on"] == (True,)


def test_partitions_that_nobody_has(lake: duckdb.DuckDBPyConnection) -> None:
    assert by_id(rows_of(lake, "rebalances", TOPICS), "partitions_unassigned") == {
        **{name: (unassigned,) for name, (*_, unassigned) in group_views.WANTED.items()},
        "goes on": (2,),
    }


def test_members_have_the_names_of_topics(lake: duckdb.DuckDBPyConnection) -> None:
    assert by_id(
        rows_of(lake, "rebalance_members", TOPICS), "before", "after", key="member_id"
    ) == {
        "a": (
            [
                {"topic": "orders", "topic_id": None, "partitions": [0]},
                {"topic": "clicks", "topic_id": "id-clicks", "partitions": [1]},
            ],
            [
                {"topic": "orders", "topic_id": "id-orders", "partitions": [0, 1]},
                {"topic": None, "topic_id": "id-?", "partitions": [7]},
                {"topic": "clicks", "topic_id": "id-clicks", "partitions": []},
            ],
        ),
        "b": (None, []),
    }


@pytest.mark.parametrize(
    ("view", "key"),
    [
        ("rebalances", "id"),
        ("rebalance_members", "rebalance_id"),
        ("group_events", "id"),
        ("rebalance_storms", "id"),
    ],
)
def test_what_polls_told_gives_way_to_the_log(
    lake: duckdb.DuckDBPyConnection, view: str, key: str
) -> None:
    assert sorted(row[key] for row in rows_of(lake, view, HIDDEN)) == [
        "both log 150",
        "both log 90",
        "both polls 50",
        "logged log 50",
        "polled polls 150",
    ]


def test_views_have_the_columns_that_the_tables_had(lake: duckdb.DuckDBPyConnection) -> None:
    for view, table, besides, without in (
        (
            "rebalances",
            groups.REBALANCES,
            {
                "partitions_unassigned",
                "coordinator",
                "followed_coordinator_move",
                "coordinator_move_id",
            }
            | {
                "narrowed_after",
                "narrowed_before",
                "is_open",
                "lasts_until",
                "partitions_committed",
                "pause_ms_min",
                "pause_ms_max",
            }
            | {"lag_before", "lag_peak", "lag_back_after", "lag_back_before"}
            | {"reprocessed_min", "reprocessed_max", "lost_unread"},
            {"assigned"},
        ),
        ("rebalance_members", groups.REBALANCE_MEMBERS, set(), set()),
        ("group_events", groups.GROUP_EVENTS, {"broker_id", "prev_broker_id"}, set()),
        ("rebalance_storms", groups.REBALANCE_STORMS, set(), set()),
    ):
        names = [
            column[0] for column in lake.execute(f"SELECT * FROM gold.{view} LIMIT 0").description
        ]
        told = {column.name for column in table.columns}
        assert len(names) == len(set(names))
        assert set(names) == told - {"is_live", "part"} - without | besides
        # In the order of the table.
        assert [name for name in names if name in told] == [
            column.name for column in table.columns if column.name in names
        ]


def test_aggregates_of_commits_are_rows() -> None:
    entries = [
        {"topic": "t", "partition": n, "commits": n, "last_committed": 7 * n} for n in range(3)
    ]
    row = {
        "cluster": "c",
        "log_partition": 4,
        "record": "commits",
        "group_id": "g",
        "offset": 8,
        "next_offset": 30,
    }
    rows = [
        row | {"offset_commits": entries, "producer_id": 9},
        row | {"record": "read", "group_id": None},
    ]
    with duckdb_lake({bronze.GROUP_LOG: rows}, bronze.VIEWS) as lake:
        found = ask(lake, "SELECT * FROM bronze.offset_commits")
    names = (
        "group_id",
        "producer_id",
        "offset",
        "next_offset",
        "topic",
        "partition",
        "commits",
        "last_committed",
    )
    assert [tuple(each[name] for name in names) for each in found] == [
        ("g", 9, 8, 30, "t", n, n, 7 * n) for n in range(3)
    ]


def test_the_log_takes_the_place_of_what_polls_tell_of_removed_commits() -> None:
    cluster = {"cluster": "prod", "cluster_id": "id-prod"}
    told = cluster | {"topic": "t", "committed_offset": 5, "is_group_gone": False}

    def polled(group_id: str, partition: int, seconds: float, **more: Any) -> Row:
        bounds = {
            "removed_after": at(seconds - 30),
            "removed_before": at(seconds),
            "poll": poll(int(seconds) // 10),
        }
        return told | {"group_id": group_id, "partition": partition} | bounds | more

    def logged(group_id: str, offset: int, seconds: float, *partitions: int) -> Row:
        removed = {
            "topic": "t",
            "removed_offset": offset,
            "removed_timestamp": at(seconds),
            "last_committed": 6,
        }
        entries = [removed | {"partition": partition} for partition in partitions]
        row = cluster | {
            "log_partition": 3,
            "offset": offset,
            "record": "commits",
            "group_id": group_id,
            "chunk": 0,
        }
        return row | {"next_offset": offset + 1, "offset_commits": entries}

    tombstone = cluster | {
        "log_partition": 3,
        "offset": 12,
        "record": "record",
        "type": 2,
        "is_tombstone": True,
    }
    log = [
        logged("deleted", 11, 100, 0, 1),
        tombstone | {"group_id": "deleted", "timestamp": at(100)},
        # Another group's, and the group's own of another time.
        tombstone | {"group_id": "other", "timestamp": at(205)},
        tombstone | {"group_id": "kept", "timestamp": at(900)},
        logged("kept", 20, 205, 0),
        logged("before polls", 21, 300, 0),
    ]
    polls = [
        polled("deleted", 0, 110, is_group_gone=True),
        # Its clock is ahead.
        polled("deleted", 1, 160, is_group_gone=True),
        polled("kept", 0, 220),
        polled("kept", 1, 220),
        polled("kept", 0, 320),
        polled("gone", 0, 220, is_group_gone=True),
    ]
    with duckdb_lake(
        {bronze.GROUP_LOG: log, consumption.REMOVED_COMMITS: polls},
        (*bronze.VIEWS, views.REMOVED_COMMITS),
    ) as lake:
        found = ask(lake, "SELECT * FROM gold.removed_commits")
    assert {
        (
            row["group_id"],
            row["partition"],
            row["source"],
            row["reason"],
            row["removed_after"],
            row["removed_before"],
        )
        for row in found
    } == {
        ("deleted", 0, "log", "group_deleted", at(100), at(100)),
        ("deleted", 1, "log", "group_deleted", at(100), at(100)),
        ("kept", 0, "log", "removed", at(205), at(205)),
        ("before polls", 0, "log", "removed", at(300), at(300)),
        ("kept", 1, "polls", "removed", at(190), at(220)),
        ("kept", 0, "polls", "removed", at(290), at(320)),
        ("gone", 0, "polls", "group_deleted", at(190), at(220)),
    }
    assert len(found) == 7


@pytest.mark.parametrize("seed", range(4))
def test_who_waits_for_a_transaction_waits_for_each_that_was_open_on_the_partition(
    seed: int,
) -> None:
    rows = random_held_up.held_up_by_chance(seed)
    columns = "cluster, group_id, valid_from, partition, records, opened_by, open_from, command"
    with duckdb_lake(rows, [views.HELD_UP]) as made:
        found = ask(made, f"SELECT {columns} FROM gold.held_up")
    expected = random_held_up.waits(rows)
    assert {tuple(row.values()) for row in found} == expected
    assert len(found) == len(expected) > 50


def test_a_transaction_counts_from_its_begin_up_to_its_end() -> None:
    with duckdb_lake(random_held_up.boundaries(), [views.HELD_UP]) as made:
        found = ask(made, "SELECT opened_by FROM gold.held_up")
    assert sorted(row["opened_by"] for row in found) == ["at", "into"]
