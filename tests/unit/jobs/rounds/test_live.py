"""Live rows: as they are kept in memory from round to round, and as changed rows replace them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from jobs.rounds import live
from jobs.rounds.live import PARTS, LiveRows, in_parts, part_of, parts_of, replaced
from jobs.rounds.stage import arrow_schema
from schemas import gold, groups, silver
from schemas.internal import LAG_STATES
from schemas.table import PART, Table
from tests.support.memory_lake import MemoryLake, without_spark
from tests.support.stage import Row

AT = datetime(2026, 11, 1, tzinfo=UTC)
EPISODES = gold.ISR_EPISODES


@pytest.fixture(autouse=True)
def _in_memory() -> Iterator[None]:
    with without_spark():
        yield


def table_of(table: Table, *rows: Row) -> pa.Table:
    return pa.Table.from_pylist([*rows], arrow_schema(table))


def in_part(part: int, id_: str = "x", *, is_live: bool = True) -> Row:
    return {"id": f"{id_}{part}", PART: part, "is_live": is_live}


def ids(rows: pa.Table) -> list[str]:
    return sorted(rows["id"].to_pylist())


class Watched(LiveRows):
    """Says which parts it has read."""

    def __init__(self, lake: MemoryLake, **more: Any) -> None:
        super().__init__(None, lake, **more)
        self.read_parts: list[set[int]] = []

    def _load(self, table: Table, parts: set[int]) -> None:
        self.read_parts.append(parts)
        super()._load(table, parts)


@pytest.fixture
def lake() -> MemoryLake:
    lake = MemoryLake()
    lake.append(EPISODES, [*map(in_part, range(4)), in_part(1, "over", is_live=False)])
    return lake


def test_live_rows_of_parts_are_read_once(lake: MemoryLake) -> None:
    rows = Watched(lake)
    assert ids(rows.of([EPISODES], [1, 2])[EPISODES]) == ["x1", "x2"]
    assert ids(rows.of([EPISODES], [2, 3])[EPISODES]) == ["x2", "x3"]
    assert rows.read_parts == [{1, 2}, {3}]
    rows.forget(EPISODES)
    rows.of([EPISODES], [2])
    assert rows.read_parts[2:] == [{2}]


def test_what_a_round_has_put_is_live_from_then_on(lake: MemoryLake) -> None:
    rows = Watched(lake)
    rows.of([EPISODES], [1, 2])
    put = table_of(EPISODES, in_part(1, "new"), in_part(1, "closed", is_live=False))
    rows.put(EPISODES, {1}, put)
    assert ids(rows.of([EPISODES], [1, 2])[EPISODES]) == ["new1", "x2"]
    assert rows.read_parts == [{1, 2}]


@pytest.mark.parametrize(("most", "read_again"), [(1 << 28, []), (0, [{1, 2}])])
def test_more_live_rows_than_are_kept_are_read_again(
    lake: MemoryLake, monkeypatch: pytest.MonkeyPatch, most: int, read_again: list[set[int]]
) -> None:
    monkeypatch.setattr(live, "KEPT_BYTES", most)
    rows = Watched(lake)
    rows.of([EPISODES], [1, 2])
    rows.put(EPISODES, {1}, table_of(EPISODES, in_part(1)))
    rows.read_parts.clear()
    assert ids(rows.of([EPISODES], [1, 2])[EPISODES]) == ["x1", "x2"]
    assert rows.read_parts == read_again


def of_round(number: int) -> dict[str, str]:
    return {"userMetadata": f"round {number}"}


@pytest.mark.parametrize(
    ("number", "are_later", "found"),
    [(None, False, "third"), (2, False, "first"), (3, False, "third"), (3, True, "second"),
     (4, True, "second"), (5, False, "third"), (5, True, "third")],
)  # fmt: skip
def test_a_round_that_is_made_again_sees_tables_as_they_were_before_it(
    number: int | None, are_later: bool, found: str
) -> None:
    """Rounds 2 and 4 have written the table. Any other sees the newest rows, or those before 4."""
    lake = MemoryLake()
    for name, options in (("first", {}), ("second", of_round(2)), ("third", of_round(4))):
        lake.write(EPISODES, table_of(EPISODES, in_part(0, name)), "true", options)
    rows = Watched(lake, number=number, are_later=are_later)
    assert ids(rows.of([EPISODES], [0])[EPISODES]) == [f"{found}0"]


def test_a_frame_that_is_fixed_is_of_one_version(lake: MemoryLake) -> None:
    frame: Any = Watched(lake).read(EPISODES, fixed_in=object())
    lake.append(EPISODES, [in_part(5)])
    assert len(frame.rows) == 5


# --- changed rows ---


def snapshot(topic: str, began: int, *, ended: bool = False, **more: object) -> Row:
    of = {"cluster_id": "id", "cluster": "c", "topic": topic, "first_poll": f"s/{began}"}
    return of | {"valid_to": AT if ended else None} | more


def told(rows: pa.Table, *names: str) -> list[tuple[object, ...]]:
    columns = (rows[name].to_pylist() for name in names)
    return sorted(zip(*columns, strict=True), key=repr)


def test_changed_rows_take_the_place_of_live_ones_with_their_key() -> None:
    table = silver.TOPIC_SNAPSHOTS
    stored = table_of(table, snapshot("a", 1, part=3), snapshot("b", 1, part=3))
    changed = table_of(table, snapshot("a", 1, ended=True), snapshot("a", 2))
    rows = replaced(table, stored, changed, "cluster_id")
    part = part_of("id")
    assert told(rows, "topic", "first_poll", PART) == [
        ("a", "s/1", None),
        ("a", "s/2", part),
        ("b", "s/1", 3),
    ]
    assert rows.schema == stored.schema


def test_live_rows_stay_in_their_order() -> None:
    table = silver.TOPIC_SNAPSHOTS
    stored = table_of(table, *(snapshot(topic, 1, part=1) for topic in "dbca"))
    changed = table_of(table, snapshot("b", 1))
    rows = replaced(table, stored, changed, "cluster_id")
    assert rows["topic"].to_pylist() == ["d", "c", "a", "b"]


def test_all_live_rows_of_a_thing_are_replaced_where_the_table_says_so() -> None:
    """One storm replaces those of its group and source, and one of no kind says there is none."""
    table = groups.REBALANCE_STORMS
    assert table.replaced_by == ("cluster_id", "group_id", "source")
    of = {"cluster_id": "id", "cluster": "c", "group_id": "g", "source": "log", "is_live": True}
    stored = table_of(
        table,
        of | {"id": "1", "kind": "storm", PART: 1},
        of | {"id": "2", "kind": "storm", PART: 1},
        of | {"id": "3", "kind": "storm", "source": "polls", PART: 1},
    )
    changed = table_of(table, of | {"id": "4", "kind": None})
    assert ids(replaced(table, stored, changed, "group_id")) == ["3"]


def test_a_memory_that_is_null_is_gone() -> None:
    of = {"cluster_id": "id", "cluster": "c"}
    stored = table_of(LAG_STATES, *(of | {"group_id": each, "memory": "{}"} for each in "ab"))
    changed = table_of(LAG_STATES, of | {"group_id": "a", "memory": None})
    kept = replaced(LAG_STATES, stored, changed, "group_id")
    assert kept["group_id"].to_pylist() == ["b"]


def test_parts_are_by_the_hash_of_an_id() -> None:
    """By CRC-32, as gzip has it: rows of lakes lie by it."""
    known = {"id-prod": 10, "orders": 14, "g": 6, "": 0}
    assert {each: part_of(each) for each in known} == known
    names = [f"group-{number}" for number in range(300)]
    column = pa.chunked_array([names[:200], names[200:]])
    assert parts_of(column).to_pylist() == [part_of(name) for name in names]
    assert {part_of(name) for name in names} == {*range(PARTS)}


@pytest.mark.parametrize(
    ("parts", "condition"), [([3, 1, 3], "part IN (1, 3)"), ([], "part IN (NULL)")]
)
def test_a_condition_names_parts_once(parts: list[int], condition: str) -> None:
    assert in_parts(parts) == condition
