"""For how long one more loss would have taken something offline: the question, in DuckDB."""

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_metadata_history.answers.questions import text_of
from schemas import silver
from tests.support.duckdb_lake import asking
from tests.support.incident import CLUSTER
from tests.support.sums_of_time import at, observed, poll, window

Row = dict[str, Any]
Time = tuple[float, float | None]
"""From when to when, in seconds; each is seen a second after it may have begun, and until a second
before it may have ended.
"""
RACKS = {1: "a", 2: "b", 3: "c"}


def lasting(time: Time, **columns: Any) -> Row:
    since, until = time
    over = {} if until is None else {"last_seen_sent_at": at(until - 1), "valid_to": at(until)}
    began = {"first_poll": poll(since), "valid_from": at(since), "prev_sent_at": at(since - 1)}
    return CLUSTER | began | over | columns


def isr(time: Time, isr: Sequence[int], **columns: Any) -> Row:
    lists = {"isr": [*isr], "replicas": [1, 2, 3], "leader": isr[0]}
    return lasting(time, topic="orders", partition=0) | lists | columns


def risks(
    states: Sequence[Row],
    min_isrs: Sequence[tuple[Time, int]] = (((1, None), 2),),
    racks: Sequence[tuple[Time, int, str | None]] | None = None,
    gaps: Sequence[tuple[int, int]] = (),
    **asked: object,
) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Loss and effect -> seconds at least and at most, topics, and those that are always so."""
    given = [((1, None), *of) for of in RACKS.items()] if racks is None else racks
    rows = {
        **observed([*gaps], 1000),
        silver.PARTITION_SNAPSHOTS: [*states],
        silver.TOPIC_CONFIGS: [
            lasting(time, topic="orders", min_insync_replicas=of) for time, of in min_isrs
        ],
        silver.BROKER_SNAPSHOTS: [
            lasting(time, broker_id=broker, rack=rack) for time, broker, rack in given
        ],
        silver.BROKER_REGISTRATIONS: [],
    }
    with asking(rows) as ask:
        found = ask(text_of("one_more_loss"), window(1000) | asked)
    told = ("seconds_min", "seconds_max", "topics", "always")
    return {(row["loss"], row["effect"]): tuple(row[each] for each in told) for row in found}


NOTHING = (0, 0, [], [])
OFFLINE, UNDER = ("broker", "offline"), ("broker", "under_min_isr")
RACK_OFFLINE, RACK_UNDER = ("rack", "offline"), ("rack", "under_min_isr")


SHORT = isr((100, 200), [1, 2])
ALONE = isr((100, 200), [1])


def test_all_are_in_sync() -> None:
    found = risks([isr((1, None), [1, 2, 3])])
    assert found == dict.fromkeys((OFFLINE, UNDER, RACK_OFFLINE, RACK_UNDER), NOTHING)


def test_one_is_left() -> None:
    found = risks([ALONE])
    assert found[OFFLINE] == found[RACK_OFFLINE] == (99, 101, ["orders"], [])
    # It is under min ISR already.
    assert found[UNDER] == found[RACK_UNDER] == NOTHING


def test_as_many_are_left_as_min_isr_asks_for() -> None:
    found = risks([SHORT])
    assert found[UNDER] == found[RACK_UNDER] == (99, 101, ["orders"], [])
    assert found[OFFLINE] == found[RACK_OFFLINE] == NOTHING


def test_more_are_left_than_min_isr_asks_for() -> None:
    assert risks([SHORT], [((1, None), 1)])[UNDER] == NOTHING


def test_partitions_that_are_so_together_count_once() -> None:
    more = [isr((150, 250), [1], partition=1), isr((160, 170), [2], partition=2)]
    assert risks([ALONE, *more])[OFFLINE] == (149, 151, ["orders"], [])


def test_one_without_a_leader_is_offline_already() -> None:
    assert risks([isr((100, 200), [1], leader=-1)])[OFFLINE] == NOTHING
    # A listener may be hidden from whoever answered.
    assert risks([isr((100, 200), [1], leader=None)])[OFFLINE][:2] == (99, 101)


def test_the_time_that_nobody_observed_is_in_no_least() -> None:
    assert risks([ALONE], gaps=[(120, 150)])[OFFLINE][:2] == (69, 101)


def test_the_window_cuts() -> None:
    asked = {"since": str(at(150)), "until": str(at(160))}
    assert risks([ALONE], **asked)[OFFLINE][:2] == (10, 10)
    assert risks([ALONE], since=str(at(300)))[OFFLINE] == NOTHING


@pytest.mark.parametrize(
    ("replicas", "min_isr", "always"),
    [
        ([1], 1, {OFFLINE, RACK_OFFLINE}),
        ([1, 2], 2, {UNDER, RACK_UNDER}),
        ([1, 2, 3], 3, {UNDER, RACK_UNDER}),
        # Broker 4 is in the rack of 1.
        ([1, 4, 2], 2, {RACK_UNDER}),
        ([1, 4], 1, {RACK_OFFLINE}),
        ([1, 2, 3], 2, set()),
    ],
)
def test_what_is_always_so_is_listed_and_not_counted(
    replicas: list[int], min_isr: int, always: set[tuple[str, str]]
) -> None:
    racks = [((1, None), broker, rack) for broker, rack in {**RACKS, 4: "a"}.items()]
    of = isr((1, None), replicas) | {"replicas": replicas}
    found = risks([of], [((1, None), min_isr)], racks)
    assert {risk for risk, told in found.items() if told[3]} == always
    assert {told[:2] for told in found.values()} == {(0, 0)}
    if len(replicas) > 2:
        found = risks([of | {"isr": replicas[:2]}], [((1, None), min_isr)], racks)
        assert {found[risk][:2] for risk in always} <= {(0, 0)}


def test_both_that_are_left_are_in_one_rack() -> None:
    racks = [((1, None), broker, rack) for broker, rack in ((1, "a"), (2, "a"), (3, "b"))]
    found = risks([SHORT], [((1, None), 1)], racks)
    assert (found[RACK_OFFLINE][:2], found[OFFLINE]) == ((99, 101), NOTHING)


def test_a_broker_of_no_rack_may_be_in_that_of_another() -> None:
    racks = [((1, None), 1, "a"), ((1, None), 3, "b")]
    found = risks([SHORT], [((1, None), 1)], racks)
    assert found[RACK_OFFLINE] == (0, 101, ["orders"], [])


@pytest.mark.parametrize(
    ("in_sync", "under", "offline"), [([1, 2, 3], (0, 101), (0, 0)), ([1, 2], (0, 101), (0, 101))]
)
def test_a_broker_of_no_rack_and_min_isr(
    in_sync: list[int], under: tuple[int, int], offline: tuple[int, int]
) -> None:
    """The two that are left may be in one rack: then they are offline, not under min ISR."""
    racks = [((1, None), broker, rack) for broker, rack in ((1, "a"), (3, "c"), (4, "d"))]
    found = risks([isr((100, 200), in_sync) | {"replicas": [1, 2, 3, 4]}], racks=racks)
    assert (found[RACK_UNDER][:2], found[RACK_OFFLINE][:2]) == (under, offline)


def test_no_racks_are_told() -> None:
    assert risks([SHORT], racks=[]).keys() == {OFFLINE, UNDER}
    assert risks([SHORT], racks=[((1, None), 1, None)]).keys() == {OFFLINE, UNDER}


def test_a_broker_moves_to_another_rack() -> None:
    racks = [((1, 150), 2, "b"), ((150, None), 2, "a"), ((1, None), 1, "a"), ((1, None), 3, "c")]
    states = [SHORT, isr((200, 300), [2, 1])]
    assert risks(states, [((1, None), 1)], racks)[RACK_OFFLINE][:2] == (99, 101)


def test_a_broker_that_is_down_keeps_its_rack() -> None:
    racks = [((1, 90), 3, "a"), ((1, None), 1, "a"), ((1, None), 2, "b")]
    # Two of three in rack a: under min ISR without that rack even if all are in sync.
    assert risks([SHORT], racks=racks)[RACK_UNDER] == NOTHING


def test_min_isr_that_nobody_told_is_in_the_most() -> None:
    assert risks([SHORT], [])[UNDER] == (0, 101, ["orders"], [])
    # ... but whoever is alone goes offline.
    assert risks([ALONE], [])[UNDER] == NOTHING


def test_min_isr_changes_meanwhile() -> None:
    changes = [((1, 130), 2), ((130, None), 1)]
    assert risks([SHORT], changes)[UNDER] == (29, 31, ["orders"], [])
    # Nobody told of it from 120 to 140.
    assert risks([SHORT], [((1, 121), 2), ((140, None), 1)])[UNDER][:2] == (20, 41)
    assert risks([SHORT], [((1, 121), 1), ((140, None), 2)])[UNDER][:2] == (59, 80)


def test_a_cluster_whose_isrs_mean_nothing_has_no_row() -> None:
    rows = observed([], 1000) | {silver.PARTITION_SNAPSHOTS: [], silver.BROKER_SNAPSHOTS: []}
    rows |= {silver.TOPIC_CONFIGS: [], silver.BROKER_REGISTRATIONS: []}
    for facts, count in (([], 2), (["isr: remote"], 0), (["leader_epoch: no"], 2)):
        (cluster,) = rows[silver.CLUSTER_SNAPSHOTS]
        of = {silver.CLUSTER_SNAPSHOTS: [cluster | {"not_meaningful": facts}]}
        with asking(rows | of) as ask:
            assert len(ask(text_of("one_more_loss"), window(1000))) == count
