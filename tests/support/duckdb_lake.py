"""A lake's tables and views in DuckDB: what the SQL of views means, without Spark."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from kafka_metadata_history.answers.markers import with_values
from schemas.in_duckdb import in_duckdb
from schemas.lake import TABLES, VIEWS
from schemas.table import Table, View, arrow_type

Row = dict[str, Any]
_REFERENCE = re.compile(r"\{([\w.]+)\}")


def duckdb_lake(
    rows: Mapping[Table, Iterable[Row]], views: Iterable[View]
) -> duckdb.DuckDBPyConnection:
    """A database with what these views need: tables that hold `rows`, what they leave out null, and
    the views in order.
    """
    wanted = {name for view in views for name in _REFERENCE.findall(view.query)} | {
        table.full_name for table in rows
    }
    wanted |= {view.full_name for view in views}
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    for schema in {name.split(".")[0] for name in wanted}:
        lake.execute(f"CREATE SCHEMA {schema}")
    for table in (table for table in TABLES if table.full_name in wanted):
        columns = [column for column in table.columns if column.generated_as is None]
        ddl = ", ".join(
            f"`{column.name}` {column.type}"
            if column.generated_as is None
            else f"`{column.name}` {column.type} GENERATED ALWAYS AS (({column.generated_as}))"
            for column in table.columns
        )
        lake.execute(in_duckdb(f"CREATE TABLE {table.full_name} ({ddl})"))
        if own := list(rows.get(table, ())):
            schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
            given = pa.Table.from_pylist(own, schema)
            names = ", ".join(f'"{name}"' for name in given.column_names)
            # Of rows one by one DuckDB would take most of the time.
            lake.execute(f"INSERT INTO {table.full_name} ({names}) SELECT * FROM given")
    for view in (view for view in VIEWS if view.full_name in wanted):
        query = _REFERENCE.sub(lambda match: match[1], view.query)
        lake.execute(f"CREATE VIEW {view.full_name} AS {in_duckdb(query)}")
    return lake


def ask(lake: duckdb.DuckDBPyConnection, sql: str) -> list[Row]:
    """The rows of a question in Spark's SQL."""
    answer = lake.execute(in_duckdb(sql))
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


@contextmanager
def asking(
    rows: Mapping[Table, Iterable[Row]],
) -> Iterator[Callable[[str, Mapping[str, object]], list[Row]]]:
    """Asks a lake with these rows and all views, with values for the parameters that a text
    names.
    """
    with duckdb_lake(rows, VIEWS) as lake:
        yield lambda sql, parameters: ask(lake, with_values(sql, parameters))
