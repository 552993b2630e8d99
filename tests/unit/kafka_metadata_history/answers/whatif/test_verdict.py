"""Whether a broker may stop: a table of cases, and how they are said."""

import json
from dataclasses import replace

import pytest

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Partition, Quorum
from kafka_metadata_history.answers.whatif.verdict import (
    ACCEPTABLE,
    NOT_KNOWN,
    NOT_SAFE,
    SAFE,
    STATUSES,
    Verdict,
    as_json,
    as_text,
    judged,
)

WHOLE = Partition("orders", 0, 1, [1, 2, 3], [1, 2, 3], min_isr=2, unclean=False)
QUORUM = Quorum(101, frozenset({101, 102, 103}), frozenset())


def cluster(*of: Partition, quorum: Quorum | None = QUORUM, has_elr: bool | None = False):
    brokers = {each: Broker() for each in (1, 2, 3, 4)}
    return Cluster("prod", brokers, of, quorum, Levels(21, highest=21), has_elr)


def verdict(state: Cluster, *accepted: str, lacks: tuple[str, ...] = ()) -> Verdict:
    return judged(what_if(state, loss_of_nodes(state, [1])), 1, lacks, accepted)


CASES = {
    "all in sync": (WHOLE, SAFE, []),
    "one more than min ISR": (replace(WHOLE, isr=[1, 2, 3], min_isr=1), SAFE, []),
    "no replica here": (replace(WHOLE, leader=2, replicas=[2], isr=[2]), SAFE, []),
    "not in the ISR": (replace(WHOLE, leader=2, isr=[2, 3]), SAFE, []),
    "another one out": (replace(WHOLE, isr=[1, 2]), NOT_SAFE, ["new-under-min-isr"]),
    "sole member": (replace(WHOLE, isr=[1], min_isr=1), NOT_SAFE, ["new-offline"]),
    "sole member, unclean": (
        replace(WHOLE, isr=[1], min_isr=1, unclean=True),
        NOT_SAFE,
        ["loses-data"],
    ),
    "RF 1": (replace(WHOLE, replicas=[1], isr=[1], min_isr=1), NOT_SAFE, ["rf1"]),
    "RF is min ISR": (replace(WHOLE, min_isr=3), NOT_SAFE, ["rf-at-most-min-isr"]),
    "RF below min ISR": (replace(WHOLE, min_isr=5), NOT_SAFE, ["rf-at-most-min-isr"]),
    "offline before": (replace(WHOLE, leader=-1, isr=[2]), NOT_SAFE, ["offline"]),
    "under before": (replace(WHOLE, leader=2, isr=[2]), NOT_SAFE, ["under-min-isr"]),
    "under before, offline by it": (replace(WHOLE, isr=[1]), NOT_SAFE, ["new-offline"]),
    "a reassignment runs": (replace(WHOLE, adding=[3]), SAFE, []),
    "min ISR not known": (replace(WHOLE, min_isr=None), NOT_KNOWN, []),
    "ISR not known": (replace(WHOLE, isr=None), NOT_KNOWN, []),
    "replicas not known": (replace(WHOLE, replicas=None), NOT_KNOWN, []),
    "unclean not known": (replace(WHOLE, isr=[1], min_isr=1, unclean=None), NOT_KNOWN, []),
}


@pytest.mark.parametrize(("of", "expected", "reasons"), CASES.values(), ids=CASES)
def test_a_partition(of: Partition, expected: str, reasons: list[str]) -> None:
    found = verdict(cluster(of))
    assert (found.verdict, [each.reason for each in found.reasons]) == (expected, reasons)
    assert bool(found.lacks) == (expected == NOT_KNOWN)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[1] == NOT_SAFE])
def test_what_was_so_before_can_be_accepted_and_nothing_new(name: str) -> None:
    of, _, reasons = CASES[name]
    found = verdict(cluster(of), *ACCEPTABLE)
    assert found.verdict == (SAFE if set(reasons) <= set(ACCEPTABLE) else NOT_SAFE)
    others = [each for each in ACCEPTABLE if each not in reasons]
    assert verdict(cluster(of), *others).verdict == NOT_SAFE


COMBINED = Quorum(1, frozenset({1, 2, 3}), frozenset())
QUORUMS = {
    "of others": (QUORUM, SAFE, []),
    "of others, not known": (replace(QUORUM, behind=None), SAFE, []),
    # Nobody elects leaders.
    "of others, lost": (
        replace(QUORUM, behind=frozenset({102, 103})),
        NOT_SAFE,
        ["quorum-was-lost"],
    ),
    "two are left": (COMBINED, SAFE, []),
    "one is behind": (replace(COMBINED, behind=frozenset({3})), NOT_SAFE, ["quorum-lost"]),
    "this one is behind": (replace(COMBINED, leader=2, behind=frozenset({1})), SAFE, []),
    "lost before": (
        replace(COMBINED, behind=frozenset({2, 3})),
        NOT_SAFE,
        ["quorum-was-lost"],
    ),
    "not known who is behind": (replace(COMBINED, behind=None), NOT_KNOWN, []),
    "not known": (None, NOT_KNOWN, []),
}


@pytest.mark.parametrize(("quorum", "expected", "reasons"), QUORUMS.values(), ids=QUORUMS)
def test_the_quorum(quorum: Quorum | None, expected: str, reasons: list[str]) -> None:
    found = verdict(cluster(WHOLE, quorum=quorum), *ACCEPTABLE)
    assert (found.verdict, [each.reason for each in found.reasons]) == (expected, reasons)


def test_a_reassignment_that_cannot_end_is_a_note() -> None:
    (note,) = verdict(cluster(replace(WHOLE, adding=[3]))).notes
    assert note == "reassignments of orders-0 cannot end before it is back"


def test_what_is_lacking_is_never_safe_and_harm_is_not_safe_whatever_lacks() -> None:
    assert verdict(cluster(WHOLE), lacks=("configs: not_allowed",)).verdict == NOT_KNOWN
    harmed = cluster(replace(WHOLE, isr=[1, 2]))
    assert verdict(harmed, lacks=("configs: not_allowed",)).verdict == NOT_SAFE
    assert STATUSES == {SAFE: 0, NOT_SAFE: 3, NOT_KNOWN: 4}


def test_it_is_said() -> None:
    alone = replace(WHOLE, topic="logs", replicas=[1], isr=[1], min_isr=1)
    found = verdict(
        cluster(replace(WHOLE, isr=[1, 2]), alone), "rf1", lacks=("fenced: failed: no answer",)
    )
    assert as_text(found).splitlines() == [
        "prod: broker 1 may not stop",
        "  new         orders-0 fall under min ISR",
        "  accepted    logs-0 have one replica, and go offline at any stop",
        "  not known   fenced: failed: no answer",
        "  note        other replicas of orders-0 are not in sync",
    ]
    said = json.loads(as_json(found))
    assert (said["verdict"], said["not_known"]) == (NOT_SAFE, ["fenced: failed: no answer"])
    assert said["reasons"][1] == {
        "reason": "rf1",
        "is_new": False,
        "is_accepted": True,
        "partitions": ["logs-0"],
    }


def test_a_reason_says_how_to_accept_it() -> None:
    found = verdict(cluster(replace(WHOLE, min_isr=3)))
    assert as_text(found).splitlines()[1].endswith("(--accept rf-at-most-min-isr)")
