"""Changes of leaders: how many there were, why, and whether they were clean. Pure: DataFrames in, DataFrames out.

KRaft raises the leader epoch by one for each record that sets a leader (PartitionChangeBuilder), so the difference of two
epochs counts what happened between two polls. From metadata.version 3.6-IV0 on an ISR that shrinks raises it no more
(KAFKA-15021), which makes the count exact.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules.events import PARTITION, ms

NO_LEADER = -1
LISTENER_NOT_FOUND = 72
"""Error with which a broker shows leader -1 though there is one, on a listener that it does not have."""

EXACT_FROM_LEVEL = 12
"""Feature level of metadata.version 3.6-IV0."""

EXACT = "exact"
UPPER_BOUND = "upper_bound"
UNRELIABLE = "unreliable"


def epoch_semantics() -> Column:
    """What the difference of two leader epochs counts. Of columns leader_epoch, leader, replicas, their prev_*, lower_level.

    A cancelled reassignment raises the epoch and may leave the same replicas in another order, so any other list of
    replicas makes it a bound.
    """
    raised = F.col("leader_epoch") - F.col("prev_leader_epoch")
    moved = F.col("leader") != F.col("prev_leader")
    impossible = raised.isNull() | (raised < 0) | (moved & (raised == 0))
    same_replicas = F.col("replicas") == F.col("prev_replicas")
    is_exact = (F.col("lower_level") >= EXACT_FROM_LEVEL) & same_replicas
    return F.when(impossible, UNRELIABLE).when(is_exact, EXACT).otherwise(UPPER_BOUND)


def hides_leader() -> Column:
    """Whether the answer, or the one before, came from a broker without the leader's listener: -1 is no election then."""
    return (F.col("error_code") == LISTENER_NOT_FOUND) | (F.col("prev_error_code") == LISTENER_NOT_FOUND)


def seen_changes(states: DataFrame, before: DataFrame) -> DataFrame:
    """The changes of leader or leader epoch that partition states show, all but what later polls decide.

    `states`: rows of silver.partition_snapshots with the levels of levels.with_finalized_levels. `before`: the rows that they
    superseded.

    Returns the rows with the counts and bounds of gold.leader_changes: epoch_semantics, changes_*, hidden, leaderless_ms_*.
    """
    raised = F.col("leader_epoch") - F.col("prev_leader_epoch")
    moved = (F.col("leader") != F.col("prev_leader")) & ~hides_leader()
    seen = states.where(F.col("prev_leader").isNotNull()).where(moved | F.coalesce(raised > 0, F.lit(False)))
    visible = moved.cast("int")
    semantics = F.col("epoch_semantics")
    # One step, and the same leader: no leader changed, it was a reassignment that was not seen.
    none_changed = ~moved & ~hides_leader() & (raised == 1)
    exact = F.when(semantics == EXACT, F.when(none_changed, 0).otherwise(raised))
    counted = seen.withColumn("epoch_semantics", epoch_semantics()).withColumns(
        {
            "changes_min": F.coalesce(exact, visible),
            "changes_max": F.coalesce(exact, F.when(semantics == UPPER_BOUND, F.greatest(raised, visible))),
            "hidden": exact - visible,
        }
    )
    return _with_leaderless(counted, before)


def _with_leaderless(counted: DataFrame, before: DataFrame) -> DataFrame:
    """Add the bounds of the time without a leader that the change ended."""
    since = before.select(
        *PARTITION,
        F.col("superseded_poll").alias("first_poll"),
        F.col("prev_sent_at").alias("_none_after"),
        F.col("first_seen_at").alias("_none_by"),
    )
    joined = counted.join(since, [*PARTITION, "first_poll"], "left")
    was_seen = (F.col("prev_leader") == NO_LEADER) & (F.col("prev_error_code") != LISTENER_NOT_FOUND)
    return joined.withColumns(
        {
            "leaderless_ms_min": F.when(was_seen, F.greatest(F.lit(0), ms("_none_by", "prev_sent_at"))).otherwise(0),
            "leaderless_ms_max": F.when(was_seen, ms("_none_after", "first_seen_at"))
            # With changes between the polls it may have been without a leader for all of the time.
            .when(_may_be_several(), ms("prev_sent_at", "first_seen_at"))
            .otherwise(0),
        }
    ).drop("_none_after", "_none_by")


def with_reasons(changes: DataFrame) -> DataFrame:
    """Add `reason`, why the leader changed, inferred. `changes`: all of their polls; rows of `seen_changes`.

    KRaft takes a broker that fails, or is stopped, out of the ISR in the same record that moves the leader
    (PartitionChangeBuilder), but it may be back in sync when the next poll comes. So what a broker lost in the same poll counts
    too: only one that failed loses what it leads to another than the preferred replica. What it lost to preferred ones it may have
    lost by its failure, or to an election before or after: that is not known. A failed broker that an election has brought back
    leads what it is preferred for as before, in a later epoch.
    """
    leader, prev_leader = F.col("leader"), F.col("prev_leader")
    to_preferred = _is_preferred()
    of_broker = Window.partitionBy("cluster_id", "first_poll", "prev_leader")
    failed = _came_back() | (_lost() & (~to_preferred | ~F.array_contains("isr", prev_leader)))
    may_have_failed = F.col("_may_have_failed")
    return (
        changes.withColumn("_may_have_failed", F.max(failed).over(of_broker))
        .withColumn(
            "reason",
            F.when((leader == prev_leader) | hides_leader(), "unknown")
            .when(leader == NO_LEADER, "offline")
            .when(prev_leader == NO_LEADER, "recovery")
            .when(
                ~F.array_contains("replicas", prev_leader),
                F.when(may_have_failed | (to_preferred & _may_be_several()), "unknown").otherwise("reassignment"),
            )
            .when(~to_preferred, "failover")
            .when(may_have_failed, "unknown")
            .otherwise("preferred"),
        )
        .drop("_may_have_failed")
    )


def failed_leaders(states: DataFrame) -> DataFrame:
    """cluster_id, broker_id, poll, at: the brokers that lost a leadership in a poll as only one that failed does.

    `states`: rows of silver.partition_snapshots with the levels of levels.with_finalized_levels. Preferred replicas are elected, and
    reassignments done, with the old leader alive.
    """
    surely_back = _came_back() & (epoch_semantics() == EXACT)
    return (
        states.where((_lost() & ~_is_preferred()) | surely_back)
        .select(
            "cluster_id",
            F.col("prev_leader").alias("broker_id"),
            F.col("first_poll").alias("poll"),
            F.col("first_seen_at").alias("at"),
        )
        .distinct()
    )


def _may_be_several() -> Column:
    """Whether there may have been more changes than the one that shows: also where nothing bounds how many."""
    return F.coalesce(F.col("changes_max") > 1, F.lit(True))


def _is_preferred() -> Column:
    """Whether the leader is the preferred replica, or was before a reassignment that came between the polls."""
    leader, no = F.col("leader"), F.lit(False)
    return F.coalesce(leader == _first("replicas"), no) | F.coalesce(leader == _first("prev_replicas"), no)


def _came_back() -> Column:
    """Whether the preferred replica leads as before, but in an epoch two or more later: it lost the partition and got it back.

    Only a broker that failed loses what it is preferred for. Where epochs are upper bounds, shrinks may have raised them too.
    """
    leader = F.col("leader")
    as_before = (leader == F.col("prev_leader")) & (leader != NO_LEADER) & ~hides_leader()
    of_its_own = (leader == _first("replicas")) & (leader == _first("prev_replicas"))
    return F.coalesce(as_before & of_its_own & (F.col("leader_epoch") - F.col("prev_leader_epoch") >= 2), F.lit(False))


def _first(replicas: str) -> Column:
    """The preferred one of a list of replicas; null where there is none."""
    return F.get(replicas, F.lit(0))


def _lost() -> Column:
    """Whether a leader lost the partition, though it is a replica still."""
    leader, prev_leader = F.col("leader"), F.col("prev_leader")
    moved = (leader != prev_leader) & (prev_leader != NO_LEADER) & ~hides_leader()
    return F.coalesce(moved & F.array_contains("replicas", prev_leader), F.lit(False))


def unclean(elr: Column) -> Column:
    """Whether the new leader was out of sync: none | suspected | proven, null where it cannot be told.

    `elr`: as last answered before the change; null without. Without ELR nothing joins the ISR of a
    partition that has no leader, so one step from there to a broker outside of it is proof. With ELR that ISR is empty, and
    clean elections come from a list that Metadata does not show.
    """
    leader, prev_leader = F.col("leader"), F.col("prev_leader")
    in_sync = F.array_contains("prev_isr", leader)
    without_elr = F.col("elr_version_level") == 0
    one_step = (
        (prev_leader == NO_LEADER)
        & (F.col("prev_error_code") != LISTENER_NOT_FOUND)
        & F.coalesce(F.col("leader_epoch") - F.col("prev_leader_epoch") == 1, F.lit(False))
    )
    return (
        F.when(F.col("error_code") == LISTENER_NOT_FOUND, None)
        .when(~_is_elected() | in_sync, "none")
        .when(without_elr & one_step, "proven")
        .when(without_elr, "suspected")
        .when(F.array_contains(elr, leader), "none")
        .when(elr.isNotNull(), "suspected")
    )


def last_known_leader(elr: Column, last_known_elr: Column) -> Column:
    """Whether the election was of the last known leader, kept with the ELR (KIP-966); null without that enrichment."""
    leader = F.col("leader")
    from_none = (F.col("prev_leader") == NO_LEADER) & ~hides_leader()
    is_last_known = F.array_contains(last_known_elr, leader) & ~F.array_contains(elr, leader)
    return F.when(elr.isNotNull(), _is_elected() & from_none & is_last_known)


def _is_elected() -> Column:
    leader = F.col("leader")
    return (leader != NO_LEADER) & (leader != F.col("prev_leader"))


def balance(states: DataFrame, superseded: DataFrame, so_far: DataFrame) -> DataFrame:
    """What each broker leads, a row for each poll at which that changed; the columns of gold.leader_balance.

    `states`: rows of silver.partition_snapshots that began. `superseded`: those that are over. `so_far`: the rows of
    gold.leader_balance that were current then.
    """
    began = states.select(
        *_PARTS, F.col("first_poll").alias("poll"), F.col("first_seen_at").alias("at"), F.lit(1).alias("_by")
    )
    over = superseded.select(
        *_PARTS, F.col("superseded_poll").alias("poll"), F.col("superseded_at").alias("at"), F.lit(-1).alias("_by")
    )
    rows = began.unionByName(over)
    preferred = _first("replicas")
    # Of a leader that hides behind a missing listener nothing is known.
    elsewhere = (F.col("leader") != preferred) & (F.col("error_code") != LISTENER_NOT_FOUND)
    none = F.lit(0)
    steps = reduce(
        DataFrame.unionByName,
        [
            rows.where(F.col("leader") != NO_LEADER).select(
                "cluster_id",
                "cluster",
                "poll",
                "at",
                F.col("leader").alias("broker_id"),
                F.col("_by").alias("leaders"),
                none.alias("preferred"),
                none.alias("led_elsewhere"),
            ),
            rows.where(preferred.isNotNull()).select(
                "cluster_id",
                "cluster",
                "poll",
                "at",
                preferred.alias("broker_id"),
                none.alias("leaders"),
                F.col("_by").alias("preferred"),
                F.when(elsewhere, F.col("_by")).otherwise(none).alias("led_elsewhere"),
            ),
        ],
    )
    changes = (
        steps.groupBy("cluster_id", "cluster", "broker_id", "poll")
        .agg(F.max("at").alias("at"), *(F.sum(name).alias(name) for name in _COUNTS))
        .where(" OR ".join(f"{name} <> 0" for name in _COUNTS))
    )
    by_broker = Window.partitionBy("cluster_id", "broker_id").orderBy("poll")
    known = so_far.select("cluster_id", "cluster", "broker_id", "poll", "at", *_COUNTS)
    # Rows of brokers of which nothing changed would only be written again.
    known = known.join(changes.select("cluster_id", "broker_id").distinct(), ["cluster_id", "broker_id"], "left_semi")
    return (
        known.unionByName(changes)
        .withColumns({name: F.sum(name).over(by_broker) for name in _COUNTS})
        .withColumns(
            {
                "imbalance": F.when(F.col("preferred") > 0, F.col("led_elsewhere") / F.col("preferred")),
                "superseded_poll": F.lead("poll").over(by_broker),
                "superseded_at": F.lead("at").over(by_broker),
            }
        )
    )


_PARTS = ("cluster_id", "cluster", "leader", "replicas", "error_code")
_COUNTS = ("leaders", "preferred", "led_elsewhere")
