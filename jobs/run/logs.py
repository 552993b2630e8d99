"""The logs that are read beside polls: those of coordinators, and the controllers'."""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.run.reading import FollowedLog
from metadata_source.errors import ClusterLogError, GroupLogError, TransactionLogError
from schemas import bronze, transactions
from schemas.in_spark import read_view
from schemas.internal import STATE_NOW
from schemas.lake import Lake


def group_log_options(
    spark: SparkSession, config: Config, ids: Mapping[str, str]
) -> dict[str, str]:
    """Options of `kafka_group_log`, with where each log continues if its checkpoint is lost."""
    resume_at = group_log_read_up_to(spark, config.lake, config.clusters)
    return config.group_log_options(ids) | _resumed(resume_at)


def group_log_read_up_to(
    spark: SparkSession, lake: Lake, clusters: Iterable[str]
) -> dict[str, dict[str, int]]:
    """By alias and partition, the offset up to which history has the log."""
    states = read_view(spark, lake, STATE_NOW).where(F.col("cluster").isin(list(clusters)))
    taken = states.where("size(positions) > 0").select("cluster", "positions")
    return {
        row.cluster: {partition: offset for partition, (_, offset) in row.positions.items()}
        for row in taken.collect()
    }


def transaction_log_options(
    spark: SparkSession, config: Config, ids: Mapping[str, str]
) -> dict[str, str]:
    """Options of `kafka_transaction_log`, with where each log continues if its checkpoint is
    lost.
    """
    resume_at = transaction_log_read_up_to(spark, config.lake, config.clusters)
    return config.transaction_log_options(ids) | _resumed(resume_at)


def transaction_log_read_up_to(
    spark: SparkSession, lake: Lake, clusters: Iterable[str]
) -> dict[str, dict[str, int]]:
    """By alias and partition, the offset up to which bronze has the log."""
    spans = lake.read(spark, transactions.TRANSACTION_LOG).where(
        "record IN ('read', 'lost', 'truncated')"
    )
    # Of a batch that was cut off, and read on from there, the next one has the row.
    newest = F.max_by("next_offset", F.struct("read_at", "next_offset"))
    found = (
        spans.where(F.col("cluster").isin(list(clusters)))
        .groupBy("cluster", "log_partition")
        .agg(newest.alias("offset"))
    )
    offsets: dict[str, dict[str, int]] = {}
    for row in found.collect():
        offsets.setdefault(row.cluster, {})[str(row.log_partition)] = row.offset
    return offsets


def cluster_log_options(
    spark: SparkSession, config: Config, ids: Mapping[str, str]
) -> dict[str, str]:
    """Options of `kafka_cluster_log`, with where each log continues if its checkpoint is lost."""
    resume_at = {
        alias: {"0": offset}
        for alias, offset in cluster_log_read_up_to(spark, config.lake, config.clusters).items()
    }
    return config.cluster_log_options(ids) | _resumed(resume_at)


def cluster_log_read_up_to(
    spark: SparkSession, lake: Lake, clusters: Iterable[str]
) -> dict[str, int]:
    """By alias, the offset up to which bronze has the log; not where it was cut off since: it is
    read as a new one.
    """
    spans = lake.read(spark, bronze.CLUSTER_LOG).where(
        "record = 'span' AND snapshot_offset IS NULL"
    )
    spans = spans.where(F.col("cluster").isin(list(clusters)))
    # A log that was cut off was read to an offset that it may not reach again for long.
    newest = F.max_by(F.struct("next_offset", "went"), F.struct("read_at", "next_offset"))
    found = (
        spans.groupBy("cluster").agg(newest.alias("newest")).select("cluster", "newest.*").collect()
    )
    return {row.cluster: row.next_offset for row in found if row.went != "truncated"}


def _resumed(resume_at: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    return {"resumeAt": json.dumps(resume_at)} if resume_at else {}


FOLLOWED_GROUP_LOG = FollowedLog(
    query="read_group_log",
    source="kafka_group_log",
    table=bronze.GROUP_LOG,
    error=GroupLogError,
    clusters=lambda config: list(config.clusters),
    options=group_log_options,
)

FOLLOWED_TRANSACTION_LOG = FollowedLog(
    query="read_transaction_log",
    source="kafka_transaction_log",
    table=transactions.TRANSACTION_LOG,
    error=TransactionLogError,
    clusters=lambda config: list(config.clusters),
    options=transaction_log_options,
)

FOLLOWED_CLUSTER_LOG = FollowedLog(
    query="read_cluster_log",
    source="kafka_cluster_log",
    table=bronze.CLUSTER_LOG,
    error=ClusterLogError,
    clusters=lambda config: config.with_controllers,
    options=cluster_log_options,
)


def logs_of(config: Config) -> list[FollowedLog]:
    """The logs that the configuration asks for."""
    given = (
        (FOLLOWED_GROUP_LOG, config.group_log),
        (FOLLOWED_TRANSACTION_LOG, config.transaction_log),
        (FOLLOWED_CLUSTER_LOG, config.cluster_log),
    )
    return [log for log, options in given if options is not None]
