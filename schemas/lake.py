"""A lake: where its tables and views lie, and what it is called. Spark (`schemas/in_spark.py`) and
DuckDB (`schemas/in_duckdb.py`) open it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from metadata_source.errors import KafkaMetadataHistoryError
from schemas import (
    bronze,
    consumption,
    gold,
    groups,
    incidents,
    internal,
    quality,
    silver,
    storage,
    transactions,
    views,
)
from schemas.table import (
    LAKE_VERSION,
    OLDEST_UPGRADED,
    TABLE_PROPERTY,
    VERSION_PROPERTY,
    Table,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

TABLES: tuple[Table, ...] = (
    *bronze.TABLES,
    *silver.TABLES,
    *gold.TABLES,
    gold.MARKS,
    *groups.TABLES,
    *consumption.TABLES,
    *consumption.LAG_TABLES,
    *transactions.TABLES,
    *transactions.HISTORY_TABLES,
    storage.STORAGE,
    *incidents.TABLES,
    *quality.TABLES,
    *internal.TABLES,
)
VIEWS: tuple[View, ...] = bronze.VIEWS + transactions.VIEWS + internal.VIEWS + views.VIEWS
"""In an order in which each refers to tables and to views before it."""
NAMES = frozenset((*(table.full_name for table in TABLES), *(view.full_name for view in VIEWS)))

UPGRADE_PROPERTY: Final = "kafkaMetadataHistory.upgrade"
"""Of internal.states, whose version is the lake's: JSON that says since when the lake is being
upgraded, or taken back, and when that was done.
"""
UPGRADE: Final = "`kafka-metadata-history upgrade`"

_S3: Final = re.compile(r"(s3[an]?):", re.IGNORECASE)
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_OBJECT_STORE: Final = re.compile(r"(s3[an]?|gs|abfss?|az)://[^/]", re.IGNORECASE)
"""The stores that delta-rs reads."""


class LakeError(KafkaMetadataHistoryError, ValueError):
    """Raised for a lake that is foreign, of another version, or cannot be written. One line."""


class OlderLakeError(LakeError):
    """Raised for tables that came after the version of the lake, which has none yet. One line."""


@dataclass(frozen=True)
class Lake:
    """Where the tables are: in folders under `root` (a path or URI), or in schemas of `catalog`.
    `storage`: options of an object store, by delta-rs' names; secrets are references.
    """

    root: str | None = None
    catalog: str | None = None
    storage: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if (self.root is None) == (self.catalog is None):
            raise LakeError(
                "a lake is either a folder (root) or a catalog, not both and not neither"
            )
        # Delta's readers without Spark take `%20` in the name of a folder for a space.
        if odd := set("'`{}\"\\\n" if self.is_uri else "'`{}\"\\\n%").intersection(str(self)):
            raise LakeError(
                f"{self}: {' '.join(sorted(odd))} cannot be in the name of a lake; SQL could not "
                "name its tables"
            )

    def __str__(self) -> str:
        return self.root if self.root is not None else f"catalog {self.catalog}"

    @property
    def is_uri(self) -> bool:
        """Whether its folders are named by a URI, and may be on another machine."""
        return self.root is not None and _URI.match(self.root) is not None

    @property
    def is_folder(self) -> bool:
        """Whether its tables are in folders of this machine."""
        return self.root is not None and not self.is_uri

    @property
    def is_object_store(self) -> bool:
        """Whether its tables are in an object store that is read without a JVM."""
        return self.root is not None and _OBJECT_STORE.match(self.root) is not None

    @property
    def log_store(self) -> str | None:
        """The setting that says how commits of several drivers are kept apart, which a lake on S3
        needs; None for all others. Without it Delta lets two drivers write the same version of a
        table, and the rows of one are lost without a word
        (https://docs.delta.io/latest/delta-storage.html).
        """
        scheme = _S3.match(self.root or "")
        return None if scheme is None else f"spark.delta.logStore.{scheme[1].lower()}.impl"

    @property
    def exists(self) -> bool:
        """Whether any of its tables lies in its folder, which is of this machine."""
        return any(Path(self.path(table), "_delta_log").is_dir() for table in TABLES)

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
        """The rows that versions `first` to `last` of `table` appended, each with the VERSION that
        did; compaction and deletions are passed over.
        """
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        rows = self._load(
            feed.option("startingVersion", first).option("endingVersion", last), table
        )
        return rows.where("_change_type = 'insert'").drop("_change_type", "_commit_timestamp")

    def _load(self, reader: DataFrameReader, table: Table) -> DataFrame:
        return (
            reader.load(self.path(table))
            if self.root is not None
            else reader.table(self.identifier(table))
        )


VERSION: Final = "_commit_version"
"""Column of Delta's: the version that appended a row."""

REFERENCE: Final = re.compile(r"\{([\w.]+)\}")
"""How a view's query names a table or another view."""


def resolved(query: str, identifier: Callable[[str], str]) -> str:
    """A view's query with each `{schema.name}` replaced."""
    return REFERENCE.sub(lambda match: identifier(match[1]), query)


def named_in(sql: str) -> set[str]:
    """The tables and views that words of a query name, and those that these views refer to."""
    words = set(re.findall(r"\w+", sql.lower()))
    wanted = {name for name in NAMES if name.split(".")[1] in words}
    for view in reversed(VIEWS):  # each refers to views before it
        if view.full_name in wanted:
            wanted.update(REFERENCE.findall(view.query))
    return wanted


def check_origin(noted: Mapping[str, str], lake: Lake, table: Table) -> None:
    """Raise LakeError for a foreign table, or one of another version. `noted`: its properties."""
    version = version_of(noted, lake, table)
    if version < LAKE_VERSION:
        raise LakeError(
            f"{table.full_name} in {lake} has version {version}, older than this program's "
            f"{LAKE_VERSION} (`query` and `export` read it): {older_todo(version)}"
        )


def older_todo(version: int) -> str:
    """The way out for a lake of an older version."""
    return (
        f"{UPGRADE} makes it one of this version"
        if version >= OLDEST_UPGRADED
        else "there is no way to upgrade it, take another folder or remove the lake"
    )


def check_whole(noted: Mapping[str, str], lake: Lake) -> None:
    """Raise LakeError for a lake that is half upgraded, or half taken back: its tables are of two
    versions. `noted`: the properties of internal.states.
    """
    note = json.loads(noted.get(UPGRADE_PROPERTY, "{}"))
    if "undo" in note:
        raise LakeError(
            f"{lake} is half taken back to version {note['from']}: run "
            "`kafka-metadata-history upgrade --undo` to its end"
        )
    if note and "done" not in note:
        raise LakeError(
            f"{lake} is half upgraded from version {note['from']}, since {note['began']}: run "
            f"{UPGRADE} to its end"
        )


def version_of(noted: Mapping[str, str], lake: Lake, table: Table) -> int:
    """The version of a table, this one or an older one, which can be read. `noted`: its properties.
    Raises LakeError for a table that is not ours, or that a newer version made.
    """
    was = noted.get(TABLE_PROPERTY, "made by something else")
    if was not in (table.full_name, table.was):
        raise LakeError(
            f"{lake.identifier(table)} is not our {table.full_name} ({was}); nothing was written, "
            "take another lake"
        )
    version = int(noted.get(VERSION_PROPERTY, "0"))
    if version > LAKE_VERSION:
        raise LakeError(
            f"{table.full_name} in {lake} has version {version}, newer than this program's "
            f"{LAKE_VERSION}: upgrade the program"
        )
    return version
