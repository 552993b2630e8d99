"""Bronze polls and the history so far -> what to write to silver. Pure: DataFrames in, DataFrames out.

Within a run, accepted polls of a cluster are numbered: `ord` 0 is the last one applied, 1, 2, ... follow. History so far
enters as observations of ord 0, new answers as later ones; the same rules then make intervals of brokers, topics,
partitions and cluster levels (jobs/rules/intervals.py).
"""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules import acceptance, enrichments, presence
from jobs.rules.intervals import intervals
from schemas import silver
from schemas.bronze import ENRICHMENT_COLUMNS, TOPIC_COLUMNS
from schemas.table import Table

TRUSTED_EPOCHS_VERSION = 9
"""Metadata versions below do not carry leader epochs that can be trusted (KAFKA-9212)."""

TOPIC_STATE = ("topic_id", "error_code", "is_internal", "partition_count")
PARTITION_STATE = ("topic_id", "error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")
BROKER_STATE = ("host", "port", "rack")
CLUSTER_STATE = ("metadata_version_level", "elr_version_level")


@dataclass(frozen=True)
class Intake:
    """What a run takes in: polls as in bronze, those that waited before among them.

    `headers` has a row for each poll, late ones too, with `applied` (progress of its cluster, or null), `claimed_id` (the
    cluster id that the alias stands for), `late`, `refused`, `header_digest`, and `waited` (taken in by an earlier run).
    `answers` has the other rows of the good polls among them (topics and enrichments), with `api_version`.
    """

    headers: DataFrame
    answers: DataFrame

    @property
    def topics(self) -> DataFrame:
        """What the polls said of topics."""
        return self.answers.where("record = 'topic'")

    @property
    def polls(self) -> DataFrame:
        """Headers of the polls to judge."""
        return self.headers.where(~F.col("late"))

    @property
    def applied(self) -> DataFrame:
        """The progress, so far, of the clusters that have any."""
        return self.headers.where("applied IS NOT NULL").select("applied.*").dropDuplicates(["cluster"])

    @property
    def cluster_ids(self) -> DataFrame:
        """cluster, cluster_id."""
        return self.headers.select("cluster", F.col("claimed_id").alias("cluster_id")).distinct()


def take(batch: DataFrame, pending: DataFrame, progress: DataFrame) -> DataFrame:
    """The headers of an Intake: polls of `batch` that were not taken before, and those that wait in `pending`.

    Order is the poll id. Polls of a stream older than one already seen are late: ignored, and counted.
    """
    known = F.broadcast(progress.select("cluster", F.struct(*progress.columns).alias("applied")))
    last_n = F.coalesce(F.try_element_at("applied.seen", "stream"), F.lit(-1))
    newest = F.array_max(F.map_keys("applied.seen"))
    new = (
        batch.where("record = 'poll'")
        .join(known, "cluster", "left")
        .where(F.col("n") > last_n)
        .withColumns({"late": F.coalesce(F.col("stream") < newest, F.lit(False)), "waited": F.lit(False)})
    )
    waiting = (
        pending.where("record = 'poll'")
        .join(known, "cluster")
        .where((F.col("poll_id") > F.coalesce("applied.applied_poll", F.lit(""))) & (F.col("n") <= last_n))
        .withColumns({"late": F.lit(False), "waited": F.lit(True)})
    )
    headers = new.unionByName(waiting)
    other_cluster = F.col("claimed_id").isNull() | F.coalesce(F.col("cluster_id") != F.col("claimed_id"), F.lit(False))
    return headers.join(F.broadcast(_claimed_ids(headers, progress)), "cluster", "left").withColumns(
        {
            "refused": (F.col("outcome") == "ok") & other_cluster,
            "header_digest": F.md5(F.to_json(F.struct(F.array_sort("brokers").alias("brokers"), *CLUSTER_STATE))),
        }
    )


def answers_of(headers: DataFrame, batch: DataFrame, pending: DataFrame) -> DataFrame:
    """The answers of an Intake with these `headers`."""
    good = F.broadcast(
        headers.where("outcome = 'ok' AND NOT refused AND NOT late").select(
            "cluster", "poll_id", "waited", "api_version"
        )
    )
    columns = ["cluster", "poll_id", "record", "topic", "chunk"]
    columns += (column.name for column in (*TOPIC_COLUMNS, *ENRICHMENT_COLUMNS) if column.name != "enriched")
    new = batch.where("record <> 'poll'").select(*columns).join(good.where("NOT waited"), ["cluster", "poll_id"])
    waiting = pending.where("record <> 'poll'").select(*columns).join(good.where("waited"), ["cluster", "poll_id"])
    return new.unionByName(waiting).drop("waited")


def _claimed_ids(headers: DataFrame, progress: DataFrame) -> DataFrame:
    """cluster, claimed_id: the id that each alias stands for."""
    answered = headers.where("outcome = 'ok' AND cluster_id IS NOT NULL AND NOT late")
    known = progress.where(F.col("cluster_id").isNotNull())
    pairs = (
        answered.groupBy("cluster", "cluster_id")
        .agg(F.min("poll_id").alias("since"))
        .unionByName(known.select("cluster", "cluster_id", F.lit("").alias("since")))
    )
    return pairs.groupBy().applyInArrow(acceptance.claimed_ids, acceptance.CLAIMS_SCHEMA)


def open_rows(snapshots: DataFrame, progress: DataFrame, *, by_topic: bool) -> DataFrame:
    """The rows of a silver table that were open as of each cluster's applied poll.

    What a killed run wrote beyond that poll is not looked at: it will be written again, and is the same. `by_topic`:
    whether ends of topics that were only missing at the applied poll are such ends too.
    """
    clusters = F.broadcast(progress.select("cluster", "applied_poll", F.col("absent").alias("_absent")))
    open_then = F.col("superseded_poll").isNull() | (F.col("superseded_poll") > F.col("applied_poll"))
    if by_topic:
        open_then |= (F.col("superseded_poll") == F.col("applied_poll")) & F.array_contains("_absent", F.col("topic"))
    return snapshots.join(clusters, "cluster").where((F.col("first_poll") <= F.col("applied_poll")) & open_then)


def said_of_topics(intake: Intake, open_topics: DataFrame, digests: DataFrame) -> DataFrame:
    """What polls said anew of topics: rows whose presence or digest differs from what was said before.

    cluster, poll_id, topic, absent_as, topic_id, error_code, is_internal, partition_count, digest, digest_version,
    first_poll. Rows with first_poll are the history so far, under the applied poll's id (or the one before it, with a
    row of absence after it, for topics that were missing).
    """
    answered = intake.topics.where("chunk = 0").select(
        "cluster",
        "poll_id",
        "topic",
        presence.absence(F.col("present"), F.col("error_code")).alias("absent_as"),
        "topic_id",
        "error_code",
        "is_internal",
        # An answer that holds only an error does not say how many partitions there are.
        F.when((F.col("error_code") == 0) | (F.col("partition_count") > 0), F.col("partition_count")).alias(
            "partition_count"
        ),
        "digest",
        "digest_version",
    )
    # A key frame lists every topic, so a topic that is not in it is absent.
    key_frames = intake.polls.where("outcome = 'ok' AND NOT refused AND key_frame").select(
        "cluster", "poll_id", "topic_filter"
    )
    known = answered.select("cluster", "topic").union(open_topics.select("cluster", "topic")).distinct()
    unlisted = (
        known.join(F.broadcast(key_frames), "cluster")
        .join(answered, ["cluster", "poll_id", "topic"], "left_anti")
        .withColumn(
            "absent_as",
            F.when(presence.covered(F.col("topic_filter"), F.col("topic")), F.lit(presence.ABSENT)).otherwise(
                F.lit(presence.NOT_POLLED)
            ),
        )
        .drop("topic_filter")
    )
    missing = F.array_contains("_absent", F.col("topic"))
    so_far = (
        open_topics.join(F.broadcast(intake.applied.select("cluster", "before_poll")), "cluster")
        .join(
            digests.select("cluster", "topic", "digest", "digest_version", F.col("poll_id").alias("_digested")),
            ["cluster", "topic"],
            "left",
        )
        .withColumns(
            {
                # A digest that a killed run wrote is of a later state.
                "digest": F.when(F.col("_digested") <= F.col("applied_poll"), F.col("digest")),
                "poll_id": F.when(missing, F.col("before_poll")).otherwise(F.col("applied_poll")),
            }
        )
    )
    columns = ["cluster", "poll_id", "topic", *TOPIC_STATE, "digest", "digest_version", "first_poll"]
    absent_so_far = so_far.where(missing).select(
        "cluster",
        F.col("applied_poll").alias("poll_id"),
        "topic",
        F.lit(presence.ABSENT).alias("absent_as"),
        "first_poll",
    )
    said = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        [answered, unlisted, so_far.select(*columns), absent_so_far],
    )
    before = Window.partitionBy("cluster", "topic").orderBy("poll_id")
    same = (
        F.lag("poll_id").over(before).isNotNull()
        & F.lag("absent_as").over(before).eqNullSafe(F.col("absent_as"))
        & (
            F.col("absent_as").isNotNull()
            | (
                (F.lag("digest").over(before) == F.col("digest"))
                & (F.lag("digest_version").over(before) == F.col("digest_version"))
            )
        )
    )
    present = F.col("absent_as").isNull()
    # Topics of which nothing new was said are left out, unless they were missing: what is not said of them counts too.
    touched = F.max(F.col("first_poll").isNull() | ~present).over(Window.partitionBy("cluster", "topic"))
    return (
        said.withColumn("_same", F.coalesce(same, F.lit(False)))
        .where(F.col("first_poll").isNotNull() | ~F.col("_same"))
        .withColumn("_touched", touched)
        .where("_touched")
        .withColumns({name: F.when(present, F.col(name)) for name in (*TOPIC_STATE, "digest", "digest_version")})
        .drop("_same", "_touched")
    )


def said_of_partitions(intake: Intake, said: DataFrame, open_partitions: DataFrame) -> DataFrame:
    """The partitions of the topics in `said`, one row each: new answers opened, and history so far (with first_poll).

    Normalized: ISR and offline replicas sorted, untrusted leader epochs null.
    """
    present = said.where(F.col("absent_as").isNull())
    opened = (
        intake.topics.where(F.col("partitions").isNotNull())
        .join(
            present.where(F.col("first_poll").isNull()).select("cluster", "poll_id", "topic"),
            ["cluster", "poll_id", "topic"],
            "left_semi",
        )
        .select("cluster", "poll_id", "topic", "topic_id", "api_version", F.inline("partitions"))
        .withColumns(
            {
                "leader_epoch": F.when(F.col("api_version") >= TRUSTED_EPOCHS_VERSION, F.col("leader_epoch")),
                "isr": F.array_sort("isr"),
                "offline_replicas": F.array_sort("offline_replicas"),
            }
        )
        .drop("api_version")
    )
    so_far = present.where(F.col("first_poll").isNotNull()).select("cluster", "topic", "poll_id")
    continued = open_partitions.join(so_far, ["cluster", "topic"]).select(
        "cluster", "poll_id", "topic", "partition", *PARTITION_STATE, "first_poll"
    )
    return opened.unionByName(continued, allowMissingColumns=True)


def observed_epochs(said: DataFrame, partitions: DataFrame) -> DataFrame:
    """What acceptance must know of topics; schema acceptance.EPOCHS_SCHEMA."""
    falling = acceptance.falling_epochs(partitions)
    topics = falling.select("cluster", "topic").distinct()
    # Of such topics it must know everything that was said: an answer may show one without a partition, or not at all.
    shown = said.join(topics, ["cluster", "topic"], "left_semi").select(
        "cluster",
        "poll_id",
        "topic",
        F.col("absent_as").isNull().alias("present"),
        "topic_id",
        F.when(F.col("error_code") == 0, F.col("partition_count")).alias("partition_count"),
    )
    fell = falling.select("cluster", "poll_id", "topic", "partition", "leader_epoch")
    return fell.unionByName(shown, allowMissingColumns=True)


def judge(intake: Intake, epochs: DataFrame) -> DataFrame:
    """A verdict for each poll taken in; schema acceptance.VERDICT_SCHEMA. `epochs`: see observed_epochs."""
    columns = ("cluster", "poll_id", "received_at", "sent_at", "interval_ms", "error_kind", "refused", "applied")
    return acceptance.poll_verdicts(intake.polls.select(*columns), epochs)


def changed_headers(intake: Intake, verdicts: DataFrame) -> DataFrame:
    """Accepted polls whose brokers or levels are not those at the applied poll."""
    return _accepted(intake.polls, verdicts).where(~F.col("header_digest").eqNullSafe(F.col("applied.header_digest")))


def topic_lives(said: DataFrame, verdicts: DataFrame) -> DataFrame:
    """The topics that accepted polls showed, with `ord` and life (presence.topic_lives). What a stale answer said counts
    from the next accepted one on, unless that one said otherwise.
    """
    numbered = said.join(
        F.broadcast(verdicts.where(F.col("ord") > 0).select("cluster", "poll_id", "ord")),
        ["cluster", "poll_id"],
        "left",
    )
    numbered = numbered.withColumn(
        "ord",
        F.coalesce(
            "ord",
            F.when(
                F.col("first_poll").isNotNull(), F.when(F.col("absent_as").isNotNull(), F.lit(0)).otherwise(F.lit(-1))
            ),
        ),
    ).where(F.col("ord").isNotNull())
    latest = Window.partitionBy("cluster", "topic", "ord").orderBy(F.desc("poll_id"))
    last_ord = verdicts.groupBy("cluster").agg(
        F.coalesce(F.max(F.when(F.col("verdict").isin("accepted", "applied"), F.col("ord"))), F.lit(0)).alias(
            "last_ord"
        )
    )
    return presence.topic_lives(
        numbered.withColumn("_latest", F.row_number().over(latest)).where("_latest = 1").drop("_latest"),
        last_ord,
    )


def topic_intervals(lives: DataFrame) -> DataFrame:
    """What topics were; see intervals."""
    observations = lives.select(
        "cluster", "topic", "life", "ord", *TOPIC_STATE, F.lit(None).cast("string").alias("ended_as"), "first_poll"
    )
    return _end_with_life(intervals(observations, ("cluster", "topic", "life"), TOPIC_STATE), lives)


def partition_intervals(partitions: DataFrame, lives: DataFrame) -> DataFrame:
    """What partitions were; see intervals. A partition number that a whole answer lacks ended there."""
    by_life = Window.partitionBy("cluster", "topic", "life").orderBy("ord")
    count = F.when(F.col("error_code") == 0, F.col("partition_count"))
    before = F.last(F.col("partition_count"), ignorenulls=True).over(by_life.rowsBetween(Window.unboundedPreceding, -1))
    fewer = (
        lives.withColumn("_before", before)
        .where(count < F.col("_before"))
        .select(
            "cluster",
            "topic",
            "life",
            "ord",
            F.explode(F.sequence("partition_count", F.col("_before") - 1)).alias("partition"),
        )
        .withColumn("ended_as", F.lit(presence.ABSENT))
    )
    observations = partitions.join(
        lives.select("cluster", "topic", "poll_id", "life", "ord"), ["cluster", "topic", "poll_id"]
    ).select(
        "cluster",
        "topic",
        "life",
        "partition",
        "ord",
        *PARTITION_STATE,
        F.lit(None).cast("string").alias("ended_as"),
        "first_poll",
    )
    return _end_with_life(
        intervals(
            observations.unionByName(fewer, allowMissingColumns=True),
            ("cluster", "topic", "life", "partition"),
            PARTITION_STATE,
        ),
        lives,
    )


def _end_with_life(rows: DataFrame, lives: DataFrame) -> DataFrame:
    ends = (
        lives.where(F.col("life_ended_ord").isNotNull())
        .select("cluster", "topic", "life", "life_ended_ord", "life_ended_as")
        .distinct()
    )
    return (
        rows.join(ends, ["cluster", "topic", "life"], "left")
        .withColumns(
            {
                "ended_as": F.when(F.col("superseded_ord").isNull(), F.col("life_ended_as")).otherwise(
                    F.col("ended_as")
                ),
                "superseded_ord": F.coalesce("superseded_ord", "life_ended_ord"),
            }
        )
        .drop("life", "life_ended_ord", "life_ended_as")
    )


def broker_intervals(headers: DataFrame, verdicts: DataFrame, open_brokers: DataFrame) -> DataFrame:
    """What brokers were; see intervals. A broker that an answer does not list ended there."""
    listed = (
        _accepted(headers, verdicts)
        .select("cluster", "ord", F.array_sort("brokers").alias("brokers"), "api_version")
        .withColumn("first_polls", F.lit(None).cast("map<int, string>"))
    )
    so_far = open_brokers.groupBy("cluster").agg(
        F.lit(0).alias("ord"),
        F.array_sort(F.collect_list(F.struct("broker_id", "host", "port", "rack"))).alias("brokers"),
        F.lit(None).cast("int").alias("api_version"),
        F.map_from_entries(F.collect_list(F.struct("broker_id", "first_poll"))).alias("first_polls"),
    )
    by_cluster = Window.partitionBy("cluster").orderBy("ord")
    lists = (
        listed.unionByName(so_far.join(verdicts.select("cluster").distinct(), "cluster", "left_semi"))
        .withColumn("_before", F.lag("brokers").over(by_cluster))
        .where((F.col("ord") == 0) | ~F.col("brokers").eqNullSafe(F.col("_before")))
    )
    there = lists.select("cluster", "ord", "api_version", "first_polls", F.inline("brokers")).select(
        "cluster",
        "broker_id",
        "ord",
        "host",
        "port",
        # "No rack" is a state, Metadata v0 not saying is none.
        F.when(F.coalesce(F.col("api_version") >= 1, F.lit(True)), F.struct("rack")).alias("rack"),
        F.lit(None).cast("string").alias("ended_as"),
        F.try_element_at("first_polls", "broker_id").alias("first_poll"),
    )
    gone = lists.select(
        "cluster",
        "ord",
        F.explode(
            F.array_except(
                F.transform("_before", lambda b: b["broker_id"]), F.transform("brokers", lambda b: b["broker_id"])
            )
        ).alias("broker_id"),
        F.lit(presence.ABSENT).alias("ended_as"),
    )
    rows = intervals(there.unionByName(gone, allowMissingColumns=True), ("cluster", "broker_id"), BROKER_STATE)
    return rows.withColumns({"rack": F.col("rack.rack"), "prev_rack": F.col("prev_rack.rack")})


def cluster_intervals(headers: DataFrame, verdicts: DataFrame, open_clusters: DataFrame) -> DataFrame:
    """What the clusters' finalized levels were; see intervals."""
    answered = _accepted(headers, verdicts).select("cluster", "ord", *CLUSTER_STATE)
    so_far = open_clusters.join(verdicts.select("cluster").distinct(), "cluster", "left_semi").select(
        "cluster", F.lit(0).alias("ord"), *CLUSTER_STATE, "first_poll"
    )
    observations = answered.unionByName(so_far, allowMissingColumns=True).withColumn(
        "ended_as", F.lit(None).cast("string")
    )
    return intervals(observations, ("cluster",), CLUSTER_STATE)


def _accepted(headers: DataFrame, verdicts: DataFrame) -> DataFrame:
    accepted = verdicts.where(F.col("verdict") == "accepted").select("cluster", "poll_id", "ord")
    return headers.join(F.broadcast(accepted), ["cluster", "poll_id"])


def placed_in_time(rows: DataFrame, verdicts: DataFrame, cluster_ids: DataFrame, table: Table) -> DataFrame:
    """Rows of `table` that are new or have ended: numbers of polls become poll ids and times."""
    line = verdicts.where(F.col("ord").isNotNull() & F.col("verdict").isin("accepted", "applied"))
    began = line.select(
        "cluster",
        "ord",
        F.col("poll_id").alias("_first_poll"),
        F.col("at").alias("first_seen_at"),
        F.col("before_poll").alias("prev_poll"),
        F.col("before_sent_at").alias("prev_sent_at"),
        "interval_ms",
    )
    ended = line.select(
        "cluster",
        F.col("ord").alias("superseded_ord"),
        F.col("poll_id").alias("superseded_poll"),
        F.col("at").alias("superseded_at"),
        F.col("before_poll").alias("last_poll"),
        F.col("before_at").alias("last_seen_at"),
        F.col("before_sent_at").alias("last_seen_sent_at"),
    )
    return (
        rows.where(F.col("first_poll").isNull() | F.col("superseded_ord").isNotNull())
        .join(F.broadcast(began), ["cluster", "ord"], "left")
        .join(F.broadcast(ended), ["cluster", "superseded_ord"], "left")
        .withColumn("first_poll", F.coalesce("first_poll", "_first_poll"))
        .join(F.broadcast(cluster_ids), "cluster")
        .select(*table.column_names)
    )


def poll_gaps(verdicts: DataFrame, cluster_ids: DataFrame) -> DataFrame:
    """Accepted polls more than two intervals after the one before, and why."""
    interval = F.greatest("interval_ms", F.coalesce("before_interval_ms", "interval_ms"))
    elapsed_ms = (F.unix_micros("at") - F.unix_micros("before_at")) / 1000
    return (
        verdicts.where((F.col("verdict") == "accepted") & F.col("before_at").isNotNull())
        .where(elapsed_ms > 2 * interval)
        .join(F.broadcast(cluster_ids), "cluster")
        .select(
            "cluster_id",
            "cluster",
            F.col("before_poll").alias("after_poll"),
            F.col("before_at").alias("after_at"),
            F.col("poll_id").alias("until_poll"),
            F.col("at").alias("until_at"),
            interval.alias("interval_ms"),
            "failed_polls",
            "stale_polls",
            "refused_polls",
            "error_kinds",
            F.when(F.col("failed_polls") > 0, "failed")
            .when(F.col("refused_polls") > 0, "refused")
            .when(F.col("stale_polls") > 0, "stale")
            .otherwise("not_polled")
            .alias("reason"),
        )
    )


def topic_digests(said: DataFrame, verdicts: DataFrame) -> DataFrame:
    """cluster, topic, digest, digest_version, poll_id: the digests that are applied now, where they are new."""
    accepted = verdicts.where(F.col("ord") > 0).select("cluster", "poll_id", "ord")
    ids = verdicts.where(F.col("verdict") == "accepted").select(
        "cluster", "ord", F.col("poll_id").alias("_applied_with")
    )
    return (
        said.where(F.col("first_poll").isNull())
        .join(F.broadcast(accepted), ["cluster", "poll_id"])
        .groupBy("cluster", "topic")
        .agg(
            F.max_by("digest", "poll_id").alias("digest"),
            F.max_by("digest_version", "poll_id").alias("digest_version"),
            F.max("ord").alias("ord"),
        )
        .join(F.broadcast(ids), ["cluster", "ord"])
        .select("cluster", "topic", "digest", "digest_version", F.col("_applied_with").alias("poll_id"))
    )


_LINE = {
    "applied_poll": "poll_id",
    "applied_at": "at",
    "applied_sent_at": "sent_at",
    "applied_interval_ms": "interval_ms",
    "before_poll": "before_poll",
    "before_at": "before_at",
    "before_sent_at": "before_sent_at",
    "header_digest": "header_digest",
}
"""Columns of silver.progress that place the last accepted poll, and the columns of its verdict that they are."""


def next_progress(intake: Intake, verdicts: DataFrame, missing: DataFrame) -> DataFrame:
    """The rows of silver.progress for the clusters of this run. `missing`: cluster, topic; absent from the last answer."""
    last = F.col("verdict").isin("accepted", "applied")
    none = F.array().cast("array<string>")
    digests = intake.polls.select("cluster", "poll_id", "header_digest")
    judged = (
        verdicts.join(F.broadcast(digests), ["cluster", "poll_id"], "left")
        .groupBy("cluster")
        .agg(
            F.max_by(
                F.struct(*(F.col(of).alias(name) for name, of in _LINE.items())), F.when(last, F.col("ord"))
            ).alias("line"),
            F.max_by(
                F.struct(
                    *(
                        F.when(last, F.lit(0)).otherwise(F.col(name)).alias(name)
                        for name in ("failed_polls", "refused_polls")
                    ),
                    F.when(last, none).otherwise(F.col("error_kinds")).alias("error_kinds"),
                ),
                "poll_id",
            ).alias("since"),
            F.count_if(F.col("verdict") == "pending").alias("stale_polls"),
            F.count_if(F.col("verdict") == "accepted").alias("accepted"),
        )
    )
    taken = (
        intake.headers.where("NOT waited")
        .groupBy("cluster", "stream")
        .agg(
            F.max("n").alias("n"),
            F.count_if("late").alias("late"),
            F.max("scheduled_at").alias("at"),
            F.any_value("applied").alias("applied"),
            F.any_value("claimed_id").alias("claimed_id"),
        )
        .groupBy("cluster")
        .agg(
            F.map_from_entries(F.collect_list(F.struct("stream", "n"))).alias("newly_seen"),
            F.sum("late").alias("late"),
            F.max("at").alias("at"),
            F.any_value("applied").alias("applied"),
            F.any_value("claimed_id").alias("claimed_id"),
        )
    )
    # Clusters whose polls were all late have no verdicts: nothing of theirs moves but the count.
    moved = F.col("since").isNotNull()
    gone = missing.groupBy("cluster").agg(F.array_sort(F.collect_set("topic")).alias("absent"))
    columns = {
        "cluster_id": F.coalesce("applied.cluster_id", "claimed_id"),
        "seen": _overlaid(F.col("applied.seen"), F.col("newly_seen")),
        "late_polls": F.coalesce("applied.late_polls", F.lit(0)) + F.col("late"),
        **{name: F.when(moved, F.col(f"line.{name}")).otherwise(F.col(f"applied.{name}")) for name in _LINE},
        **{
            name: F.when(moved, F.col(f"since.{name}")).otherwise(F.col(f"applied.{name}"))
            for name in ("failed_polls", "refused_polls", "error_kinds")
        },
        "header_digest": F.when(F.col("accepted") > 0, F.col("line.header_digest")).otherwise(
            F.col("applied.header_digest")
        ),
        "stale_polls": F.when(moved, F.col("stale_polls")).otherwise(F.col("applied.stale_polls")),
        "absent": F.when(moved, F.coalesce("absent", none)).otherwise(F.col("applied.absent")),
        "last_poll_at": F.greatest("at", "applied.last_poll_at"),
        "enriched": _overlaid(F.col("applied.enriched"), F.col("enriched")),
    }
    rows = (
        taken.join(judged, "cluster", "left")
        .join(gone, "cluster", "left")
        .join(enrichments.last_answers(intake.polls, verdicts), "cluster", "left")
        .select("cluster", *(column.alias(name) for name, column in columns.items()))
    )
    settled = F.when(F.size("absent") > 0, F.col("before_poll")).otherwise(F.col("applied_poll"))
    return rows.withColumn("settled_poll", settled).select(*silver.PROGRESS.column_names)


def _overlaid(older: Column, newer: Column) -> Column:
    """Two maps as one; `newer` wins. Either may be null."""
    kept = F.map_filter(older, lambda key, _: ~F.map_contains_key(newer, key))
    return F.coalesce(F.map_concat(kept, newer), newer, older)
