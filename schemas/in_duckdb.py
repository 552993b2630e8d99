"""A lake of folders, or of an object store, in DuckDB: its tables and views under their names, read
without a JVM, and Spark's SQL translated.

Delta's log is read by delta-rs (`deltalake`): DuckDB's own extension would be a download.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
import sqlglot
from deltalake.exceptions import DeltaError
from sqlglot import expressions as exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from metadata_source.errors import KafkaMetadataHistoryError
from schemas.delta_in_duckdb import query_of, query_of_none
from schemas.imports import COLUMNS, IMPORT, check_imports
from schemas.internal import STATE
from schemas.lake import REFERENCE, TABLES, VIEWS, check_whole, resolved, version_of
from schemas.object_stores import address
from schemas.open_tables import unreadable
from schemas.store_files import sizes_of
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED, arrow_type, union_all
from schemas.upgrades import steps_from

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from deltalake import DeltaTable

    from schemas.lake import Lake
    from schemas.open_tables import OpenTable, OpenTables
    from schemas.store_files import StoreFiles
    from schemas.table import Column, Table


_UNDERLINED = re.compile(r"\x1b\[\d*m")
"""What sqlglot puts around the place of an error, for terminals."""


_WAITING: Final = 8
"""Threads of a query of an object store, most of which wait for it."""


class NoQueryError(KafkaMetadataHistoryError, ValueError):
    """Raised for SQL that is not one query (SELECT). One line."""


class _AnsiSpark(Spark):
    """Spark 4's SQL: a value that CAST cannot convert is an error. sqlglot takes CAST for TRY_CAST,
    as in Spark 3, and a conversion that DuckDB does not have would be null.
    """

    class Parser(SparkParser):
        STRICT_CAST = True


@lru_cache(512)  # Each lake that is opened has the same tables and views.
def in_duckdb(sql: str) -> str:
    """Spark's SQL as DuckDB has it. Raises NoQueryError for text that is not Spark's SQL."""
    return translated(_parsed(sql))


def query_in_duckdb(sql: str) -> str:
    """One query of Spark's SQL as DuckDB has it. Raises NoQueryError for anything else."""
    parsed = _parsed(sql)
    if not isinstance(parsed, exp.Query):
        raise NoQueryError("not a query (SELECT)")
    return translated(parsed)


def tables_of(sql: str) -> list[str]:
    """The names of the tables that a query of Spark's SQL reads, without those of its own WITH."""
    parsed = _parsed(sql)
    own = {each.alias for each in parsed.find_all(exp.CTE)}
    names = (".".join(part.name for part in each.parts) for each in parsed.find_all(exp.Table))
    return [name for name in names if name not in own]


def translated(parsed: exp.Expr) -> str:
    """Parsed SQL of Spark as DuckDB has it."""
    made = parsed.copy()
    for node in reversed([*made.walk()]):  # those inside others first
        if (other := _function(node)) is not node:
            node.replace(other)
    return made.sql("duckdb", identify=True)


def _parsed(sql: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(sql, read=_AnsiSpark)
    except SqlglotError as error:
        raise NoQueryError(said_of(error)) from error


def said_of(error: SqlglotError) -> str:
    """What sqlglot says of SQL that it cannot parse, as one line."""
    return " ".join(_UNDERLINED.sub("", str(error)).split())


def _function(node: exp.Expr) -> exp.Expr:
    """A function that sqlglot leaves as it is, and DuckDB has not, or means otherwise."""
    if isinstance(node, exp.ArrayAgg | exp.ArrayUniqueAgg | exp.Filter | exp.Window):
        # collect_list of no rows is an empty array in Spark, null in DuckDB.
        is_whole = not isinstance(node.parent, exp.Filter | exp.Window)
        innermost = node
        while isinstance(innermost, exp.Filter | exp.Window):
            innermost = innermost.this
        is_list = isinstance(innermost, exp.ArrayAgg | exp.ArrayUniqueAgg)
        return exp.func("coalesce", node, exp.Array()) if is_whole and is_list else node
    if isinstance(node, exp.Exists) and node.expression is not None:
        return exp.func("len", exp.func("list_filter", node.this, node.expression)) > 0
    if isinstance(node, exp.Anonymous) and node.name.lower() == "get":
        array, place = node.expressions
        return exp.func("list_extract", array, place + 1)
    if isinstance(node, exp.ArgMax | exp.ArgMin):
        # DuckDB's of that name pass over rows whose value is null.
        name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
        return exp.func(name, node.this, node.expression)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "timestamp_micros":
        return exp.func("make_timestamptz", *node.expressions)
    if (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.HexString)
        and node.to.is_type("text")
    ):
        # A cast would write quotes and all that is not ASCII as `\x22`.
        return exp.Anonymous(this="decode", expressions=[node.this])
    if isinstance(node, exp.Inline):
        as_columns = exp.PropertyEQ(this=exp.to_identifier("recursive"), expression=exp.true())
        return exp.func("unnest", node.this, as_columns)
    return node


def attach(
    database: duckdb.DuckDBPyConnection,
    opened: OpenTables,
    wanted: Collection[str],
    before: Mapping[str, int],
) -> dict[str, int]:
    """Put tables and views of a lake under their names (silver.partitions_now, ...). Returns the
    names that are there afterwards, with the version of each table. `opened`: what the database
    reads, as `connected` was given it.

    `wanted`: their names, with those that views refer to. `before`: what an earlier call returned.
    Tables that no job has made yet are left out, as `schemas.in_spark.attach` does, and of a lake
    of an older version views that need columns which it lacks. Columns that an upgrade only adds
    are null, and tables that views alone read empty. Raises LakeError for a lake that is not ours,
    of a newer version, half upgraded or half imported, or that cannot be read.
    """
    names = {**before}
    wanted = {*wanted, STATE.full_name} - before.keys()
    for schema in sorted({name.split(".")[0] for name in wanted}):
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    tables = [each for each in dict.fromkeys((STATE, *TABLES)) if each.full_name in wanted]
    with opened.alone:
        opened.open(tables)
        for table in tables:
            found = _query_of(database, opened, table, names.get(STATE.full_name))
            if found is not None:
                names[table.full_name], query = found
                database.execute(f"CREATE OR REPLACE VIEW {table.full_name} AS {query}")
    for view in (each for each in VIEWS if each.full_name in wanted):
        parts = [part for part in view.parts if set(names).issuperset(REFERENCE.findall(part))]
        if view.parts[0] in parts:
            query = in_duckdb(resolved(union_all(parts), lambda name: name))
            try:
                database.execute(f"CREATE OR REPLACE VIEW {view.full_name} AS {query}")
            except duckdb.Error:
                if min(names.values()) == LAKE_VERSION:
                    raise
                continue
            names[view.full_name] = LAKE_VERSION
    return names


def _query_of(
    database: duckdb.DuckDBPyConnection, tables: OpenTables, table: Table, of_lake: int | None
) -> tuple[int, str] | None:
    """The version of a table, and SQL for its rows; None without a table. `of_lake`: the version of
    the lake, once that is known.
    """
    lake = tables.lake
    if (opened := tables.get(table)) is None:
        is_of_views = table.schema == "internal" and table != STATE
        if of_lake is None or not (is_of_views and OLDEST_UPGRADED <= of_lake < LAKE_VERSION):
            return None
        return of_lake, query_of_none(database, _fields(table.columns))
    noted = opened.log.metadata().configuration
    if table == STATE:  # the first of all, which says whether the lake is whole
        check_whole(noted, lake)
    version = version_of(noted, lake, table)
    try:
        more = _columns_since(version, table, opened.log)
        query = query_of(database, opened.log, opened.folder, more)
        imports = database.sql(query).filter(f"history = '{IMPORT}'") if table == STATE else None
        rows = [] if imports is None else imports.select(*COLUMNS).fetchall()
    except (DeltaError, OSError, ValueError, duckdb.Error) as error:
        raise unreadable(lake, table.full_name, str(error)) from error
    check_imports(lake, rows)
    return version, query


def _columns_since(version: int, table: Table, stored: DeltaTable) -> list[pa.Field]:
    """The columns that a table of a version of the lake got since, without a change of its rows: an
    upgrade leaves them null, too.
    """
    known = {field.name for field in stored.schema().fields}
    changes = (step.rows for step in steps_from(version))
    if version < OLDEST_UPGRADED or any(table.full_name in rows for rows in changes):
        return []
    return _fields(each for each in table.columns if each.nullable and each.name not in known)


def _fields(columns: Iterable[Column]) -> list[pa.Field]:
    return [pa.field(each.name, arrow_type(each.type)) for each in columns]


def older_version(tables: OpenTables) -> int | None:
    """The version of a lake that is older than this program's; None if it is not."""
    for table, opened in there(tables):
        version = version_of(opened.log.metadata().configuration, tables.lake, table)
        return version if version < LAKE_VERSION else None
    return None


def files_of(tables: OpenTables) -> dict[str, list[int]]:
    """Return the bytes of each file of each table that is there, by the table's full name."""
    return {table.full_name: [*sizes_of(opened.log).values()] for table, opened in there(tables)}


def there(tables: OpenTables) -> Iterator[tuple[Table, OpenTable]]:
    """Yield the tables of a lake that are there. Raises LakeError as `OpenTables.get`."""
    tables.open(TABLES)
    for table in TABLES:
        if (opened := tables.get(table)) is not None:
            yield table, opened


def log_bytes_of(lake: Lake, name: str) -> int | None:
    """Return the bytes of Delta's log of a table, without Hadoop's checksums (files with a dot).
    None in an object store: to list a log of days there takes many requests.
    """
    if not lake.is_folder:
        return None
    schema, _, table = name.partition(".")
    files = Path(f"{lake.root}/{schema}/{table}/_delta_log").rglob("[!.]*")
    found = 0
    for file in files:
        with suppress(FileNotFoundError):  # upkeep removes some meanwhile
            found += file.stat().st_size if file.is_file() else 0
    return found


def connected(
    lake: Lake | None = None, most_memory: str | None = None, files: StoreFiles | None = None
) -> duckdb.DuckDBPyConnection:
    """A database in UTC that reads files of a lake alone, no others and no variables of Python. Its
    cursors, a thread each, are set up alike. `most_memory`: as DuckDB has it; beyond it all goes to
    files. None: DuckDB's own, most of the machine's. `files`: of a lake in an object store.
    """
    database = duckdb.connect()
    # Unless it has a folder for what does not fit into memory, DuckDB makes one where we are.
    folder = f"{tempfile.gettempdir()}/kafka-metadata-history-duckdb-{os.getuid()}"
    database.execute("SET temp_directory = $folder", {"folder": folder})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    database.execute("SET GLOBAL python_enable_replacements = false")
    database.execute("SET parquet_metadata_cache = true")
    if most_memory is not None:
        database.execute("SET memory_limit = $most", {"most": most_memory})
    if lake is not None:
        root = address(f"{lake.root}".rstrip("/"))
        if files is not None:
            database.register_filesystem(files)
            database.execute("SET threads = $most", {"most": _WAITING})
        database.execute("SET allowed_directories = $folders", {"folders": [f"{root}/"]})
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database
