"""The first cause of an incident: by rules, not by what came first."""

from typing import Any

import pytest

from jobs.rules.incidents.finding import Finding
from tests.support.incident_rounds import Rounds, finding, left, level, missing

CONTROLLED: dict[str, Any] = {"source": "log", "is_controlled": True}
OFFLINE = level("partition_offline", (3,), 12)
CASES: dict[str, tuple[tuple[str, str | None, str | None], list[Finding]]] = {
    "by polls": (("broker_down", "3", "inferred"), [missing(3, 10)]),
    "by the log": (
        ("broker_down", "3", "exact"),
        [missing(3, 10, source="log", is_controlled=False)],
    ),
    "controlled": (("controlled_shutdown", "3", "exact"), [missing(3, 10, **CONTROLLED)]),
    "hung": (("broker_hung", "3", "inferred"), [left(3, 10), missing(3, 19)]),
    "hung, as a leader": (
        ("broker_hung", "3", "inferred"),
        [finding("isr_left", 10, leader=3, brokers=(1, 2), cause="leader_stalled"), missing(3, 19)],
    ),
    "not surely hung": (("broker_down", "3", "inferred"), [left(3, 10), missing(3, 11)]),
    "rack": (("rack", "b", "inferred"), [missing(2, 10, rack="b"), missing(3, 12, rack="b")]),
    "leader stalled": (
        ("leader_stalled", "3", "inferred"),
        [
            finding("isr_left", 10, leader=3, brokers=(1, 2), cause="leader_stalled"),
            level("under_min_isr", (1, 2), 10),
        ],
    ),
    "lagging": (
        ("lagging", "3", "inferred"),
        [left(3, 10, cause="lagging"), level("under_min_isr", (3,), 10)],
    ),
    "disk": (
        ("log_dir_failed", "3", "inferred"),
        [left(3, 10, cause="log_dir_failed"), OFFLINE],
    ),
    "disk, as its broker told": (
        ("log_dir_failed", "3", "bounded"),
        [
            finding("log_dir_failed", 15, within=14, broker_id=3),
            left(3, 10, cause="lagging"),
            OFFLINE,
        ],
    ),
    "disk alone": (
        ("log_dir_failed", "3", "bounded"),
        [finding("log_dir_failed", 15, broker_id=3)],
    ),
    "reassignment": (
        ("reassignment", None, "inferred"),
        [
            finding("reassignment", 5, brokers=(3,)),
            left(3, 10, cause="reassignment"),
            level("under_min_isr", (3,), 10),
        ],
    ),
    "setting": (
        ("config_changed", "orders", "inferred"),
        [
            finding("config_changed", 10, 10, topic="orders"),
            finding("under_min_isr", 12, topic="orders", partitions=3),
        ],
    ),
    "unknown": (("unknown", None, None), [OFFLINE]),
    "stale": (("stale", "3", "inferred"), [finding("stale_broker", 10, broker_id=3)]),
    "quorum": (("quorum", None, "inferred"), [finding("quorum_lost", 10)]),
    "transaction": (
        ("transaction", "orders", "inferred"),
        [finding("stuck_transaction", 10, 10, source="log", topic="orders")],
    ),
    "group": (("group", "g", "inferred"), [finding("group_stopped", 10, group_id="g")]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_cause(name: str) -> None:
    expected, found = CASES[name]
    row = Rounds().begun().rounds(found, 20).incident
    assert (row["cause"], row["cause_of"], row["cause_sureness"]) == expected


def test_other_causes_that_the_rules_allow_are_kept() -> None:
    found = [finding("reassignment", 5, brokers=(3,)), missing(3, 10), left(3, 12)]
    found += [level("under_min_isr", (3,), 12)]
    row = Rounds().begun().rounds(found, 20).incident
    assert row["cause"] == "broker_down"
    assert Rounds().begun().rounds(found, 20).rules() == {
        "broker_missing": None,
        "isr_left": "missing_isr",
        "under_min_isr": "isr_level",
    }


def test_a_failure_far_down_the_chain_is_no_cause_of_its_own() -> None:
    found = [
        missing(3, 10, 60),
        left(3, 10, 70),
        finding("leader_changed", 10, 10, broker_id=3),
        finding("coordinator_moved", 10, 10, broker_id=3),
        finding("rebalance", 40, 70, broker_id=3, group_id="billing"),
        finding("pause", 30, 75, group_id="billing", number=21_000),
        finding("lag", 60, 110, group_id="billing", number=4_100),
    ]
    rounds = Rounds().begun().rounds(found, 20, 80, 120)
    assert rounds.rules() == {
        "broker_missing": None,
        "isr_left": "missing_isr",
        "leader_changed": "missing_leader",
        "coordinator_moved": "leader_coordinator",
        "rebalance": "coordinator_rebalance",
        "pause": "rebalance_pause",
        "lag": "pause_lag",
    }
    assert rounds.incident["group_ids"] == ["billing"]
    assert rounds.incident["ended_before"] is None
