"""How far the histories of the demo are behind."""

from typing import Any

from kafka_metadata_history.demo.pipeline import BEHIND
from schemas.internal import CLUSTERS, STATE, STATE_NOW
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import at


def test_history_is_behind_until_each_that_says_what_it_took_has_taken_it() -> None:
    """In the order in which they come up to a time; other histories say nothing of it."""
    seen = [
        {"history": "silver", "last_seen_at": at(9)},
        {"history": "cluster_log", "last_seen_at": at(8)},
        {"history": "rebalance_history", "last_seen_at": at(7)},
        {"history": "rebalance_cost", "cluster": "", "read_until": {"demo": at(6)}},
        {"history": "group_lag"},
    ]
    assert [behind(seen, n) for n in (6, 7, 9, 10)] == [0, 1, 3, 4]
    assert behind(seen[:1], 0) == 3, "the others have nothing yet"


def test_history_is_behind_until_gold_and_incidents_have_all_changes_of_silver() -> None:
    took = {"last_seen_at": at(9), "done_at": at(9)}
    seen = [
        {"history": "silver", **took, "done_poll": "p9", "changed_poll": "p5"},
        {"history": "cluster_log", **took},
        {"history": "rebalance_history", **took},
        {"history": "rebalance_cost", "cluster": "", "read_until": {"demo": at(9)}},
        {"history": "isr_shrink", **took, "done_poll": "p5"},
        {"history": "leader_churn", **took, "done_poll": "p9"},
    ]
    assert behind(seen, 9) == 1, "there are no incidents yet"
    late = {"history": "incidents", **took, "done_poll": "p4"}
    assert behind([*seen, late], 9) == 1
    assert behind([*seen, late | {"done_poll": "p5"}], 9) == 0


def behind(states: list[dict[str, Any]], seconds: float) -> int:
    rows = [{"cluster": "demo", "round": 1, "memory": "{}"} | row for row in states]
    with duckdb_lake({STATE: rows}, [STATE_NOW, CLUSTERS]) as lake:
        (row,) = ask(lake, BEHIND.replace(":at", f"{at(seconds):%Y-%m-%d %H:%M:%S}Z"))
    (found,) = row.values()
    return int(found)
