"""What a lake says of the clusters that a history leaves out."""

from collections.abc import Iterator

import pytest

from jobs.rounds.left_out_rows import LeftOutRows
from jobs.rules.arrow import rows_of
from schemas.internal import STATE
from tests.support.memory_lake import MemoryLake, without_spark


@pytest.fixture(autouse=True)
def _in_memory() -> Iterator[None]:
    with without_spark():
        yield


@pytest.fixture
def lake() -> MemoryLake:
    lake = MemoryLake()
    others = [("silver", "b"), ("left out of group_lag", "b")]
    lake.append(
        STATE, [{"history": name, "cluster": of, "round": 3, "memory": "{}"} for name, of in others]
    )
    return lake


def told(lake: MemoryLake) -> dict[str, str]:
    """Why each cluster is left out of silver."""
    rows = rows_of(lake.rows(STATE))
    assert {row["history"] for row in rows} >= {"silver", "left out of group_lag"}
    return {row["cluster"]: row["why"] for row in rows if row["history"] == "left out of silver"}


def states(lake: MemoryLake) -> dict[tuple[str, str], dict[str, object]]:
    return {(row["history"], row["cluster"]): row for row in rows_of(lake.rows(STATE))}


def test_the_lake_says_why_until_a_cluster_is_part_of_the_history_again(lake: MemoryLake) -> None:
    rows = LeftOutRows(None, lake, "silver")
    assert list(rows.read(states(lake))) == []
    rows.add("a", "KeyError")
    rows.add("b", "ValueError")
    assert told(lake) == {"a": "KeyError", "b": "ValueError"}
    again = LeftOutRows(None, lake, "silver")
    assert sorted(again.read(states(lake))) == ["a", "b"]
    again.remove(["a"])
    assert told(lake) == {"b": "ValueError"}
    again.remove(["b"])
    assert told(lake) == {}
    before = len(lake.commits[STATE])
    again.remove(["b"])
    assert len(lake.commits[STATE]) == before, "there is nothing to remove"


def test_the_same_reason_is_written_once_and_another_one_keeps_since_when(lake: MemoryLake) -> None:
    rows = LeftOutRows(None, lake, "silver")
    rows.add("a", "KeyError")
    since, before = states(lake)["left out of silver", "a"]["done_at"], len(lake.commits[STATE])
    rows.add("a", "KeyError")
    assert len(lake.commits[STATE]) == before
    rows.add("a", "ValueError")
    assert told(lake) == {"a": "ValueError"}
    assert states(lake)["left out of silver", "a"]["done_at"] == since
