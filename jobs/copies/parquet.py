"""The Parquet of an export, by Spark alone: it lies wherever Spark reads and writes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.copies.manifest import Contents, File
from jobs.run.driver import JAVA_ERRORS, Folder, java_cause
from jobs.run.side_by_side import side_by_side
from schemas.lake import LakeError

_FAILED: tuple[type[Exception], ...] = (PySparkException, *JAVA_ERRORS)

ALIAS, ID = "cluster", "cluster_id"


def folder_of(spark: SparkSession, place: str) -> Folder:
    """The files of a place. Raises LakeError in a session of Spark Connect, which reaches none."""
    folder = Folder.of(spark, place)
    if folder is None:
        raise LakeError(
            f"{place}: a session of Spark Connect cannot reach files; unset SPARK_REMOTE, or take "
            "spark-submit"
        )
    return folder


def read(spark: SparkSession, place: str, name: str) -> DataFrame:
    """The rows of a table."""
    return spark.read.parquet(f"{place}/{name}")


def write(rows: DataFrame, place: str, name: str) -> None:
    """Write the rows of a table to files."""
    # Spark writes times as INT96 by itself, which readers take for nanoseconds without a zone.
    rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows.write.parquet(f"{place}/{name}")


def files_of(spark: SparkSession, place: str, names: Iterable[str]) -> dict[str, dict[str, File]]:
    """The files of those tables that have some."""
    there = set(folder_of(spark, place).names())
    folders = [f"{place}/{name}" for name in names if name in there]
    if not folders:
        return {}
    files = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(folders)
    found: dict[str, dict[str, File]] = defaultdict(dict)
    try:
        rows = files.selectExpr("path", "length", "sha2(content, 256)").collect()
    except _FAILED as error:
        # Where Hadoop has written the files, it has kept checksums beside them.
        if "ChecksumException" not in java_cause(error):
            raise
        raise LakeError(
            f"{place}: a file has other bytes than were written; nothing was written: "
            f"{java_cause(error).splitlines()[0]}"
        ) from error
    for path, length, sha256 in rows:
        name, file = unquote(path).split("/")[-2:]
        found[name][file] = File(length, sha256)
    return found


def contents_of(
    spark: SparkSession, place: str, files: Mapping[str, Mapping[str, File]]
) -> tuple[dict[str, Contents], dict[str, tuple[str, ...]]]:
    """The contents of each table that has files, and the ids of each cluster of which there are
    rows, by alias.
    """
    frames = dict(
        zip(files, side_by_side(lambda name: read(spark, place, name), files), strict=True)
    )
    ids: dict[str, set[str]] = defaultdict(set)
    rows: dict[str, int] = defaultdict(int)
    for name, alias, id_, count in _counted(frames):
        rows[name] += count
        if alias:  # rows of internal.states are of no cluster, too
            ids[alias].update([id_] if id_ is not None else [])
    contents = {
        name: Contents(rows[name], types_of(frame), files[name]) for name, frame in frames.items()
    }
    return contents, {alias: tuple(sorted(found)) for alias, found in sorted(ids.items())}


def types_of(frame: DataFrame) -> dict[str, str]:
    """The types of columns, as Spark SQL writes them."""
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def is_of_clusters(frame: DataFrame) -> bool:
    """Whether each row is of a cluster."""
    return {ALIAS, ID} <= {*frame.columns}


def _counted(frames: Mapping[str, DataFrame]) -> list[Any]:
    """How many rows each table has of each cluster: its name, alias, id and count."""
    found = []
    for name, frame in frames.items():
        of, none = ((ALIAS, ID), ()) if is_of_clusters(frame) else ((), ("NULL", "NULL"))
        counts = frame.groupBy(*of).count()
        found.append(counts.selectExpr(f"'{name}'", *(of or none), "count"))
    return reduce(DataFrame.union, found).collect() if found else []
