"""Rows of bronze around rebalances: what was committed, and how far behind groups were."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.rounds.history import KEY, Context, Rows, key_of
from jobs.rounds.stage import ddl
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES

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
_NEVER, _EVER = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

CLOCK_BACK = timedelta(minutes=5)
"""If the clock of a job went back by less, no rebalance is passed over."""


def over(context: Context, after: datetime, until: datetime = _EVER) -> list[Row]:
    """Rebalances that are over and were told after a time, up to another, in that order."""
    since = max(after - CLOCK_BACK, _NEVER)
    rows = _rebalances(context).where(
        F.col("ended_before").isNotNull() & (F.col("updated_at") > F.lit(since))
    )
    found = sorted(rows.toArrow().to_pylist(), key=itemgetter("updated_at"))
    return [row for row in found if row["updated_at"] <= until]


def without_cost(context: Context, rebalances: Sequence[Row]) -> list[Row]:
    """Those of some rebalances that have no cost yet."""
    if not rebalances:
        return []
    since = min(row["began_before"] for row in rebalances)
    costs = context.live.read(REBALANCE_COST).where(F.col("began_before") >= F.lit(since))
    costs = costs.where(F.col("rebalance_id").isin([row["id"] for row in rebalances]))
    known = {row[0] for row in costs.select("rebalance_id").collect()}
    return [row for row in rebalances if row["id"] not in known]


def of_groups(context: Context, groups: Iterable[tuple[str, str]], since: datetime) -> list[Row]:
    """Rebalances of groups, by alias and id, that had not ended by some time."""
    near = _rebalances(context).where(F.coalesce("ended_before", "began_before") >= F.lit(since))
    schema = "cluster string, group_id string"
    wanted = F.broadcast(context.spark.createDataFrame(sorted(groups), schema))
    found: list[Row] = near.join(wanted, ["cluster", "group_id"]).toArrow().to_pylist()
    return found


def _rebalances(context: Context) -> DataFrame:
    """Rebalances that may have a cost: share groups commit no offsets."""
    rows = context.lake.read(context.spark, REBALANCES)
    return rows.where("source = 'log' AND group_type <> 'share'").select(*TOLD, "updated_at")


def rows_around(context: Context, told: Sequence[Row], since: datetime) -> list[Rows]:
    """Rebalances of groups, and rows of the log and visits of these groups from `since` on."""
    spark = context.spark
    keyed = [(row, key_of(row["cluster"], row["group_id"])) for row in told]
    groups = {(row["cluster"], row["group_id"], key) for row, key in keyed}
    partitions = {(row["cluster"], row["log_partition"], key) for row, key in keyed}
    of_group, of_partition = (
        F.broadcast(spark.createDataFrame(sorted(rows), f"cluster string, {column}, {KEY} string"))
        for rows, column in ((groups, "group_id string"), (partitions, "log_partition int"))
    )
    rebalances = spark.createDataFrame(
        [tuple(row[name] for name in TOLD) for row in told], ddl(REBALANCES, TOLD)
    ).join(of_group, ["cluster", "group_id"])
    is_recent = (F.col("day") >= F.lit(since.date())) & (F.col("read_at") >= F.lit(since))
    log = context.lake.read(spark, GROUP_LOG).where(is_recent).select("cluster", *_LOGGED)
    commits = log.where("record = 'commits'").join(of_group, ["cluster", "group_id"])
    # These say something of all groups of a partition of the log.
    others = log.where("record IN ('marker', 'lost', 'truncated')").join(
        of_partition, ["cluster", "log_partition"]
    )
    return [
        (REBALANCES, rebalances.select(KEY, *TOLD)),
        *((GROUP_LOG, rows.select(KEY, *_LOGGED)) for rows in (commits, others)),
        *_visits(context, of_group, since),
    ]


def _visits(context: Context, of_group: DataFrame, since: datetime) -> list[Rows]:
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
        .join(of_group, ["cluster", "group_id"])
    )
    return [(METADATA_POLLS, rows.select(KEY, *_VISITED))]
