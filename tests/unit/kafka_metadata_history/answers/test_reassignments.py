"""What became of reassignments, of racks and of throttles: `reassignments` and `throttles`, in
DuckDB.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import text_of
from schemas import internal, silver
from schemas.views import BROKER_RACKS
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import CLUSTER, at
from tests.support.incident_questions import PARAMETERS

Row = dict[str, Any]
Lists = Mapping[int, list[int]]
"""The replicas of a partition from a poll on: a poll is answered each ten seconds after noon."""

NEWEST = 90
"""The newest poll."""
RACKS = {1: "a", 2: "b", 3: "b", 4: "c", 5: None}
OLD, BOTH, NEW = [1, 2, 3], [1, 2, 3, 4], [1, 2, 4]


def poll(seconds: int) -> str:
    return f"20261101T110000Z-00000000/{seconds:012}"


def interval(begin: int, end: int | None, late: float = 0.0) -> Row:
    """`late`: when an answer beside a poll comes, in seconds after the poll's own."""
    began = {"first_poll": poll(begin), "valid_from": at(begin + late)}
    began |= {"prev_sent_at": at(begin - 10)}
    if end is None:
        return CLUSTER | began
    ended = {"last_poll": poll(end - 10), "last_seen_sent_at": at(end - 10)}
    return CLUSTER | began | ended | {"superseded_poll": poll(end), "valid_to": at(end + late)}


def lists(states: Lists) -> list[Row]:
    ends = [*states, None][1:]
    return [
        interval(begin, end) | {"topic": "orders", "partition": 0, "replicas": replicas}
        for (begin, replicas), end in zip(states.items(), ends, strict=True)
    ]


def move(
    begin: int, end: int | None, adding: list[int], removing: list[int], why: str | None = "gone"
) -> Row:
    of = {"topic": "orders", "partition": 0, "adding_replicas": adding}
    ended = {} if end is None else {"end_reason": why}
    return interval(begin, end, late=0.1) | of | {"removing_replicas": removing} | ended


def answer(states: Lists, *moves: Row) -> list[Row]:
    seen = {
        "memory": "{}",
        "done_poll": poll(NEWEST),
        "done_at": at(NEWEST),
        "changed_poll": poll(0),
    }
    lake: dict[Any, Sequence[Row]] = {
        silver.PARTITION_SNAPSHOTS: lists(states),
        silver.REASSIGNMENTS: moves,
        silver.BROKER_SNAPSHOTS: [
            interval(0, None) | {"broker_id": broker, "rack": rack}
            for broker, rack in RACKS.items()
        ],
        silver.BROKER_REGISTRATIONS: [],
        internal.STATE: [
            CLUSTER | seen | {"history": "silver", "round": 1, "last_seen_at": at(NEWEST)}
        ],
    }
    with duckdb_lake(lake, (internal.STATE_NOW, internal.CLUSTERS, BROKER_RACKS)) as made:
        return ask(made, with_values(text_of("reassignments"), PARAMETERS))


@pytest.mark.parametrize(
    ("states", "ended", "outcome"),
    [
        ({0: OLD, 20: BOTH, 40: NEW}, 40, "done"),
        ({0: OLD, 20: BOTH, 40: OLD}, 40, "cancelled"),
        # It ended between a poll's answer and the answer beside it.
        ({0: OLD, 20: BOTH, 50: NEW}, 40, "done"),
        ({0: OLD, 20: BOTH, 50: OLD}, 40, "cancelled"),
        # It began between them, too, so that no poll showed both.
        ({0: OLD, 40: NEW}, 40, "done"),
        ({0: OLD, 50: NEW}, 40, "done"),
        ({0: OLD}, 40, "cancelled"),
        # A later one is another one.
        ({0: OLD, 20: BOTH, 40: NEW, 60: OLD}, 40, "done"),
        # The newest poll may have been answered before it ended.
        ({0: OLD}, NEWEST, None),
        ({0: OLD, 20: BOTH, 40: [5]}, 40, None),
        ({0: OLD, 20: BOTH}, None, "running"),
    ],
)
def test_what_became_of_it(states: Lists, ended: int | None, outcome: str | None) -> None:
    (found,) = answer(states, move(20, ended, [4], [3]))
    assert found["outcome"] == outcome
    assert (found["racks_before"], found["racks_after"]) == (2, 3)


@pytest.mark.parametrize(
    ("states", "adding", "removing", "outcome"),
    [
        # What a poll showed just before the end is no end.
        ({0: OLD, 50: [1, 2]}, [], [3], "done"),
        ({0: OLD}, [], [3], "cancelled"),
        ({0: OLD, 20: BOTH, 50: OLD}, [4], [], "cancelled"),
        ({0: OLD, 20: BOTH}, [4], [], "done"),
    ],
)
def test_more_replicas_or_fewer(
    states: Lists, adding: list[int], removing: list[int], outcome: str
) -> None:
    (found,) = answer(states, move(20, 40, adding, removing))
    assert found["outcome"] == outcome


def test_another_target_replaces_one_that_runs() -> None:
    states = {0: OLD, 20: BOTH, 30: [1, 2, 3, 4, 5], 40: [1, 2, 5]}
    first, second = answer(states, move(20, 30, [4], [3], why=None), move(30, 40, [5], [3, 4]))
    assert (first["outcome"], second["outcome"]) == ("replaced", "done")
    assert (first["racks_before"], first["racks_after"]) == (2, 3)
    assert second["racks_after"] is None, "broker 5 has no rack"


def test_of_a_topic_that_is_gone_nobody_knows() -> None:
    (found,) = answer({}, move(20, 40, [4], [3]))
    told = ("outcome", "racks_before", "racks_after", "adding_replicas", "removing_replicas")
    assert tuple(found[name] for name in told) == (None, None, None, [4], [3])


@pytest.mark.parametrize(
    ("moves", "running", "left_since"),
    [
        ([], 0, None),
        ([move(20, 40, [4], [3])], 0, 40.1),
        ([move(20, 40, [4], [3]), move(50, 60, [3], [4])], 0, 60.1),
        ([move(20, 40, [4], [3]), move(50, None, [3], [4])], 1, None),
        # It was set when all of them were over.
        ([move(0, 10, [4], [3])], 0, None),
    ],
)
def test_a_throttle_is_left_if_no_reassignment_runs_that_it_was_there_for(
    moves: list[Row], running: int, left_since: float | None
) -> None:
    setting = {"resource_type": 2, "name": "leader.replication.throttled.replicas", "value": "*"}
    named = setting | {"resource_name": "orders"}
    other = named | {"name": "retention.ms"}
    removed = named | {"resource_name": "logs"}
    rows = [interval(30, None) | named, interval(30, None) | other, interval(30, 40) | removed]
    with duckdb_lake({silver.CONFIGS: rows, silver.REASSIGNMENTS: moves}, ()) as lake:
        (found,) = ask(lake, with_values(text_of("throttles"), PARAMETERS))
    assert (found["of"], found["resource_name"]) == ("topic", "orders")
    at_last = None if left_since is None else at(left_since)
    assert (found["reassignments"], found["left_since"]) == (running, at_last)
