"""Finalized feature levels of a cluster at a poll: they decide what leader epochs and settings mean."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.rules.events import held_at


def with_finalized_levels(rows: DataFrame, clusters: DataFrame) -> DataFrame:
    """Add the levels at `poll`, null while unknown: metadata_version_level, lower_level and elr_version_level.

    `lower_level` is the lower one of metadata.version at the poll and at the one before it. `clusters`: rows of
    silver.cluster_snapshots.
    """
    now, before = F.col("metadata_version_level"), F.col("prev_metadata_version_level")
    held = clusters.select(
        F.col("cluster_id").alias("_cluster_id"),
        F.col("first_poll").alias("_from"),
        F.col("superseded_poll").alias("_to"),
        "metadata_version_level",
        "prev_metadata_version_level",
        "elr_version_level",
    )
    lower = F.when(F.col("_from") < F.col("poll"), now).when(before.isNotNull(), F.least(now, before))
    joined = rows.join(
        F.broadcast(held), (F.col("cluster_id") == F.col("_cluster_id")) & held_at("poll", "_from", "_to"), "left"
    )
    return joined.withColumn("lower_level", lower).drop("_cluster_id", "_from", "_to", "prev_metadata_version_level")
