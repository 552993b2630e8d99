"""What topics say of a rebalance: the names behind their ids, and the partitions that nobody has. Pure: DataFrames in and out."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MEMBER = ("rebalance_id", "member_id")
_HAD = ("before", "after")


def with_names(members: DataFrame, topics: DataFrame) -> DataFrame:
    """`members`, rows of gold.rebalance_members, with the names of topics that they know by id alone, null where nothing tells them.

    `topics`: rows of silver.topic_snapshots.
    """
    ids = F.array_distinct(F.flatten(F.array(*(F.coalesce(F.col(had).topic_id, F.array()) for had in _HAD))))
    names = topics.where("topic_id IS NOT NULL").select("cluster_id", "topic_id", "topic").distinct()
    known = (
        members.select("cluster_id", *_MEMBER, F.explode(ids).alias("topic_id"))
        .join(names, ["cluster_id", "topic_id"])
        .groupBy(*_MEMBER)
        .agg(F.map_from_entries(F.collect_list(F.struct("topic_id", "topic"))).alias("_names"))
    )

    def named(each: Column) -> Column:
        name = F.coalesce(each.topic, F.col("_names")[each.topic_id])
        return F.struct(name.alias("topic"), each.topic_id.alias("topic_id"), each.partitions.alias("partitions"))

    joined = members.join(known, list(_MEMBER), "left")
    return joined.withColumns({had: F.transform(had, named) for had in _HAD}).drop("_names")


def with_unassigned(rebalances: DataFrame, members: DataFrame, topics: DataFrame) -> DataFrame:
    """Set `unassigned`: partitions of subscribed topics that no member has; null where a topic's number of partitions is not known.

    `rebalances`: with `subscribed`, null where it is not known. `members`: theirs, by name. `topics`: rows of
    silver.topic_snapshots, at least those that held at the ends of the rebalances. Where polls first saw a topic only later, what
    they saw first counts if it may have been so already.
    """
    at = F.coalesce("ended_by", "began_by")
    wanted = rebalances.where("subscribed IS NOT NULL").select(
        "id", "cluster_id", at.alias("_at"), F.explode_outer("subscribed").alias("topic")
    )
    held = topics.select(
        "cluster_id",
        "topic",
        "partition_count",
        "first_poll",
        F.coalesce("prev_sent_at", "first_seen_at").alias("_from"),
        F.col("superseded_at").alias("_to"),
    )
    counts = (
        wanted.join(held, ["cluster_id", "topic"], "left")
        .groupBy("id", "topic")
        .agg(F.min_by("partition_count", F.when(_held(), F.col("first_poll"))).alias("_partitions"))
    )
    had = members.select(F.col("rebalance_id").alias("id"), F.explode("after").alias("_had")).select(
        "id", F.col("_had.topic").alias("topic"), "_had.partitions"
    )
    assigned = (
        had.select("id", "topic", F.explode("partitions").alias("_partition"))
        .groupBy("id", "topic")
        .agg(F.count_distinct("_partition").alias("_assigned"))
    )
    left_over = F.greatest(F.col("_partitions") - F.coalesce("_assigned", F.lit(0)), F.lit(0))
    told = (
        counts.join(assigned, ["id", "topic"], "left")
        .join(had.where("topic IS NULL").select("id").distinct(), "id", "left_anti")
        .groupBy("id")
        .agg(
            F.bool_and(F.col("topic").isNull() | F.col("_partitions").isNotNull()).alias("_known"),
            F.coalesce(F.sum(left_over), F.lit(0)).cast("int").alias("_sum"),
        )
        .select("id", F.when(F.col("_known"), F.col("_sum")).alias("unassigned"))
    )
    return rebalances.drop("unassigned").join(told, "id", "left")


def _held() -> Column:
    return (F.col("_from") <= F.col("_at")) & (F.col("_to").isNull() | (F.col("_to") > F.col("_at")))
