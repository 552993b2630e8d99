"""The facts of the controllers' log about a record that changed a partition, as a table. What gold
makes of them is in test_log_elections.py.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.rules.gold.rows import Evidence
from jobs.rules.log.evidence import with_evidence
from tests.support.cluster_logs import START, Row

PARTITIONS = "silver.partition_snapshots"
BEGAN = "/log/" + "0" * 18 + "12"
OLD, BEFORE, LATER = ("/log/" + "0" * 18 + number for number in ("00", "11", "14"))


def row_of(begin: str, end: str | None = None, **told: Any) -> Row:
    """A state of the partition, from one observation to another."""
    return {
        "topic": "t",
        "topic_id": "id-t",
        "partition": 0,
        "first_poll": begin,
        "superseded_poll": end,
        **told,
    }


def evidence_of(
    partition: dict[str, Any] | None = None, **beside: Sequence[Row]
) -> Evidence | None:
    """The facts about the record at which broker 1 stopped leading, replicas became 2 and 3."""
    state = {
        "prev_leader": 1,
        "replicas": [2, 3],
        "offline_replicas": [],
        "valid_from": START,
        "prev_poll": BEFORE,
    }
    rows = {"silver.broker_registrations": [BROKER_1]} | {
        f"silver.{table}": of_table for table, of_table in beside.items()
    }
    state |= partition or {}
    (found,) = with_evidence({**rows, PARTITIONS: [row_of(BEGAN, **state)]})
    return found.get("evidence")


def registered(begin: int, end: int | None = None, **told: Any) -> Row:
    """Broker 1 from a second until another, beside that of the record."""
    return {
        "broker_id": 1,
        "first_poll": f"{begin + 100:03}",
        "valid_from": START + timedelta(seconds=begin),
        "valid_to": None if end is None else START + timedelta(seconds=end),
        "is_fenced": False,
        "in_controlled_shutdown": False,
        **told,
    }


BROKER_1 = registered(-5)
NO_FACTS = Evidence(
    lost_leader=False,
    completes_reassignment=False,
    elr={"elr": (), "last_known_elr": ()},
    began_recovery=False,
)
REASSIGNED = row_of(OLD, BEGAN, end_reason="gone", adding_replicas=[3], removing_replicas=[1])
RECOVERS = row_of(BEGAN, is_recovering=True, prev_is_recovering=False)
ELIGIBLE = {"elr": [2], "last_known_elr": [3]}


@pytest.mark.parametrize(
    ("partition", "beside", "facts"),
    [
        pytest.param({}, {}, {}, id="the leader could lead on"),
        pytest.param({"offline_replicas": [1]}, {}, {"lost_leader": True}, id="it is offline"),
        pytest.param({"offline_replicas": [2]}, {}, {}, id="another replica is offline"),
        pytest.param(
            {}, {"broker_registrations": []}, {"lost_leader": True}, id="it is not registered"
        ),
        pytest.param(
            {},
            {"broker_registrations": [registered(1)]},
            {"lost_leader": True},
            id="it registers only later",
        ),
        pytest.param(
            {},
            {"broker_registrations": [registered(-5, 0)]},
            {"lost_leader": True},
            id="it is unregistered at that moment",
        ),
        pytest.param({}, {"broker_registrations": [registered(-5, 1)]}, {}, id="or only later"),
        pytest.param(
            {},
            {"broker_registrations": [registered(-5, 0), registered(0, is_fenced=True)]},
            {"lost_leader": True},
            id="it is fenced at that moment",
        ),
        pytest.param(
            {},
            {"broker_registrations": [registered(-5, 0, is_fenced=True), registered(0)]},
            {},
            id="it is unfenced at that moment",
        ),
        pytest.param(
            {},
            {"broker_registrations": [registered(-5, -1, is_fenced=True), registered(-1)]},
            {},
            id="it was fenced before",
        ),
        pytest.param(
            {},
            {"broker_registrations": [registered(-5, in_controlled_shutdown=True)]},
            {"lost_leader": True},
            id="it shuts down",
        ),
        pytest.param(
            {}, {"reassignments": [REASSIGNED]}, {"completes_reassignment": True}, id="completed"
        ),
        pytest.param(
            {},
            {"reassignments": [REASSIGNED | {"end_reason": None}]},
            {},
            id="another reassignment took its place",
        ),
        pytest.param(
            {},
            {"reassignments": [REASSIGNED | {"superseded_poll": LATER}]},
            {},
            id="the reassignment ended with a later record",
        ),
        pytest.param(
            {"replicas": [1, 2]}, {"reassignments": [REASSIGNED]}, {}, id="it was cancelled"
        ),
        pytest.param(
            {"replicas": [1, 2, 3]}, {"reassignments": [REASSIGNED]}, {}, id="not all are removed"
        ),
        pytest.param({"replicas": [2]}, {"reassignments": [REASSIGNED]}, {}, id="none was added"),
        pytest.param(
            {},
            {"partition_elr": [row_of(OLD, BEGAN, **ELIGIBLE)]},
            {"elr": ELIGIBLE},
            id="the ELR until that record",
        ),
        pytest.param(
            {},
            {"partition_elr": [row_of(OLD, None, **ELIGIBLE)]},
            {"elr": ELIGIBLE},
            id="the ELR that holds still",
        ),
        pytest.param(
            {}, {"partition_elr": [row_of(OLD, BEFORE, **ELIGIBLE)]}, {}, id="an older ELR"
        ),
        pytest.param(
            {},
            {"partition_elr": [row_of(BEGAN, None, **ELIGIBLE)]},
            {},
            id="the ELR that the record itself made",
        ),
        pytest.param(
            {}, {"partition_registrations": [RECOVERS]}, {"began_recovery": True}, id="recovers"
        ),
        pytest.param(
            {},
            {"partition_registrations": [RECOVERS | {"prev_is_recovering": True}]},
            {},
            id="it was recovering before",
        ),
        pytest.param(
            {},
            {"partition_registrations": [RECOVERS | {"is_recovering": False}]},
            {},
            id="it has recovered",
        ),
        pytest.param(
            {},
            {"partition_registrations": [RECOVERS | {"first_poll": BEFORE}]},
            {},
            id="it began to recover before",
        ),
        pytest.param(
            {},
            {"partition_registrations": [RECOVERS | {"partition": 1}]},
            {},
            id="another partition recovers",
        ),
    ],
)
def test_facts_about_a_record(
    partition: dict[str, Any], beside: dict[str, list[Row]], facts: dict[str, Any]
) -> None:
    assert evidence_of(partition, **beside) == replace(NO_FACTS, **facts)


@pytest.mark.parametrize(
    ("partition", "has_facts"),
    [
        ({}, True),
        ({"prev_leader": None}, False),
        ({"prev_poll": "/log/" + "0" * 18 + "10"}, False),
        ({"prev_poll": "S/000000000001"}, False),
        ({"prev_poll": None}, False),
    ],
)
def test_facts_are_those_of_one_record_after_another(
    partition: dict[str, Any], *, has_facts: bool
) -> None:
    """Between others records are hidden."""
    assert (evidence_of(partition) is not None) == has_facts


def test_facts_are_those_of_new_states() -> None:
    rows = {PARTITIONS: [row_of(BEGAN, prev_leader=1, prev_poll=BEFORE)]}
    assert with_evidence(rows, BEGAN) == rows[PARTITIONS]
