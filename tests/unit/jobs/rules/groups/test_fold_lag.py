"""The lag of the groups of a part: each has what the visits of its own cluster told of it."""

import json
from typing import Any

import pyarrow as pa
import pytest

from jobs.rules.groups.fold_lag import fold, told_of
from jobs.rules.groups.lag import Commit, GroupAnswer
from schemas.bronze import METADATA_POLLS
from schemas.consumption import GROUP_LAG, REMOVED_COMMITS
from schemas.internal import LAG_STATES
from tests.support.lag_rounds import MINUTE, Row, at, visit

UPDATED = at(99)
PROD = ("prod", "id-prod")
SAID = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "poll_id", "group_id", "topic", "error")),
        *(("is_simple", pa.bool_()), ("partition", pa.int32())),
        *((name, pa.int64()) for name in ("committed_offset", "log_end", "last_stable")),
        ("commit_read_before", pa.timestamp("us", "UTC")),
    ]
)


def said(
    number: int, group_id: str, partition: int | None, offset: int | None = None, end: Any = None,
    **more: Any,
) -> Row:  # fmt: skip
    """What a visit told of a partition of t; None: of none."""
    row = {"cluster_id": "id-prod", "poll_id": visit(number).poll, "group_id": group_id}
    row |= {"topic": None if partition is None else "t", "partition": partition, "log_end": end}
    row |= {"error": None, "is_simple": False, "committed_offset": offset, "last_stable": None}
    return row | {"commit_read_before": at(number)} | more


def folded(
    rows: list[Row], numbers: list[int], live: dict[str, list[Row]] | None = None, **more: Any
) -> dict[str, list[Row]]:
    given: dict[str, Any] = {"visits": {PROD: [visit(each) for each in numbers]}}
    given |= {"before": {PROD: visit(min(numbers) - 1) if live else None}} | more
    told = {METADATA_POLLS.full_name: pa.Table.from_pylist(rows, SAID)} if rows else {}
    kept = {name: pa.Table.from_pylist(each) for name, each in (live or {}).items() if each}
    return dict(fold("prod/3", told, kept, at=UPDATED, **given))


def lags(made: dict[str, list[Row]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("group_id", *names)) for row in made[GROUP_LAG.full_name]]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        pytest.param(
            [said(0, "g", 0, 5, 9), said(0, "g", 1, 7, 9)],
            {"g": {0: [Commit("t", 0, 5, 9), Commit("t", 1, 7, 9)]}},
            id="two partitions",
        ),
        pytest.param(
            [said(0, "g", 0, 5, 9, last_stable=7)],
            {"g": {0: [Commit("t", 0, 5, 9, 7)]}},
            id="a last stable offset",
        ),
        pytest.param(
            [said(0, "g", 0, 5, 9), said(0, "h", 0, 1, 9), said(1, "g", 0, 6, 9)],
            {"g": {0: [Commit("t", 0, 5, 9)], 1: [Commit("t", 0, 6, 9)]},
             "h": {0: [Commit("t", 0, 1, 9)]}},
            id="two groups, two visits",
        ),
        pytest.param([said(0, "g", None)], {"g": {0: []}}, id="a group without a commit"),
        pytest.param(
            [said(0, "g", None, error="failed", commit_read_before=None)],
            {"g": {0: None}},
            id="a group that could not be asked",
        ),
        pytest.param(
            [said(0, "g", 0, None, None)],
            {"g": {0: [Commit("t", 0, None, None)]}},
            id="a partition that could not be told",
        ),
    ],
)  # fmt: skip
def test_what_visits_told(rows: list[Row], told: dict[str, dict[int, list[Commit] | None]]) -> None:
    found = told_of(pa.Table.from_pylist(rows, SAID))
    begin = visit(0).due
    for group_id, answers in told.items():
        assert found.pop(group_id) == {
            visit(number).poll: GroupAnswer(
                0 if commits is None else begin + number * MINUTE + 2_000_000, False, commits
            )
            for number, commits in answers.items()
        }
    assert found == told_of(None) == {}


def test_each_group_has_its_own_lag_from_round_to_round() -> None:
    first = folded([said(0, "g", 0, 5, 9), said(0, "h", 0, 1, 9)], [0])
    assert lags(first, "lag_max", "cluster", "cluster_id", "updated_at") == [
        ("g", 4, "prod", "id-prod", UPDATED),
        ("h", 8, "prod", "id-prod", UPDATED),
    ]
    news = [said(1, "g", 0, 6, 9), said(1, "h", 0, 1, 9)]
    second = folded(news, [1], first)
    assert lags(second, "lag_min", "lag_max", "valid_to") == [
        *(("g", None, 4, at(1)), ("g", 3, 3, None)),
        *(("h", None, 8, at(1)), ("h", 8, 8, None)),
    ]
    memories = {row["group_id"]: row["memory"] for row in second[LAG_STATES.full_name]}
    assert memories.keys() == {"g", "h"}
    assert json.loads(memories["g"])["due"] == visit(1).due
    # What is gone of a group, and nothing to write of another that is as before.
    live = {name: [row for row in rows if row.get("valid_to") is None]
            for name, rows in second.items()}  # fmt: skip
    third = folded([said(2, "h", 0, 1, 9)], [2], live)
    assert lags(third, "end_reason") == [("g", "gone")]
    (removed,) = third[REMOVED_COMMITS.full_name]
    assert (removed["group_id"], removed["committed_offset"], removed["is_group_gone"]) == (
        *("g", 6, True),
    )
    assert (removed["removed_after"], removed["removed_before"]) == (at(1, 1), at(2, 3))
    assert {row["group_id"]: row["memory"] is None for row in third[LAG_STATES.full_name]} == {
        "g": True,
        "h": False,
    }


def test_a_memory_that_is_as_before_is_not_written() -> None:
    made = live = folded([said(0, "g", 0, 9, 9)], [0])
    for number in range(1, 20):
        made = folded([said(number, "g", 0, 9, 9)], [number], live)
        there = {name: [row for row in made[name] if row.get("valid_to") is None] for name in made}
        live = {name: rows or live[name] for name, rows in there.items()}
    assert not any(made.values())


def test_an_alias_that_leads_to_another_cluster_has_lag_of_its_own_there() -> None:
    old, new = PROD, ("prod", "id-new")
    rows = [said(0, "g", 0, 5, 9), said(1, "g", 0, 0, 100, cluster_id="id-new")]
    visits = {old: [visit(0)], new: [visit(1)], ("other", "id-prod"): [visit(0)]}
    before = dict.fromkeys(visits)
    made = folded(rows, [0], visits=visits, before=before)
    assert lags(made, "cluster_id", "cluster", "lag_max") == [
        ("g", "id-prod", "prod", 4),
        ("g", "id-new", "prod", 100),
    ]
    # A visit of one says nothing of the group of the other.
    for of, lag, row in (
        (old, 3, said(2, "g", 0, 6, 9)),
        (new, 99, said(2, "g", 0, 1, 100, cluster_id="id-new")),
    ):
        later = folded([row], [2], made, visits={of: [visit(2)]}, before={of: visit(1)})
        assert lags(later, "cluster_id", "lag_max", "valid_to") == [
            ("g", of[1], 4 if of is old else 100, at(2)),
            ("g", of[1], lag, None),
        ]
        assert later[REMOVED_COMMITS.full_name] == []


def test_an_alias_may_have_a_stroke() -> None:
    name = ("eu/prod", "id-prod")
    told = {METADATA_POLLS.full_name: pa.Table.from_pylist([said(0, "g", 0, 5, 9)], SAID)}
    made = fold("eu/prod/3", told, {}, visits={name: [visit(0)]}, before={name: None}, at=UPDATED)
    assert [row["cluster"] for row in made[GROUP_LAG.full_name]] == ["eu/prod"]
