"""What bronze.group_log has that is not in gold yet, and the place of each row in the order of its partition.

Offsets go back when a log is truncated. So a row's place is the era that it was read in (0, or when the truncation before it was
found, microseconds) and its offset; what was read twice has one place.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs.common.progress import Version
from schemas import bronze
from schemas.lake import Lake

FILES_STAY = timedelta(days=6)
"""VACUUM keeps for a week what compaction has replaced; from then on what a version appended may be gone."""

PARTITION = ("cluster_id", "log_partition")
PLACE = ("era", "place", "is_record")
"""The order of a partition's rows: a gap stands before the record that the log goes on with."""


def candidates(spark: SparkSession, lake: Lake, log: Version, done: Sequence[Row]) -> DataFrame | None:
    """Rows of bronze.group_log that may be new, None where there are none. `done`: rows of gold.group_progress.

    Those that were appended since; all of them where `done` is of another table, or the files between may be gone.
    """
    if not done or any(row.log_table != log.table_id for row in done):
        return log.rows
    first = min(row.log_version for row in done) + 1
    if first > log.number:
        return None
    oldest = _commits(spark, lake, first, log.number)[-1]
    if oldest.version > first or oldest.timestamp.astimezone(UTC) < datetime.now(UTC) - FILES_STAY:
        return log.rows
    return lake.read_appended(spark, bronze.GROUP_LOG, first, log.number)


def _commits(spark: SparkSession, lake: Lake, first: int, last: int) -> list[Row]:
    """The commits of bronze.group_log from version `first` on, newest first; fewer where Delta has forgotten them."""
    number = last - first + 1
    while True:
        commits = spark.sql(f"DESCRIBE HISTORY {lake.identifier(bronze.GROUP_LOG)} LIMIT {number}").collect()
        if commits[-1].version <= first or len(commits) < number:
            return commits
        number = commits[0].version - first + 1  # others were added meanwhile


def offsets_of(progress: DataFrame) -> DataFrame:
    """cluster_id, log_partition, done_era, done_offset: how far rows of gold.group_progress have come with each partition."""
    return progress.select(
        "cluster_id", F.explode("next_offsets").alias("log_partition", "done_offset"), "truncated_at"
    ).select(
        *PARTITION,
        F.coalesce(F.unix_micros(F.col("truncated_at")[F.col("log_partition")]), F.lit(0)).alias("done_era"),
        "done_offset",
    )


def new_rows(rows: DataFrame, offsets: DataFrame) -> DataFrame:
    """Those of `rows` that are beyond `offsets`, with the columns of PLACE and `goes_on_at`, the offset that follows."""
    truncations = (
        rows.where("record = 'truncated'")
        .groupBy(*PARTITION)
        .agg(F.collect_set(F.unix_micros("read_at")).alias("_found"))
    )
    read_at = F.unix_micros("read_at")
    found = F.array_max(F.filter("_found", lambda at: at <= read_at))
    known = F.when(F.col("done_era") <= read_at, F.col("done_era"))
    return (
        rows.join(F.broadcast(offsets), list(PARTITION), "left")
        .join(F.broadcast(truncations), list(PARTITION), "left")
        .withColumns(
            {
                "era": F.coalesce(F.greatest(known, found), F.lit(0)),
                "place": F.when(F.col("record") == "truncated", F.col("next_offset")).otherwise(F.col("offset")),
                "is_record": F.col("record") == "record",
                "goes_on_at": F.coalesce("next_offset", F.col("offset") + 1),
            }
        )
        .where("done_offset IS NULL OR era > done_era OR (era = done_era AND offset >= done_offset)")
        .drop("_found", "done_era", "done_offset")
    )


def offsets_after(new: DataFrame, offsets: DataFrame) -> DataFrame:
    """cluster_id, next_offsets, truncated_at, as gold.group_progress has them, once the rows `new` are done too."""
    ends = new.select(*PARTITION, "era", F.col("goes_on_at").alias("at")).unionByName(
        offsets.select(*PARTITION, F.col("done_era").alias("era"), F.col("done_offset").alias("at"))
    )
    last = ends.groupBy(*PARTITION).agg(F.max(F.struct("era", "at")).alias("_last")).select(*PARTITION, "_last.*")
    at = F.collect_list(F.struct("log_partition", "at"))
    eras = F.collect_list(F.when(F.col("era") > 0, F.struct("log_partition", F.timestamp_micros("era"))))
    return last.groupBy("cluster_id").agg(
        F.map_from_entries(F.array_sort(at)).alias("next_offsets"),
        F.when(F.size(eras) > 0, F.map_from_entries(F.array_sort(eras))).alias("truncated_at"),
    )
