"""Live rows, which a later round may replace: kept in memory, since only rounds change them."""

import zlib
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import newest_version, version_of
from jobs.rounds.stage import arrow_schema, as_stored
from jobs.run.side_by_side import side_by_side
from schemas.lake import Lake
from schemas.table import PART, Table

PARTS = 16
"""Live rows of a table are cut into so many parts, by the hash of an id."""

KEPT_BYTES = 256 * 1024 * 1024
"""If more live rows than this are in memory after a round, the next round reads them again."""


def part_of(id_: str) -> int:
    """The part in which live rows with this id lie."""
    return zlib.crc32(id_.encode()) % PARTS


def part_column(id_: str) -> Column:
    """The same of a column of a frame."""
    return F.expr(f"CAST(crc32(CAST({id_} AS STRING)) % {PARTS} AS INT)")


def in_parts(parts: Iterable[int]) -> str:
    """The condition that a row lies in one of these parts."""
    return f"{PART} IN ({', '.join(map(str, sorted(set(parts)))) or 'NULL'})"


class LiveRows:
    """The live rows of tables. `number`: of a planned round, before which rows are read; None: as
    they are now. `are_later`: rounds after it may have written tables that it has not.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, number: int | None = None, *, are_later: bool = False
    ) -> None:
        self._spark, self._lake, self._number, self._are_later = spark, lake, number, are_later
        self._rows: dict[Table, pa.Table] = {}
        self._parts: dict[Table, set[int]] = {}

    def read(self, table: Table, fixed_in: SparkSession | None = None) -> DataFrame:
        """All rows of a table. Later commits may show where the frame is read again, but not if it
        is `fixed_in` a session.
        """
        written = (
            None
            if self._number is None
            else version_of(self._spark, self._lake, table, self._number, or_later=self._are_later)
        )
        if written is None and fixed_in is None:
            return self._lake.read(self._spark, table)
        version = newest_version(self._spark, self._lake, table) if written is None else written - 1
        return self._lake.read_version(fixed_in or self._spark, table, version)

    def of(self, tables: Iterable[Table], parts: Iterable[int]) -> dict[Table, pa.Table]:
        """The live rows of these parts. Parts not asked for before are read, side by side."""
        parts, tables = set(parts), list(tables)
        missing = [
            (table, more) for table in tables if (more := parts - self._parts.get(table, set()))
        ]
        side_by_side(lambda each: self._load(*each), missing)
        return {table: of_parts(self._known(table), parts) for table in tables}

    def _load(self, table: Table, parts: set[int]) -> None:
        rows = as_stored(self.read(table).where(f"{table.live} AND {in_parts(parts)}"), table)
        self._rows[table] = pa.concat_tables([self._known(table), rows])
        self._parts.setdefault(table, set()).update(parts)

    def _known(self, table: Table) -> pa.Table:
        return self._rows[table] if table in self._rows else arrow_schema(table).empty_table()

    def put(self, table: Table, parts: set[int], rows: pa.Table) -> None:
        """Say which rows lie in these parts from now on."""
        others = of_parts(self._known(table), self._parts[table] - parts)
        self._rows[table] = pa.concat_tables(
            [others, rows.filter(is_live(table, rows))]
        ).combine_chunks()
        if sum(each.nbytes for each in self._rows.values()) > KEPT_BYTES:
            self.forget()

    def forget(self, table: Table | None = None) -> None:
        """Read a table again, or all, when a round asks for it."""
        for each in [table] if table else list(self._rows):
            self._rows.pop(each, None)
            self._parts.pop(each, None)


def of_parts(rows: pa.Table, parts: Iterable[int]) -> pa.Table:
    """The rows that lie in these parts."""
    return rows.filter(pc.is_in(rows[PART], pa.array(sorted(parts), pa.int32())))


def is_live(table: Table, rows: pa.Table) -> pa.ChunkedArray:
    """Whether each row is live: `Table.live`, by the columns that writers give."""
    if table.live == "true":
        return pa.chunked_array([pa.repeat(True, len(rows))])
    for column in table.columns:
        if column.name == table.live and column.generated_as is not None:
            return pc.is_null(rows[column.generated_as.removesuffix(" IS NULL")])
    return rows[table.live]


def replaced(table: Table, live: pa.Table, changed: pa.Table, by: str) -> pa.Table:
    """Live rows without those that `changed` rows replace, and the changed rows, each in its part.

    `by`: the column by whose hash rows are cut into parts.
    """
    keys = list(table.replaced_by or table.key)
    numbered = live.select(keys).append_column("_row", pa.array(range(len(live)), pa.int64()))
    kept = numbered.join(changed.select(keys), keys, join_type="left anti")["_row"]
    there = (
        changed
        if table.none_without is None
        else changed.filter(pc.is_valid(changed[table.none_without]))
    )
    column = there.schema.get_field_index(PART)
    part = pc.if_else(is_live(table, there), parts_of(there[by]), pa.scalar(None, pa.int32()))
    return pa.concat_tables([live.take(kept.sort()), there.set_column(column, PART, part)])


def parts_of(ids: pa.ChunkedArray) -> pa.Array:
    """The part of each id: a text, or a number as one."""
    encoded = ids.cast(pa.string()).combine_chunks().dictionary_encode()
    return pa.array(map(part_of, encoded.dictionary.to_pylist()), pa.int32()).take(encoded.indices)
