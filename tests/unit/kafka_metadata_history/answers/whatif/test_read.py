"""The state of a cluster, read out of the known incident (tests/support/incident.py), in DuckDB."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_metadata_history.answers.questions import Ask, QueryError
from kafka_metadata_history.answers.whatif.read import Record, loss_of, read_record
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.state import Broker, Loss, Quorum
from schemas import bronze, silver
from tests.support.asof_lakes import KNOWN, answered, asking, lasting, twice
from tests.support.for_each import for_each
from tests.support.incident import CLUSTER, at

NOW = at(3600)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking({}) as of:
        yield of


def record(ask: Ask, seconds: float | None = None) -> Record:
    return read_record(ask, None, None if seconds is None else f"{at(seconds)}", NOW, {})


def states(of: Record) -> dict[str, tuple[Any, ...]]:
    return {each.name: (each.leader, each.replicas, each.isr) for each in of.cluster.partitions}


def test_the_state_at_a_time_is_the_one_that_was_seen_last(ask: Ask) -> None:
    assert states(record(ask, 15)) == {
        "__consumer_offsets-0": (1, [2, 1], [1]),
        "clicks-0": (3, [2, 3], [3]),
        "logs-0": (3, [3], [3]),
        "orders-0": (1, [1, 2, 3], [1, 3]),
        "orders-1": (3, [2, 3, 1], [1, 3]),
    }
    assert states(record(ask, 25))["clicks-0"] == (-1, [2, 3], [3])


def test_the_newest_state_is_the_one_at_the_end_of_history(ask: Ask) -> None:
    newest = record(ask)
    assert (newest.at, newest.until) == (newest.until, at(120.1))
    assert newest.cluster.name == "prod"
    assert states(newest) == states(record(ask, 120))
    assert states(newest)["clicks-0"] == (2, [2, 3], [2, 3])


def test_brokers_are_those_that_were_listed(ask: Ask) -> None:
    assert record(ask, 5).cluster.brokers == {1: Broker("a"), 2: Broker("b"), 3: Broker("b")}
    assert record(ask, 15).cluster.brokers == {1: Broker("a"), 3: Broker("b")}


def test_settings_and_levels_are_those_then(ask: Ask) -> None:
    of = record(ask, 5)
    settings = {each.topic: (each.min_isr, each.unclean) for each in of.cluster.partitions}
    assert settings == {
        "__consumer_offsets": (None, None),
        "clicks": (1, True),
        "logs": (1, False),
        "orders": (2, False),
    }
    assert of.cluster.has_elr is False
    assert [of.cluster.min_isr(each) for each in of.cluster.partitions] == [None, 1, 1, 2, 2]


def test_a_fenced_broker_is_no_live_one(ask: Ask) -> None:
    fenced = lasting(10, 40, broker_id=2, rack="b")
    with asking({silver.FENCED_BROKERS: [fenced]}) as of:
        assert record(of, 15).cluster.brokers[2] == Broker("b", is_live=False)
        # It was listed again before somebody asked.
        assert record(of, 45).cluster.brokers[2] == Broker("b")


def test_the_controllers_log_says_more_of_brokers_if_it_tells() -> None:
    """Broker 2 is fenced at 9 s, broker 3 stops from 16 s on: no poll has shown that yet."""
    with asking({}) as of:
        assert record(of, 9.5).cluster.brokers[2] == Broker("b")
    with asking({}, {silver.HISTORY_SOURCES: [lasting(-10, source="log")]}) as of:
        found = record(of, 17)
    assert found.cluster.brokers == {
        1: Broker("a"),
        2: Broker("b", is_live=False),
        3: Broker("b", is_stopping=True),
        4: Broker(None, is_live=False),
    }
    # Reassignments and eligible leaders are told, too.
    assert not any("enrich: reassignments" in each for each in found.lacks)


QUORUM = lasting(0, controller_id=3001, quorum_epoch=4, voters=[3001, 3002, 3003])
BEHIND = {**QUORUM, "voters_behind": [3003]}


def test_the_quorum_is_known_by_its_answers() -> None:
    with asking({silver.QUORUM: [QUORUM]}) as of:
        found = record(of, 15)
    assert found.cluster.quorum == Quorum(3001, frozenset({3001, 3002, 3003}))
    assert "which controllers are caught up" in found.lacks
    assert loss_of(found, "controller", "3001,3003") == Loss(frozenset(), frozenset({3001, 3003}))


def test_the_record_has_which_voters_are_behind() -> None:
    asked = {bronze.METADATA_POLLS: [answered("quorum", 10)]}
    for voters_behind in ([3003], []):
        row = {**QUORUM, "voters_behind": voters_behind}
        with asking({silver.QUORUM: [row], **asked}) as of:
            found = record(of, 15)
        assert found.cluster.quorum == Quorum(
            3001, frozenset({3001, 3002, 3003}), frozenset(voters_behind)
        )
        assert "which controllers are caught up" not in found.lacks
        lost = what_if(found.cluster, loss_of(found, "controller", "3002")).quorum
        assert lost is not None
        assert (lost.is_lost, lost.was_lost) == (bool(voters_behind), False)
    # Nobody asks any more: who was behind then need not be any more.
    with asking({silver.QUORUM: [BEHIND]}) as of:
        found = record(of, 15)
    assert found.cluster.quorum == Quorum(3001, frozenset({3001, 3002, 3003}), None)


def test_reassignments_and_eligible_leaders_are_known_once_somebody_has_asked() -> None:
    with asking({bronze.METADATA_POLLS: [answered("reassignments", 10)]}) as of:
        before, after = record(of, 5), record(of, 15)
    assert {each.adding is None for each in before.cluster.partitions} == {True}
    assert {each.adding is None for each in after.cluster.partitions} == {False}
    runs = lasting(11, topic="orders", partition=1, adding_replicas=[1], removing_replicas=[2])
    eligible = lasting(12, topic="orders", partition=1, elr=[2], last_known_elr=[])
    more = {silver.REASSIGNMENTS: [runs], silver.PARTITION_ELR: [eligible]}
    with asking(more) as of:
        (found,) = (each for each in record(of, 15).cluster.partitions if each.name == "orders-1")
    assert (found.adding, found.removing, found.elr) == ([1], [2], [2])


def test_lacking_sources_are_named(ask: Ask) -> None:
    assert record(ask, 15).lacks == (
        "min ISR of 1 of 5 partitions (`enrich: configs`)",
        "reassignments (`enrich: reassignments`)",
        "the quorum (`enrich: quorum`)",
    )


def test_a_gap_is_said_unless_the_log_told() -> None:
    gap = {**CLUSTER, "gap_start": at(11), "gap_end": at(19), "until_poll": "u", "after_poll": "a"}
    with asking({silver.POLL_GAPS: [gap]}) as of:
        assert record(of, 15).gap == (at(11), at(19))
        assert record(of, 25).gap is None
    by_log = {silver.HISTORY_SOURCES: [lasting(-10, source="log")]}
    with asking({silver.POLL_GAPS: [gap]}, by_log) as of:
        assert record(of, 15).gap is None


@pytest.mark.parametrize(
    ("lost", "seconds", "offline"),
    [
        ("3", 5, {"logs-0"}),
        # While broker 2 is away.
        ("3", 15, {"logs-0", "clicks-0"}),
        ("2,3", 5, {"logs-0", "clicks-0"}),
        ("1", 25, {"orders-0", "orders-1", "__consumer_offsets-0"}),
    ],
)
def test_it_is_as_the_incident_was(ask: Ask, lost: str, seconds: float, offline: set[str]) -> None:
    """At 20 s broker 3 was lost while broker 2 was away: the two topics had no leader then."""
    of = record(ask, seconds)
    found = what_if(of.cluster, loss_of(of, "broker", lost))
    assert {each.of.name for each in found.effects if each.after.offline} == offline


WRONG: dict[str, tuple[str | None, str | None, tuple[str, str], str]] = {
    "before history": (
        None,
        "2026-11-01T11:00:00Z",
        ("broker", "1"),
        "--at 2026-11-01 11:00:00Z: history of prod is 2026-11-01 12:00:00Z to",
    ),
    "after history": (
        None,
        "1 min",
        ("broker", "1"),
        "--at 2026-11-01 12:59:00Z: history of prod is 2026-11-01 12:00:00Z to",
    ),
    "no time": (None, "noon", ("broker", "1"), "'noon' is neither a time like"),
    "no such cluster": (
        "prot",
        None,
        ("broker", "1"),
        "--cluster prot: history has prod; did you mean prod?",
    ),
    "a broker that never was": (
        None,
        None,
        ("broker", "1,9"),
        "--lose broker 1,9: there was no broker 9 in prod at 2026-11-01 12:02:00Z; brokers are 1, ",
    ),
    "no id": (None, None, ("broker", "x"), "--lose broker x: ids are whole numbers, as in 3,4"),
    "a rack that nobody has": (
        None,
        None,
        ("rack", "c"),
        "--lose rack c: nobody is in it in prod at 2026-11-01 12:02:00Z; racks are a, b",
    ),
    "no quorum": (
        None,
        None,
        ("controller", "3001"),
        "--lose controller 3001: the quorum of prod is not known; `enrich: quorum` tells it",
    ),
}
"""A cluster, a time, a loss, and how the line begins that refuses it."""


@for_each("case", WRONG)
def test_bad_input_is_one_line(ask: Ask, case: str) -> None:
    cluster, time, lost, says = WRONG[case]
    with pytest.raises(QueryError) as raised:
        loss_of(read_record(ask, cluster, time, NOW, {}), *lost)
    assert str(raised.value).startswith(says)
    assert "\n" not in str(raised.value)


def test_a_controller_that_never_was() -> None:
    with asking({silver.QUORUM: [QUORUM]}) as of, pytest.raises(QueryError) as raised:
        loss_of(record(of, 15), "controller", "9")
    assert str(raised.value).endswith("controllers are 3001, 3002, 3003")


def test_racks_are_of_controllers_that_are_there() -> None:
    with asking({silver.QUORUM: [QUORUM]}) as of:
        told = read_record(of, "prod", None, NOW, {3001: "b", 3002: "c"})
        with pytest.raises(QueryError) as raised:
            read_record(of, "prod", None, NOW, {9: "b"})
    assert loss_of(told, "rack", "b") == Loss(
        frozenset({2, 3}), frozenset({3001}), frozenset({"b"})
    )
    assert loss_of(told, "rack", "c").controllers == {3002}
    assert str(raised.value) == "--controller-rack 9: controllers of prod are 3001, 3002, 3003"


def test_an_empty_lake_and_one_of_several_clusters_are_one_line() -> None:
    with asking({}, dict.fromkeys(KNOWN, ())) as of, pytest.raises(QueryError, match="is empty"):
        record(of)
    with (
        asking(twice()) as of,
        pytest.raises(QueryError, match="prod, test: name one with --cluster"),
    ):
        record(of)


def test_a_kind_without_isrs_is_refused() -> None:
    odd = [
        row | {"not_meaningful": ["isr: every replica is in it"]}
        for row in KNOWN[silver.CLUSTER_SNAPSHOTS]
    ]
    with (
        asking({}, {silver.CLUSTER_SNAPSHOTS: odd}) as of,
        pytest.raises(QueryError, match=r"prod: nobody knows .* isr: every replica is in it"),
    ):
        record(of, 15)
