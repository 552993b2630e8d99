"""Live rows that are kept in memory from round to round."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from jobs.rounds import live
from jobs.rounds.live import LiveRows
from schemas import gold
from schemas.table import PART


def rows_of(*parts: int) -> pa.Table:
    schema = pa.schema({"id": pa.string(), PART: pa.int32(), "is_live": pa.bool_()})
    return pa.Table.from_pylist(
        [{"id": f"row {part}", PART: part, "is_live": True} for part in parts], schema
    )


def kept(monkeypatch: pytest.MonkeyPatch) -> tuple[LiveRows, list[set[int]]]:
    """Live rows of a table that has one in each part; and the parts that are read."""
    read: list[set[int]] = []

    def load(self: Any, table: Any, parts: set[int]) -> None:
        read.append(parts)
        self._rows[table], self._parts[table] = rows_of(*sorted(parts)), set(parts)

    monkeypatch.setattr(LiveRows, "_load", load)
    return LiveRows(cast("Any", SimpleNamespace()), cast("Any", SimpleNamespace())), read


@pytest.mark.parametrize(("most", "read_again"), [(1 << 28, []), (0, [{1, 2}])])
def test_more_live_rows_than_are_kept_are_read_again(
    monkeypatch: pytest.MonkeyPatch, most: int, read_again: list[set[int]]
) -> None:
    monkeypatch.setattr(live, "KEPT_BYTES", most)
    rows, read = kept(monkeypatch)
    table = gold.ISR_EPISODES
    assert rows.of([table], [1, 2])[table].num_rows == 2
    rows.put(table, {1}, rows_of(1))
    read.clear()
    assert rows.of([table], [1, 2])[table].num_rows == 2
    assert read == read_again


@pytest.mark.parametrize("are_later", [False, True])
def test_a_lost_round_is_made_of_tables_as_they_were_before_later_ones(
    monkeypatch: pytest.MonkeyPatch, *, are_later: bool
) -> None:
    """Round 3 was lost; round 4 has written a table that it had not."""

    def version_of(*_: Any, or_later: bool) -> int | None:
        return 12 if or_later else None

    monkeypatch.setattr(live, "version_of", version_of)
    lake: Any = SimpleNamespace(read=lambda *_: "newest", read_version=lambda *of: of[-1])
    spark: Any = None
    assert LiveRows(spark, lake, 3, are_later=are_later).read(gold.ISR_EPISODES) == (
        11 if are_later else "newest"
    )
