"""Coordinators of groups: where a group is kept, when its coordinator moved, and what followed. Pure: DataFrames in, DataFrames out.

The coordinator of a group is the leader of its partition of __consumer_offsets, so the polls of partitions tell of it. A move writes
no record of the group and makes it rebalance no more than any pause does: it is context.

Rebalances of the log have the coordinator's clock, polls the poller's. What ended before a move is told apart by leader epochs, which
records and polls both have, and where one of them lacks it by these two clocks.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.rules.events import began, row_id
from jobs.rules.leaders import NO_LEADER, hides_leader
from jobs.rules.lookahead import look_ahead_until

LOG_TOPIC = "__consumer_offsets"
MOVED = "coordinator_moved"
_LOG_PARTITION = ("cluster_id", "log_partition")
_WORD = 1 << 32


def log_partition(group_id: Column, partitions: Column) -> Column:
    """The partition of __consumer_offsets, of so many, that keeps a group: Utils.abs(groupId.hashCode()) % partitions.

    As Kafka's GroupCoordinatorService.partitionFor. Java's String.hashCode goes over UTF-16 units and wraps around at 32 bits;
    Utils.abs makes 0 of the one number that has no positive.
    """
    units = F.encode(group_id, "UTF-16BE")
    ends = F.slice(F.sequence(F.lit(0), F.octet_length(units), F.lit(2)), F.lit(2), F.octet_length(units) / 2)

    def unit(end: Column) -> Column:
        return F.conv(F.hex(F.substring(units, end - 1, F.lit(2))), 16, 10).cast("bigint")

    hashed = F.aggregate(ends, F.lit(0).cast("bigint"), lambda so_far, end: (so_far * 31 + unit(end)) % _WORD)
    # Of the word as a signed number; the one without a positive is half of all words.
    absolute = F.least(hashed, _WORD - hashed)
    return (F.when(absolute == _WORD // 2, 0).otherwise(absolute) % partitions).cast("int")


def moves(states: DataFrame, groups: DataFrame) -> DataFrame:
    """Moves of coordinators, a row for each group that was there then; columns of gold.group_events that a move has.

    `states`: rows of silver.partition_snapshots. `groups`: cluster_id, group_id, log_partition, known_since, known_until: when which
    groups were there; known_until is null where they still are.
    """
    return (
        _of_log(states)
        .where(_moved())
        .join(groups.select(*_LOG_PARTITION, "group_id", "known_since", "known_until"), list(_LOG_PARTITION))
        .where("known_since <= first_seen_at AND (known_until IS NULL OR known_until > first_seen_at)")
        .withColumn("event", F.lit(MOVED))
        .select(
            row_id("cluster_id", "group_id", "event", "first_poll").alias("id"),
            "cluster_id",
            "cluster",
            "group_id",
            "event",
            F.lit("polls").alias("source"),
            *began(),
            "log_partition",
            F.col("leader").alias("broker_id"),
            F.col("prev_leader").alias("prev_broker_id"),
        )
    )


def with_coordinators(rebalances: DataFrame, states: DataFrame, moved: DataFrame) -> DataFrame:
    """Add coordinator, followed_move and move_id to rows of gold.rebalances, as far as the polls tell by `settled_at`.

    A coordinator is told where the poll before and the poll after `began_by` agree on it. A move counts that may have been before
    the end of the rebalance, and whose look-ahead (see look_ahead_until) was not over when it had begun; of several the last. A
    rebalance that ended under the leader epoch of before had ended before the move, however long the polls leave that open.
    That there was none is said once the polls have come past the end, and where they had watched the partition for as long before.

    `rebalances`: with `settled_at`, when the last poll was answered that silver is settled up to (null: never polled). `states`: rows
    of silver.partition_snapshots, at least those that held, or whose look-ahead lasted, when the first of the rebalances began. `moved`:
    rows of gold.group_events that are moves of these groups, at least those of `states`.

    What is said of a rebalance changes only with polls after its begin: `asked_since` tells which to ask again.
    """
    asked = rebalances.select(
        "id", "group_id", *_LOG_PARTITION, "began_by", "ended_by", "ended_leader_epoch", "settled_at"
    )
    log_states = _of_log(states).select(
        *_LOG_PARTITION,
        F.when(F.col("leader") != NO_LEADER, F.col("leader")).alias("_leader"),
        F.col("first_poll").alias("poll"),
        F.col("prev_sent_at").alias("_after"),
        F.col("first_seen_at").alias("_by"),
        F.when(_unlike_before(), F.col("first_seen_at")).otherwise(F.col("prev_sent_at")).alias("_surely_from"),
        F.col("last_seen_sent_at").alias("_surely_to"),
        F.col("superseded_at").alias("_to"),
        F.when(_unlike_before(), look_ahead_until(F.col("first_seen_at"), F.col("interval_ms"))).alias("_until"),
        F.col("prev_leader_epoch").alias("_epoch_before"),
        F.coalesce(_moved(), F.lit(False)).alias("_moved"),
    )
    ids = moved.where(F.col("event") == MOVED).select("cluster_id", "group_id", "poll", F.col("id").alias("_move_id"))
    held = F.expr("_by <= began_by AND coalesce(began_by < _to, began_by <= settled_at)")
    led = F.expr("began_by BETWEEN _surely_from AND coalesce(_surely_to, settled_at)")
    # A partition that was not watched before may have moved then.
    near = F.expr(
        "_until >= began_by AND (_after IS NULL OR ended_by IS NULL OR _after <= ended_by) "
        "AND (_epoch_before IS NULL OR ended_leader_epoch IS NULL OR ended_leader_epoch > _epoch_before)"
    )
    # A move before the group was there has no event, and means nothing to it.
    followed = F.col("_near") & F.col("_moved") & F.col("_move_id").isNotNull()
    told = (
        asked.join(log_states, list(_LOG_PARTITION))
        .withColumns({"_held": held, "_led": led, "_near": F.coalesce(near, F.lit(False))})
        .where("_held OR _led OR _near")
        .join(ids, ["cluster_id", "group_id", "poll"], "left")
        .groupBy("id")
        .agg(
            F.max(F.when(F.col("_led"), F.col("_leader"))).alias("coordinator"),
            F.max(F.when(followed, F.struct("poll", "_move_id"))).alias("_move"),
            F.max(F.col("_near") & ~F.col("_moved")).alias("_unsure"),
            F.max("_held").alias("_watched"),
        )
        .withColumn("move_id", F.col("_move._move_id"))
    )
    was_none = (F.col("ended_by") <= F.col("settled_at")) & F.col("_watched") & ~F.col("_unsure")
    return (
        rebalances.drop("coordinator", "followed_move", "move_id")
        .join(told, "id", "left")
        .withColumn("followed_move", F.when(F.col("move_id").isNotNull(), True).when(was_none, False))
        .drop("_move", "_unsure", "_watched")
    )


def asked_since(states: DataFrame) -> DataFrame:
    """cluster_id, asked_since: rebalances that had not ended by then may follow a move, or have a coordinator, told by `states`.

    `states`: rows of silver.partition_snapshots that began in a window. Those that had not ended when the window began are to
    be asked too.
    """
    return _of_log(states).where(_unlike_before()).groupBy("cluster_id").agg(F.min("prev_sent_at").alias("asked_since"))


def _of_log(states: DataFrame) -> DataFrame:
    return states.where(F.col("topic") == LOG_TOPIC).withColumnRenamed("partition", "log_partition")


def _moved() -> Column:
    return (F.col("leader") != F.col("prev_leader")) & ~hides_leader()


def _unlike_before() -> Column:
    """Whether a state has another leader than the one before, or it is not known whether it has."""
    return F.col("prev_leader").isNull() | (F.col("leader") != F.col("prev_leader")) | hides_leader()
