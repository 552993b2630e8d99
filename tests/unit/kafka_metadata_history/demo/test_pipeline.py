"""How far the histories of the demo are behind."""

from kafka_metadata_history.demo.pipeline import BEHIND
from schemas.internal import STATE, STATE_NOW
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
    states = [{"cluster": "demo", "round": 1, "memory": "{}"} | row for row in seen]
    with duckdb_lake({STATE: states}, [STATE_NOW]) as lake:
        behind = [ask(lake, BEHIND.format(at=f"{at(n):%Y-%m-%d %H:%M:%S}Z")) for n in (6, 7, 9, 10)]
    assert [next(iter(row.values())) for (row,) in behind] == [0, 1, 3, 4]
    with duckdb_lake({STATE: states[:1]}, [STATE_NOW]) as lake:
        ((row,),) = (ask(lake, BEHIND.format(at=f"{at(0):%Y-%m-%d %H:%M:%S}Z")),)
    assert [*row.values()] == [3], "the others have nothing yet"
