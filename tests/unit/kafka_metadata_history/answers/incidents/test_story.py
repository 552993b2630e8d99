"""What is said of an incident: sentences, and which findings have a line."""

from dataclasses import replace

import pytest

from kafka_metadata_history.answers.incidents import story
from kafka_metadata_history.answers.incidents.records import Finding, Incident, record
from tests.support.incident import at
from tests.support.incident_rows import bounds, finding, incident

EMPTY = dict.fromkeys(Incident.__dataclass_fields__)
ROW = incident("a" * 12, "broker_missing", bounds((9, 10), (19, 20)), brokers=[3])
OVER = record(Incident, EMPTY | ROW | {"incident_class": "incident", "severity": "page"})
EXACT = replace(OVER, began_after=at(10), ended_after=at(20))
OPEN = replace(OVER, end_reason=None, ended_after=None, ended_before=None)


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (
            EXACT,
            (
                "Broker 3 was missing from 2026-11-01 12:00:10Z to 12:00:20Z (page; cause: not "
                "known; at worst no partition)."
            ),
        ),
        (
            replace(OVER, began_after=None, ended_after=at(12), offline_most=2),
            (
                "Broker 3 was missing from 2026-11-01 12:00:10Z at the latest to 12:00:20Z at the "
                "latest (page; cause: not known; at worst 2 partitions offline)."
            ),
        ),
        (
            replace(OPEN, cause="broker_down", cause_of="3", cause_sureness="exact", offline=2),
            (
                "Broker 3 has been missing since 2026-11-01 12:00:10Z (page; cause: broker 3 was "
                "down (exact); 2 partitions offline)."
            ),
        ),
    ],
)
def test_an_incident_in_one_sentence(of: Incident, says: str) -> None:
    assert story.sentence(of) == says


def test_since_when_over_a_midnight() -> None:
    of = replace(EXACT, ended_after=at(86_400), ended_before=at(86_400), reopened=2)
    assert story.since(of, at(0)) == (
        "began at 2026-11-01 12:00:10Z; ended at 2026-11-02 12:00:00Z; came back 2 times"
    )


def test_what_else_there_is_to_say() -> None:
    of = replace(
        OPEN, is_escalated=True, incident_class="maintenance", steps=2, overlaps=["x", "y"]
    )
    assert [name for name, _ in story.beside(of)] == ["escalated", "steps", "overlaps"]
    assert [*story.beside(OPEN)] == []


def test_openers_and_one_of_each_kind_have_a_line_before_all_others() -> None:
    empty = dict.fromkeys(Finding.__dataclass_fields__)
    kinds = ["leader_changed"] * 5 + ["broker_missing", "rebalance", "lag", "lag"]
    findings = [
        record(
            Finding,
            empty
            | finding("a", number, kind, bounds((number, number)))
            | {"rule": None if kind == "broker_missing" else "missing_leader"},
        )
        for number, kind in enumerate(kinds)
    ]
    kept = [each.kind for each in story.chosen(findings, 4)]
    assert kept == ["leader_changed", "broker_missing", "rebalance", "lag"]
    assert story.chosen(findings, 20) == findings
    assert [each.kind for each in story.chosen(findings, 1)] == ["broker_missing"]
