"""Writes tables of a lake without Spark: DuckDB writes the files, delta-rs the log."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from sqlglot import exp

from metadata_source.text import counted
from schemas.in_duckdb import in_duckdb
from schemas.table import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from schemas.lake import Lake
    from schemas.table import Column, Table

_SOME: Final = {"string": "''", "int": "0", "bigint": "0", "boolean": "false"}
"""Values of columns that may not be null, and of which nothing is said."""


Partition = dict[str, str | None]
"""The values of the columns by which a table is partitioned, as Delta's log has them."""


@dataclass
class Written:
    """How much was written of a table."""

    name: str
    rows: int = 0
    bytes: int = 0
    files: int = 0

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:,.1f} MB in {counted(self.files, 'file')}"
        return f"{self.name}: {counted(self.rows, 'row')}, {size}"


class Store:
    """A lake that is being made."""

    def __init__(self, lake: Lake, database: duckdb.DuckDBPyConnection) -> None:
        self._lake, self._database = lake, database
        self._actions: dict[Table, list[AddAction]] = {}
        self.written: dict[Table, Written] = {}

    def write(
        self,
        table: Table,
        values: Mapping[str, str],
        source: str,
        each: str | None,
        partition: Partition,
    ) -> None:
        """Write a file of `source`, SQL of rows, unless it has none. `values`: SQL by column.
        `each`: a list in the source, whose items are a row each, as `u`.
        """
        written = self.written.setdefault(table, Written(table.full_name))
        number = len(self._actions.setdefault(table, []))
        file = Path(self._lake.path(table)) / f"part-{number:05}.zstd.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        cells = {
            f'"{column.name}"': f"CAST({_value(column, values)} AS {_type(column.type)})"
            for column in table.columns
            if column.name not in table.partition_by
        }
        if each is not None:  # all that is alike in its items is computed once
            of_all = {
                name.replace('"', '"of_all_', 1): sql
                for name, sql in cells.items()
                if not re.search(r"\bu\b", sql)
            }
            source = f"(SELECT *, {_as(of_all)}, unnest({each}) AS u FROM {source})"
            cells |= {name.replace("of_all_", ""): name for name in of_all}
        query = f"SELECT {_as(cells)} FROM {source}"
        copy = f"COPY ({query}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)"
        (count,) = self._database.execute(copy).fetchone() or (0,)
        if not count:
            file.unlink()
            return
        stat = file.stat()
        self._actions[table].append(
            AddAction(
                quote(file.name),
                stat.st_size,
                partition,
                stat.st_mtime_ns // 1_000_000,
                True,
                _stats(table, file),
            )
        )
        written.rows += count
        written.bytes += stat.st_size
        written.files += 1

    def column(self, sql: str) -> list[Any]:
        """The values of the only column of an answer."""
        return [value for (value,) in self._database.sql(sql).fetchall()]

    def commit(self, table: Table) -> None:
        """Make a table of the files that were written."""
        path = self._lake.path(table)
        schema = pa.schema([_field(column) for column in table.columns])
        partitions = [*table.partition_by]
        made = DeltaTable.create(
            path,
            schema,
            partition_by=partitions,
            configuration=table.properties,
            description=table.comment,
            raise_if_key_not_exists=False,
        )
        if actions := self._actions.pop(table, []):
            made.create_write_transaction(actions, "append", made.schema(), partitions)


def _as(cells: Mapping[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for name, sql in cells.items())


def _value(column: Column, values: Mapping[str, str]) -> str:
    if column.generated_as and column.name not in values:
        return in_duckdb(column.generated_as)
    return values.get(column.name, "NULL" if column.nullable else _SOME.get(column.type, "NULL"))


def _field(column: Column) -> pa.Field:
    generated = {"delta.generationExpression": column.generated_as} if column.generated_as else {}
    return pa.field(
        column.name,
        arrow_type(column.type),
        column.nullable,
        {"comment": column.comment, **generated},
    )


def _type(spark: str) -> str:
    return exp.DataType.build(spark, dialect="spark").sql("duckdb")


def _stats(table: Table, file: Path) -> str:
    """Delta's statistics of a file: of the columns by which readers skip files."""
    read = pq.read_metadata(file)
    groups = [read.row_group(number) for number in range(read.num_row_groups)]
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {
        groups[0].column(place).path_in_schema: place for place in range(groups[0].num_columns)
    }
    for name in table.statistics_columns:
        of = [group.column(places[name]).statistics for group in groups]
        if any(each is None for each in of):
            continue
        nulls[name] = sum(each.null_count for each in of)
        known = [each for each in of if each.has_min_max]
        if known:
            least[name] = _json(min(each.min for each in known), timedelta())
            most[name] = _json(max(each.max for each in known), timedelta(milliseconds=1))
    return json.dumps(
        {"numRecords": read.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    )


def _json(value: Any, more: timedelta) -> Any:
    """A value as Delta notes it. Times are cut to milliseconds, so the greatest has one `more`."""
    if isinstance(value, datetime):
        return (value + more).astimezone(UTC).isoformat(timespec="milliseconds")[:23] + "Z"
    return value[:32] if isinstance(value, str) else value
