"""Tables of a lake of folders as their files and Delta's log have them, read and appended to
without Spark.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.rounds.stage import arrow_schema
from schemas.in_duckdb import in_duckdb
from schemas.in_spark import OF_LAKE
from schemas.internal import STATE
from schemas.lake import Lake
from schemas.table import PART, Table

Row = dict[str, Any]


def version(lake: Lake, table: Table) -> int:
    """The number of the table's last commit."""
    return int(_log(lake, table)[-1].stem)


def rounds_of(lake: Lake, table: Table) -> list[str]:
    """The rounds that the commits of the table say they are of, in order; those that say something
    else left out.
    """
    infos = [action["commitInfo"] for action in _actions(lake, table) if "commitInfo" in action]
    said = [info.get("userMetadata", "") for info in infos]
    return [each for each in said if re.fullmatch("round [0-9]+", each)]


def rows_of(lake: Lake, table: Table) -> list[Row]:
    """Every row, with the columns that writers give values for; times in UTC."""
    files: dict[str, dict[str, str | None]] = {}
    for action in _actions(lake, table):
        if "add" in action:
            files[action["add"]["path"]] = action["add"]["partitionValues"]
        elif "remove" in action:
            files.pop(action["remove"]["path"], None)
    return [
        row
        for file, partition in files.items()
        for row in _rows(Path(lake.path(table)), table, file, partition)
    ]


def append(lake: Lake, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows in one commit. Spark takes half a second for one; of constraints only Spark
    knows.

    A column that a row leaves out is null. Generated columns are computed. Each file holds one
    partition.
    """
    folder = Path(lake.path(table))
    given = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema(table))
    generated = (
        f"{each.generated_as} AS `{each.name}`" for each in table.columns if each.generated_as
    )
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("given", given)
        database.execute(
            in_duckdb(f"CREATE TABLE whole AS SELECT {', '.join(('*', *generated))} FROM given")
        )
        names = ", ".join(f'"{name}"' for name in table.partition_by)
        partitions = (
            database.sql(f"SELECT DISTINCT {names} FROM whole").fetchall() if names else [()]
        )
        actions = [{"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": "WRITE"}}]
        for values in partitions:
            same = (
                " AND ".join(f'"{name}" IS NOT DISTINCT FROM ?' for name in table.partition_by)
                or "true"
            )
            part = database.sql(f"SELECT * FROM whole WHERE {same}", params=values).to_arrow_table()
            partition = dict(zip(table.partition_by, values, strict=True))
            actions.append(
                {"add": _add(folder, part.drop_columns([*table.partition_by]), partition)}
            )
    commit = folder / "_delta_log" / f"{version(lake, table) + 1:020}.json"
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def _add(folder: Path, rows: pa.Table, partition: Row) -> Row:
    """Write a file, and return the action that adds it."""
    file = folder / f"part-{uuid4()}.parquet"
    pq.write_table(rows, file)
    stat = file.stat()
    return {
        "path": file.name,
        "partitionValues": {
            name: None if value is None else str(value).lower() for name, value in partition.items()
        },
        "size": stat.st_size,
        "modificationTime": stat.st_mtime_ns // 1_000_000,
        "dataChange": True,
    }


def newest_states(lake: Lake) -> list[Row]:
    """The rows of internal.states that count: those of the newest round, of clusters that were not
    taken out.
    """
    of_histories = (row for row in rows_of(lake, STATE) if row["history"] != OF_LAKE)
    rows = sorted(of_histories, key=lambda row: row["round"])
    newest = {(row["history"], row["cluster"]): row for row in rows}
    return [row for row in newest.values() if row["memory"] is not None]


def as_text(rows: Sequence[Row]) -> list[str]:
    """Rows that can be compared, in an order. Where they lie is left out."""
    plain = ({name: value for name, value in row.items() if name != PART} for row in rows)
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in plain)


def commits(lake: Lake, table: Table) -> list[list[Row]]:
    """The actions of each commit."""
    return [
        [json.loads(line) for line in commit.read_text().splitlines()]
        for commit in _log(lake, table)
    ]


def _log(lake: Lake, table: Table) -> list[Path]:
    return sorted((Path(lake.path(table)) / "_delta_log").glob("[0-9]*.json"))


def _actions(lake: Lake, table: Table) -> Iterator[Row]:
    return (action for commit in commits(lake, table) for action in commit)


def _rows(folder: Path, table: Table, file: str, partition: dict[str, str | None]) -> list[Row]:
    read = pq.ParquetFile(folder / unquote(file)).read()
    read = read.cast(
        pa.schema([pa.field(column.name, _in_utc(column.type)) for column in read.schema])
    )
    types = {column.name: column.type for column in table.columns}
    kept = {
        name: _value(value, types[name])
        for name, value in partition.items()
        if name in table.column_names
    }
    # A file may leave out columns that are null.
    empty = dict.fromkeys(table.column_names)
    names = [name for name in table.column_names if name not in kept and name in read.column_names]
    return [empty | row | kept for row in read.select(names).to_pylist(maps_as_pydicts="strict")]


def _in_utc(type_: pa.DataType) -> pa.DataType:
    """The type with times in UTC, as deep as they lie."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(type_):
        return pa.list_(_in_utc(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _in_utc(field.type)) for field in type_])
    return type_


def _value(text: str | None, type_: str) -> Any:
    if text is None:
        return None
    return {"boolean": text == "true", "int": text, "date": text, "string": text}[type_]
