"""Rows of bronze around rebalances: what was committed, and how far behind groups were."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.rounds.history import KEY, Context, Rows, key_of
from jobs.rounds.stage import ddl
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.groups import REBALANCES_TOLD

TOLD = (
    *("id", "cluster_id", "cluster", "group_id", "log_partition", "first_offset", "last_offset"),
    *("began_before", "ended_before", "end_reason", "prev_members", "since_previous_ms"),
)
_LOGGED = (
    *("cluster_id", "log_partition", "record", "offset", "next_offset", "group_id", "producer_id"),
    *("is_committed", "chunk", "timestamp", "read_at", "offset_commits"),
)
_VISITED = (
    *("group_id", "topic", "partition", "committed_offset", "log_start", "log_end"),
    *("commit_read_after", "commit_read_before", "ends_read_after", "ends_read_before"),
)

Row = dict[str, Any]


def rows_around(context: Context, told: Sequence[Row], since: datetime) -> list[Rows]:
    """Rebalances of groups, and rows of the log and visits of these groups from `since` on."""
    spark = context.spark
    groups = {
        (row["cluster"], row["group_id"]): key_of(row["cluster"], row["group_id"]) for row in told
    }
    partitions = {
        (row["cluster"], row["log_partition"], key_of(row["cluster"], row["group_id"]))
        for row in told
    }
    of_groups = F.broadcast(
        spark.createDataFrame(
            [(*group, key) for group, key in sorted(groups.items())],
            f"cluster string, group_id string, {KEY} string",
        )
    )
    of_partitions = F.broadcast(
        spark.createDataFrame(
            sorted(partitions), f"cluster string, log_partition int, {KEY} string"
        )
    )
    rebalances = spark.createDataFrame(
        [tuple(row[name] for name in TOLD) for row in told], ddl(REBALANCES_TOLD, TOLD)
    ).join(of_groups, ["cluster", "group_id"])
    is_recent = (F.col("day") >= F.lit(since.date())) & (F.col("read_at") >= F.lit(since))
    log = context.lake.read(spark, GROUP_LOG).where(is_recent).select("cluster", *_LOGGED)
    commits = log.where("record = 'commits'").join(of_groups, ["cluster", "group_id"])
    # These say something of all groups of a partition of the log.
    others = log.where("record IN ('marker', 'lost', 'truncated')").join(
        of_partitions, ["cluster", "log_partition"]
    )
    return [
        (REBALANCES_TOLD, rebalances.select(KEY, *TOLD)),
        *((GROUP_LOG, rows.select(KEY, *_LOGGED)) for rows in (commits, others)),
        *_visits(context, of_groups, since),
    ]


def _visits(context: Context, of_groups: DataFrame, since: datetime) -> list[Rows]:
    """The visits of groups from `since` on; none where nobody asks."""
    spark = context.spark
    polls = context.lake.read(spark, METADATA_POLLS).where(F.col("day") >= F.lit(since.date()))
    headers = polls.where("record = 'answer' AND kind = 'offsets'").where(
        F.col("scheduled_at") >= F.lit(since)
    )
    # Each cluster has numbers of its own.
    number = F.struct("stream", "n")
    asked = headers.groupBy("cluster").agg(F.min(number).alias("_first")).collect()
    if not asked:
        return []
    of_clusters = spark.createDataFrame(
        asked, "cluster string, _first struct<stream: string, n: bigint>"
    )
    # Files have statistics of these two.
    first = min(each["_first"] for each in asked)
    is_later = (F.col("stream") > first.stream) | (
        (F.col("stream") == first.stream) & (F.col("n") >= first.n)
    )
    offsets = (
        polls.where("record = 'offsets'").where(is_later).join(F.broadcast(of_clusters), "cluster")
    )
    offsets = offsets.where(number >= F.col("_first")).select(
        "cluster", F.explode("offsets").alias("_of")
    )
    rows = (
        offsets.select("cluster", "_of.*")
        .where("topic IS NOT NULL")
        .join(of_groups, ["cluster", "group_id"])
    )
    return [(METADATA_POLLS, rows.select(KEY, *_VISITED))]
