"""Questions about a lake, and its status, answered by Spark."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import Config
from jobs.run.cli import one_line
from jobs.run.driver import folder_bytes, plans
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.status import LakeStatus, Size
from kafka_metadata_history.answers.status_sql import status_of
from schemas import bronze, silver
from schemas.in_spark import attach, check_tables, read_sql, table_exists
from schemas.internal import STATE
from schemas.lake import TABLES, Lake
from schemas.table import Table


def answer(spark: SparkSession, lake: Lake, sql: str) -> pa.Table:
    """The rows that `lake` answers to `sql`.

    Tables that it may name get these names (bronze.metadata_polls, ...) in the session's catalog,
    unless they are in one already. Raises QueryError for a statement that is no query: it is not
    run.
    """
    attach(spark, lake, sql)
    return rows_of(spark, lake, sql)


def rows_of(spark: SparkSession, lake: Lake, sql: str) -> pa.Table:
    """The rows that `lake` answers to `sql`, whose tables are attached. Raises QueryError as
    `answer`, and for what would run a program or read other files.
    """
    if lake.catalog is not None:
        spark.catalog.setCurrentCatalog(lake.catalog)
    before = {name: spark.conf.get(name, "true") or "true" for name in _SHUT}
    for name in _SHUT:
        spark.conf.set(name, "false")
    try:
        check_is_query(spark, sql)
        frame = spark.sql(sql)
        check_runs_nothing(spark, frame)
        return frame.toArrow()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


_SHUT = ("spark.sql.runSQLOnFiles", "spark.sql.variable.substitute")
"""Spark's settings: is csv.`/etc/passwd` a table, and `${env:NAME}` a variable?"""
_PROGRAM = re.compile(
    r"\b(ScriptTransformation|(?:try_)?reflect\(|java_method\(|table_changes_by_path\b"
    # A name that is computed may be one of these, and no plan shows it.
    r"|(?:Plan|Expression)WithUnresolvedIdentifier\b)",
    re.IGNORECASE,
)
"""Nodes that run programs, or read files by their path, as Spark's plans name them."""


def check_runs_nothing(spark: SparkSession, frame: DataFrame) -> None:
    """Refuse a query that would run a program or a method of Java, by what Spark itself understands
    it to be.

    A session of Spark Connect shows no plan: whoever reaches its server may run Python there
    anyway.
    """
    for plan in plans(spark, frame):
        if found := _PROGRAM.search(plan):
            raise QueryError(
                f"{found[1].rstrip('(')}: a query may not run programs, nor read other files than "
                "the lake's"
            )


def check_is_query(spark: SparkSession, sql: str) -> None:
    """Refuse what is no query. Between brackets Spark's grammar has queries alone."""
    try:
        spark.sql(f"SELECT * FROM (\n{sql.strip().removesuffix(';')}\n)").schema  # noqa: B018 - analyzed
    except ParseException as error:
        raise QueryError(
            "neither a name nor a query (SELECT), which is all that is asked here: "
            f"{one_line(error)}"
        ) from error


def status_in_spark(spark: SparkSession, config: Config, now: datetime) -> LakeStatus:
    """Return the status of a lake. Raises LakeError: no tables, or another version."""
    lake = config.lake
    check_tables(spark, lake, (*bronze.TABLES, silver.POLL_GAPS, STATE))

    def sizes() -> list[Size]:
        with ThreadPoolExecutor(4, "status") as side_by_side:
            found = side_by_side.map(lambda table: _size(spark, config, table), TABLES)
            return [size for size in found if size is not None]

    return status_of(lambda sql: read_sql(spark, lake, sql).toArrow(), sizes, config, now)


def _size(spark: SparkSession, config: Config, table: Table) -> Size | None:
    """Out of Delta's log; None where there is no such table yet."""
    if not table_exists(spark, config.lake, table):
        return None
    detail = spark.sql(f"DESCRIBE DETAIL {config.lake.identifier(table)}").select(
        "sizeInBytes", "numFiles", "location"
    )
    (row,) = detail.collect()
    return Size(
        table.full_name,
        row.sizeInBytes,
        row.numFiles,
        folder_bytes(spark, f"{row.location}/_delta_log"),
    )
