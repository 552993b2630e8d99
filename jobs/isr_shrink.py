"""Silver snapshots -> who left in-sync replicas, for how long, and how bad it was meanwhile.

Writes gold.isr_changes, gold.isr_episodes and gold.broker_incidents, by the rules of jobs/rules/isr.py.

spark-submit jobs/isr_shrink.py --config FILE [--once]
"""

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import run_job
from jobs.common.config import Config, Thresholds
from jobs.common.progress import Window, keep_on, new_window, prepared
from jobs.rules import isr
from jobs.rules.events import PARTITION, held_at, is_replica
from jobs.rules.leaders import failed_leaders
from jobs.rules.levels import with_finalized_levels
from jobs.rules.lookahead import failed_within, gone_brokers, look_ahead_until, shown_within
from schemas import gold, silver
from schemas.lake import Lake

JOB = "isr_shrink"
OUT = "change IN ('left', 'absent')"
"""The changes of gold.isr_changes after which a broker is out of an ISR."""
BROKER = ("cluster_id", "broker_id")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Keep gold up with silver on and on; with `once`, make events of what is new."""
    keep_on(prepare(spark, config), once=once)


def prepare(spark: SparkSession, config: Config) -> Callable[[], None]:
    """Check and make the tables; returns what makes events of what is new, to be called again and again."""
    return prepared(spark, config.lake, gold.ISR_TABLES, partial(apply, config.lake, config.thresholds))


def apply(lake: Lake, thresholds: Thresholds, spark: SparkSession) -> None:
    """Make events of what silver has that is new."""
    window = new_window(spark, lake, JOB)
    if window is None:
        return
    going_on = _going_on(window)
    since = _oldest(window, going_on)
    states = window.read(silver.PARTITION_SNAPSHOTS, since, "first_seen_at", "superseded_at").localCheckpoint()
    brokers = window.read(silver.BROKER_SNAPSHOTS, since, "superseded_at", open_too=True).localCheckpoint()
    began, ended = window.new(states).localCheckpoint(), window.ended(states).localCheckpoint()
    clusters = window.read(silver.CLUSTER_SNAPSHOTS, None).localCheckpoint()

    reassignments = window.read(silver.REASSIGNMENTS, window.since, "superseded_at", open_too=True)
    left = isr.departures(began, reassignments).localCheckpoint()
    absences = isr.with_ends(
        _described(left, window, brokers, thresholds).unionByName(going_on, allowMissingColumns=True),
        isr.returns(began, ended),
    ).localCheckpoint()
    decided = _with_causes(window, absences, states, brokers, clusters)
    came = _with_racks(isr.arrivals(began, absences), brokers).withColumn("closed_by", F.col("began_by"))
    changes = decided.unionByName(came, allowMissingColumns=True)
    window.write(changes, gold.ISR_CHANGES, since, "closed_by", open_too=True)
    episodes = _episodes(window, states, began, ended, absences=absences, clusters=clusters).localCheckpoint()
    window.write(episodes, gold.ISR_EPISODES, window.since, "ended_by", open_too=True)
    _write_incidents(window, absences.where(is_replica()), episodes)
    window.note_done()


def _going_on(window: Window) -> DataFrame:
    """Rows of gold.isr_changes that were still to change when the window began, as they were then."""
    rows = window.known(window.read_gold(gold.ISR_CHANGES, window.since, "closed_by", open_too=True).where(OUT))
    rows = window.with_clusters(rows)
    later = F.coalesce(F.col("ended_poll") > F.col("done_poll"), F.lit(False))
    ends = ("ended_poll", "ended_after", "ended_by", "ended_as", "duration_ms_min", "duration_ms_max")
    return (
        rows.withColumns({name: F.when(~later, F.col(name)) for name in ends})
        .withColumn("cause", F.when(_is_decided("done_at"), F.col("cause")))
        .where("ended_poll IS NULL OR cause IS NULL")
        .select(*(name for name in gold.ISR_CHANGES.column_names if name not in {"closed_by", "updated_at"}))
        .localCheckpoint()
    )


def _is_decided(at: str) -> Column:
    """Whether what was seen until `at` tells why a broker is out."""
    return (F.col("cause_by") < F.col(at)) | ~is_replica()


def _oldest(window: Window, going_on: DataFrame) -> int | None:
    """The time (microseconds) from which on this run has to know what silver says; None for all of it."""
    if window.since is None:
        return None
    undecided = going_on.where("cause IS NULL").agg(F.min(F.unix_micros("began_by"))).collect()[0][0]
    return window.since if undecided is None else min(window.since, undecided)


def _described(left: DataFrame, window: Window, brokers: DataFrame, thresholds: Thresholds) -> DataFrame:
    """New departures with rack, flapping and the end of their look-ahead."""
    back_to = None if window.since is None else window.since - thresholds.flap_window // timedelta(microseconds=1)
    earlier = window.known(window.read_gold(gold.ISR_CHANGES, back_to, "began_by").where("change = 'left'"))
    flapping = isr.flapping(left.where("change = 'left'"), earlier, thresholds.flaps, thresholds.flap_window)
    return (
        _with_racks(left, brokers)
        .join(flapping, "id", "left")
        .withColumn("cause_by", look_ahead_until(F.col("began_by"), F.col("interval_ms")))
    )


def _with_racks(changes: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add `rack`, as listed by the poll of the change or the one before."""
    listed = brokers.select(
        "cluster_id", "broker_id", F.col("rack").alias("_rack"), F.col("first_poll").alias("_from"), "superseded_poll"
    )
    racks = (
        changes.select("id", "cluster_id", "broker_id", "poll")
        .join(F.broadcast(listed), ["cluster_id", "broker_id"])
        .where("_from <= poll AND (superseded_poll IS NULL OR superseded_poll >= poll)")
        .groupBy("id")
        .agg(F.max_by("_rack", "_from").alias("rack"))
    )
    return changes.join(racks, "id", "left")


def _with_causes(
    window: Window, absences: DataFrame, states: DataFrame, brokers: DataFrame, clusters: DataFrame
) -> DataFrame:
    """Decide the causes of absences whose look-ahead is over, and say from when on a row changes no more."""
    together = (
        absences.where(is_replica() & (F.col("change") == isr.LEFT))
        .groupBy("cluster_id", "poll", "leader")
        .agg(F.count_distinct("broker_id").alias("_together"))
    )
    events = absences.where("cause IS NULL").withColumn("until", F.col("cause_by")).localCheckpoint()
    with_levels = with_finalized_levels(states.withColumn("poll", F.col("first_poll")), clusters)
    no, none = F.lit(False), F.lit(0)
    went = F.coalesce("gone", no) | F.coalesce("offline", no) | F.coalesce("failed", no)
    inferred = isr.cause(went, F.coalesce("back", no), F.coalesce("_together", none))
    closed_by = F.when(F.col("ended_by").isNotNull() & F.col("cause").isNotNull(), F.greatest("ended_by", "cause_by"))
    return (
        window.with_clusters(absences)
        .join(gone_brokers(events, brokers), "id", "left")
        .join(failed_within(events, failed_leaders(with_levels)), "id", "left")
        .join(shown_within(events, states), "id", "left")
        .join(together, ["cluster_id", "poll", "leader"], "left")
        .withColumn("cause", F.coalesce("cause", F.when(_is_decided("settled_at"), inferred)))
        .withColumn("closed_by", closed_by)
    )


def _episodes(
    window: Window, states: DataFrame, began: DataFrame, ended: DataFrame, *, absences: DataFrame, clusters: DataFrame
) -> DataFrame:
    """Rows of gold.isr_episodes that are new, or may say more than before."""
    configs = window.read(silver.TOPIC_CONFIGS, window.since, "superseded_at", open_too=True).localCheckpoint()
    changed = window.new(configs).unionByName(window.ended(configs)).select("cluster_id", "topic").distinct()
    changed = changed.localCheckpoint()
    touched = began.unionByName(ended).select(*PARTITION).distinct()
    before = window.before(states).join(touched, list(PARTITION), "left_semi")
    if not changed.isEmpty():
        # Partitions that have not changed themselves are at another level by their topic's settings.
        of_topics = window.before(
            window.read(silver.PARTITION_SNAPSHOTS, window.since, "superseded_at", open_too=True)
        ).join(F.broadcast(changed), ["cluster_id", "topic"], "left_semi")
        before = before.unionByName(of_topics).dropDuplicates([*PARTITION, "first_poll"])
    relevant = _with_out(before.unionByName(began), absences).localCheckpoint()
    settings = window.before(configs).unionByName(window.new(configs))
    settings = settings.unionByName(window.ended(configs)).dropDuplicates(["cluster_id", "topic", "first_poll"])
    levels = isr.with_levels(
        with_finalized_levels(isr.marks(relevant, ended), clusters), ("under_replicated", "offline")
    ).unionByName(
        isr.with_levels(
            with_finalized_levels(isr.marks(relevant, ended, settings), clusters), ("at_min_isr", "under_min_isr")
        )
    )
    so_far = window.with_clusters(
        window.known(window.read_gold(gold.ISR_EPISODES, window.since, "ended_by", open_too=True))
    ).where("ended_poll IS NULL OR ended_poll > done_poll")
    marked = window.with_clusters(levels).withColumn("before", F.col("poll") <= F.coalesce("done_poll", F.lit("")))
    return isr.episodes(marked, so_far)


def _with_out(states: DataFrame, absences: DataFrame) -> DataFrame:
    """Add `out`, the replicas that are out of the ISR, sorted."""
    key = [*PARTITION, "first_poll"]
    spans = absences.where(is_replica()).select(*PARTITION, "broker_id", "poll", "ended_poll")
    out = (
        states.select(*key, F.explode(F.array_except("replicas", "isr")).alias("broker_id"))
        .join(spans, [*PARTITION, "broker_id"])
        .where(held_at("first_poll", first="poll", superseded="ended_poll"))
        .groupBy(*key)
        .agg(F.array_sort(F.collect_set("broker_id")).alias("out"))
    )
    return states.join(out, key, "left").withColumn("out", F.coalesce("out", isr.nobody()))


def _write_incidents(window: Window, absences: DataFrame, episodes: DataFrame) -> None:
    """Make anew the incidents of which something may be other than before, each from its first departure on.

    What a run costs follows the length of these, not of those that only go on.
    """
    merged = isr.MERGED_WITHIN // timedelta(microseconds=1)
    back_to = None if window.since is None else window.since - merged
    known = window.known(window.read_gold(gold.BROKER_INCIDENTS, back_to, "ended_by", open_too=True))
    going_on = (
        window.with_clusters(known)
        .where(F.col("ended_by").isNull() | (F.col("ended_by") > F.col("done_at") - F.lit(isr.MERGED_WITHIN)))
        .groupBy(*BROKER)
        .agg(F.min("began_by").alias("_since"), F.min(_badness("lowest_level")).alias("_lowest"))
        .localCheckpoint()
    )
    touched = _touched(absences, window.within(episodes, "poll"), going_on)
    spans = (
        touched.groupBy(*BROKER)
        .agg(F.min("began_by").alias("_from"))
        .join(going_on, list(BROKER), "left")
        .select(*BROKER, F.least("_from", "_since").alias("_from"))
        .localCheckpoint()
    )
    begin = spans.agg(F.min(F.unix_micros("_from"))).collect()[0][0]
    if begin is None:
        return
    of_then = (
        window.read_gold(gold.ISR_CHANGES, begin, "began_by")
        .where(OUT)
        .where(is_replica())
        .join(F.broadcast(spans), list(BROKER))
        .where("began_by >= _from")
        .localCheckpoint()
    )
    episodes = window.read_gold(gold.ISR_EPISODES, begin, "ended_by", open_too=True).select(
        *PARTITION, F.col("poll").alias("_begin"), F.col("ended_poll").alias("_end"), F.col("level").alias("_level")
    )
    overlap = (F.col("_end").isNull() | (F.col("_end") > F.col("poll"))) & (
        F.col("ended_poll").isNull() | (F.col("_begin") < F.col("ended_poll"))
    )
    reached = (
        of_then.select("id", *PARTITION, "poll", "ended_poll")
        .join(episodes, list(PARTITION))
        .where(overlap)
        .groupBy("id")
        .agg(F.max(_badness("_level")).alias("level"))
    )
    window.write(isr.incidents(of_then, reached), gold.BROKER_INCIDENTS, begin, "began_by")


def _touched(absences: DataFrame, new_episodes: DataFrame, going_on: DataFrame) -> DataFrame:
    """Those of `absences` by which an incident may be other than before the run.

    A broker left, or the cause is decided; it is out of no ISR any more; a partition that lacks it is worse off than any was.
    """
    still_out = absences.where("ended_poll IS NULL").select(*BROKER).distinct()
    worst = new_episodes.groupBy(*PARTITION).agg(F.max(_badness("level")).alias("_level"))
    worse_off = absences.join(worst, list(PARTITION)).join(going_on, list(BROKER)).where("_level > _lowest")
    return (
        absences.where("cause IS NULL")
        .unionByName(absences.where("ended_poll IS NOT NULL").join(still_out, list(BROKER), "left_anti"))
        .unionByName(worse_off.select(*absences.columns))
    )


def _badness(level: str) -> Column:
    """The place of a level in gold.LEVELS."""
    return F.array_position(F.array(*map(F.lit, gold.LEVELS)), F.col(level)).cast("int") - 1


if __name__ == "__main__":
    sys.exit(main())
