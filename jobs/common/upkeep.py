"""Keeping the tables small: retention of bronze, compaction, and removal of files that nothing refers to."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from jobs.common.writes import delete_matching
from schemas import bronze, gold, silver
from schemas.lake import TABLES, Lake, properties, table_exists
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.upkeep")

EVERY = timedelta(hours=6)
"""Time between two rounds of upkeep, whoever runs: a query that goes on and on, or one run after another."""

_KEPT_UP_AT = "kafkaMetadataHistory.keptUpAt"


def next_due(spark: SparkSession, lake: Lake) -> datetime:
    """When the next round of upkeep is due. The last one is noted on silver.progress; a new lake counts from now on."""
    last = properties(spark, lake.identifier(silver.PROGRESS)).get(_KEPT_UP_AT)
    return (datetime.fromisoformat(last) if last else _note(spark, lake)) + EVERY


def keep_up(spark: SparkSession, lake: Lake, bronze_retention: timedelta) -> None:
    """Drop bronze rows past their retention, compact every table, and vacuum it (files older than a week).

    Not while a stream still has to read files older than that: VACUUM takes what OPTIMIZE has replaced.
    """
    expire_bronze(spark, lake, bronze_retention)
    expire_group_log(spark, lake, bronze_retention)

    def compact(table: Table) -> None:
        if table_exists(spark, lake, table):
            spark.sql(f"OPTIMIZE {lake.identifier(table)}")
            spark.sql(f"VACUUM {lake.identifier(table)}")

    # Most tables have little to do, and listing their files waits more than it works.
    with ThreadPoolExecutor(4, "upkeep") as side_by_side:
        list(side_by_side.map(compact, TABLES))
    _note(spark, lake)


def _note(spark: SparkSession, lake: Lake) -> datetime:
    now = datetime.now(UTC)
    noted = f"'{_KEPT_UP_AT}' = '{now.isoformat(timespec='seconds')}'"
    spark.sql(f"ALTER TABLE {lake.identifier(silver.PROGRESS)} SET TBLPROPERTIES ({noted})")
    return now


def expire_bronze(spark: SparkSession, lake: Lake, retention: timedelta) -> None:
    """Delete the polls of each cluster that are older than `retention` and were taken into history, oldest first.

    A poll that is no key frame says only what changed since: its key frame stays as long as it does.
    """
    taken = lake.read(spark, silver.PROGRESS).select("cluster", F.explode("seen").alias("stream", "taken"))
    so_far = Window.partitionBy("cluster").orderBy("poll_id")
    frame = F.last(F.when(F.col("key_frame"), F.col("poll_id")), ignorenulls=True).over(so_far)
    is_free = (F.col("n") <= F.col("taken")) & (F.col("scheduled_at") < F.current_timestamp() - F.lit(retention))
    cut = (
        lake.read(spark, bronze.METADATA_POLLS)
        .where("record = 'poll'")
        .join(F.broadcast(taken), ["cluster", "stream"], "left")
        .withColumn("needs", F.when(F.col("outcome") == "ok", frame).otherwise(F.col("poll_id")))
        .groupBy("cluster")
        .agg(
            F.min(F.when(~F.coalesce(is_free, F.lit(False)), F.col("needs"))).alias("first_kept"),
            F.min("poll_id").alias("first"),
            F.max("poll_id").alias("last"),
        )
        .where("first_kept IS NULL OR first < first_kept")
        .localCheckpoint()
    )
    if not cut.isEmpty():
        gone = "t.poll_id < s.first_kept OR (s.first_kept IS NULL AND t.poll_id <= s.last)"
        delete_matching(cut, lake, bronze.METADATA_POLLS, f"t.cluster = s.cluster AND ({gone})")
        log.info("bronze polls older than %s are gone", retention)


def expire_group_log(spark: SparkSession, lake: Lake, retention: timedelta) -> None:
    """Delete the rows of the coordinators' log that were read longer ago than `retention` and were taken into history."""
    if not (table_exists(spark, lake, bronze.GROUP_LOG) and table_exists(spark, lake, gold.GROUP_PROGRESS)):
        return
    done = lake.read(spark, gold.GROUP_PROGRESS).select(
        "cluster",
        F.explode("next_offsets").alias("log_partition", "done"),
        (F.current_timestamp() - F.lit(retention)).alias("before"),
    )
    is_done = "coalesce(t.next_offset, t.offset + 1) <= s.done AND t.read_at < s.before"
    delete_matching(
        done, lake, bronze.GROUP_LOG, f"t.cluster = s.cluster AND t.log_partition = s.log_partition AND {is_done}"
    )
