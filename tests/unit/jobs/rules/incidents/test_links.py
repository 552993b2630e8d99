"""Which finding follows from which: a case for each rule, and its bounds."""

from dataclasses import replace

import pytest

from jobs.rules.incidents.finding import Finding
from jobs.rules.incidents.links import BOUNDED, EXACT, INFERRED, RULES, delays, link
from tests.support.incident_rounds import at, finding, left, level, missing

MISSING = missing(3, 100, rack="b")


def exact(kind: str, second: float, **columns: object) -> Finding:
    """A record of a log, which begins and ends at a time."""
    return finding(kind, second, second, source="log", **columns)


CASES: dict[str, tuple[Finding, Finding]] = {
    "same_rack": (MISSING, missing(4, 105, rack="b")),
    "rolling": (missing(3, 100, 130), missing(4, 400)),
    "stale_missing": (MISSING, finding("stale_broker", 110, broker_id=3)),
    "missing_isr": (MISSING, left(3, 70)),
    "leader_stalled": (MISSING, finding("isr_left", 80, leader=3, brokers=(1, 2))),
    "log_dir_isr": (finding("log_dir_failed", 600, within=590, broker_id=3), left(3, 90)),
    "log_dir_leader": (
        finding("log_dir_failed", 600, within=590, broker_id=3),
        finding("leader_changed", 101, broker_id=3),
    ),
    "log_dir_level": (
        finding("log_dir_failed", 600, within=590, broker_id=3),
        level("partition_offline", (3,), 101),
    ),
    "reassignment_isr": (finding("reassignment", 10, brokers=(3, 5)), left(3, 90)),
    "missing_leader": (MISSING, finding("leader_changed", 101, broker_id=3)),
    "stale_leader": (
        finding("stale_broker", 100, broker_id=3),
        finding("leader_changed", 101, broker_id=3),
    ),
    "missing_controller": (MISSING, exact("controller_elected", 101, broker_id=3)),
    "quorum_controller": (finding("quorum_lost", 100), exact("controller_elected", 140)),
    "config_level": (
        exact("config_changed", 100, topic="orders"),
        finding("under_min_isr", 101, topic="orders"),
    ),
    "missing_level": (MISSING, level("partition_offline", (3,), 101)),
    "isr_level": (left(3, 100), level("under_min_isr", (3,), 100)),
    "offline_election": (
        level("partition_offline", (3,), 100, 130),
        finding("unclean_election", 130, brokers=(3,)),
    ),
    "missing_election": (MISSING, finding("unclean_election", 130, brokers=(3,))),
    "leader_coordinator": (
        finding("leader_changed", 100, broker_id=3),
        finding("coordinator_moved", 101, broker_id=3),
    ),
    "missing_coordinator": (MISSING, finding("coordinator_moved", 101, broker_id=3)),
    "coordinator_rebalance": (
        finding("coordinator_moved", 100, 100, broker_id=3),
        finding("rebalance", 145, broker_id=3, group_id="g"),
    ),
    "rebalance_stuck": (
        finding("rebalance", 100, group_id="g"),
        finding("group_stuck", 100, group_id="g"),
    ),
    "rebalance_pause": (
        finding("rebalance", 100, 130, group_id="g"),
        finding("pause", 95, group_id="g"),
    ),
    "pause_lag": (finding("pause", 100, group_id="g"), finding("lag", 130, group_id="g")),
    "rebalance_lag": (finding("rebalance", 100, group_id="g"), finding("lag", 130, group_id="g")),
    "same_transaction": (
        exact("stuck_transaction", 100, topic="orders", cause="overdue"),
        exact("stuck_transaction", 101, topic="bills", cause="overdue"),
    ),
    "offline_transaction": (
        finding("partition_offline", 100, topic="orders"),
        exact("stuck_transaction", 130, topic="orders", cause="stuck_completing"),
    ),
    "transaction_lag": (
        exact("stuck_transaction", 100, topic="orders", cause="overdue"),
        finding("lag", 20, group_id="g", topic="orders"),
    ),
    "lag_stopped": (finding("lag", 100, group_id="g"), finding("group_stopped", 300, group_id="g")),
}


def test_each_rule_has_a_case() -> None:
    assert {rule.name for rule in RULES} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_rule_ties_what_is_about_the_same(name: str) -> None:
    first, then = CASES[name]
    tie = link(then, [first])
    assert tie is not None
    assert (tie.rule.name, tie.first) == (name, first)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"quorum_controller", "same_transaction"}))
def test_no_rule_ties_what_is_about_others(name: str) -> None:
    first, then = CASES[name]
    others = replace(
        first,
        broker_id=None if first.broker_id is None else 99,
        brokers=(99,) if first.brokers else (),
        group_id=None if first.group_id is None else "other",
        topic=None if first.topic is None else "other",
        rack=None if first.rack is None else "z",
        ended_before=None,
    )
    assert link(then, [others]) is None


@pytest.mark.parametrize("name", CASES)
def test_no_rule_ties_what_came_long_before(name: str) -> None:
    first, then = CASES[name]
    day = 86_400
    long_ago = replace(
        first,
        began_after=at(-day),
        began_before=at(-day),
        ended_after=at(-day),
        ended_before=at(-day),
    )
    assert link(then, [long_ago]) is None


def test_what_a_broker_had_lost_a_minute_before_it_was_missing_has_another_cause() -> None:
    assert link(left(3, 30), [MISSING]) is None


def test_whoever_lasts_is_the_cause_of_what_begins_later() -> None:
    assert link(level("under_min_isr", (3,), 9_000), [left(3, 100)]) is not None
    assert link(level("under_min_isr", (3,), 9_000), [left(3, 100, 200)]) is None


def test_the_closest_one_before_is_the_cause() -> None:
    first, second = left(3, 100), left(5, 120)
    tie = link(level("under_min_isr", (3, 5), 121), [first, second])
    assert tie is not None
    assert tie.first == second


def test_a_controlled_stop_and_a_crash_are_no_rolling_restart() -> None:
    first = missing(3, 100, 130, source="log", is_controlled=True)
    then = missing(4, 400, source="log", is_controlled=False)
    assert link(then, [first]) is None


@pytest.mark.parametrize(
    ("first", "then", "sureness"),
    [
        (
            exact("broker_missing", 100, broker_id=3),
            exact("leader_changed", 100, broker_id=3),
            EXACT,
        ),
        (MISSING, finding("leader_changed", 101, broker_id=3), BOUNDED),
        (
            replace(MISSING, began_after=None),
            finding("leader_changed", 101, broker_id=3),
            INFERRED,
        ),
        (*CASES["coordinator_rebalance"], INFERRED),
    ],
)
def test_how_sure_a_link_is(first: Finding, then: Finding, sureness: str) -> None:
    tie = link(then, [first])
    assert tie is not None
    assert tie.sureness == sureness


def test_delays_have_both_bounds() -> None:
    then = finding("leader_changed", 104, broker_id=3, within=3)
    assert delays(MISSING, then) == (1, 6)
    tie = link(then, [MISSING])
    assert tie is not None
    assert (tie.delay_ms_min, tie.delay_ms_max) == (1_000, 6_000)
