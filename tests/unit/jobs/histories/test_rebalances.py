"""What the history of rebalances notes of a round (jobs/histories/rebalances.py)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.configuration.config import Thresholds
from jobs.histories.group_rows import GroupRows
from jobs.histories.rebalances import GroupNews, GroupPlan, RebalanceHistory
from jobs.rounds.history import Context, Output
from jobs.rounds.left_out import LeftOut
from jobs.rules.groups.fold_rebalances import GroupTake

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = "rebalance_history"


def context_of(*rows: dict[str, Any]) -> Any:
    return Context(*[None] * 3, {(JOB, row["cluster"]): row for row in rows}, None, LeftOut())


def row_of(cluster: str, memory: str, **columns: object) -> dict[str, Any]:
    return {"history": JOB, "cluster": cluster, "round": 8, "memory": memory} | columns


def plan(*left_out: str, versions: tuple[int, int] | None = (5, 7), **clusters: Any) -> GroupPlan:
    return GroupPlan(AT, Thresholds(), clusters, versions, None, timedelta(), left_out)


@pytest.mark.parametrize(
    ("left_out", "memory"), [(("alpha",), {"version": 7, "held": 4}), ((), {"version": 7})]
)
def test_what_a_planned_round_left_out_of_the_log_is_read_again_though_the_run_was_killed(
    left_out: tuple[str, ...], memory: dict[str, int]
) -> None:
    """The run that finishes the round has left nobody out."""
    news = GroupNews(plan=plan(*left_out), read=GroupRows())
    (noted,) = RebalanceHistory().note(context_of(row_of("", '{"version":4}')), news, Output())
    assert json.loads(noted["memory"]) == memory


@pytest.mark.parametrize(
    ("memory", "again"), [('{"version":7,"held":4}', ['{"version":4}']), ('{"version":7}', [])]
)
def test_the_log_is_read_again_from_where_somebody_was_left_out(
    memory: str, again: list[str]
) -> None:
    rows = RebalanceHistory().go_back(context_of(row_of("", memory)))
    assert [row["memory"] for row in rows] == again


def test_the_first_one_that_was_left_out_says_from_where() -> None:
    context = context_of(row_of("", '{"version":6,"held":2}'))
    news = GroupNews(plan=plan("alpha"), read=GroupRows())
    (noted,) = RebalanceHistory().note(context, news, Output())
    assert json.loads(noted["memory"]) == {"version": 7, "held": 2}


def test_a_log_whose_cluster_has_no_id_yet_is_read_again() -> None:
    news = GroupNews(plan=plan(), read=GroupRows(waits=True))
    assert [*RebalanceHistory().note(context_of(), news, Output())] == []
    without = GroupNews(plan=plan(versions=None), read=GroupRows())
    assert [*RebalanceHistory().note(context_of(), without, Output())] == []


def test_a_round_notes_how_far_each_cluster_is() -> None:
    seen = AT + timedelta(minutes=1)
    before = row_of("a", '{"positions":{"0":[0,5],"1":[0,9]}}', done_poll="s/1", done_at=AT)
    clusters = {"a": GroupTake("id-a"), "b": GroupTake("id-b", None, "s/3", seen)}
    read = GroupRows(ends={"a": {0: (0, 8)}}, read_at={"a": seen})
    news = GroupNews(plan=plan(versions=None, **clusters), read=read)
    rows = {
        row["cluster"]: row for row in RebalanceHistory().note(context_of(before), news, Output())
    }
    assert {of: (row["done_poll"], row["done_at"]) for of, row in rows.items()} == {
        "a": ("s/1", AT),
        "b": ("s/3", seen),
    }
    assert rows["a"]["positions"] == {"0": [0, 8], "1": [0, 9]}
    assert (rows["a"]["last_seen_at"], rows["b"]["last_seen_at"]) == (seen, None)


def test_without_a_round_positions_alone_are_noted() -> None:
    """Rows of the log that say nothing of groups were read; no poll was taken."""
    clusters = {"a": GroupTake("id-a", None, "s/3", AT), "b": GroupTake("id-b", None, "s/3", AT)}
    news = GroupNews(plan=plan(versions=None, **clusters), read=GroupRows(ends={"a": {0: (0, 8)}}))
    (noted,) = RebalanceHistory().note(context_of(), news, None)
    assert (noted["cluster"], noted["done_poll"], noted["done_at"]) == ("a", None, None)
    assert json.loads(noted["memory"]) == {"positions": {"0": [0, 8]}}
