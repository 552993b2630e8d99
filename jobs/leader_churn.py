"""Silver snapshots -> changes of leaders, seen and hidden, why they were made, and what each broker leads.

Writes gold.leader_changes and gold.leader_balance, by the rules of jobs/rules/leaders.py.

spark-submit jobs/leader_churn.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.progress import Window, keep_on, new_window
from jobs.rules import leaders
from jobs.rules.isr import PLACE, row_id
from jobs.rules.levels import with_finalized_levels
from jobs.rules.lookahead import gone_brokers, look_ahead_until, shown_within
from schemas import gold, silver
from schemas.lake import Lake

JOB = "leader_churn"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Keep gold up with silver on and on; with `once`, make events of what is new."""
    keep_on(spark, config.lake, gold.LEADER_TABLES, partial(apply, config.lake), once=once)


def apply(lake: Lake, spark: SparkSession) -> None:
    """Make events of what silver has that is new."""
    window = new_window(spark, lake, JOB)
    if window is None:
        return
    undecided = _undecided(window)
    oldest = undecided.agg(F.min(F.unix_micros("began_by"))).collect()[0][0]
    since = None if window.since is None else min(window.since, oldest or window.since)
    states = window.read(silver.PARTITION_SNAPSHOTS, since, "first_seen_at", "superseded_at").localCheckpoint()
    began, superseded = window.new(states), window.superseded(states)
    seen = _new_changes(window, began, superseded).unionByName(undecided, allowMissingColumns=True).localCheckpoint()
    stored = window.read_gold(gold.LEADER_CHANGES, since, "began_by")
    window.write(_with_reasons(window, seen, states), gold.LEADER_CHANGES, stored)
    _write_balance(window, began, superseded)
    window.note_done()


def _undecided(window: Window) -> DataFrame:
    """Rows of gold.leader_changes whose reason is not decided."""
    rows = window.known(window.read_gold(gold.LEADER_CHANGES, None).where("is_open"))
    return rows.select(*(name for name in gold.LEADER_CHANGES.column_names if name != "updated_at")).localCheckpoint()


def _new_changes(window: Window, began: DataFrame, superseded: DataFrame) -> DataFrame:
    """The changes that began in the window; columns of gold.leader_changes."""
    changed = began.where("prev_leader IS NOT NULL AND (leader <> prev_leader OR leader_epoch <> prev_leader_epoch)")
    levels = window.read(silver.CLUSTER_SNAPSHOTS, None)
    states = with_finalized_levels(changed.withColumn("poll", F.col("first_poll")), levels)
    elr = window.read(silver.PARTITION_ELR, window.since, "superseded_at", open_too=True)
    counted = _with_elr(leaders.seen_changes(states, superseded), elr)
    return counted.select(
        row_id("cluster_id", "topic", "topic_id", "partition", "poll").alias("id"),
        *PLACE,
        "prev_leader",
        "leader",
        "prev_leader_epoch",
        "leader_epoch",
        "replicas",
        "prev_isr",
        "isr",
        "poll",
        F.col("prev_sent_at").alias("began_after"),
        F.col("first_seen_at").alias("began_by"),
        "changes_min",
        "changes_max",
        "hidden",
        "epoch_semantics",
        leaders.reason_at_once().alias("reason"),
        look_ahead_until(F.col("first_seen_at"), F.col("interval_ms")).alias("reason_by"),
        leaders.unclean(F.col("elr")).alias("unclean"),
        leaders.last_known_leader(F.col("elr"), F.col("last_known_elr")).alias("last_known_leader"),
        "leaderless_ms_min",
        "leaderless_ms_max",
    )


def _with_elr(changes: DataFrame, elr: DataFrame) -> DataFrame:
    """Add `elr` and `last_known_elr` as last answered before each change; null where nothing was."""
    key = [*leaders.PARTITION, "poll"]
    held = elr.select(
        *leaders.PARTITION, "elr", "last_known_elr", F.col("first_poll").alias("_from"), "superseded_poll"
    )
    before = (
        changes.select(*key)
        .join(held, list(leaders.PARTITION))
        .where("_from < poll AND (superseded_poll IS NULL OR superseded_poll >= poll)")
        .select(*key, "elr", "last_known_elr")
    )
    return changes.join(before, key, "left")


def _with_reasons(window: Window, changes: DataFrame, states: DataFrame) -> DataFrame:
    """Decide the reasons of changes whose look-ahead is over."""
    open_ = changes.where("reason IS NULL")
    old_leader = F.col("prev_leader").alias("broker_id")
    until = F.col("reason_by").alias("until")
    events = open_.select("id", *leaders.PARTITION, old_leader, "poll", until).localCheckpoint()
    oldest = events.agg(F.min("poll")).collect()[0][0]
    brokers = window.read(silver.BROKER_SNAPSHOTS, None).where(
        F.col("superseded_poll").isNull() | (F.col("superseded_poll") >= F.lit(oldest))
    )
    later = leaders.reason_seen_later(_seen("gone"), _seen("out"), _seen("offline"))
    return (
        window.with_clusters(changes)
        .join(gone_brokers(events, brokers), "id", "left")
        .join(shown_within(events, states), "id", "left")
        .withColumn("reason", F.coalesce("reason", F.when(F.col("reason_by") < F.col("settled_at"), later)))
    )


def _seen(column: str) -> Column:
    return F.coalesce(column, F.lit(False))


def _write_balance(window: Window, began: DataFrame, superseded: DataFrame) -> None:
    back_to = window.since
    stored = window.read_gold(gold.LEADER_BALANCE, back_to, "superseded_at", open_too=True).localCheckpoint()
    so_far = window.with_clusters(window.known(stored)).where("superseded_poll IS NULL OR superseded_poll > done_poll")
    window.write(leaders.balance(began, superseded, so_far), gold.LEADER_BALANCE, stored)


if __name__ == "__main__":
    sys.exit(main())
