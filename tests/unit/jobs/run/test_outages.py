"""The lines of the log about clusters whose polls begin to fail, or are good again."""

import logging
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.run.outages import Outages
from metadata_source.outcomes import TO_DO
from tests.support.examples import examples

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def header(n: int, kind: str | None, cluster: str = "prod") -> dict[str, Any]:
    due = NOON + timedelta(seconds=n)
    told = {
        "outcome": "failed" if kind else "ok",
        "error_kind": kind,
        "error": kind and f"poll {n}",
    }
    return {
        "cluster": cluster,
        "poll_id": f"20261101T000000Z-0/{n:012d}",
        "scheduled_at": due,
    } | told


def lines(*looks: list[str | None]) -> list[list[str]]:
    """What is said at each look, of polls that failed for these reasons, None: that were good."""
    outages, n, found = Outages(), 0, []
    for kinds in looks:
        headers = [header(n + index, kind) for index, kind in enumerate(kinds)]
        n += len(kinds)
        said = list(outages.see(reversed(headers)))
        assert list(outages.see(headers)) == [], "what was seen says nothing again"
        found.append(
            [
                f"{logging.getLevelName(level)} {line.removeprefix('cluster prod: ')}"
                for level, line in said
            ]
        )
    return found


AGAIN = "WARNING polls are good again; 2 poll(s) failed since 2026-11-01T12:00:0"
TODO = TO_DO["authentication"]


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([[None], [None, None]], [[], []]),
        (
            [["timeout"], ["timeout"], [None], [None]],
            [
                ["WARNING polls fail since 2026-11-01T12:00:00Z: timeout: poll 0"],
                [],
                [f"{AGAIN}0Z"],
                [],
            ],
        ),
        (
            [[None], ["authentication"], ["authentication"]],
            [
                [],
                [f"ERROR polls fail since 2026-11-01T12:00:01Z: authentication: poll 1; {TODO}"],
                [],
            ],
        ),
        (
            [["timeout"], ["authentication"], ["timeout"], ["tls"]],
            [
                ["WARNING polls fail since 2026-11-01T12:00:00Z: timeout: poll 0"],
                [f"ERROR polls fail since 2026-11-01T12:00:00Z: authentication: poll 1; {TODO}"],
                [],
                [],
            ],
        ),
        (
            [[None, "timeout", "unreachable", None]],
            [[f"{AGAIN}1Z, the last one: unreachable: poll 2"]],
        ),
        (
            [["timeout"], [None, "timeout"], ["timeout", None]],
            [
                ["WARNING polls fail since 2026-11-01T12:00:00Z: timeout: poll 0"],
                ["WARNING polls fail since 2026-11-01T12:00:02Z: timeout: poll 2"],
                [f"{AGAIN}2Z, the last one: timeout: poll 3"],
            ],
        ),
    ],
)
def test_what_is_said(looks: list[list[str | None]], said: list[list[str]]) -> None:
    assert lines(*looks) == said


def test_names_and_errors_cannot_forge_a_line() -> None:
    forged = header(0, "timeout", "pay\nments\x1b[31m") | {
        "error": "no\n2026-11-01 ERROR forged \u202e"
    }
    ((_, line),) = Outages().see([forged])
    assert line.isprintable()
    assert line.startswith(r"cluster pay\nments\x1b[31m: ")


def test_clusters_are_counted_by_their_last_poll() -> None:
    outages = Outages()
    list(outages.see([header(0, None), header(0, "timeout", "other"), header(0, None, "third")]))
    assert str(outages) == "2 cluster(s) polled, 1 failing"
    list(outages.see([header(1, "tls"), header(1, None, "other")]))
    assert str(outages) == "2 cluster(s) polled, 1 failing"


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.lists(st.sampled_from([None, "timeout", "tls"]), min_size=1, max_size=4), max_size=8
    )
)
def test_the_last_line_says_how_polls_fare_and_none_says_so_twice(
    looks: list[list[str | None]],
) -> None:
    said = lines(*looks)
    assert all(len(of_look) <= 1 for of_look in said)
    fails: list[bool] = [False]
    for kinds, of_look in zip(looks, said, strict=True):
        fails += [" polls fail " in line for line in of_look] or fails[-1:]
        assert fails[-1] == (kinds[-1] is not None), "the newest line tells"
    told = [(line, kinds) for kinds, of_look in zip(looks, said, strict=True) for line in of_look]
    for (before, _), (line, kinds) in pairwise(told):
        if " polls fail " in before and " polls fail " in line:
            assert None in kinds or (before.startswith("WARNING") and line.startswith("ERROR"))
