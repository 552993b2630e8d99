"""Lakes for tests: their tables are made once, and copied. Making one takes Spark longer than many a test."""

import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from schemas import bronze, silver
from schemas.lake import TABLES, Lake, ensure_tables
from schemas.table import Table

UP_TO_SILVER = (*bronze.TABLES, *silver.TABLES)


def new_lake(spark: SparkSession, folder: Path, tables: Iterable[Table] = TABLES) -> Lake:
    """A lake in `folder` with these tables, empty."""
    lake = Lake(root=str(folder))
    empty = Lake(root=_empty(spark).name)
    for table in tables:
        shutil.copytree(empty.path(table), lake.path(table))
    return lake


@cache
def _empty(spark: SparkSession) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="empty-lake-")
    ensure_tables(spark, Lake(root=folder.name), TABLES)
    return folder
