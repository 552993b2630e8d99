"""A lake in Spark: made on first use, checked on each start, attached to a catalog for SQL."""

import hashlib
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from schemas.imports import COLUMNS, IMPORT, check_imports
from schemas.in_catalog import check_catalog, first_line, make_view
from schemas.internal import STATE
from schemas.lake import (
    NAMES,
    REFERENCE,
    TABLES,
    VIEWS,
    Lake,
    LakeError,
    check_origin,
    check_whole,
    named_in,
    resolved,
    version_of,
)
from schemas.lost_commits import mend_lost_commits
from schemas.table import LAKE_VERSION, TABLE_PROPERTY, Table, View, sql_string, union_all

log = logging.getLogger("kafka_metadata_history.lake")

_T = TypeVar("_T")
_NOT_EMPTY = re.compile(r"NON_EMPTY_LOCATION.*\('([^'`]+)'\) is not empty")
"""Delta's error where a catalog has no table, and the folder that it would have has files."""
_CREATION_S = 4.0
"""How long a table's folder may be there before its first commit, while somebody makes it."""


def ensure_tables(spark: SparkSession, lake: Lake, tables: Iterable[Table]) -> None:
    """Make the tables that are missing, refuse what does not fit.

    Raises LakeError, in one line, for a table that is not ours, is of another version, lacks a
    column or has one of another type, and for a lake that cannot be written.
    """
    tables = list(tables)
    # Every table that is there is looked at before the first one is written.
    found = _side_by_side(partial(_is_there, spark, lake), tables)
    missing = [table for table, is_there in zip(tables, found, strict=True) if not is_there]
    _side_by_side(partial(_create, spark, lake), missing)


def ensure_lake(spark: SparkSession, lake: Lake) -> None:
    """Make what is missing of a lake, and refuse one that does not fit; see ensure_tables. What a
    power cut has left of its newest commits is mended before, and logged.

    One look is enough where the lake says that its tables were found as this program makes them,
    and their folders are there.
    """
    check_catalog(spark, lake)
    for line in mend_lost_commits(lake):
        log.error("%s", line)
    if fits(spark, lake):
        return
    ensure_tables(spark, lake, TABLES)
    if lake.catalog is not None:
        try:
            attach(spark, lake)
        except LakeError as error:  # History needs no view: the next start tries again.
            log.warning("%s", error)
            return
    row = {"history": OF_LAKE, "cluster": "", "round": 0, "memory": _fingerprint(lake)}
    columns = [column for column in STATE.columns if column.name in row]
    frame = spark.createDataFrame(
        [tuple(row[column.name] for column in columns)],
        ", ".join(f"{column.name} {column.type}" for column in columns),
    )
    writer = frame.write.format("delta").mode("append")
    if lake.root is not None:
        writer.save(lake.path(STATE))
    else:
        writer.saveAsTable(lake.identifier(STATE))


OF_LAKE = "lake"
"""The rows of internal.state that say how the tables were made."""


def fits(spark: SparkSession, lake: Lake) -> bool:
    """Whether the lake says that this program made its tables, and their folders are there."""
    if lake.is_folder:
        if not all((Path(lake.path(table)) / "_delta_log").is_dir() for table in TABLES):
            return False
    elif not table_exists(spark, lake, STATE):
        return False
    try:
        rows = lake.read(spark, STATE).where(
            f"history = '{OF_LAKE}' AND memory = '{_fingerprint(lake)}'"
        )
        return not rows.isEmpty()
    except AnalysisException:
        return False  # ensure_tables says what is wrong with it


def _fingerprint(lake: Lake) -> str:
    """A digest of how this program makes its tables, and in a catalog its views."""
    statements = [table.create_statement(table.full_name) for table in TABLES]
    if lake.catalog is not None:
        statements += [f"{view.comment}{view.query}" for view in VIEWS]
    return hashlib.sha256("".join(statements).encode()).hexdigest()


def check_tables(spark: SparkSession, lake: Lake, tables: Iterable[Table]) -> None:
    """Raise LakeError unless each of `tables` exists and fits; writes nothing."""

    def check(table: Table) -> None:
        if not _is_there(spark, lake, table):
            raise LakeError(
                f"{table.full_name}: no such table in {lake}; `kafka-metadata-history run` makes it"
            )

    _side_by_side(check, tables)


def _side_by_side(look: Callable[[Table], _T], tables: Iterable[Table]) -> list[_T]:
    """The result of `look` for each table, or the error of the first that fails. Looking waits for
    files and Spark more than it works.
    """
    with ThreadPoolExecutor(4, "lake") as pool:
        return list(pool.map(look, tables))


def table_exists(spark: SparkSession, lake: Lake, table: Table) -> bool:
    """Whether a Delta table is where `table` belongs, whoever made it."""
    try:
        return spark.catalog.tableExists(lake.identifier(table))
    except AnalysisException as error:
        if "DELTA_MISSING_DELTA_TABLE" in str(error):
            return False
        raise


def attach(spark: SparkSession, lake: Lake, sql: str | None = None) -> list[str]:
    """Put the lake's tables and views under their names (bronze.metadata_polls,
    silver.partitions_now, ...).

    Tables of a lake of folders become external tables of the session's catalog; those of a catalog
    are there already, and so are its views, unless another version made them. `sql`: only what
    this query may name, since each table is looked at. Returns the names, in order; tables that no
    job has made yet are left out, and views of such tables too. A view of several parts goes
    without those of such tables, all but the first: what has never been written holds no rows. A
    lake of an older version goes without views that need columns which it lacks. Raises LakeError
    for a lake that is not ours or of a newer version, for a view that a catalog lets nobody make,
    and as `check_read`.
    """
    check_read(spark, lake)
    names: list[str] = []
    is_older = False
    wanted = NAMES if sql is None else named_in(sql)
    prefix = "" if lake.root is not None else f"`{lake.catalog}`."
    for schema in sorted({name.split(".")[0] for name in wanted if lake.root is not None}):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for table in (each for each in TABLES if each.full_name in wanted):
        stored = stored_table(spark, lake, table)
        if stored is not None and not names:  # one table tells for all of them
            noted = properties(spark, lake.identifier(stored))
            is_older = version_of(noted, lake, stored) < LAKE_VERSION
        if lake.root is not None:
            _detach(spark, table)  # or another lake's would answer
            if stored is not None:
                spark.sql(
                    f"CREATE TABLE {table.full_name} USING DELTA LOCATION '{lake.path(stored)}'"
                )
        if stored is not None:
            names.append(table.full_name)
    put = partial(make_view, replaces=not is_older) if lake.root is None else _replace_view
    for view in (each for each in VIEWS if each.full_name in wanted):
        parts = [part for part in view.parts if set(names).issuperset(REFERENCE.findall(part))]
        if view.parts[0] in parts:
            query = resolved(union_all(parts), lambda name: f"{prefix}{name}")
            with suppress(AnalysisException, LakeError) if is_older else nullcontext():
                put(spark, f"{prefix}{view.full_name}", view, query)
                names.append(view.full_name)
        elif lake.root is not None:
            spark.sql(f"DROP VIEW IF EXISTS {view.full_name}")
    return names


def _replace_view(spark: SparkSession, name: str, view: View, query: str) -> None:
    spark.sql(f"CREATE OR REPLACE VIEW {name} COMMENT {sql_string(view.comment)} AS {query}")


def check_read(spark: SparkSession, lake: Lake) -> None:
    """Raise LakeError for a lake that is half upgraded, or half imported."""
    if table_exists(spark, lake, STATE):
        check_whole(properties(spark, lake.identifier(STATE)), lake)
        rows = lake.read(spark, STATE).where(f"history = '{IMPORT}'")
        check_imports(lake, rows.select(*COLUMNS).collect())


def stored_table(spark: SparkSession, lake: Lake, table: Table) -> Table | None:
    """The table, or in a folder the one under its older name; None where neither is there."""
    if table_exists(spark, lake, table):
        return table
    older = table.older if lake.root is not None else None
    return older if older is not None and table_exists(spark, lake, older) else None


def _detach(spark: SparkSession, table: Table) -> None:
    """Take `table` out of the catalog; its files stay. Raises LakeError when it is not ours."""
    if not spark.catalog.tableExists(table.full_name):
        return
    if spark.catalog.getTable(table.full_name).tableType != "EXTERNAL" or properties(
        spark, table.full_name
    ).get(TABLE_PROPERTY, "") not in (table.full_name, table.was):
        raise LakeError(
            f"the catalog has a table {table.full_name} that attach did not put there; attach this "
            "lake in another catalog"
        )
    spark.sql(f"DROP TABLE {table.full_name}")


def read_view(spark: SparkSession, lake: Lake, view: View) -> DataFrame:
    """The rows of a view over the lake's tables, without a catalog: views in it are subqueries."""
    return read_sql(spark, lake, view.query)


def read_sql(spark: SparkSession, lake: Lake, query: str) -> DataFrame:
    """The rows of a query without a catalog: `{schema.name}` is a table or view of the lake."""
    tables = {table.full_name: table for table in TABLES}
    views = {view.full_name: view for view in VIEWS}

    def named(name: str) -> str:
        return (
            lake.identifier(tables[name])
            if name in tables
            else f"({resolved(views[name].query, named)}\n)"
        )

    return spark.sql(resolved(query, named))


def _create(spark: SparkSession, lake: Lake, table: Table) -> None:
    try:
        if lake.catalog is not None:
            schema = f"`{lake.catalog}`.`{table.schema}`"
            if not spark.catalog.databaseExists(schema):  # Not all may make one that is there.
                spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        spark.sql(table.create_statement(lake.identifier(table)))
    except Exception as error:
        if _is_made_by_another(spark, lake, table, error) or _is_registered(
            spark, lake, table, str(error)
        ):
            return
        if _remove_unfinished(lake, table):
            _create(spark, lake, table)
            return
        raise LakeError(
            f"{table.full_name} cannot be made in {lake}: {first_line(error)}"
        ) from error


def _is_registered(spark: SparkSession, lake: Lake, table: Table, problem: str) -> bool:
    """Whether the table was made before, by a run that could not enter it into the catalog, and is
    entered now. Raises LakeError for another one in its folder.
    """
    found = _NOT_EMPTY.search(problem)
    if lake.catalog is None or found is None:
        return False
    place = f"delta.`{found[1]}`"
    if not spark.catalog.tableExists(place):
        return False
    check_origin(properties(spark, place), lake, table)
    spark.sql(f"CREATE TABLE {lake.identifier(table)} USING DELTA LOCATION '{found[1]}'")
    return True


def _is_made_by_another(spark: SparkSession, lake: Lake, table: Table, error: Exception) -> bool:
    """Whether another job made the table; its folder is there a moment before its first commit."""
    until = time.monotonic() + (_CREATION_S if "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error) else 0)
    while not (there := table_exists(spark, lake, table)) and time.monotonic() < until:
        time.sleep(_CREATION_S / 20)
    return there


def _remove_unfinished(lake: Lake, table: Table) -> bool:
    """Remove what a run that was killed while it made the table left behind: a log without a
    commit. Return whether there was any.

    Delta makes no table in a folder that is not empty. Only folders of this machine are looked at:
    object stores have no folders of their own that an unfinished commit could leave.
    """
    if not lake.is_folder:
        return False
    folder = Path(lake.path(table))
    log = folder / "_delta_log"
    if (
        not log.is_dir()
        or any(other != log for other in folder.iterdir())
        or any(log.glob("[0-9]*"))
    ):
        return False
    shutil.rmtree(folder)
    return True


def properties(spark: SparkSession, identifier: str) -> dict[str, str]:
    """The properties of a table."""
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {identifier}").collect()}


def _is_there(spark: SparkSession, lake: Lake, table: Table) -> bool:
    """Whether a table is there. Raises LakeError for one that is not ours, or does not fit."""
    if not table_exists(spark, lake, table):
        return False
    _check_origin(spark, lake, table)
    present = {
        field.name: field.dataType.simpleString()
        for field in spark.table(lake.identifier(table)).schema
    }
    for column in table.columns:
        if column.name not in present:
            wrong = f"{table.full_name} in {lake} lacks {column.name}"
        elif present[column.name] != simple_type(column.type):
            wrong = (
                f"{table.full_name}.{column.name} in {lake} is {present[column.name]}, not "
                f"{column.type}"
            )
        else:
            continue
        raise LakeError(f"{wrong}: not a table of this version; take another lake")
    return True


def _check_origin(spark: SparkSession, lake: Lake, table: Table) -> None:
    check_origin(properties(spark, lake.identifier(table)), lake, table)


def simple_type(ddl: str) -> str:
    """A column's type as DataType.simpleString has it, as Delta keeps no nullability of fields."""
    return DataType.fromDDL(ddl).simpleString()
