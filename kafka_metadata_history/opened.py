"""Whoever answers questions about a lake: DuckDB where the lake is a folder of this machine, Spark for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from jobs.common.questions import QueryError
from schemas.in_duckdb import NoQueryError, attach, connected, query_in_duckdb
from schemas.lake import LakeError

if TYPE_CHECKING:
    import pyarrow as pa

    from jobs.common.questions import Ask
    from schemas.lake import Lake


def without_spark(lake: Lake) -> Ask:
    """Return what answers Spark's SQL about a lake in a folder, without a JVM.

    It raises QueryError for what is no query, or names what the lake does not have; LakeError for a folder that holds
    no lake, one that is not ours, or of another version.
    """
    database = connected()

    def ask(sql: str) -> pa.Table:
        try:
            query = query_in_duckdb(sql)
        except NoQueryError as error:
            raise QueryError(
                f"neither a name nor a query (SELECT), which is all that is asked here: {error}"
            ) from error
        attach(database, lake, sql)
        try:
            return database.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"DuckDB: {' '.join(str(error).split())}") from error

    return ask


def has_folder(lake: Lake) -> bool:
    """Whether a lake is a folder of this machine. Raises LakeError if no lake is there."""
    if lake.root is None or lake.is_uri:
        return False
    if not lake.exists:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    return True


def with_spark(lake: Lake) -> Ask:
    """Return what answers Spark's SQL about any lake, in a session of Spark that this starts. It raises the same."""
    from jobs.query import answer  # noqa: PLC0415 - takes seconds
    from kafka_metadata_history.spark import session  # noqa: PLC0415

    spark = session("query")
    return lambda sql: answer(spark, lake, sql)
