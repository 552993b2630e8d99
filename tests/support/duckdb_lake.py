"""A lake's tables and views in DuckDB: what the SQL of views means, without Spark."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import sqlglot

from schemas.lake import TABLES, VIEWS
from schemas.table import Table, View

Row = dict[str, Any]
_REFERENCE = re.compile(r"\{([\w.]+)\}")


def in_duckdb(sql: str) -> str:
    """Spark's SQL as DuckDB has it."""
    (statement,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    return statement


def duckdb_lake(rows: Mapping[Table, Iterable[Row]], views: Iterable[View]) -> duckdb.DuckDBPyConnection:
    """A database with what these views need: tables that hold `rows`, what they leave out null, and the
    views in order.
    """
    wanted = {name for view in views for name in _REFERENCE.findall(view.query)} | {table.full_name for table in rows}
    wanted |= {view.full_name for view in views}
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    for schema in {name.split(".")[0] for name in wanted}:
        lake.execute(f"CREATE SCHEMA {schema}")
    for table in (table for table in TABLES if table.full_name in wanted):
        # What Delta generates is for its layout, and no view reads it.
        columns = [column for column in table.columns if column.generated_as is None]
        ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
        lake.execute(in_duckdb(f"CREATE TABLE {table.full_name} ({ddl})"))
        values = [[row.get(column.name) for column in columns] for row in rows.get(table, ())]
        if values:
            lake.executemany(f"INSERT INTO {table.full_name} VALUES ({', '.join('?' * len(columns))})", values)
    for view in (view for view in VIEWS if view.full_name in wanted):
        query = _REFERENCE.sub(lambda match: match[1], view.query)
        lake.execute(f"CREATE VIEW {view.full_name} AS {in_duckdb(query)}")
    return lake


def ask(lake: duckdb.DuckDBPyConnection, sql: str) -> list[Row]:
    """The rows of a question in Spark's SQL."""
    answer = lake.execute(in_duckdb(sql))
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
