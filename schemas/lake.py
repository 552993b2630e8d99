"""A lake: where its tables lie, made on first use, checked on each start, attached to a catalog for SQL."""

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import DataType

from schemas import bronze, gold, groups, internal, quality, silver
from schemas.internal import STATE
from schemas.table import LAKE_VERSION, TABLE_PROPERTY, VERSION_PROPERTY, Table, View, union_all

TABLES: tuple[Table, ...] = (
    bronze.TABLES + silver.TABLES + gold.TABLES + groups.TABLES + quality.TABLES + internal.TABLES
)
VIEWS: tuple[View, ...] = internal.VIEWS + silver.VIEWS + groups.VIEWS + gold.VIEWS
"""In an order in which each refers to tables and to views before it."""
_NAMES = frozenset((*(table.full_name for table in TABLES), *(view.full_name for view in VIEWS)))


_T = TypeVar("_T")
_URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_CREATION_S = 4.0
"""How long a table's folder may be there before its first commit, while somebody makes it."""


class LakeError(ValueError):
    """Raised when a lake cannot be used as it is: foreign, incompatible, or not writable. One line."""


@dataclass(frozen=True)
class Lake:
    """Where the tables are: in folders under `root` (a path or URI), or in `catalog` under schemas of their own."""

    root: str | None = None
    catalog: str | None = None

    def __post_init__(self) -> None:
        if (self.root is None) == (self.catalog is None):
            raise LakeError("a lake is either a folder (root) or a catalog, not both and not neither")
        if odd := set("'`{}\"\\\n").intersection(str(self)):
            raise LakeError(
                f"{self}: {' '.join(sorted(odd))} cannot be in the name of a lake; SQL could not name its tables"
            )

    def __str__(self) -> str:
        return self.root if self.root is not None else f"catalog {self.catalog}"

    def path(self, table: Table) -> str:
        """Folder or URI of `table`; only for a lake of folders."""
        if self.root is None:
            raise LakeError(f"{self}: its tables have names, not paths")
        return f"{self.root.rstrip('/')}/{table.schema}/{table.name}"

    def identifier(self, table: Table) -> str:
        """`table` as SQL names it."""
        if self.root is not None:
            return f"delta.`{self.path(table)}`"
        return f"`{self.catalog}`.`{table.schema}`.`{table.name}`"

    def read(self, spark: SparkSession, table: Table) -> DataFrame:
        """The rows of `table` now."""
        return spark.table(self.identifier(table))

    def read_version(self, spark: SparkSession, table: Table, version: int) -> DataFrame:
        """The rows of `table` in one of its versions."""
        return self._load(spark.read.format("delta").option("versionAsOf", version), table)

    def read_appended(self, spark: SparkSession, table: Table, first: int, last: int) -> DataFrame:
        """The rows that versions `first` to `last` of `table` appended; compaction and deletions are passed over."""
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        rows = self._load(feed.option("startingVersion", first).option("endingVersion", last), table)
        return rows.where("_change_type = 'insert'").drop("_change_type", "_commit_version", "_commit_timestamp")

    def read_stream(self, spark: SparkSession, table: Table, **options: str) -> DataFrame:
        """The rows appended to `table`, as a stream; deletions by retention are passed over."""
        reader = spark.readStream.format("delta").option("skipChangeCommits", "true").options(**options)
        return self._load(reader, table)

    def _load(self, reader: DataFrameReader | DataStreamReader, table: Table) -> DataFrame:
        return reader.load(self.path(table)) if self.root is not None else reader.table(self.identifier(table))


_S3 = re.compile(r"(s3[an]?):", re.IGNORECASE)


def check_commits(spark: SparkSession, lake: Lake) -> None:
    """Raise LakeError for a lake on S3 unless the session says how commits of several drivers are kept apart.

    On S3 the LogStore that Delta takes by itself lets two drivers write the same version of a table, and the rows of
    one are lost without a word (https://docs.delta.io/latest/delta-storage.html). Two drivers are usual here: the
    pipeline, and jobs/validate.py beside it, or a job that takes over from another one.
    """
    scheme = _S3.match(lake.root or "")
    if scheme is None:
        return
    setting = f"spark.delta.logStore.{scheme[1].lower()}.impl"
    if spark.conf.get(setting, None) is None:
        raise LakeError(
            f"{lake}: set {setting}: to io.delta.storage.S3DynamoDBLogStore, with which several drivers may write "
            "(see Delta's documentation), or to io.delta.storage.S3SingleDriverLogStore if only one job ever writes"
        )


def ensure_tables(spark: SparkSession, lake: Lake, tables: Iterable[Table]) -> None:
    """Make the tables that are missing, refuse what does not fit.

    Raises LakeError, in one line, for a table that is not ours, is of another version, lacks a column or has one of
    another type, for a lake that cannot be written, and as `check_commits`.
    """
    check_commits(spark, lake)
    tables = list(tables)
    # Every table that is there is looked at before the first one is written.
    found = _side_by_side(partial(_is_there, spark, lake), tables)
    missing = [table for table, is_there in zip(tables, found, strict=True) if not is_there]
    _side_by_side(partial(_create, spark, lake), missing)


def ensure_lake(spark: SparkSession, lake: Lake) -> None:
    """Make what is missing of a lake, and refuse one that does not fit; see ensure_tables.

    One look is enough where the lake says that its tables were found as this program makes them, and their folders are
    there.
    """
    check_commits(spark, lake)
    if fits(spark, lake):
        return
    ensure_tables(spark, lake, TABLES)
    row = {"history": _OF_LAKE, "cluster": "", "round": 0, "memory": _fingerprint()}
    columns = [column for column in STATE.columns if column.name in row]
    frame = spark.createDataFrame(
        [tuple(row[column.name] for column in columns)], ", ".join(f"{column.name} {column.type}" for column in columns)
    )
    writer = frame.write.format("delta").mode("append")
    if lake.root is not None:
        writer.save(lake.path(STATE))
    else:
        writer.saveAsTable(lake.identifier(STATE))


_OF_LAKE = "lake"
"""The rows of internal.state that say how the tables were made."""


def fits(spark: SparkSession, lake: Lake) -> bool:
    """Whether the lake says that its tables were found as this program makes them, and their folders are there."""
    if lake.root is not None and not _URI.match(lake.root):
        if not all((Path(lake.path(table)) / "_delta_log").is_dir() for table in TABLES):
            return False
    elif not table_exists(spark, lake, STATE):
        return False
    try:
        rows = lake.read(spark, STATE).where(f"history = '{_OF_LAKE}' AND memory = '{_fingerprint()}'")
        return not rows.isEmpty()
    except AnalysisException:
        return False  # ensure_tables says what is wrong with it


def _fingerprint() -> str:
    """A digest of how this program makes its tables."""
    statements = "".join(table.create_statement(table.full_name) for table in TABLES)
    return hashlib.sha256(statements.encode()).hexdigest()


def check_tables(spark: SparkSession, lake: Lake, tables: Iterable[Table]) -> None:
    """Raise LakeError unless each of `tables` exists and fits; writes nothing."""

    def check(table: Table) -> None:
        if not _is_there(spark, lake, table):
            raise LakeError(f"{table.full_name}: no such table in {lake}; run the job that writes it first")

    _side_by_side(check, tables)


def _side_by_side(look: Callable[[Table], _T], tables: Iterable[Table]) -> list[_T]:
    """The result of `look` for each table, or the error of the first that fails. Looking waits for files and Spark
    more than it works.
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
    """Put the lake's tables and views under their names (bronze.metadata_polls, silver.partitions_now, ...).

    Tables of a lake of folders become external tables of the session's catalog; those of a catalog are there already.
    `sql`: only what this query may name, since each table is looked at. Returns the names, in order; tables that no job
    has made yet are left out, and views of such tables too. A view of several parts goes without those of such tables,
    all but the first: what has never been written holds no rows. Raises LakeError for a lake that is not ours, or of
    another version: its columns have other names.
    """
    names: list[str] = []
    wanted = _NAMES if sql is None else _named_in(sql)
    prefix = "" if lake.root is not None else f"`{lake.catalog}`."
    for table in (each for each in TABLES if each.full_name in wanted):
        is_there = table_exists(spark, lake, table)
        if is_there and not names:  # one table tells for all of them
            _check_origin(spark, lake, table)
        if lake.root is not None:
            _detach(spark, table)  # or another lake's would answer
            if is_there:
                spark.sql(f"CREATE SCHEMA IF NOT EXISTS {table.schema}")
                spark.sql(f"CREATE TABLE {table.full_name} USING DELTA LOCATION '{lake.path(table)}'")
        if is_there:
            names.append(table.full_name)
    for view in (each for each in VIEWS if each.full_name in wanted):
        parts = [part for part in view.parts if set(names).issuperset(_REFERENCE.findall(part))]
        if view.parts[0] in parts:
            query = _resolve(union_all(parts), lambda name: f"{prefix}{name}")
            spark.sql(f"CREATE OR REPLACE VIEW {prefix}{view.full_name} COMMENT '{view.comment}' AS {query}")
            names.append(view.full_name)
        elif lake.root is not None and spark.catalog.databaseExists(view.schema):
            spark.sql(f"DROP VIEW IF EXISTS {view.full_name}")
    return names


def _named_in(sql: str) -> set[str]:
    """The tables and views whose names are among the words of a query, and what views among them refer to."""
    words = set(re.findall(r"\w+", sql.lower()))
    wanted = {name for name in _NAMES if name.split(".")[1] in words}
    for view in reversed(VIEWS):  # each refers to views before it
        if view.full_name in wanted:
            wanted.update(_REFERENCE.findall(view.query))
    return wanted


def _detach(spark: SparkSession, table: Table) -> None:
    """Take `table`, of this lake or another, out of the catalog; its files stay. Raises LakeError when
    it is not ours.
    """
    if not spark.catalog.tableExists(table.full_name):
        return
    if (
        spark.catalog.getTable(table.full_name).tableType != "EXTERNAL"
        or properties(spark, table.full_name).get(TABLE_PROPERTY) != table.full_name
    ):
        raise LakeError(
            f"the catalog has a table {table.full_name} that attach did not put there; attach this lake in another "
            f"catalog"
        )
    spark.sql(f"DROP TABLE {table.full_name}")


def read_view(spark: SparkSession, lake: Lake, view: View) -> DataFrame:
    """The rows of a view over the lake's tables, without a catalog: views that it refers to are subqueries of it."""
    tables = {table.full_name: table for table in TABLES}
    views = {view.full_name: view for view in VIEWS}

    def named(name: str) -> str:
        return lake.identifier(tables[name]) if name in tables else f"({_resolve(views[name].query, named)}\n)"

    return spark.sql(_resolve(view.query, named))


_REFERENCE = re.compile(r"\{([\w.]+)\}")


def _resolve(query: str, identifier: Callable[[str], str]) -> str:
    """A view's query with each `{schema.name}` replaced."""
    return _REFERENCE.sub(lambda match: identifier(match[1]), query)


def _create(spark: SparkSession, lake: Lake, table: Table) -> None:
    try:
        if lake.catalog is not None:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS `{lake.catalog}`.`{table.schema}`")
        spark.sql(table.create_statement(lake.identifier(table)))
    except Exception as error:
        if _is_made_by_another(spark, lake, table, error):
            return
        if _remove_unfinished(lake, table):
            _create(spark, lake, table)
            return
        raise LakeError(f"{table.full_name} cannot be made in {lake}: {_first_line(error)}") from error


def _is_made_by_another(spark: SparkSession, lake: Lake, table: Table, error: Exception) -> bool:
    """Whether another job made the table meanwhile, or does so within a moment: its folder is there before its first
    commit.
    """
    until = time.monotonic() + (_CREATION_S if "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error) else 0)
    while not (there := table_exists(spark, lake, table)) and time.monotonic() < until:
        time.sleep(_CREATION_S / 20)
    return there


def _remove_unfinished(lake: Lake, table: Table) -> bool:
    """Remove what a run that was killed while it made the table left behind: a log without a commit. Return whether
    there was any.

    Delta makes no table in a folder that is not empty. Only folders of this machine are looked at: object stores have
    no folders of their own that an unfinished commit could leave.
    """
    if lake.root is None or _URI.match(lake.root):
        return False
    folder = Path(lake.path(table))
    log = folder / "_delta_log"
    if not log.is_dir() or any(other != log for other in folder.iterdir()) or any(log.glob("[0-9]*")):
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
    present = {field.name: field.dataType.simpleString() for field in spark.table(lake.identifier(table)).schema}
    for column in table.columns:
        if column.name not in present:
            wrong = f"{table.full_name} in {lake} lacks {column.name}"
        elif present[column.name] != _simple(column.type):
            wrong = f"{table.full_name}.{column.name} in {lake} is {present[column.name]}, not {column.type}"
        else:
            continue
        raise LakeError(f"{wrong}: not a table of this version; take another lake")
    return True


def _check_origin(spark: SparkSession, lake: Lake, table: Table) -> None:
    """Raise LakeError for a table that is not ours, or that another version made."""
    noted = properties(spark, lake.identifier(table))
    if noted.get(TABLE_PROPERTY) != table.full_name:
        was = noted.get(TABLE_PROPERTY, "made by something else")
        raise LakeError(
            f"{lake.identifier(table)} is not our {table.full_name} ({was}); nothing was written, take another lake"
        )
    version = int(noted.get(VERSION_PROPERTY, "0"))
    if version == LAKE_VERSION:
        return
    todo = "upgrade the program"
    if version < LAKE_VERSION:
        todo = "there is no way to upgrade it, take another folder or remove the lake"
    age = "older" if version < LAKE_VERSION else "newer"
    raise LakeError(
        f"{table.full_name} in {lake} has version {version}, {age} than this program's {LAKE_VERSION}: {todo}"
    )


def _simple(ddl: str) -> str:
    """A column's type as DataType.simpleString writes it; nullability within nested types is not Delta's to keep."""
    return DataType.fromDDL(ddl).simpleString()


def _first_line(error: Exception) -> str:
    text = str(error)
    java = re.search(r"(?:Exception|Error): (.+)", text)
    return (java[1] if java else text.splitlines()[0]).strip()
