"""The coordinators' log and silver -> rebalances of groups: who had what before and after, why, for how long, and how often.

Writes gold.rebalances, rebalance_members, group_events, rebalance_storms and group_states. What the log says is folded group by
group (jobs/rules/groups); a cluster whose log was never read has what polls show (jobs/rules/group_polls). What polls say of a
rebalance beside that (its coordinator, partitions that nobody has, names of topics) is asked again until they have passed it.

spark-submit jobs/rebalance_history.py --config FILE [--once]
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common import group_log
from jobs.common.cli import run_job
from jobs.common.config import Config, Thresholds
from jobs.common.progress import (
    NEVER,
    Window,
    keep_on,
    pass_over_if_overtaken,
    prepared,
    settled,
    version_of,
    window_over,
)
from jobs.rules import coordinators, folding, group_topics, storms
from jobs.rules.events import row_id
from jobs.rules.folding import GROUP
from schemas import bronze, gold, silver
from schemas.lake import Lake
from schemas.table import Table

JOB = "rebalance_history"
LOOK_BACK = timedelta(minutes=10)
"""How long before a rebalance the states of its coordinator's partition are looked at."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Keep gold up with the log and silver on and on; with `once`, make events of what is new."""
    keep_on(prepare(spark, config), once=once)


def prepare(spark: SparkSession, config: Config) -> Callable[[], None]:
    """Check and make the tables; returns what makes events of what is new, to be called again and again."""
    tables = (bronze.GROUP_LOG, *gold.GROUP_TABLES)
    return prepared(spark, config.lake, tables, partial(apply, config.lake, config.thresholds))


@dataclass(frozen=True)
class News:
    """What a run makes events of: the polls of `window`, and `log`, what the coordinators' log has more.

    `window.clusters` are those of which the log, or descriptions of groups, are read. `is_logged`, `is_polled`: whether there
    are new records, or new polls. `progress`: rows of gold.group_progress when all is done.
    """

    window: Window
    log: DataFrame
    is_logged: bool
    is_polled: bool
    progress: DataFrame


def apply(lake: Lake, thresholds: Thresholds, spark: SparkSession) -> None:
    """Make events of what the log and silver have that is new.

    What happened is written first, then the groups' states, then progress: what a killed run has left, the next one comes to too.
    """
    news = new_news(spark, lake)
    if news is None:
        return
    window = news.window
    groups = lake.read(spark, gold.GROUP_STATES)
    told = (folding.folded(news.log, groups) if news.is_logged else folding.nothing(spark)).localCheckpoint()
    fresh = _rebalances_of(told).localCheckpoint()
    again = _asked_again(news, fresh).localCheckpoint()
    members = _members_of(told, fresh).unionByName(_members_known(window, again))
    since = _earliest(window.since, fresh.select("began_by"), again.select("began_by"), told.select("first_at"))
    log_states = _log_states(window, since).localCheckpoint()
    moves = _moves(log_states, groups, told).localCheckpoint()
    topics = window.read(silver.TOPIC_SNAPSHOTS, since, "superseded_at", open_too=True)

    members = group_topics.with_names(members, topics).localCheckpoint()
    rebalances = group_topics.with_unassigned(fresh.unionByName(again), members, topics)
    rebalances = rebalances.join(F.broadcast(window.clusters.select("cluster_id", "settled_at")), "cluster_id", "left")
    rebalances = coordinators.with_coordinators(rebalances, log_states, moves).localCheckpoint()

    _write_events(window, told, moves)
    _write_rebalances(window, rebalances)
    _write_members(window, members, fresh)
    _write_storms(window, fresh, thresholds)
    _write_states(window, told)
    window.put(news.progress, gold.GROUP_PROGRESS)


def new_news(spark: SparkSession, lake: Lake) -> News | None:
    """What is new; None where nothing is. `spark`: a session of the job's own, for what it writes."""
    polls, log = version_of(spark, lake, silver.PROGRESS), version_of(spark, lake, bronze.GROUP_LOG)
    pass_over_if_overtaken(spark, f"{JOB} {polls.table_id} {log.table_id}", (polls.number << 32) + log.number)
    done = lake.read(spark, gold.GROUP_PROGRESS).localCheckpoint()
    candidates = group_log.candidates(spark, lake, log, done.collect())
    rows = log.rows.limit(0) if candidates is None else candidates
    ids = polls.rows.where("cluster_id IS NOT NULL").select("cluster", F.col("cluster_id").alias("_id"))
    offsets = group_log.offsets_of(done)
    new = group_log.new_rows(
        rows.join(F.broadcast(ids), "cluster", "left")
        .withColumn("cluster_id", F.coalesce("cluster_id", "_id"))
        .drop("_id"),
        offsets,
    ).localCheckpoint()
    logged = new.where("cluster_id IS NOT NULL").groupBy("cluster_id").agg(F.max("cluster").alias("_logged"))
    asked = polls.rows.select("cluster_id", F.col("enriched")["groups"].isNotNull().alias("_asked"))
    clusters = (
        settled(polls.rows)
        .withColumnRenamed("cluster", "_polled")
        .join(asked, "cluster_id")
        .join(done.withColumnRenamed("cluster", "_done"), "cluster_id", "full")
        .join(logged, "cluster_id", "full")
        .where("_asked OR next_offsets IS NOT NULL OR _logged IS NOT NULL")
        .withColumn("cluster", F.coalesce("_polled", "_done", "_logged"))
        .localCheckpoint()
    )
    window = window_over(clusters, lake, JOB)
    if window is None:
        return None
    is_polled = not clusters.where("settled_poll > coalesce(done_poll, '')").isEmpty()
    if not is_polled and candidates is None:
        return None
    # Rows of a cluster whose id is not known yet wait: the log is read again from here.
    waits = not new.where("cluster_id IS NULL").isEmpty()
    table, number = F.lit(log.table_id), F.lit(log.number)
    progress = (
        clusters.drop("next_offsets", "truncated_at")
        .join(group_log.offsets_after(new.where("cluster_id IS NOT NULL"), offsets), "cluster_id", "left")
        .select(
            "cluster_id",
            "cluster",
            "next_offsets",
            "truncated_at",
            (F.col("log_table") if waits else table).alias("log_table"),
            (F.col("log_version") if waits else number).cast("bigint").alias("log_version"),
            F.coalesce("settled_poll", "done_poll").alias("done_poll"),
            F.coalesce("settled_at", "done_at").alias("done_at"),
        )
        .localCheckpoint()
    )
    tells = new.where("cluster_id IS NOT NULL AND record <> 'read'")
    return News(window, tells, not tells.isEmpty(), is_polled, progress)


def _rebalances_of(told: DataFrame) -> DataFrame:
    """The rebalances that the log tells of, as in gold, without what polls say; and `first_at` of the records that told."""
    rows = told.select(*GROUP, "cluster", "log_partition", "first_at", F.inline("rebalances")).withColumns(
        {
            "source": F.lit("log"),
            # Not the offset alone: a truncated log has it twice.
            "id": row_id(*GROUP, "log_partition", "first_offset", F.unix_micros("began_by")),
        }
    )
    return _as_in(rows, gold.REBALANCES, "first_at")


def _members_of(told: DataFrame, rebalances: DataFrame) -> DataFrame:
    """The members of these rebalances, as in gold."""
    ids = rebalances.select(*GROUP, "first_offset", "began_by", F.col("id").alias("rebalance_id"))
    rows = told.select(*GROUP, "cluster", F.inline("members")).join(ids, [*GROUP, "first_offset", "began_by"])
    return _as_in(rows, gold.REBALANCE_MEMBERS)


def _asked_again(news: News, fresh: DataFrame) -> DataFrame:
    """Rebalances in gold of which the new polls may say more: those that had not ended, or whose coordinator moved meanwhile."""
    window = news.window
    rows = window.lake.read(fresh.sparkSession, gold.REBALANCES).limit(0)
    if news.is_polled:
        states = window.new(_log_states(window, window.since))
        moved = coordinators.asked_since(states).localCheckpoint()
        since = _earliest(window.since, moved.select("asked_since"))
        in_doubt = "asked_from IS NULL OR began_by >= asked_from OR ended_by >= asked_from"
        # One that has gone on for long has nothing to ask for but moves.
        goes_on = states.select("cluster_id", F.col("partition").alias("log_partition"), F.lit(True).alias("_moved"))
        rows = (
            window.with_clusters(window.read_gold(gold.REBALANCES, since, "ended_by", open_too=True))
            .where("settled_poll > coalesce(done_poll, '')")
            .join(F.broadcast(moved), "cluster_id", "left")
            .join(F.broadcast(goes_on.distinct()), ["cluster_id", "log_partition"], "left")
            .withColumn("asked_from", F.when(F.col("done_at").isNotNull(), F.least("done_at", "asked_since")))
            .where(f"{in_doubt} OR (ended_by IS NULL AND _moved)")
            .join(fresh.select("id"), "id", "left_anti")
        )
    return _as_in(rows.withColumn("first_at", F.lit(None).cast("timestamp")), gold.REBALANCES, "first_at")


def _members_known(window: Window, rebalances: DataFrame) -> DataFrame:
    """The members of these rebalances, as gold has them."""
    rows = window.read_gold(gold.REBALANCE_MEMBERS, _earliest(NEVER, rebalances.select("began_by")), "began_by")
    rows = rows.join(rebalances.select(F.col("id").alias("rebalance_id")), "rebalance_id", "left_semi")
    return _as_in(rows, gold.REBALANCE_MEMBERS)


def _log_states(window: Window, since: int | None) -> DataFrame:
    """States of the partitions that groups are kept in, those that held at `since` or later."""
    since = None if since is None else since - LOOK_BACK // timedelta(microseconds=1)
    states = window.read(silver.PARTITION_SNAPSHOTS, since, "superseded_at", open_too=True)
    return states.where(F.col("topic") == coordinators.LOG_TOPIC)


def _moves(log_states: DataFrame, groups: DataFrame, told: DataFrame) -> DataFrame:
    """Moves of the coordinators of the groups that were there, as in gold."""
    there = folding.lives(
        groups.join(told, list(GROUP), "left_anti")
        .select(*GROUP, "log_partition", "state")
        .unionByName(told.select(*GROUP, "log_partition", "state"))
    )
    return _as_in(coordinators.moves(log_states, there), gold.GROUP_EVENTS)


def _write_events(window: Window, told: DataFrame, moves: DataFrame) -> None:
    of_log = told.select(*GROUP, "cluster", "log_partition", F.inline("events")).withColumns(
        {
            "source": F.lit("log"),
            # What a record turns out to say when the rest of its batch is read takes the place of what it said alone.
            "id": row_id(*GROUP, "log_partition", "offset", "instance_id", F.unix_micros("began_by")),
        }
    )
    # Of other groups, earlier moves were told before.
    late = moves.join(told.select(*GROUP, "first_at"), list(GROUP)).where("began_by >= first_at").drop("first_at")
    rows = (
        _as_in(of_log, gold.GROUP_EVENTS)
        .unionByName(window.within(moves, "poll").unionByName(late).dropDuplicates(["id"]))
        .localCheckpoint()
    )
    window.write(rows, gold.GROUP_EVENTS, _earliest(NEVER, rows.select("began_by")), "began_by")


def _write_rebalances(window: Window, rows: DataFrame) -> None:
    # One that is told again was open, or had ended by the first of the records that tell it.
    since = _earliest(NEVER, rows.select("ended_by"), rows.select("first_at"))
    window.write(rows, gold.REBALANCES, since, "ended_by", open_too=True)


def _write_members(window: Window, rows: DataFrame, fresh: DataFrame) -> None:
    since = _earliest(NEVER, rows.select("began_by"))
    stored = window.read_gold(gold.REBALANCE_MEMBERS, since, "began_by")
    # Of a rebalance that goes on, who came and went is not a member of it after all.
    gone = stored.join(fresh.select(F.col("id").alias("rebalance_id")), "rebalance_id", "left_semi").join(
        rows, list(gold.REBALANCE_MEMBERS.key), "left_anti"
    )
    window.write(rows, gold.REBALANCE_MEMBERS, since, "began_by", gone=gone)


def _write_storms(window: Window, changed: DataFrame, thresholds: Thresholds) -> None:
    """Look anew at what hangs together with rebalances that are new."""
    if changed.isEmpty():
        return
    longest = max(thresholds.storm_window, thresholds.crash_loop_window)
    back_to = _earliest(NEVER, changed.select("began_by")) - longest // timedelta(microseconds=1)
    known = window.read_gold(gold.REBALANCE_STORMS, back_to, "last_by").localCheckpoint()
    spans = storms.spans(changed, known, longest).localCheckpoint()
    since = _earliest(back_to, spans.select("since"))

    def of_then(table: Table) -> DataFrame:
        return (
            window.read_gold(table, since, "began_by").join(F.broadcast(spans), list(GROUP)).where("began_by >= since")
        )

    found = (
        storms.storms(of_then(gold.REBALANCES), thresholds.storm, thresholds.storm_window)
        .unionByName(
            storms.crash_loops(of_then(gold.REBALANCE_MEMBERS), thresholds.crash_loop, thresholds.crash_loop_window)
        )
        .join(spans, list(GROUP))
        .where("last_by >= affected_from")
        .localCheckpoint()
    )
    affected = known.join(spans, list(GROUP)).where("last_by >= affected_from")
    window.write(found, gold.REBALANCE_STORMS, back_to, "last_by", gone=affected.join(found, "id", "left_anti"))


def _write_states(window: Window, told: DataFrame) -> None:
    rows = told.withColumn("updated_at", F.current_timestamp())
    if not rows.isEmpty():
        window.put(rows, gold.GROUP_STATES)


def _earliest(since: int | None, *times: DataFrame) -> int | None:
    """The earliest of these times (frames of one column), or `since` where that is earlier; microseconds, None: from the beginning."""
    if since is None:
        return None
    columns = reduce(DataFrame.union, times)
    earliest = columns.agg(F.min(F.unix_micros(columns.columns[0]))).collect()[0][0]
    return since if earliest is None else min(since, earliest)


def _as_in(rows: DataFrame, table: Table, *more: str) -> DataFrame:
    """The columns of a gold table but updated_at, those that `rows` lack as null; and `more`."""
    there = set(rows.columns)
    columns = [column for column in table.columns if column.generated_as is None and column.name != "updated_at"]
    given = [(F.col(c.name) if c.name in there else F.lit(None)).cast(c.type).alias(c.name) for c in columns]
    return rows.select(*given, *more)


if __name__ == "__main__":
    sys.exit(main())
