"""The rows of an export by the tables of this version. Those of an older one are put into a lake of
that version first, which is upgraded as any other, and removed afterwards.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import Config
from jobs.copies.manifest import ExportedTable, Manifest
from jobs.copies.parquet import read
from jobs.run.driver import delete_folder
from jobs.run.side_by_side import side_by_side
from jobs.upkeep.upgrade import upgrade
from schemas.in_spark import table_exists
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, Lake
from schemas.table import LAKE_VERSION, Table, sql_string


@contextmanager
def of_this_version(
    spark: SparkSession, config: Config, manifest: Manifest, place: str
) -> Iterator[Mapping[Table, DataFrame]]:
    """The rows of an export, by the tables of this version; of those alone that have some."""
    if manifest.lake_version == LAKE_VERSION:
        yield {
            table: read(spark, place, table.full_name)
            for table in TABLES
            if table.full_name in manifest.tables and manifest.tables[table.full_name].files
        }
        return
    # Where checkpoints are, there is room that all of Spark reaches.
    lake = Lake(root=f"{config.checkpoints.rstrip('/')}/import-{manifest.id}")
    delete_folder(spark, str(lake))  # of a run that was killed
    try:
        _make(spark, lake, manifest, place)
        for _ in upgrade(spark, lake):
            pass
        yield {
            table: lake.read(spark, table) for table in TABLES if table_exists(spark, lake, table)
        }
    finally:
        delete_folder(spark, str(lake))


def _make(spark: SparkSession, lake: Lake, manifest: Manifest, place: str) -> None:
    """Make the lake that was exported, without the tables that had no rows."""

    def make(name: str) -> None:
        table, to = manifest.tables[name], f"{lake.root}/{name.replace('.', '/')}"
        spark.sql(create_statement(table, f"delta.`{to}`"))
        if table.files:
            given = [column.name for column in table.columns.values() if not column.generated_as]
            read(spark, place, name).select(*given).write.format("delta").mode("append").save(to)

    needed = {ROUNDS.full_name, STATE.full_name}  # by an upgrade
    side_by_side(make, [name for name, of in manifest.tables.items() if of.files or name in needed])


def create_statement(table: ExportedTable, identifier: str) -> str:
    """CREATE TABLE as the table was in the lake."""
    columns = ",\n  ".join(column.ddl for column in table.columns.values())
    by = ", ".join(table.partition_by)
    properties = ", ".join(
        f"{sql_string(key)} = {sql_string(value)}" for key, value in table.properties.items()
    )
    return (
        f"CREATE TABLE {identifier} (\n  {columns}\n) USING DELTA"
        f"{f' PARTITIONED BY ({by})' if by else ''} COMMENT {sql_string(table.comment)} "
        f"TBLPROPERTIES ({properties})"
    )
