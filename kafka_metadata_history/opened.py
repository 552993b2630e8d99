"""Whoever answers questions about a lake: DuckDB where the lake is a folder of this machine, Spark for all others."""

from __future__ import annotations

import difflib
from threading import Lock
from typing import TYPE_CHECKING, Final

import duckdb

from jobs.common.facts import facts_of
from jobs.common.questions import QueryError
from jobs.common.status import Size
from schemas.in_duckdb import NoQueryError, attach, connected, files_of, query_in_duckdb, tables_of
from schemas.lake import NAMES, LakeError, named_in, resolved

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from jobs.common.config import Config
    from jobs.common.questions import Ask
    from jobs.common.status import Facts
    from schemas.lake import Lake


MEMORY: Final = "1g"
"""Of the JVM, which is all of Spark here, unless the user says otherwise."""


def opened(lake: Lake) -> tuple[Ask, str]:
    """Return what answers Spark's SQL about a lake, and the name of its engine. Raises LakeError, as `has_folder`,
    `without_spark` and `with_spark` do.
    """
    return (without_spark(lake), "DuckDB") if has_folder(lake) else (with_spark(lake), "Spark")


def without_spark(lake: Lake) -> Ask:
    """Return what answers Spark's SQL about a lake in a folder, without a JVM. A table is opened once: all questions
    are answered of the rows that it had then.

    It raises QueryError for what is no query, or names what the lake does not have; LakeError for a folder that holds
    no lake, one that is not ours, or of another version.
    """
    database, one_by_one = connected(), Lock()
    tried: set[str] = set()
    there: list[str] = []

    def ask(sql: str) -> pa.Table:
        with one_by_one:
            return answer(sql)

    def answer(sql: str) -> pa.Table:
        try:
            query = query_in_duckdb(sql)
        except NoQueryError as error:
            raise QueryError(
                f"neither a name nor a query (SELECT), which is all that is asked here: {error}"
            ) from error
        new = named_in(sql) - tried
        there[:] = attach(database, lake, new, there)
        tried.update(new)
        try:
            return database.sql(query).to_arrow_table()
        except duckdb.CatalogException as error:
            unknown = next((name for name in tables_of(sql) if name not in NAMES), None)
            raise QueryError(_no_table(unknown) if unknown else f"DuckDB: {' '.join(str(error).split())}") from error
        except duckdb.Error as error:
            raise QueryError(f"DuckDB: {' '.join(str(error).split())}") from error

    return ask


def _no_table(name: str) -> str:
    of_schema = {each: each for each in sorted(NAMES)} | {each.split(".")[1]: each for each in sorted(NAMES)}
    close = difflib.get_close_matches(name, of_schema, 1)
    hint = f"did you mean {of_schema[close[0]]}?" if close else "docs/tables.md has all"
    return f"{name}: no such table; {hint}"


def facts_without_spark(config: Config, now: datetime) -> Facts:
    """Return the facts of a status of a lake in a folder. Raises as `without_spark`, and LakeError for a lake that no
    round was made in.
    """
    ask = without_spark(config.lake)

    def sizes() -> list[Size]:
        return [Size(name, sum(files), len(files)) for name, files in files_of(config.lake).items()]

    return facts_of(lambda sql: ask(resolved(sql, lambda name: name)), sizes, config, now)


def has_folder(lake: Lake) -> bool:
    """Whether a lake is a folder of this machine. Raises LakeError if no lake is there."""
    if lake.root is None or lake.is_uri:
        return False
    if not lake.exists:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    return True


def with_spark(lake: Lake) -> Ask:
    """Return what answers Spark's SQL about any lake, in a session of Spark that this starts. It raises the same."""
    # PySpark takes seconds to import.
    from jobs.common.session import SessionError, spark_session  # noqa: PLC0415
    from kafka_metadata_history.spark import prepare  # noqa: PLC0415

    try:
        prepare(MEMORY)
        return asking(spark_session("query"), lake)
    except SessionError as error:
        raise LakeError(f"{lake}: {error}") from error


def asking(spark: SparkSession, lake: Lake) -> Ask:
    """Return what answers Spark's SQL about a lake in this session, to which nobody attaches another lake meanwhile. It
    raises QueryError.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - takes seconds

    from jobs.common.cli import one_line  # noqa: PLC0415
    from jobs.query import answer, rows_of  # noqa: PLC0415

    tried: set[str] = set()

    def ask(sql: str) -> pa.Table:
        new = named_in(sql) - tried
        tried.update(new)
        try:
            return answer(spark, lake, sql) if new else rows_of(spark, lake, sql)
        except PySparkException as error:
            raise QueryError(f"Spark: {one_line(error)}") from error

    return ask
