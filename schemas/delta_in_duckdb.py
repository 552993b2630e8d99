"""A Delta table in a folder as SQL of DuckDB: delta-rs says which files it has, DuckDB reads them.

DuckDB passes over files, row groups and columns that a query does not need; behind a dataset of
PyArrow it would take all rows of a join.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa

from schemas.table import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import duckdb
    from deltalake import DeltaTable

_READ: Final = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening"}
"""Features of Delta's that change no row of a file."""


def query_of(
    database: duckdb.DuckDBPyConnection,
    stored: DeltaTable,
    folder: str,
    more: Iterable[pa.Field] = (),
) -> str:
    """SQL for the rows of a table, with its columns and types, and `more` that are null. A file may
    lack columns that were added since, and have other types of time: INT96 has no zone. Raises
    ValueError for a feature of Delta's that files alone do not show, duckdb.Error for a file that
    cannot be read.
    """
    if unknown := {*(stored.protocol().reader_features or ())} - _READ:
        raise ValueError(f"its rows need {', '.join(sorted(unknown))} of Delta's")
    types = _types_of(database, [*pa.schema(stored.schema()), *more])
    # DuckDB's own way of partitions would take folders above the lake for columns, too.
    columns = stored.metadata().partition_columns
    files = {
        f"{folder}/{unquote(action['path'])}": {
            each: _value(action[f"partition.{each}"]) for each in columns
        }
        for action in pa.table(stored.get_add_actions(flatten=True)).to_pylist()
    }
    selects = []
    for some in _alike(database, files):
        values = _columns_of(database, some) | files[some[0]]
        if PART in columns:
            values[PART] = _by_file({each: files[each][PART] for each in some})
        selects.append(f"{_columns(types, values)} FROM {_read(some)}")
    return " UNION ALL ".join(selects) or _none_of(types)


def query_of_none(database: duckdb.DuckDBPyConnection, columns: Iterable[pa.Field]) -> str:
    """SQL for no row of these columns."""
    return _none_of(_types_of(database, columns))


def _none_of(types: Mapping[str, str]) -> str:
    return f"{_columns(types, {})} WHERE false"


def _types_of(database: duckdb.DuckDBPyConnection, columns: Iterable[pa.Field]) -> dict[str, str]:
    """DuckDB's types of columns, by name."""
    empty = database.from_arrow(pa.schema(columns).empty_table())
    return dict(zip(empty.columns, map(str, empty.types), strict=True))


def _alike(
    database: duckdb.DuckDBPyConnection, files: Mapping[str, Mapping[str, str]]
) -> list[list[str]]:
    """Files with the same columns, of one partition but for PART: a plan has to name each."""
    if not files:
        return []
    shapes = database.execute(
        "SELECT file_name, list(concat_ws(' ', name, type, num_children)) "
        "FROM parquet_schema($files) GROUP BY file_name",
        {"files": [*files]},
    ).fetchall()
    found: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for file, shape in sorted(shapes):
        partition = (value for name, value in files[file].items() if name != PART)
        found[(*partition, *shape)].append(file)
    return [*found.values()]


def _columns_of(database: duckdb.DuckDBPyConnection, files: Sequence[str]) -> dict[str, str]:
    return {each: _name(each) for each in database.sql(f"FROM {_read(files[:1])}").columns}


def _read(files: Sequence[str]) -> str:
    paths = ", ".join(map(_text, files))
    return f"read_parquet([{paths}], hive_partitioning = false, filename = true)"


def _by_file(values: Mapping[str, str]) -> str:
    """The value of each file. Who does not ask for it has no cost of it."""
    pairs = ", ".join(f"{_text(file)}: {value}" for file, value in values.items())
    return f"(MAP {{{pairs}}})[filename]"


def _columns(types: Mapping[str, str], values: Mapping[str, str]) -> str:
    casts = (
        f"CAST({values.get(name, 'NULL')} AS {type_}) AS {_name(name)}"
        for name, type_ in types.items()
    )
    return f"SELECT {', '.join(casts)}"


def _value(value: object) -> str:
    return "NULL" if value is None else _text(str(value))


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
