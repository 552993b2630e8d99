"""The change of a leader by one record of the controllers' log: why, and whether it was clean."""

from typing import Any

import pytest

from jobs.rules.gold.recorded import why
from jobs.rules.gold.rows import Evidence
from tests.support.gold_cases import led, second_state
from tests.support.silver_rows import Row

NOTHING = {"elr": [], "last_known_elr": []}

REASONS: dict[str, tuple[Row, Row, dict[str, Any]]] = {
    "preferred": (led(2), led(1, 1), {}),
    "failover: the leader before could not lead any more": (
        led(1),
        led(2, 1),
        {"lost_leader": True},
    ),
    "failover: though the preferred replica leads": (led(2), led(1, 1), {"lost_leader": True}),
    "reassignment: the leader before is no replica": (
        led(1),
        led(2, 1, replicas="23", isr="23"),
        {"lost_leader": True},
    ),
    "reassignment: a replica is no more, under the same leader": (
        led(1),
        led(1, 1, replicas="12", isr="12"),
        {},
    ),
    "recovery": (led(-1, isr="1"), led(1, 1, isr="1"), {"lost_leader": True}),
    "offline": (led(1, isr="1"), led(-1, 1, isr="1"), {"lost_leader": True}),
    "isr_shrink: below 3.6-IV0 the same leader is named again": (led(1), led(1, 1, isr="12"), {}),
    "unknown: the same leader, and nothing else changed": (led(1), led(1, 1), {}),
    "unknown: the same leader, and the ISR grew": (led(1, isr="12"), led(1, 1), {}),
    "unknown: another than the preferred replica, of a leader that could lead": (
        led(1),
        led(2, 1),
        {},
    ),
}
"""Value of `reason` -> the state before, the state that the record began, and the evidence."""

CLEAN: dict[str, tuple[Row, Row, dict[str, Any]]] = {
    "no: of the ISR": (led(1), led(2, 1, isr="23"), {}),
    "no: nobody leads": (led(1, isr="1"), led(-1, 1, isr="1"), {}),
    "no: the same leader": (led(1, isr="2"), led(1, 1, isr="1"), {}),
    "no: eligible": (led(-1, isr=""), led(3, 1, isr="3"), {"elr": {**NOTHING, "elr": [3]}}),
    "no: it joined in the request that completes a reassignment": (
        led(1, replicas="1", isr="1"),
        led(4, 1, replicas="4", isr="4"),
        {"completes_reassignment": True},
    ),
    "proven: neither in the ISR nor eligible": (led(-1, isr="1"), led(3, 1, isr="3"), {}),
    "proven: last known only": (
        led(-1, isr=""),
        led(3, 1, isr="3"),
        {"elr": {"elr": [], "last_known_elr": [3]}},
    ),
    "proven: it began recovery, of a leader in the ISR": (
        led(-1, isr="3"),
        led(3, 1, isr="3"),
        {"began_recovery": True},
    ),
}
"""Value of `unclean` -> as above."""


def why_of(before: Row, after: Row, told: dict[str, Any]) -> Any:
    evidence = dict.fromkeys(("lost_leader", "completes_reassignment", "began_recovery"), False)
    return why(second_state(before, after), Evidence(**{"elr": NOTHING, **evidence, **told}))


@pytest.mark.parametrize("case", REASONS)
def test_why_the_leader_changed(case: str) -> None:
    assert why_of(*REASONS[case])["reason"] == case.partition(":")[0]


@pytest.mark.parametrize("case", CLEAN)
def test_whether_the_election_was_clean(case: str) -> None:
    assert why_of(*CLEAN[case])["unclean"] == case.partition(":")[0]


@pytest.mark.parametrize(
    ("before", "leader", "lists", "is_last_known"),
    [
        (-1, 3, ([], [3]), True),
        (-1, 3, ([3], [3]), False),
        (-1, 3, ([], [2]), False),
        (1, 3, ([], [3]), False),
        (1, -1, ([], [-1]), False),
    ],
    ids=["last known", "eligible, too", "another", "not from none", "nobody leads"],
)
def test_the_last_known_leader(
    before: int, leader: int, lists: tuple[list[int], list[int]], is_last_known: bool
) -> None:
    told = {"elr": dict(zip(NOTHING, lists, strict=True))}
    found = why_of(led(before, isr="1"), led(leader, 1, isr="3"), told)
    assert found["is_last_known_leader"] is is_last_known
