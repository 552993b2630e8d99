"""Silver snapshots -> changes of leaders, seen and hidden, why they were made, and what each broker leads.

Writes gold.leader_changes and gold.leader_balance, by the rules of jobs/rules/leaders.py.

spark-submit jobs/leader_churn.py --config FILE [--once]
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.progress import Window, keep_on, new_window, prepared
from jobs.rules import leaders
from jobs.rules.events import PARTITION, PLACE, began, row_id
from jobs.rules.levels import with_finalized_levels
from schemas import gold, silver
from schemas.lake import Lake

JOB = "leader_churn"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Keep gold up with silver on and on; with `once`, make events of what is new."""
    keep_on(prepare(spark, config), once=once)


def prepare(spark: SparkSession, config: Config) -> Callable[[], None]:
    """Check and make the tables; returns what makes events of what is new, to be called again and again."""
    return prepared(spark, config.lake, gold.LEADER_TABLES, partial(apply, config.lake))


def apply(lake: Lake, spark: SparkSession) -> None:
    """Make events of what silver has that is new."""
    window = new_window(spark, lake, JOB)
    if window is None:
        return
    states = window.read(silver.PARTITION_SNAPSHOTS, window.since, "first_seen_at", "superseded_at").localCheckpoint()
    new, superseded = window.new(states), window.superseded(states)
    window.write(_changes(window, new, superseded), gold.LEADER_CHANGES, window.since, "began_by")
    _write_balance(window, new, superseded)
    window.note_done()


def _changes(window: Window, states: DataFrame, superseded: DataFrame) -> DataFrame:
    """The changes that began in the window; columns of gold.leader_changes."""
    levels = window.read(silver.CLUSTER_SNAPSHOTS, None)
    with_levels = with_finalized_levels(states.withColumn("poll", F.col("first_poll")), levels)
    elr = window.read(silver.PARTITION_ELR, window.since, "superseded_at", open_too=True)
    counted = _with_elr(leaders.with_reasons(leaders.seen_changes(with_levels, superseded)), elr)
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
        *began(),
        "changes_min",
        "changes_max",
        "hidden",
        "epoch_semantics",
        "reason",
        leaders.unclean(F.col("elr")).alias("unclean"),
        leaders.last_known_leader(F.col("elr"), F.col("last_known_elr")).alias("last_known_leader"),
        "leaderless_ms_min",
        "leaderless_ms_max",
    )


def _with_elr(changes: DataFrame, elr: DataFrame) -> DataFrame:
    """Add `elr` and `last_known_elr` as last answered before each change; null where nothing was."""
    key = [*PARTITION, "poll"]
    held = elr.select(*PARTITION, "elr", "last_known_elr", F.col("first_poll").alias("_from"), "superseded_poll")
    before = (
        changes.select(*key)
        .join(held, list(PARTITION))
        .where("_from < poll AND (superseded_poll IS NULL OR superseded_poll >= poll)")
        .select(*key, "elr", "last_known_elr")
    )
    return changes.join(before, key, "left")


def _write_balance(window: Window, new: DataFrame, superseded: DataFrame) -> None:
    stored = window.read_gold(gold.LEADER_BALANCE, window.since, "superseded_at", open_too=True)
    so_far = window.with_clusters(window.known(stored)).where("superseded_poll IS NULL OR superseded_poll > done_poll")
    rows = leaders.balance(new, superseded, so_far)
    window.write(rows, gold.LEADER_BALANCE, window.since, "superseded_at", open_too=True)


if __name__ == "__main__":
    sys.exit(main())
