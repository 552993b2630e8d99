"""The rows of an export by the tables of this version."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import Config
from jobs.copies.manifest import Manifest
from jobs.copies.parquet import read
from schemas.lake import TABLES, LakeError
from schemas.table import LAKE_VERSION, Table


@contextmanager
def of_this_version(
    spark: SparkSession, config: Config, manifest: Manifest, place: str
) -> Iterator[Mapping[Table, DataFrame]]:
    """The rows of an export, by the tables of this version."""
    if manifest.lake_version != LAKE_VERSION:
        raise LakeError("older")
    yield {
        table: read(spark, place, table.full_name)
        for table in TABLES
        if table.full_name in manifest.tables and manifest.tables[table.full_name].files
    }
