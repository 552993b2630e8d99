"""Whoever answers questions about a lake: DuckDB where the lake is a folder of this machine or in
an object store, Spark for all others.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Timer
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.status import Size
from kafka_metadata_history.answers.status_sql import status_of
from metadata_source.text import did_you_mean
from schemas.in_duckdb import (
    NoQueryError,
    attach,
    connected,
    files_of,
    log_bytes_of,
    older_version,
    query_in_duckdb,
    tables_of,
)
from schemas.lake import NAMES, UPGRADE, LakeError, OlderLakeError, named_in, resolved
from schemas.object_stores import address
from schemas.open_tables import OpenTables, unreadable
from schemas.own_sql import NotKnownError, own_in_duckdb, prepare
from schemas.table import LAKE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from jobs.configuration.config import Config
    from jobs.configuration.spark import SparkSection
    from kafka_metadata_history.answers.questions import Ask
    from kafka_metadata_history.answers.status import LakeStatus
    from schemas.lake import Lake


MEMORY: Final = "1g"
"""Of the JVM, which is all of Spark here, unless the user says otherwise."""


@dataclass(frozen=True)
class Opened:
    """A lake that answers. `ask`: our own SQL; `own`: SQL that a person wrote. `engine`: the name
    of who answers.
    """

    ask: Ask
    own: Ask
    engine: str
    older: Callable[[], int | None] = lambda: None
    """Its version, if that is older than this program's, by the tables that were asked."""


def opened(lake: Lake, *, by_spark: bool = False, spark: SparkSection | None = None) -> Opened:
    """Return what answers Spark's SQL about a lake: DuckDB if it is in a folder or in an
    object store, unless `by_spark`. `spark`: the configuration's jars and settings for Spark.
    Raises LakeError, as `needs_no_spark`, `without_spark` and `with_spark` do.
    """
    if not needs_no_spark(lake) or by_spark:
        ask = with_spark(lake, spark)
        return Opened(ask, ask, "Spark")
    found = without_spark(lake)
    return Opened(found, found.own, "DuckDB", found.older)


def without_spark(
    lake: Lake,
    limit_s: float | None = None,
    most_memory: str | None = None,
    tables: OpenTables | None = None,
) -> InDuckDB:
    """Return what answers Spark's SQL about a lake in a folder or an object store, without a JVM.
    `tables`: those that are open already; None: none.
    """
    return InDuckDB(tables or OpenTables(lake), limit_s, most_memory)


class InDuckDB:
    """Answers Spark's SQL about a lake, to several threads at once. All questions are answered of
    the rows that a table had when it was first asked.

    It raises QueryError for what is no query, names what no lake has, or takes longer than
    `limit_s` seconds; LakeError for a folder that holds no lake, one that is not ours, of a newer
    version, damaged, or not complete.
    """

    def __init__(
        self, tables: OpenTables, limit_s: float | None = None, most_memory: str | None = None
    ) -> None:
        self._lake, self._tables = tables.lake, tables
        self._limit_s = limit_s
        self._database = connected(tables.lake, most_memory, tables.files)
        self._one_by_one = Lock()
        self._has_macros = False
        self._tried: set[str] = set()
        self._there: dict[str, int] = {}
        self._asking: set[duckdb.DuckDBPyConnection] = set()
        self._is_over = False

    def __call__(self, sql: str) -> pa.Table:
        """Answer SQL of this program, which is known to mean the same in both engines."""
        return self._asked(sql, query_in_duckdb)

    def end(self) -> None:
        """Interrupt what is asked, from another thread: it fails, and so does all after it."""
        self._is_over = True
        for asking in [*self._asking]:
            asking.interrupt()

    def older(self) -> int | None:
        """Return the version of the lake, if that is older than this program's, by the tables that
        were asked.
        """
        version = min(self._there.values(), default=LAKE_VERSION)
        return version if version < LAKE_VERSION else None

    def sizes(self) -> list[Size]:
        """Return the files of all tables, of the newest version or of that which was asked."""
        return [
            Size(name, sum(files), len(files), log_bytes_of(self._lake, name))
            for name, files in files_of(self._tables).items()
        ]

    def own(self, sql: str) -> pa.Table:
        """Answer SQL that a person wrote. Raises QueryError, too, for what DuckDB is not known to
        answer as Spark.
        """
        with self._one_by_one:
            if not self._has_macros:
                prepare(self._database)
            self._has_macros = True
        answer = self._asked(sql, own_in_duckdb)
        if odd := next(
            (field for field in answer.schema if pa.types.is_interval(field.type)), None
        ):
            raise QueryError(
                _not_known(
                    f"an INTERVAL as a column ({odd.name}); timestampdiff(SECOND, a, b) is: it"
                )
            )
        return answer

    def _asked(self, sql: str, translated: Callable[[str], str]) -> pa.Table:
        try:
            query = translated(sql)
        except NoQueryError as error:
            raise QueryError(
                f"neither a name nor a query (SELECT), which is all that is asked here: {error}"
            ) from error
        except NotKnownError as error:
            raise QueryError(_not_known(str(error))) from error
        with self._one_by_one:
            new = named_in(sql) - self._tried
            self._there = attach(self._database, self._tables, new, self._there)
            self._tried.update(new)
            if self._is_over:
                raise QueryError("nobody is asked any more")
            asking = self._database.cursor()
            self._asking.add(asking)
        with asking, _interrupted(asking, self._limit_s):
            try:
                return asking.sql(query).to_arrow_table()
            except duckdb.InterruptException as error:
                limit = "" if self._limit_s is None else f" within {self._limit_s:g} s"
                raise QueryError(
                    f"no answer{limit}: ask about a shorter window, or narrow the question"
                ) from error
            except duckdb.Error as error:
                raise self._explained(sql, error) from error
            finally:
                self._asking.discard(asking)

    def _explained(self, sql: str, error: duckdb.Error) -> QueryError | LakeError:
        """Say what is wrong: with the query, or with the lake."""
        line = " ".join(str(error).split())
        if isinstance(error, duckdb.CatalogException):
            named = tables_of(sql)
            if unknown := next((name for name in named if name not in NAMES), None):
                return QueryError(_no_table(unknown))
            if missing := sorted({*named} - {*self._there}):
                return not_complete(self._tables, missing)
        if refused := _NOT_KNOWN.search(line):
            return QueryError(_not_known(refused[1] or f"{refused[2]} with such arguments"))
        if file := re.search(
            rf"{re.escape(address(f'{self._lake.root}/'))}(\w+)/(\w+)/[^\"']*\.parquet", line
        ):
            return unreadable(self._lake, f"{file[1]}.{file[2]}", line)
        if type(error) is duckdb.Error:  # as DuckDB's reader of Parquet raises of broken bytes
            return unreadable(self._lake, " or ".join(tables_of(sql)), line)
        if isinstance(error, duckdb.BinderException) and (version := self.older()) is not None:
            return LakeError(
                f"{self._lake}: version {version} may lack what this asks for: DuckDB: {line}"
            )
        return QueryError(f"DuckDB: {line}")


@contextmanager
def _interrupted(asking: duckdb.DuckDBPyConnection, limit_s: float | None) -> Iterator[None]:
    """Interrupt what is asked after so many seconds; None: never."""
    if limit_s is None:
        yield
        return
    timer = Timer(limit_s, asking.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


_NOT_KNOWN: Final = re.compile(
    r"not known here: ([^!]+)|Macro (?:spark|op)_(\w+)\(\) does not support"
)
"""What macros of schemas/spark_functions.sql say, or DuckDB of their arguments."""


def _not_known(what: str) -> str:
    return (
        f"{what} is not known to be in DuckDB what it is in Spark; `query --spark` asks Spark, and "
        "docs/queries.md says what is known"
    )


def not_complete(tables: OpenTables, missing: Sequence[str]) -> LakeError:
    """Say that tables of a lake are not there: its first run was stopped, or it is of a version
    that had none (OlderLakeError).
    """
    lake = tables.lake
    version = older_version(tables) if lake.is_folder or lake.is_object_store else None
    if version is not None:
        return OlderLakeError(
            f"{lake}: version {version} had no {', '.join(missing)}, or no such columns for it; "
            f"{UPGRADE} makes the lake one of version {LAKE_VERSION}"
        )
    return LakeError(
        f"{lake}: not complete: {', '.join(missing)} is not there; `kafka-metadata-history run` "
        "makes what is missing"
    )


def _no_table(name: str) -> str:
    of_schema = {each: each for each in sorted(NAMES)} | {
        each.split(".")[1]: each for each in sorted(NAMES)
    }
    return (
        f"{name}: no such table; "
        f"{did_you_mean(name, of_schema, 'docs/tables.md has all', of_schema.__getitem__)}"
    )


def status_without_spark(config: Config, now: datetime) -> LakeStatus:
    """Return the status of a lake in a folder. Raises as `without_spark`, and LakeError
    for a lake that no round was made in.
    """
    ask = without_spark(config.lake)
    return status_of(lambda sql: ask(resolved(sql, lambda name: name)), ask.sizes, config, now)


def needs_no_spark(lake: Lake) -> bool:
    """Whether a lake is a folder of this machine, or in an object store. Raises LakeError if no
    lake is in the folder; a store is first asked with the first question.
    """
    if not lake.is_folder:
        return lake.is_object_store
    try:
        exists = lake.exists
    except OSError as error:
        raise LakeError(
            f"{lake}: {error.strerror}: let this user read all files below it"
        ) from error
    if not exists:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    return True


def with_spark(lake: Lake, spark: SparkSection | None = None) -> Ask:
    """Return what answers Spark's SQL about any lake, in a session of Spark that this starts. It
    raises the same.
    """
    # PySpark takes seconds to import.
    from jobs.configuration.spark import NOTHING  # noqa: PLC0415
    from jobs.run.session import SessionError, spark_session  # noqa: PLC0415
    from kafka_metadata_history.spark import prepare  # noqa: PLC0415

    added = spark or NOTHING
    try:
        prepare(MEMORY, added)
        return asking(spark_session("query", lake, added=added), lake)
    except SessionError as error:
        raise LakeError(f"{lake}: {error}") from error


def asking(spark: SparkSession, lake: Lake) -> Ask:
    """Return what answers Spark's SQL about a lake in this session, to which nobody attaches
    another lake meanwhile. It raises QueryError.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - takes seconds

    from jobs.run.cli import one_line  # noqa: PLC0415
    from jobs.run.driver import JAVA_ERRORS, is_of_metastore  # noqa: PLC0415
    from kafka_metadata_history.answers.in_spark import answer, rows_of  # noqa: PLC0415

    tried: set[str] = set()

    def ask(sql: str) -> pa.Table:
        new = named_in(sql) - tried
        try:
            found = answer(spark, lake, sql) if new else rows_of(spark, lake, sql)
        except PySparkException as error:
            condition = error.getCondition() or ""
            missing = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
            if condition == "TABLE_OR_VIEW_NOT_FOUND" and missing in NAMES:
                raise not_complete(OpenTables(lake), [missing]) from error
            if condition.startswith(_OF_FILES) or is_of_metastore(error):
                raise LakeError(f"{lake}: cannot be read: {one_line(error)}") from error
            raise QueryError(f"Spark: {one_line(error)}") from error
        except JAVA_ERRORS as error:
            raise LakeError(f"{lake}: {one_line(error)}") from error
        tried.update(new)
        return found

    return ask


_OF_FILES: Final = ("DELTA_", "FAILED_READ_FILE", "FAILED_READ")
"""Beginnings of Spark's conditions: files of a lake are damaged, or may not be read."""
