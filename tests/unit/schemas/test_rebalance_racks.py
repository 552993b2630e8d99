"""How much of what members have lies in other racks, in DuckDB."""

from typing import Any

import pytest

from schemas import groups, silver
from schemas.lake import VIEWS
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.group_states import at
from tests.support.group_views import place, rebalance, whole

Row = dict[str, Any]
PROD = place("prod")
RACKS = {1: "a", 2: "b", 3: "b", 4: None}
LEADERS = {"near": ([1, 2], 1), "far": ([2, 3], 2), "follower": ([2, 1], 2)}
"""Topic -> replicas and leader of its one partition."""
PLACED = LEADERS | {"unknown": ([4, 1], 4), "none": ([2, 1], -1), "half": ([2, 4], 2)}


def silvers() -> dict[Any, list[Row]]:
    began = {**PROD, "first_poll": "s/0", "valid_from": at(0)}
    return {
        silver.BROKER_SNAPSHOTS: [
            began | {"broker_id": broker, "host": "h", "port": 1, "rack": rack}
            for broker, rack in RACKS.items()
        ],
        silver.PARTITION_SNAPSHOTS: [
            began | {"topic": topic, "partition": 0, "leader": leader, "replicas": replicas}
            for topic, (replicas, leader) in PLACED.items()
        ],
    }


def member(rack: str | None, *topics: str, member_id: str = "a") -> Row:
    after = [{"topic": topic, "topic_id": None, "partitions": [0]} for topic in topics]
    told = {"rebalance_id": "x", "member_id": member_id, "group_id": "here", "change": "stayed"}
    return {**PROD, **told, "rack": rack, "after": after, "began_before": at(10)}


def racks(*members: Row, rows: dict[Any, list[Row]] | None = None, **more: Any) -> list[Any]:
    """Partitions, and the share across racks, at least and at most, of one rebalance."""
    made = {
        groups.REBALANCES: [
            whole(groups.REBALANCES, rebalance("prod", "x", at(10), at(20), **more))
        ],
        groups.REBALANCE_MEMBERS: [whole(groups.REBALANCE_MEMBERS, each) for each in members],
    }
    with duckdb_lake((rows or silvers()) | made, VIEWS) as lake:
        found = ask(lake, "SELECT * FROM gold.rebalance_racks")
    return [(row["partitions"], row["across_racks_min"], row["across_racks_max"]) for row in found]


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        pytest.param(["near"], (1, 0, 0), id="0: its leader is in the member's rack"),
        pytest.param(["far"], (1, 1, 1), id="1: no replica is"),
        pytest.param(["follower"], (1, 0, 1), id="0 to 1: a follower is"),
        pytest.param(["half"], (1, 0, 1), id="0 to 1: one replica's rack is not known"),
        pytest.param(["near", "far", "follower", "half"], (4, 0.25, 0.75), id="of all"),
        pytest.param(["near", "unknown", "none"], (1, 0, 0), id="of those that are known"),
    ],
)
def test_the_share_across_racks(topics: list[str], found: tuple[float, ...]) -> None:
    assert racks(member("a", *topics)) == [found]


def test_members_that_tell_no_rack_count_for_nothing() -> None:
    assert racks(member("a", "near"), member(None, "far", member_id="b")) == [(1, 0, 0)]
    assert racks(member(None, "near", "far")) == []
    assert racks(member("a", "unknown")) == []
    assert racks(member("a")) == [], "it has nothing"


def test_partitions_of_streams_groups_are_those_of_subtopologies() -> None:
    assert racks(member("a", "near"), group_type="streams") == []


def test_partitions_and_racks_are_as_of_the_end() -> None:
    def moved(seconds: float) -> list[Any]:
        rows = silvers()
        (near,) = [row for row in rows[silver.PARTITION_SNAPSHOTS] if row["topic"] == "near"]
        later = near | {"first_poll": "s/1", "valid_from": at(seconds), "leader": 2}
        near["valid_to"] = at(seconds)
        rows[silver.PARTITION_SNAPSHOTS].append(later)
        return racks(member("a", "near"), rows=rows)

    assert (moved(15), moved(21)) == ([(1, 0, 1)], [(1, 0, 0)])
