"""Keeping the tables small: retention of bronze, compaction, and removal of files that nothing refers to."""

import logging
from datetime import timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.common.writes import delete_matching
from schemas import bronze, silver
from schemas.lake import TABLES, Lake, table_exists

log = logging.getLogger("kafka_metadata_history.upkeep")

EVERY_BATCHES = 500
"""Micro-batches between two rounds of upkeep: every four hours at a poll each 30 s."""


def keep_up(spark: SparkSession, lake: Lake, bronze_retention: timedelta) -> None:
    """Drop bronze rows past their retention, compact every table, and vacuum it (files older than a week)."""
    expire_bronze(spark, lake, bronze_retention)
    for table in TABLES:
        if table_exists(spark, lake, table):
            spark.sql(f"OPTIMIZE {lake.identifier(table)}")
            spark.sql(f"VACUUM {lake.identifier(table)}")


def expire_bronze(spark: SparkSession, lake: Lake, retention: timedelta) -> None:
    """Delete the polls of each cluster older than `retention`, whole batches at a time.

    What is left of a cluster begins with a key frame, or the polls after it would say nothing of the topics that did
    not change. Polls that have not become history yet stay, however old.
    """
    settled = (
        lake.read(spark, silver.PROGRESS).where(F.col("settled_poll").isNotNull()).select("cluster", "settled_poll")
    )
    cut = (
        lake.read(spark, bronze.METADATA_POLLS)
        .where((F.col("record") == "poll") & F.col("key_frame"))
        .where(F.col("received_at") < F.current_timestamp() - F.lit(retention))
        .join(F.broadcast(settled), "cluster")
        .where(F.col("poll_id") <= F.col("settled_poll"))
        .groupBy("cluster")
        .agg(F.max("poll_id").alias("first_kept"))
        .localCheckpoint()
    )
    if not cut.isEmpty():
        delete_matching(cut, lake, bronze.METADATA_POLLS, "t.cluster = s.cluster AND t.poll_id < s.first_kept")
        log.info("bronze polls older than %s are gone", retention)
