"""The lines of the log about questions that get no answer again and again, and what status says of
them.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.run.unanswered import AGAIN, Asked, Unanswered

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SINCE = "since 2026-11-01T12:00:0"


def answer(n: int, outcome: str, kind: str = "groups", cluster: str = "prod") -> dict[str, Any]:
    place = {"cluster": cluster, "poll_id": f"20261101T000000Z-0/{n:012d}"}
    return place | {"kind": kind, "outcome": outcome, "scheduled_at": NOON + timedelta(seconds=n)}


def lines(*outcomes: str) -> list[str]:
    """The lines of the log about answers that come one after the other."""
    unanswered, found = Unanswered(), []
    for n, outcome in enumerate(outcomes):
        for _ in range(2):  # What was seen says nothing again.
            found += [(n, *line) for line in unanswered.see([answer(n, outcome)])]
    assert {level for _, level, _ in found} <= {logging.WARNING}
    return [f"{n} {line.removeprefix('cluster prod: ')}" for n, _, line in found]


WHY = "one:9092: ListGroupsResponse v4: groups at byte 6: null"
FAILED = f"failed: {WHY}"
TO_DO = "grant what docs/permissions.md names, or take groups out of `enrich`"
OFF = "failed: put off: no time is left before the next poll"


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        (["ok", "ok: 1 broker was not asked", "not_supported"] * 2, []),
        (["not_supported"] * 4, []),
        ([FAILED, FAILED, "ok"] * 3, []),
        (
            [FAILED] * 5 + ["ok", "ok"],
            [
                (
                    f"2 groups got no answer 3 times in a row {SINCE}0Z: {WHY}; polls are good "
                    "meanwhile"
                ),
                "5 groups is answered again, after 5 failures in a row",
            ],
        ),
        (
            ["ok", FAILED, OFF, OFF, "ok: some"],
            [
                (
                    f"3 groups got no answer 3 times in a row {SINCE}1Z: {WHY}; polls are good "
                    "meanwhile"
                ),
                "4 groups is answered again, after 3 failures in a row",
            ],
        ),
        (
            [OFF] * 4,
            [
                (
                    f"2 groups got no answer 3 times in a row {SINCE}0Z: {OFF[8:]}; polls are "
                    "good meanwhile"
                )
            ],
        ),
        (
            ["not_allowed"] * 4,
            [
                (
                    f"2 groups got no answer 3 times in a row {SINCE}0Z: not_allowed: {TO_DO}; "
                    "polls are good meanwhile"
                )
            ],
        ),
    ],
)
def test_one_line_when_it_begins_and_one_when_it_ends(outcomes: list[str], said: list[str]) -> None:
    assert lines(*outcomes) == said


def test_each_cluster_and_each_kind_has_its_own() -> None:
    unanswered = Unanswered()
    rows = [
        answer(n, FAILED, kind, cluster)
        for n in range(AGAIN)
        for kind in ("a", "b")
        for cluster in ("c\x1b", "d")
    ]
    rows += [answer(n, "ok", "well") for n in range(AGAIN)]
    found = sorted(line.partition(" got")[0] for _, line in unanswered.see(reversed(rows)))
    assert found == [
        f"cluster {cluster}: {kind}" for cluster in ("c\\x1b", "d") for kind in ("a", "b")
    ]


def test_what_is_said_is_one_printable_line() -> None:
    says = Asked("groups", 3, NOON, "failed: one\x1b[31m\ntwo").says
    assert says.isprintable()
    assert says.endswith("one\\x1b[31m\\ntwo")
