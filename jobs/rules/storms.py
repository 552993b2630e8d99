"""Groups that rebalance again and again, and clients that join again and again. Pure: DataFrames in, DataFrames out.

Within `window` means less than `window` apart, as for brokers that flap. Two rebalances hang together when some window holds both
and `least` of them or more; a row of gold.rebalance_storms is all that hangs together so. Which they are changes only near
rebalances that are new, so a run needs no more than `spans` says, and gives what one over all of history would.
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules.events import GROUP, row_id

STORM, CRASH_LOOP = "storm", "crash_loop"


def storms(rebalances: DataFrame, least: int, window: timedelta) -> DataFrame:
    """The storms in `rebalances`, rows of gold.rebalances; the columns of gold.rebalance_storms but updated_at.

    `least` is 2 or more.
    """
    none = F.lit(None).cast("string")
    times = rebalances.select(
        *GROUP, "cluster", none.alias("client_id"), none.alias("client_host"), "began_by", F.col("id").alias("_of")
    )
    return _chains(times, STORM, least, window)


def crash_loops(members: DataFrame, least: int, window: timedelta) -> DataFrame:
    """The crash loops in `members`, rows of gold.rebalance_members; the columns of gold.rebalance_storms but updated_at.

    Members of one client that join in the same rebalance are one time: an application starts several at once.
    `least` is 2 or more.
    """
    times = (
        members.where("change = 'joined' AND client_id IS NOT NULL AND client_host IS NOT NULL")
        .select(*GROUP, "cluster", "client_id", "client_host", "began_by", F.col("rebalance_id").alias("_of"))
        .distinct()
    )
    return _chains(times, CRASH_LOOP, least, window)


def spans(changed: DataFrame, known: DataFrame, window: timedelta) -> DataFrame:
    """cluster_id, group_id, since, affected_from: what of a group to look at anew where the times `changed` are new or gone.

    Its rebalances from `since` on tell its storms and crash loops that last until `affected_from` or later. Earlier ones are as
    they were, and may come out cut. `changed`: cluster_id, group_id, began_by. `known`: rows of gold.rebalance_storms, at least
    those with a `last_by` not more than `window` before the first of `changed`.
    """
    affected = changed.groupBy(*GROUP).agg((F.min("began_by") - F.lit(window)).alias("affected_from"))
    going_on = (
        known.join(affected, list(GROUP))
        .where("last_by >= affected_from")
        .groupBy(*GROUP)
        .agg(F.min("began_by").alias("_begin"))
    )
    return affected.join(going_on, list(GROUP), "left").select(
        *GROUP, F.least("affected_from", "_begin").alias("since"), "affected_from"
    )


def _chains(times: DataFrame, kind: str, least: int, window: timedelta) -> DataFrame:
    """What hangs together of `times`: GROUP, cluster, client_id, client_host, began_by and `_of`, the rebalance."""
    of = [*GROUP, "client_id", "client_host"]
    in_order = Window.partitionBy(*of).orderBy("began_by", "_of")
    fills = F.col("began_by") - F.lag("began_by", least - 1).over(in_order) < F.lit(window)

    def fills_within(following: int) -> Column:
        """Whether it, or one of so many that follow, is the last of `least` in a row within the window."""
        return F.coalesce(F.max("_fills").over(in_order.rowsBetween(0, following)), F.lit(False))

    seconds = (F.unix_micros("last_by") - F.unix_micros("began_by")) / 1_000_000
    return (
        times.withColumn("_fills", fills)
        # `least` in a row hold this one if they end with one of the next least - 1, and the one before too unless with the last of these.
        .withColumns({"_within": fills_within(least - 1), "_hangs_on": fills_within(least - 2)})
        .where("_within")
        .withColumn("_chain", F.sum((~F.col("_hangs_on")).cast("int")).over(in_order))
        .groupBy("cluster", *of, "_chain")
        .agg(
            F.min_by("_of", F.struct("began_by", "_of")).alias("_first"),
            F.min("began_by").alias("began_by"),
            F.max("began_by").alias("last_by"),
            F.count("*").cast("int").alias("rebalances"),
        )
        .withColumns({"kind": F.lit(kind), "per_hour": F.when(seconds > 0, F.col("rebalances") * 3600 / seconds)})
        .select(
            row_id(*GROUP, "kind", "client_id", "client_host", "_first").alias("id"),
            "cluster_id",
            "cluster",
            "group_id",
            "kind",
            "client_id",
            "client_host",
            "began_by",
            "last_by",
            "rebalances",
            "per_hour",
        )
    )
