"""Brokers that leave and rejoin in-sync replicas, and how bad it was meanwhile. Pure: DataFrames in, DataFrames out.

ISRs are compared as sets, members and not sizes. A replica is out from the poll in which it left the ISR, or in which its
partition was first seen without it, until it is back, is no replica any more, or the partition is gone. So a replica that a
reassignment adds is not out before it has been in: it never left.
"""

from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules.events import PARTITION, PLACE, began, held_at, is_replica, ms, row_id
from jobs.rules.leaders import LISTENER_NOT_FOUND, NO_LEADER
from schemas.gold import LEVELS

MERGED_WITHIN = timedelta(seconds=60)
"""Stretches of a broker's absence that are less apart are one incident."""

BOUNDED_BY_REPLICAS_FROM_LEVEL = 15
"""Feature level of metadata.version 3.7-IV0: from there on min ISR counts only as far as there are replicas (KIP-966)."""

LEFT, ABSENT, REJOINED, JOINED = "left", "absent", "rejoined", "joined"
UNKNOWN = "unknown"


def nobody() -> Column:
    """No brokers."""
    return F.array().cast("array<int>")


# --- who left, and came back ---


def departures(states: DataFrame, reassignments: DataFrame) -> DataFrame:
    """Who left an ISR, or was out of it when the partition was first seen (but for those that a reassignment was adding then).

    `states`: rows of silver.partition_snapshots. `reassignments`: rows of silver.reassignments that held at their polls.

    Returns the columns of gold.isr_changes down to began_by (rack aside), with `interval_ms`.
    """
    left = states.where("prev_isr IS NOT NULL").withColumn("broker_id", F.explode(F.array_except("prev_isr", "isr")))
    first = states.where("prev_isr IS NULL")
    adding = (
        reassignments.select(*PARTITION, F.col("first_poll").alias("_from"), "superseded_poll", "adding_replicas")
        .join(first.select(*PARTITION, "first_poll"), list(PARTITION))
        .where(held_at("first_poll", first="_from"))
        .select(*PARTITION, "first_poll", "adding_replicas")
    )
    out = F.array_except(F.array_except("replicas", "isr"), F.coalesce("adding_replicas", nobody()))
    absent = first.join(adding, [*PARTITION, "first_poll"], "left").withColumn("broker_id", F.explode(out))
    return _changes(left, LEFT).unionByName(_changes(absent, ABSENT))


def arrivals(states: DataFrame, absences: DataFrame) -> DataFrame:
    """Who came into an ISR: rejoined if it was out before, else joined. `absences`: see with_ends.

    Returns what departures returns.
    """
    came = states.where("prev_isr IS NOT NULL").withColumn("broker_id", F.explode(F.array_except("isr", "prev_isr")))
    was_out = (
        absences.where(F.col("ended_as") == REJOINED)
        .select(*PARTITION, "broker_id", F.col("ended_poll").alias("poll"))
        .distinct()
    )
    key = [*PARTITION, "broker_id", "poll"]
    came = came.withColumn("poll", F.col("first_poll")).localCheckpoint()
    rejoined = came.join(was_out, key, "left_semi").drop("poll")
    joined = came.join(was_out, key, "left_anti").drop("poll")
    return _changes(rejoined, REJOINED).unionByName(_changes(joined, JOINED))


def _changes(rows: DataFrame, change: str) -> DataFrame:
    return rows.withColumn("change", F.lit(change)).select(
        row_id("cluster_id", "topic", "topic_id", "partition", "broker_id", "change", "first_poll").alias("id"),
        *PLACE,
        "broker_id",
        "change",
        "leader",
        "prev_leader",
        "isr",
        "prev_isr",
        "replicas",
        *began(),
        "interval_ms",
    )


def returns(states: DataFrame, ended: DataFrame) -> DataFrame:
    """When brokers that were out of an ISR were so no more: cluster_id, topic, partition, broker_id, poll, after, by, ended_as.

    `states`: rows of silver.partition_snapshots. `ended`: those whose partition ended.
    """
    back = F.array_contains("isr", F.col("broker_id"))
    removed = ~is_replica()
    of_states = (
        states.where("prev_isr IS NOT NULL")
        .withColumn("broker_id", F.explode(F.array_except("prev_replicas", "prev_isr")))
        .where(back | removed)
        .select(
            *PARTITION,
            "broker_id",
            F.col("first_poll").alias("poll"),
            F.col("prev_sent_at").alias("after"),
            F.col("first_seen_at").alias("by"),
            F.when(back, REJOINED).otherwise("removed").alias("ended_as"),
        )
    )
    of_ends = ended.select(
        *PARTITION,
        F.explode(F.array_except("replicas", "isr")).alias("broker_id"),
        F.col("superseded_poll").alias("poll"),
        F.col("last_seen_sent_at").alias("after"),
        F.col("superseded_at").alias("by"),
        "ended_as",
    )
    return of_states.unionByName(of_ends)


def with_ends(absences: DataFrame, returned: DataFrame) -> DataFrame:
    """Give rows of brokers that are out of an ISR their ends: ended_poll, ended_after, ended_by, ended_as, duration_ms_*.

    `absences`: what departures returns, and rows of gold.isr_changes that may have ended already. `returned`: see returns.
    """
    by_broker = Window.partitionBy(*PARTITION, "broker_id").orderBy("poll", "_order")
    ends = returned.select(
        *PARTITION,
        "broker_id",
        "poll",
        F.lit(0).alias("_order"),  # a partition that is made anew in the poll that ended the one before begins after it
        F.struct("poll", "after", "by", "ended_as").alias("_end"),
    )
    known = F.when(
        F.col("ended_poll").isNotNull(),
        F.struct(
            F.col("ended_poll").alias("poll"),
            F.col("ended_after").alias("after"),
            F.col("ended_by").alias("by"),
            "ended_as",
        ),
    )
    # A replica that a reassignment took off the list is gone at once.
    at_once = F.struct(
        "poll", F.col("began_after").alias("after"), F.col("began_by").alias("by"), F.lit("removed").alias("ended_as")
    )
    matched = (
        absences.withColumns({"_order": F.lit(1), "_end": known})
        .unionByName(ends, allowMissingColumns=True)
        .withColumn(
            "_end", F.when(~is_replica(), at_once).otherwise(F.coalesce("_end", F.lead("_end").over(by_broker)))
        )
        .where("_order = 1")
    )
    return with_durations(
        matched.withColumns(
            {
                "ended_poll": F.col("_end.poll"),
                "ended_after": F.col("_end.after"),
                "ended_by": F.col("_end.by"),
                "ended_as": F.col("_end.ended_as"),
            }
        ).drop("_end", "_order")
    )


def with_durations(rows: DataFrame) -> DataFrame:
    """Add duration_ms_min and duration_ms_max, from the bounds of begin and end."""
    return rows.withColumns(
        {
            "duration_ms_min": F.when(
                F.col("ended_by").isNotNull(), F.greatest(F.lit(0), ms("began_by", "ended_after"))
            ),
            "duration_ms_max": ms("began_after", "ended_by"),
        }
    )


def cause(went: Column, back: Column, left_together: Column) -> Column:
    """Why a broker is out of an ISR, inferred.

    `went`, `back`: what was seen of it within the look-ahead. `left_together`: how many brokers left ISRs of the
    same leader in the same poll. A leader that was hung blames followers that did nothing: they leave at once, and are back.
    """
    alone = F.col("isr") == F.array("leader")
    return (
        F.when(~is_replica(), "reassignment")
        .when(went, "broker_down")
        .when(alone & (left_together > 1) & back, "leader_stalled")
        .otherwise("lagging")
    )


def flapping(left: DataFrame, earlier: DataFrame, flaps: int, window: timedelta) -> DataFrame:
    """id, flapping. `left`: id, place, broker_id, began_by of rows that left an ISR; `earlier`: those before, without ids."""
    columns = [*PARTITION, "broker_id"]
    times = earlier.select(*columns, F.col("began_by").alias("_at")).unionByName(
        left.select(*columns, F.col("began_by").alias("_at"))
    )
    within = (F.col("_at") <= F.col("began_by")) & (F.col("_at") > F.col("began_by") - F.lit(window))
    return (
        left.select("id", *columns, "began_by")
        .join(times, columns)
        .where(within)
        .groupBy("id")
        .agg((F.count("*") >= flaps).alias("flapping"))
    )


# --- levels ---


def marks(states: DataFrame, ended: DataFrame, configs: DataFrame | None = None) -> DataFrame:
    """What holds of each partition from each poll on in which something of it changed.

    `states`: rows of silver.partition_snapshots. `ended`: those whose partition ended. `configs`: rows of
    silver.topic_configs of these topics, where settings matter.

    Returns cluster_id, topic, partition, poll, after, by, ended_as (null: it goes on), and what holds: `state` (cluster, topic_id,
    leader, error_code, replicas, isr, out), min_insync_replicas. `states` have `out`, the replicas that are out.
    """
    since = [
        F.col("first_poll").alias("poll"),
        F.col("prev_sent_at").alias("after"),
        F.col("first_seen_at").alias("by"),
    ]
    gone = [
        F.col("superseded_poll").alias("poll"),
        F.col("last_seen_sent_at").alias("after"),
        F.col("superseded_at").alias("by"),
    ]
    unset = F.lit(None).cast("struct<min_insync_replicas: int>").alias("_setting")
    state = F.struct("cluster", "topic_id", "leader", "error_code", "replicas", "isr", "out")
    seen = [
        states.select(*PARTITION, *since, F.lit(1).alias("_order"), state.alias("state"), unset),
        ended.select(*PARTITION, *gone, F.lit(0).alias("_order"), "ended_as"),
    ]
    if configs is not None:
        partitions = states.select(*PARTITION).distinct()
        setting = F.struct("min_insync_replicas").alias("_setting")
        not_known = F.struct(F.lit(None).cast("int").alias("min_insync_replicas")).alias("_setting")
        order = F.lit(1).alias("_order")
        seen += [
            rows.join(partitions, ["cluster_id", "topic"]).select(
                *PARTITION, "poll", "after", "by", "_order", "_setting"
            )
            for rows in (
                configs.where("ended_as IS NOT NULL").select("cluster_id", "topic", *gone, order, not_known),
                configs.select("cluster_id", "topic", *since, order, setting),
            )
        ]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), seen)
    # What changed in one poll is one mark; only the end of a partition stands before the beginning of the next of that name.
    by_poll = together.groupBy(*PARTITION, "poll", "_order").agg(
        # Where one of the changes has no bound, the mark has none.
        F.when(F.count("after") == F.count("*"), F.min("after")).alias("after"),
        F.max("by").alias("by"),
        F.max("ended_as").alias("ended_as"),
        F.max("state").alias("state"),
        # An end of settings and a beginning in one poll: the beginning holds (its struct is not less than one of null).
        F.max("_setting").alias("_setting"),
    )
    by_partition = Window.partitionBy(*PARTITION).orderBy("poll", "_order")
    ends_before = F.count("ended_as").over(by_partition.rowsBetween(Window.unboundedPreceding, -1))
    # Settings outlive a partition, its state does not.
    by_life = Window.partitionBy(*PARTITION, "_life").orderBy("poll", "_order")
    setting = F.last("_setting", ignorenulls=True).over(by_partition.rowsBetween(Window.unboundedPreceding, 0))
    held = F.last("state", ignorenulls=True).over(by_life.rowsBetween(Window.unboundedPreceding, 0))
    return (
        by_poll.withColumn("_life", ends_before)
        .withColumns({"_setting": setting, "state": held})
        .where("state IS NOT NULL")
        .withColumn("min_insync_replicas", F.col("_setting.min_insync_replicas"))
        .drop("_setting", "_life")
    )


def with_levels(marked: DataFrame, levels: tuple[str, ...]) -> DataFrame:
    """A row for each mark and each of `levels`: `is_at` (null: unknown), with isr_size and min_isr.

    `marked`: see marks, with `metadata_version_level`.
    """
    setting, replicas = F.col("min_insync_replicas"), F.size("state.replicas")
    level = F.col("metadata_version_level")
    bounded = (level >= BOUNDED_BY_REPLICAS_FROM_LEVEL) | (setting <= replicas)
    # Before 3.7 a setting larger than the number of replicas counts as it is; of a level that is not known, neither holds.
    min_isr = F.when(setting.isNull(), None).when(bounded, F.least(setting, replicas)).when(level.isNotNull(), setting)
    has_leader = (F.col("state.leader") != NO_LEADER) | (F.col("state.error_code") == LISTENER_NOT_FOUND)
    size = F.col("isr_size")
    is_at = {
        "under_replicated": F.size("state.out") > 0,
        "at_min_isr": has_leader & (size == F.col("min_isr")),
        "under_min_isr": has_leader & (size < F.col("min_isr")),
        "offline": ~has_leader,
    }
    goes_on = F.col("ended_as").isNull()
    each = [F.struct(F.lit(level).alias("level"), (goes_on & is_at[level]).alias("is_at")) for level in levels]
    return marked.withColumns({"isr_size": F.size("state.isr"), "min_isr": min_isr}).select(
        *PARTITION,
        "poll",
        "_order",
        "after",
        "by",
        "ended_as",
        "state",
        "isr_size",
        "min_isr",
        F.inline(F.array(*each)),
    )


def episodes(levels: DataFrame, so_far: DataFrame) -> DataFrame:
    """The stretches at each level: the columns of gold.isr_episodes but updated_at.

    `levels`: see with_levels, with `before` (the mark is of what held before this run). `so_far`: the rows of
    gold.isr_episodes that were open then; they go on.
    """
    by_level = Window.partitionBy(*PARTITION, "level").orderBy("poll", "_order")
    at = F.coalesce(F.col("is_at"), F.lit(False))
    numbered = levels.withColumn("_starts", at & ~F.coalesce(F.lag(at).over(by_level), F.lit(False))).withColumn(
        "_stretch", F.sum(F.col("_starts").cast("int")).over(by_level)
    )
    order = F.struct("poll", "_order")
    begin = F.struct("poll", "after", "by", "before", "state.cluster", "state.topic_id")
    not_known = F.when(F.col("is_at").isNull(), F.lit(UNKNOWN))
    end = F.struct("poll", "after", "by", F.coalesce("ended_as", not_known).alias("ended_as"))
    stretches = (
        numbered.where("_stretch > 0")
        .groupBy(*PARTITION, "level", "_stretch")
        .agg(
            F.min_by(F.when(at, begin), F.when(at, order)).alias("_begin"),
            F.min_by(F.when(~at, end), F.when(~at, order)).alias("_end"),
            F.flatten(F.collect_list(F.when(at, F.col("state.out")))).alias("_out"),
            F.min(F.when(at, F.col("isr_size"))).alias("smallest_isr"),
            F.max(F.when(at, F.col("min_isr"))).alias("min_isr"),
        )
    )
    names = ("id", "topic_id", "poll", "began_after", "began_by", "brokers_out", "smallest_isr", "min_isr")
    known = so_far.select(*PARTITION, "level", F.lit(True).alias("_before"), F.struct(*names).alias("_known"))
    joined = stretches.withColumn("_before", F.col("_begin.before")).join(
        known, [*PARTITION, "level", "_before"], "left"
    )
    goes_on = F.col("_known").isNotNull()
    return with_durations(
        joined.select(
            "cluster_id",
            "_begin.cluster",
            "topic",
            F.when(goes_on, F.col("_known.topic_id")).otherwise(F.col("_begin.topic_id")).alias("topic_id"),
            "partition",
            "level",
            F.coalesce("_known.poll", "_begin.poll").alias("poll"),
            F.when(goes_on, F.col("_known.began_after")).otherwise(F.col("_begin.after")).alias("began_after"),
            F.coalesce("_known.began_by", "_begin.by").alias("began_by"),
            F.col("_end.poll").alias("ended_poll"),
            F.col("_end.after").alias("ended_after"),
            F.col("_end.by").alias("ended_by"),
            F.col("_end.ended_as").alias("ended_as"),
            F.array_sort(F.array_distinct(F.concat("_out", F.coalesce("_known.brokers_out", nobody())))).alias(
                "brokers_out"
            ),
            F.least("smallest_isr", "_known.smallest_isr").alias("smallest_isr"),
            F.greatest("min_isr", "_known.min_isr").alias("min_isr"),
            F.col("_known.id").alias("_id"),
        )
        .withColumn("id", F.coalesce("_id", row_id("cluster_id", "topic", "topic_id", "partition", "level", "poll")))
        .drop("_id")
    )


# --- brokers ---


def incidents(absences: DataFrame, reached: DataFrame) -> DataFrame:
    """The stretches in which some ISR lacked a broker: the columns of gold.broker_incidents but updated_at.

    `absences`: rows of gold.isr_changes in which a broker is out of an ISR as a replica. `reached`: id (of an absence), `level`
    (the worst that its partition was at meanwhile, as an index of LEVELS).
    """
    by_broker = Window.partitionBy("cluster_id", "broker_id").orderBy("began_by", "poll", "id")
    before = by_broker.rowsBetween(Window.unboundedPreceding, -1)
    until = F.coalesce("ended_by", F.lit("9999-12-31").cast("timestamp"))
    apart = F.col("began_by") >= F.max("_until").over(before) + F.lit(MERGED_WITHIN)
    numbered = (
        absences.withColumn("_until", until)
        .withColumn("_starts", F.coalesce(apart, F.lit(True)))
        .withColumn("_incident", F.sum(F.col("_starts").cast("int")).over(by_broker))
        .join(reached, "id", "left")
    )
    goes_on = F.max(F.col("ended_by").isNull())
    first = F.struct("began_by", "poll", "id")
    last = F.struct("ended_by", "ended_poll", "ended_after")
    merged = numbered.groupBy("cluster_id", "broker_id", "_incident").agg(
        F.min_by(F.struct("cluster", "rack", "poll", "began_after", "began_by"), first).alias("_begin"),
        F.when(~goes_on, F.max(last)).alias("_end"),
        F.count_distinct("topic", F.coalesce("topic_id", F.lit("")), "partition").alias("partitions"),
        F.min("began_by").alias("first_out_by"),
        F.max("began_by").alias("last_out_by"),
        F.array_sort(F.collect_set("cause")).alias("causes"),
        F.coalesce(F.max("level"), F.lit(0)).alias("_level"),
    )
    return with_durations(
        merged.select(
            row_id("cluster_id", "broker_id", "_begin.poll").alias("id"),
            "cluster_id",
            "_begin.cluster",
            "broker_id",
            "_begin.rack",
            "_begin.poll",
            "_begin.began_after",
            "_begin.began_by",
            "_end.ended_poll",
            "_end.ended_after",
            "_end.ended_by",
            "partitions",
            "first_out_by",
            "last_out_by",
            "causes",
            F.get(F.array(*map(F.lit, LEVELS)), F.col("_level")).alias("lowest_level"),
        )
    )
