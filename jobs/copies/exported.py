"""A lake, or one cluster of it, as Parquet: a folder a table, and a manifest last of all."""

import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs.copies.manifest import NAME, Contents, ExportedTable, Manifest
from jobs.copies.parquet import (
    ALIAS,
    contents_of,
    files_of,
    folder_of,
    is_of_clusters,
    types_of,
    write,
)
from jobs.copies.snapshot import rounds_after, versions
from jobs.run.side_by_side import side_by_side
from metadata_source.text import counted
from schemas.in_spark import check_read, stored_table
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, Lake, LakeError, version_of
from schemas.table import Column, Table

NOTHING = Contents(0, {}, {})
"""Of a table without rows."""


def exported(
    spark: SparkSession, lake: Lake, place: str, cluster: str | None = None
) -> Iterator[str]:
    """Write all tables of a lake to `place`/SCHEMA.TABLE, and yield a line for each. `cluster`: the
    rows of this alias alone, and tables without rows where they are of no cluster.

    A folder without a manifest is no whole export. Rounds may be made meanwhile. Raises LakeError
    for a lake that cannot be read, and a place that has something in it.
    """
    folder = folder_of(spark, place)
    if folder.names():
        raise LakeError(f"--to {place}: something is there; nothing was written")
    tables = [*filter(None, side_by_side(partial(stored_table, spark, lake), TABLES))]
    if not tables:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    check_read(spark, lake)
    details = dict(zip(tables, side_by_side(partial(_detail, spark, lake), tables), strict=True))
    version = _version(lake, details)
    frames = _frames(spark, lake, versions(spark, lake, tables), cluster)
    side_by_side(
        lambda table: write(frames[table], place, table.full_name),
        [table for table in tables if details[table].numFiles],
    )
    files = files_of(spark, place, [table.full_name for table in tables])
    found, clusters = contents_of(spark, place, files)
    there = {
        table.full_name: _exported(
            table, frames[table], details[table], found.get(table.full_name, NOTHING)
        )
        for table in tables
    }
    yield from (f"{name}: {counted(each.rows, 'row')}" for name, each in there.items() if each.rows)
    id_ = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    folder.write(NAME, Manifest(id_, version, clusters, there).text)
    yield (
        f"{place}: {len(tables)} tables of a lake of version {version}, with "
        f"{', '.join(clusters) or 'no cluster'}; {NAME} says what is in them"
    )


def _detail(spark: SparkSession, lake: Lake, table: Table) -> Row:
    return spark.sql(f"DESCRIBE DETAIL {lake.identifier(table)}").collect()[0]


def _version(lake: Lake, details: Mapping[Table, Row]) -> int:
    """The version of a lake, by the properties of all of its tables."""
    found = {version_of(each.properties, lake, table) for table, each in details.items()}
    if len(found) > 1:
        raise LakeError(
            f"{lake}: tables have versions {', '.join(map(str, sorted(found)))}: an upgrade has "
            "not ended; nothing was written"
        )
    return found.pop()


def _frames(
    spark: SparkSession, lake: Lake, at: Mapping[Table, int], cluster: str | None
) -> dict[Table, DataFrame]:
    """The rows of each table in its version; with `cluster` its own alone."""
    frames = {table: lake.read_version(spark, table, version) for table, version in at.items()}
    if {ROUNDS, STATE} <= {*at}:
        # Of a round that is planned, and not done, no table has rows: nobody may finish it.
        later = rounds_after(spark, lake, at[STATE])
        frames[ROUNDS] = frames[ROUNDS].where(~F.col("round").isin(later))
    if cluster is None:
        return frames
    known = {
        row[0]
        for table, rows in frames.items()
        if table.name in ("states", "metadata_polls", "group_log", "cluster_log", "transaction_log")
        for row in rows.select(ALIAS).distinct().collect()
    } - {""}
    if cluster not in known:
        raise LakeError(
            f"--cluster {cluster}: {lake} has {', '.join(sorted(known)) or 'none'}; nothing was "
            "written"
        )
    # Rows of internal.states of no cluster say how far a history is with all of them.
    return {
        table: rows.where(F.col(ALIAS).isin(cluster, "") if is_of_clusters(rows) else F.lit(False))
        for table, rows in frames.items()
    }


def _exported(table: Table, rows: DataFrame, detail: Row, found: Contents) -> ExportedTable:
    generated = {each.name: each.generated_as for each in table.columns}
    types = types_of(rows)
    columns = {
        field.name: Column(
            field.name,
            types[field.name],
            field.metadata.get("comment", ""),
            field.nullable,
            generated.get(field.name),
        )
        for field in rows.schema
    }
    return ExportedTable(
        found.rows,
        found.files,
        detail.description or "",
        columns,
        tuple(detail.partitionColumns),
        dict(detail.properties),
    )
