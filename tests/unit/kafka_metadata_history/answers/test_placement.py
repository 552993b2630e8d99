"""Since when, and by which move, a partition is placed badly: `placement`, in DuckDB."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import text_of
from schemas import silver
from schemas.views import BROKER_RACKS
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import CLUSTER, at
from tests.support.incident_questions import PARAMETERS, in_seconds

Row = dict[str, Any]
States = Mapping[int, object]
"""From when on, in seconds after noon, something was so; None: it was not there."""

LONG_AGO = -1000
"""When the first poll was."""
UNTIL = 100
APART = {1: "a", 2: "b", 3: "c", 4: "c"}
GOOD, BAD = [1, 2, 3], [1, 3, 4]


def rows(states: States, column: str, **more: object) -> list[Row]:
    """Of an interval table. Polls are a second apart: a state was not there a second before."""
    found = []
    times = pairwise([*states.items(), (None, None)])
    before = None
    for (begin, state), (end, _) in times:
        assert begin is not None
        if state is not None:
            reason = "gone" if end is not None and states[end] is None else None
            ended = {} if end is None else {"last_poll": f"{end - 1:08}", "end_reason": reason}
            found.append(
                CLUSTER
                | {"first_poll": f"{begin:08}", "valid_from": at(begin), "valid_to": at(end)}
                | {"prev_sent_at": None if begin == LONG_AGO else at(begin - 1)}
                | {column: state, f"prev_{column}": before, **more}
                | ended
            )
        before = state
    return found


def lists(states: States, **more: object) -> list[Row]:
    """Of partition 0 of `orders`."""
    told = {"topic": "orders", "partition": 0, "error_code": 0} | more
    return [
        row | {"prev_error_code": None if row["prev_replicas"] is None else 0}
        for row in rows(states, "replicas", **told)
    ]


def answer(
    partitions: Sequence[Row],
    racks: Mapping[int, States] | None = None,
    min_isr: States | None = None,
    reassignments: Sequence[Row] = (),
    registered: Mapping[int, States] | None = None,
    **parameters: object,
) -> list[Row]:
    brokers = racks or {broker: {LONG_AGO: rack} for broker, rack in APART.items()}
    lake = {
        silver.PARTITION_SNAPSHOTS: partitions,
        silver.BROKER_SNAPSHOTS: [
            row
            for broker, states in brokers.items()
            for row in rows(states, "rack", broker_id=broker)
        ],
        silver.BROKER_REGISTRATIONS: [
            row
            for broker, states in (registered or {}).items()
            for row in rows(states, "rack", broker_id=broker)
        ],
        silver.TOPIC_CONFIGS: rows(min_isr or {}, "min_insync_replicas", topic="orders"),
        silver.REASSIGNMENTS: reassignments,
    }
    values = {**PARAMETERS, "until": str(at(UNTIL)), **parameters}
    with duckdb_lake(lake, [BROKER_RACKS]) as made:
        return [in_seconds(row) for row in ask(made, with_values(text_of("placement"), values))]


def told(found: Sequence[Row]) -> list[tuple[object, ...]]:
    names = ("finding", "began_after", "began_before", "move")
    return [tuple(row[name] for name in names) for row in found]


def moving(began: int, ended: int | None, adding: list[int], removing: list[int]) -> Row:
    times = {"first_poll": f"{began:08}", "valid_from": at(began), "valid_to": at(ended)}
    replicas = {"adding_replicas": adding, "removing_replicas": removing}
    return CLUSTER | {"topic": "orders", "partition": 0} | times | replicas


@pytest.mark.parametrize(
    ("states", "began"),
    [
        ({LONG_AGO: BAD}, (None, LONG_AGO, None)),
        ({20: BAD}, (19, 20, "creation")),
        ({LONG_AGO: GOOD, 20: BAD}, (19, 20, "reassignment")),
        # In the same rack before and after, by other brokers.
        ({20: [1, 3, 4], 30: [2, 3, 4]}, (19, 20, "creation")),
        ({LONG_AGO: BAD, 20: GOOD, 30: BAD}, (29, 30, "reassignment")),
        # Deleted, and made again.
        ({LONG_AGO: BAD, 20: None, 30: BAD}, (29, 30, "creation")),
    ],
)
def test_replicas_that_share_a_rack(states: States, began: tuple[object, ...]) -> None:
    assert told(answer(lists(states))) == [("shared_rack", *began)]


@pytest.mark.parametrize(
    "states",
    [{LONG_AGO: GOOD}, {LONG_AGO: BAD, 20: GOOD}, {LONG_AGO: BAD, 20: None}, {UNTIL + 1: BAD}],
)
def test_what_is_well_placed_or_not_there_at_the_windows_end_is_no_finding(states: States) -> None:
    assert answer(lists(states)) == []


def test_a_broker_that_changes_its_rack() -> None:
    """It is not listed meanwhile, and has its last rack until it is back."""
    racks = {1: {LONG_AGO: "a"}, 2: {LONG_AGO: "b", 30: None, 40: "a"}, 3: {LONG_AGO: "c"}}
    assert told(answer(lists({LONG_AGO: [1, 2]}), racks)) == [
        ("shared_rack", 39, 40, "rack_change")
    ]
    same = racks | {2: {LONG_AGO: "a", 30: None, 40: "a"}}
    assert told(answer(lists({10: [1, 2]}), same)) == [("shared_rack", 9, 10, "creation")]
    back = racks | {2: {LONG_AGO: "a", 30: None, 40: "b"}}
    assert answer(lists({LONG_AGO: [1, 2]}), back) == []


def test_a_rack_that_was_not_known_before() -> None:
    """By when it was so is known, and no move."""
    racks = {1: {LONG_AGO: "a"}, 2: {40: "a"}, 3: {LONG_AGO: "c"}}
    assert told(answer(lists({10: [1, 2]}), racks)) == [("shared_rack", 9, 40, None)]
    assert answer(lists({10: [1, 2]}), {1: {LONG_AGO: "a"}}) == [], "of 2 nobody knows"
    # The controllers' log has it from before a poll listed the broker.
    assert told(answer(lists({10: [1, 2]}), racks, registered={2: {5: "a"}})) == [
        ("shared_rack", 9, 10, "creation")
    ]


def test_a_cluster_with_fewer_racks_than_replicas() -> None:
    racks = {broker: {LONG_AGO: rack} for broker, rack in {1: "a", 2: "b", 3: "b", 5: "b"}.items()}
    assert told(answer(lists({20: [1, 2, 3]}), racks)) == [("too_few_racks", 19, 20, "creation")]
    # Rack a has none of these.
    assert told(answer(lists({20: [2, 3, 5]}), racks)) == [("shared_rack", 19, 20, "creation")]


def test_one_replica() -> None:
    assert told(answer(lists({LONG_AGO: [1, 2], 20: [1]}), min_isr={LONG_AGO: 1})) == [
        ("rf_1", 19, 20, "reassignment")
    ]


def test_no_more_replicas_than_min_isr() -> None:
    finding = "rf_at_most_min_isr"
    two = lists({10: [1, 2]})
    assert told(answer(two, min_isr={LONG_AGO: 2})) == [(finding, 9, 10, "creation")]
    assert told(answer(two, min_isr={LONG_AGO: 1, 30: 2})) == [(finding, 29, 30, "min_isr_change")]
    fewer = lists({LONG_AGO: GOOD, 20: [1, 2]})
    assert told(answer(fewer, min_isr={LONG_AGO: 2})) == [(finding, 19, 20, "reassignment")]
    assert told(answer(two, min_isr={30: 2})) == [(finding, 9, 30, None)], "nobody told it before"
    assert answer(two) == answer(two, min_isr={LONG_AGO: 2, 30: 1}) == []


def test_a_reassignment_that_runs_counts_as_done() -> None:
    running = lists({LONG_AGO: GOOD, 20: [1, 2, 3, 4]})
    (union,) = answer(running)
    assert union["replicas"] == [1, 2, 3, 4], "nobody told of the reassignment"
    assert answer(running, reassignments=[moving(20, None, [4], [3])]) == []
    (target,) = answer(running, reassignments=[moving(20, None, [4], [2])])
    assert (target["replicas"], target["racks"]) == ([1, 3, 4], ["a", "c", "c"])
    assert told([target]) == [("shared_rack", 19, 20, "reassignment")]
    # One that was cancelled before says nothing of this one.
    assert len(answer(running, reassignments=[moving(5, 15, [4], [3])])) == 1


def test_replicas_of_before_a_reassignment_are_as_they_were() -> None:
    """It was told of before a poll showed what it adds."""
    racks = {broker: {LONG_AGO: rack} for broker, rack in {1: "a", 2: "b", 3: "c", 4: "c"}.items()}
    racks[5] = {LONG_AGO: "c"}
    moved = answer(
        lists({LONG_AGO: BAD, 30: [1, 3, 4, 5]}), racks, reassignments=[moving(29, None, [5], [4])]
    )
    assert (moved[0]["replicas"], told(moved)) == ([1, 3, 5], [("shared_rack", None, -1000, None)])
    # What is removed alone is there until it is gone.
    fewer = answer(lists({20: BAD}), racks, reassignments=[moving(50, None, [], [4])])
    assert told(fewer) == [("shared_rack", 19, 20, "creation")]


def test_what_is_not_known_any_more_is_no_finding() -> None:
    assert answer(lists({20: BAD, 30: [1, 2, 9]})) == [], "nobody was told of broker 9"


def test_a_topic_that_nobody_was_shown_for_a_while() -> None:
    hidden = lists({LONG_AGO: BAD, 20: None, 30: BAD})
    hidden[0]["end_reason"] = "unauthorized"
    assert told(answer(hidden)) == [("shared_rack", None, 30, None)]


def test_what_retention_has_dropped() -> None:
    """An ISR has changed at 30 s, and rows of before are gone."""
    (kept,) = lists({30: BAD})
    kept |= {"prev_replicas": BAD, "prev_error_code": 0}
    assert told(answer([kept])) == [("shared_rack", None, 30, None)]


def test_partitions_of_a_topic_are_one_row_if_they_came_to_be_so_by_one_move() -> None:
    first, second = lists({20: BAD}), lists({20: BAD}, partition=1)
    third = lists({LONG_AGO: GOOD, 30: BAD}, partition=2)
    found = answer([*first, *second, *third])
    names = ("partition", "partitions", "began_before", "move")
    assert [tuple(row[name] for name in names) for row in found] == [
        (0, 2, 20, "creation"),
        (2, 1, 30, "reassignment"),
    ]
    assert answer([*first, *second, *third], broker=2) == []
