"""What is decided only some polls later, and how long it is waited for.

On a controlled stop the ISR shrinks at once, while the broker stays listed for another half second: why something happened
shows in what follows.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.rules.events import held_at

LOOK_AHEAD_MS = 15_000
LOOK_AHEAD_POLLS = 2


def look_ahead_ms(interval_ms: Column) -> Column:
    """For how long what follows is looked at, by the interval between polls: the larger of two of them and 15 s."""
    return F.greatest(LOOK_AHEAD_POLLS * interval_ms, F.lit(LOOK_AHEAD_MS))


def look_ahead_until(began_by: Column, interval_ms: Column) -> Column:
    """The time until which what follows is looked at."""
    return F.timestamp_micros(F.unix_micros(began_by) + 1000 * look_ahead_ms(interval_ms))


def gone_brokers(events: DataFrame, brokers: DataFrame) -> DataFrame:
    """id, gone: the events whose broker was missing from the list of brokers, at the event's poll or within the look-ahead.

    `events`: id, cluster_id, broker_id, poll, until. `brokers`: rows of silver.broker_snapshots, at least those that held at
    these polls or began after them.
    """
    left_later = (
        (F.col("ended_as").isNotNull())
        & (F.col("superseded_poll") > F.col("poll"))
        & (F.col("superseded_at") <= F.col("until"))
    )
    rows = brokers.select("cluster_id", "broker_id", "first_poll", "superseded_poll", "superseded_at", "ended_as")
    return (
        events.select("id", "cluster_id", "broker_id", "poll", "until")
        .join(rows, ["cluster_id", "broker_id"], "left")
        .groupBy("id")
        .agg(
            F.max(F.coalesce(held_at("poll"), F.lit(False))).alias("_there"),
            F.max(F.coalesce(left_later, F.lit(False))).alias("_left"),
        )
        .where("NOT _there OR _left")
        .select("id", F.lit(True).alias("gone"))
    )


def failed_within(events: DataFrame, failures: DataFrame) -> DataFrame:
    """id, failed: the events whose broker failed as a leader, at the event's poll or within the look-ahead.

    It may be back before it is missed in the list of brokers. `events`: as above. `failures`: as leaders.failed_leaders
    returns, at least those from these polls on.
    """
    then = failures.select("cluster_id", "broker_id", F.col("poll").alias("_poll"), F.col("at").alias("_at"))
    return (
        events.select("id", "cluster_id", "broker_id", "poll", "until")
        .join(then, ["cluster_id", "broker_id"])
        .where("_poll >= poll AND _at <= until")
        .select("id", F.lit(True).alias("failed"))
        .distinct()
    )


def shown_within(events: DataFrame, partitions: DataFrame) -> DataFrame:
    """What the states of each event's partition say of its broker, from the event's poll to the end of the look-ahead.

    `events`: id, cluster_id, topic, partition, broker_id, poll, until. `partitions`: rows of silver.partition_snapshots, at
    least those that began at these polls or after.

    Returns id, `offline` (some state has it among the offline replicas), `back` (a later state has it in the ISR).
    """
    rows = partitions.select(
        "cluster_id", "topic", "partition", "first_poll", "first_seen_at", "isr", "offline_replicas"
    )
    in_isr = F.array_contains("isr", F.col("broker_id"))
    return (
        events.select("id", "cluster_id", "topic", "partition", "broker_id", "poll", "until")
        .join(rows, ["cluster_id", "topic", "partition"])
        .where((F.col("first_poll") >= F.col("poll")) & (F.col("first_seen_at") <= F.col("until")))
        .groupBy("id")
        .agg(
            F.max(F.coalesce(F.array_contains("offline_replicas", F.col("broker_id")), F.lit(False))).alias("offline"),
            F.max(in_isr & (F.col("first_poll") > F.col("poll"))).alias("back"),
        )
    )
