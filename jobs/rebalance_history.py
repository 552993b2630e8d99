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

from pyspark.sql import Column, DataFrame, SparkSession
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
from jobs.rules import coordinators, folding, group_polls, group_topics, storms
from jobs.rules.events import GROUP, row_id
from jobs.rules.isr import with_durations
from jobs.rules.lookahead import look_ahead_ms, look_ahead_until
from schemas import bronze, gold, silver
from schemas.lake import Lake
from schemas.table import Table

JOB = "rebalance_history"
OF_POLLS = "{}"
"""State of a group that only polls tell of."""


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
    are new records, or new polls. `taken_over`: cluster_id of those of which polls told so far, and the log does from now on.
    `progress`: rows of gold.group_progress when all is done. `look_ahead`: how long moves may be followed, in the cluster where that is
    longest.
    """

    window: Window
    log: DataFrame
    is_logged: bool
    is_polled: bool
    taken_over: DataFrame
    progress: DataFrame
    look_ahead: timedelta


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
    group_states = _new_group_states(news)
    polled = _kept_in(news, group_polls.polled(group_states, _going_on(news))).localCheckpoint()
    first_told = _first_told(told, groups).localCheckpoint()
    yielding = _yielding(news, first_told).localCheckpoint()
    of_log, of_polls = _no_looser(window, told), _placed(group_polls.rebalances(polled), polled)
    fresh = of_log.unionByName(of_polls).localCheckpoint()
    again = _asked_again(news, fresh.select("id").union(yielding.select("id"))).localCheckpoint()
    since = _earliest(window.since, fresh.select("began_by"), again.select("began_by"), told.select("first_at"))
    log_states = _log_states(news, since).localCheckpoint()
    moved = log_states.where("leader <> prev_leader")

    if news.is_logged or not all(rows.isEmpty() for rows in (polled, again, yielding, window.new(moved))):
        began = group_polls.begins(_group_states(window, since))
        rebalances = group_polls.bounded(fresh.unionByName(again), began).localCheckpoint()
        topics = window.read(silver.TOPIC_SNAPSHOTS, since, "superseded_at", open_too=True)
        members = _members_of(told).unionByName(_as_in(group_polls.members(polled), gold.REBALANCE_MEMBERS))
        members = members.unionByName(_members_known(window, again, rebalances))
        members = group_topics.with_names(members, topics).localCheckpoint()
        moves = _moves(news, moved, _earliest(since, rebalances.select("began_by")), groups, told)
        rebalances = group_topics.with_unassigned(rebalances, members, topics)
        rebalances = rebalances.join(F.broadcast(window.clusters.select("cluster_id", "settled_at")), "cluster_id")
        rebalances = coordinators.with_coordinators(rebalances, log_states, moves).localCheckpoint()
        given_way = _given_way(window, yielding, rebalances).localCheckpoint()

        _write_events(window, told, _placed(group_polls.events(polled), polled), moves, first_told)
        # Members first: those of a rebalance that gives way are found by it.
        _write_members(window, members, rebalances, fresh, given_way)
        _write_rebalances(window, rebalances, told, given_way)
        _write_storms(window, _begins(rebalances, given_way), thresholds)
        _write_states(news, told, group_states, groups)
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
    asked = polls.rows.select(
        "cluster_id",
        F.col("enriched")["groups"].isNotNull().alias("_asked"),
        look_ahead_ms(F.col("applied_interval_ms")).alias("look_ahead_ms"),
    )
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
    is_new = F.coalesce(F.col("settled_poll") > F.coalesce("done_poll", F.lit("")), F.lit(False))
    is_polled, look_ahead = clusters.agg(F.max(is_new), F.max("look_ahead_ms")).collect()[0]
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
    taken_over = clusters.where("_logged IS NOT NULL AND _done IS NOT NULL AND next_offsets IS NULL").select(
        "cluster_id"
    )
    return News(
        window,
        tells,
        is_logged=not tells.isEmpty(),
        is_polled=is_polled,
        taken_over=taken_over.localCheckpoint(),
        progress=progress,
        look_ahead=timedelta(milliseconds=look_ahead or 0),
    )


# --- what the log tells ---


def _rebalances_of(told: DataFrame) -> DataFrame:
    """The rebalances that the log tells, as in gold but for what polls say."""
    rows = told.select(*GROUP, "cluster", "log_partition", F.inline("rebalances"))
    return _as_in(rows.withColumns({"source": F.lit("log"), "id": _id_in_log()}), gold.REBALANCES)


def _no_looser(window: Window, told: DataFrame) -> DataFrame:
    """The rebalances that the log tells, with the bounds of begins that gold has already.

    The polls that told these may be long past.
    """
    rebalances = _rebalances_of(told)
    since = _earliest(NEVER, rebalances.select("ended_by"), told.select("first_at"))
    known = window.read_gold(gold.REBALANCES, since, "ended_by", open_too=True)
    known = known.select("id", F.col("began_after").alias("after"), F.col("began_by").alias("by"))
    return group_polls.with_bounds(rebalances, known)


def _members_of(told: DataFrame) -> DataFrame:
    """The members of the rebalances that the log tells, as in gold."""
    rows = told.select(*GROUP, "cluster", "log_partition", F.inline("members"))
    return _as_in(rows.withColumn("rebalance_id", _id_in_log()), gold.REBALANCE_MEMBERS)


def _id_in_log() -> Column:
    """The id of a rebalance that the log tells, by what it tells: not by the offset alone, which a truncated log has twice."""
    return row_id(*GROUP, "log_partition", "first_offset", F.unix_micros("began_by"))


# --- what polls tell of clusters whose log was never read ---


def _unread(news: News, table: Table, since: int | None, *times: str, open_too: bool = False) -> DataFrame:
    """Rows of a snapshot table of these clusters, as Window.read; with done_poll and the rest of the window's."""
    window = news.window
    unread = news.progress.where("next_offsets IS NULL").select("cluster_id")
    none = unread.isEmpty()
    rows = window.read(table, NEVER if none else since, *times, open_too=open_too and not none)
    return window.with_clusters(rows).join(F.broadcast(unread), "cluster_id", "left_semi")


def _new_group_states(news: News) -> DataFrame:
    """States of groups that are new, or ended; and where a rebalance goes on, those that it began with."""
    since = _earliest(news.window.since, _going_on(news).select("began_by"))
    return _unread(news, silver.GROUP_SNAPSHOTS, since, "first_seen_at", "superseded_at")


def _kept_in(news: News, groups: DataFrame) -> DataFrame:
    """`groups` with the partition of the log that each is kept in, `log_partition`."""
    topics = _unread(news, silver.TOPIC_SNAPSHOTS, news.window.since, "superseded_at", open_too=True)
    partitions = (
        topics.where((F.col("topic") == coordinators.LOG_TOPIC) & F.col("partition_count").isNotNull())
        .groupBy("cluster_id")
        .agg(F.max_by("partition_count", "first_poll").alias("_partitions"))
    )
    log_partition = coordinators.log_partition(F.col("group_id"), F.col("_partitions"))
    joined = groups.join(F.broadcast(partitions), "cluster_id", "left")
    return joined.withColumn("log_partition", log_partition).drop("_partitions")


def _going_on(news: News) -> DataFrame:
    """Rebalances from polls that went on when the window began."""
    window = news.window
    rows = window.known(
        window.read_gold(gold.REBALANCES, window.since, "ended_by", open_too=True).where("source = 'polls'")
    )
    return (
        window.with_clusters(rows).where("ended_by IS NULL OR ended_by > done_at").select(*gold.REBALANCES.column_names)
    )


def _placed(rows: DataFrame, groups: DataFrame) -> DataFrame:
    """`rows` with the log_partition of their groups."""
    places = groups.select(*GROUP, F.col("log_partition").alias("_log_partition"))
    joined = rows.join(places, list(GROUP)).withColumn("log_partition", F.col("_log_partition"))
    return joined.select(*rows.columns)


def _first_told(told: DataFrame, groups: DataFrame) -> DataFrame:
    """cluster_id, group_id, first_at, begun: groups that polls told of so far, and the log does from there on.

    `first_at` is the time of the first record, `begun` the begin of the first rebalance that it tells, or null.
    """
    of_polls = groups.where(F.col("state") == OF_POLLS).select(*GROUP)
    begun = F.array_min(F.col("rebalances.began_by")).alias("begun")
    return told.select(*GROUP, "first_at", begun).join(of_polls, list(GROUP), "left_semi")


def _yielding(news: News, first_told: DataFrame) -> DataFrame:
    """Rebalances from polls of these groups, and those that go on in clusters whose log is read from now on; with `first_at`."""
    none = first_told.isEmpty() and news.taken_over.isEmpty()
    # What had ended before is not told twice.
    since = _earliest(NEVER, first_told.select(F.least("first_at", "begun").alias("first")))
    rows = news.window.read_gold(gold.REBALANCES, since, "ended_by", open_too=not none).where("source = 'polls'")
    ended_here = news.taken_over.withColumn("_taken_over", F.lit(True))
    return (
        rows.join(F.broadcast(first_told), list(GROUP), "left")
        .join(F.broadcast(ended_here), "cluster_id", "left")
        .where("first_at IS NOT NULL OR (_taken_over AND ended_by IS NULL)")
        .drop("_taken_over", "begun")
    )


def _given_way(window: Window, yielding: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Rebalances from polls that are `gone`, where the log tells them too; others that went on end here, nobody knows how."""
    begun = rebalances.where("source = 'log'").groupBy(*GROUP).agg(F.min("began_by").alias("_begun"))
    goes_on = F.col("ended_by").isNull()
    return with_durations(
        yielding.join(begun, list(GROUP), "left")
        .join(F.broadcast(window.clusters.select("cluster_id", "done_at")), "cluster_id")
        .withColumns(
            {
                "gone": F.coalesce(F.col("began_by") >= F.least("first_at", "_begun"), F.lit(False)),
                "ended_as": F.when(goes_on, "unknown").otherwise(F.col("ended_as")),
                "ended_by": F.greatest("began_by", F.coalesce("ended_by", "first_at", "done_at")),
            }
        )
    )


# --- what polls tell beside the log ---


def _asked_again(news: News, known: DataFrame) -> DataFrame:
    """Rebalances in gold of which the new polls may say more: those that had not ended, or whose coordinator moved meanwhile.

    Without `known`, ids of those that are looked at anyway.
    """
    window = news.window
    rows = window.with_clusters(window.lake.read(known.sparkSession, gold.REBALANCES).limit(0))
    if news.is_polled:
        states = window.new(_log_states(news, window.since)).localCheckpoint()
        moved = coordinators.asked_since(states).localCheckpoint()
        since = _earliest(window.since, moved.select("asked_since"))
        # One that has gone on for long has nothing to ask for but moves.
        goes_on = states.select("cluster_id", F.col("partition").alias("log_partition"), F.lit(True).alias("_moved"))
        asked_from = F.when(F.col("done_at").isNotNull(), F.least("done_at", "asked_since"))
        rows = (
            window.with_clusters(window.read_gold(gold.REBALANCES, since, "ended_by", open_too=True))
            .where("settled_poll > coalesce(done_poll, '')")
            .join(F.broadcast(moved), "cluster_id", "left")
            .join(F.broadcast(goes_on.distinct()), ["cluster_id", "log_partition"], "left")
            .withColumn("_from", asked_from)
            .where("_from IS NULL OR began_by >= _from OR ended_by >= _from OR (ended_by IS NULL AND _moved)")
            .join(known, "id", "left_anti")
        )
    return _as_in(rows, gold.REBALANCES)


def _members_known(window: Window, again: DataFrame, rebalances: DataFrame) -> DataFrame:
    """The members of the rebalances `again`, as gold has them; `rebalances` has those, and others, with the begins that they get."""
    # A run that was killed may have written the members with the new begin, and not yet the rebalance.
    begins = rebalances.join(again.select("id"), "id", "left_semi").select("began_by").union(again.select("began_by"))
    rows = window.read_gold(gold.REBALANCE_MEMBERS, _earliest(NEVER, begins), "began_by")
    rows = rows.join(again.select(F.col("id").alias("rebalance_id")), "rebalance_id", "left_semi")
    return _as_in(rows, gold.REBALANCE_MEMBERS)


def _log_states(news: News, since: int | None) -> DataFrame:
    """States of the partitions that groups are kept in: those that held at `since`, or that what was then may have followed."""
    since = None if since is None else since - news.look_ahead // timedelta(microseconds=1)
    states = news.window.read(silver.PARTITION_SNAPSHOTS, since, "superseded_at", open_too=True)
    return states.where(F.col("topic") == coordinators.LOG_TOPIC)


def _moves(news: News, moved: DataFrame, since: int | None, groups: DataFrame, told: DataFrame) -> DataFrame:
    """Moves of the coordinators of the groups that were there, as in gold: those whose look-ahead was not over by `since`.

    `moved`: states of partitions with another leader than the one before. `since`: microseconds, None: from the beginning.
    """
    if since is not None:
        # A coordinator may be where it is for months, and nothing that is told now followed its coming there.
        until = look_ahead_until(F.col("first_seen_at"), F.col("interval_ms"))
        moved = moved.where(until >= F.timestamp_micros(F.lit(since)))
    if moved.isEmpty():
        return _as_in(moved.withColumn("group_id", F.lit("")), gold.GROUP_EVENTS)
    of_log = folding.lives(
        groups.join(told, list(GROUP), "left_anti")
        .select(*GROUP, "log_partition", "state")
        .unionByName(told.select(*GROUP, "log_partition", "state"))
    )
    since = _earliest(NEVER, moved.select("first_seen_at"))
    of_polls = _unread(news, silver.GROUP_SNAPSHOTS, since, "superseded_at", open_too=True)
    of_polls = _kept_in(news, of_polls).select(
        *GROUP,
        "log_partition",
        F.col("first_seen_at").alias("known_since"),
        F.col("superseded_at").alias("known_until"),
    )
    moves = coordinators.moves(moved, of_log.unionByName(of_polls))
    return _as_in(moves, gold.GROUP_EVENTS).localCheckpoint()


def _group_states(window: Window, since: int | None) -> DataFrame:
    """States of groups as polls told them, without their members, those that held at `since` or later."""
    states = window.read(silver.GROUP_SNAPSHOTS, since, "superseded_at", open_too=True)
    return states.drop("members", "prev_members")


# --- writes ---


def _write_events(
    window: Window, told: DataFrame, of_polls: DataFrame, moves: DataFrame, first_told: DataFrame
) -> None:
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
        .unionByName(of_polls)
        .unionByName(window.within(moves, "poll").unionByName(late).dropDuplicates(["id"]))
        .localCheckpoint()
    )
    since = _earliest(NEVER, rows.select("began_by"), first_told.select("first_at"))
    gone = (
        window.read_gold(gold.GROUP_EVENTS, since, "began_by")
        .where((F.col("source") == "polls") & (F.col("event") != coordinators.MOVED))
        .join(F.broadcast(first_told), list(GROUP))
        .where("began_by >= first_at")
    )
    window.write(rows, gold.GROUP_EVENTS, since, "began_by", gone=gone)


def _write_rebalances(window: Window, rows: DataFrame, told: DataFrame, given_way: DataFrame) -> None:
    # One that is told again was open, or had ended by the first of the records that tell it.
    kept = _as_in(given_way.where("NOT gone"), gold.REBALANCES)
    times = (rows.select("ended_by"), told.select("first_at"), given_way.select("began_by"))
    window.write(
        _as_in(rows, gold.REBALANCES).unionByName(kept),
        gold.REBALANCES,
        _earliest(NEVER, *times),
        "ended_by",
        open_too=True,
        gone=given_way.where("gone"),
    )


def _write_members(
    window: Window, rows: DataFrame, rebalances: DataFrame, fresh: DataFrame, given_way: DataFrame
) -> None:
    begins = rebalances.select(F.col("id").alias("rebalance_id"), "began_by")
    rows = rows.drop("began_by").join(begins, "rebalance_id")
    since = _earliest(NEVER, begins.select("began_by"), given_way.select("began_by"))
    stored = window.read_gold(gold.REBALANCE_MEMBERS, since, "began_by")
    # Of a rebalance that goes on, who came and went is not a member of it after all.
    whole = fresh.select(F.col("id").alias("rebalance_id"))
    dropped = stored.join(whole, "rebalance_id", "left_semi").join(rows, list(gold.REBALANCE_MEMBERS.key), "left_anti")
    gave_way = stored.join(
        given_way.where("gone").select(F.col("id").alias("rebalance_id")), "rebalance_id", "left_semi"
    )
    window.write(rows, gold.REBALANCE_MEMBERS, since, "began_by", gone=dropped.unionByName(gave_way))


def _write_storms(window: Window, changed: DataFrame, thresholds: Thresholds) -> None:
    """Look anew at what hangs together with rebalances that may be new, begin elsewhere, or gave way."""
    if changed.isEmpty():
        return
    longest = max(thresholds.storm_window, thresholds.crash_loop_window)
    affected_from = _earliest(NEVER, changed.select("began_by")) - longest // timedelta(microseconds=1)
    known = window.read_gold(gold.REBALANCE_STORMS, affected_from, "last_by").localCheckpoint()
    spans = storms.spans(changed, known, longest).localCheckpoint()
    since = _earliest(affected_from, spans.select("since"))

    def since_then(table: Table) -> DataFrame:
        rows = window.read_gold(table, since, "began_by").join(F.broadcast(spans), list(GROUP))
        return rows.where("began_by >= since").select(*table.column_names)

    found = (
        storms.storms(since_then(gold.REBALANCES), thresholds.storm, thresholds.storm_window)
        .unionByName(
            storms.crash_loops(since_then(gold.REBALANCE_MEMBERS), thresholds.crash_loop, thresholds.crash_loop_window)
        )
        .join(F.broadcast(spans), list(GROUP))
        .where("last_by >= affected_from")
        .drop("since", "affected_from")
        .localCheckpoint()
    )
    over = known.join(spans, list(GROUP)).where("last_by >= affected_from").join(found, "id", "left_anti")
    window.write(found, gold.REBALANCE_STORMS, affected_from, "last_by", gone=over)


def _begins(rebalances: DataFrame, given_way: DataFrame) -> DataFrame:
    """cluster_id, group_id, began_by: of rebalances that are told, or gave way.

    Also of those that are only asked again: a run that was killed may have moved their begins, and written nothing else.
    """
    columns = [*GROUP, "began_by"]
    return rebalances.select(*columns).unionByName(given_way.where("gone").select(*columns)).localCheckpoint()


def _write_states(news: News, told: DataFrame, group_states: DataFrame, groups: DataFrame) -> None:
    done = F.coalesce("done_poll", F.lit(""))
    of_polls = (
        group_states.where((F.col("first_poll") > done) | (F.col("superseded_poll") > done))
        .groupBy(*GROUP)
        .agg(
            F.max("cluster").alias("cluster"),
            F.max_by(F.when(F.col("ended_as").isNull(), F.col("group_type")), "first_poll").alias("group_type"),
            F.min("first_seen_at").alias("_seen"),
        )
        .join(groups.select(*GROUP, F.col("known_since").alias("_known")), list(GROUP), "left")
        .withColumns({"known_since": F.least("_seen", "_known"), "state": F.lit(OF_POLLS)})
    )
    names = [name for name in gold.GROUP_STATES.column_names if name != "updated_at"]
    rows = told.select(*names).unionByName(_kept_in(news, of_polls).select(*names))
    news.window.write(rows, gold.GROUP_STATES, None)


def _earliest(since: int | None, *times: DataFrame) -> int | None:
    """The earliest of these times (frames of one column), or `since` where that is earlier; microseconds, None: from the beginning."""
    if since is None:
        return None
    columns = reduce(DataFrame.union, times)
    earliest = columns.agg(F.min(F.unix_micros(columns.columns[0]))).collect()[0][0]
    return since if earliest is None else min(since, earliest)


def _as_in(rows: DataFrame, table: Table) -> DataFrame:
    """The columns of a gold table but updated_at, those that `rows` lack as null."""
    there = set(rows.columns)
    columns = [column for column in table.columns if column.generated_as is None and column.name != "updated_at"]
    given = [(F.col(c.name) if c.name in there else F.lit(None)).cast(c.type).alias(c.name) for c in columns]
    return rows.select(*given)


if __name__ == "__main__":
    sys.exit(main())
