"""What must hold of bronze and silver, and the rows that it must hold of: those that are new.

Rules about what Kafka answers stand here, not as constraints of tables: an odd answer is a finding and must not stop history.
What our own writers must never do is refused by the tables themselves (CHECK and NOT NULL, in schemas/).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from jobs.common.progress import Window
from schemas import bronze, silver
from schemas.table import Table

Severity = Literal["critical", "warning"]
"""critical: history is wrong, or is not being made. warning: it is right, but something hurt it."""

LATE_BY_MS = 120_000
"""Beside two intervals: a batch may hold a minute of polls, and takes some seconds to become history."""
CLOCK_TOLERANCE_MS = 1_000


@dataclass(frozen=True)
class Rule:
    """One rule: what it asks for, the SQL condition on a row that breaks it, and the columns that name such a row."""

    name: str
    severity: Severity
    says: str
    broken: str
    shows: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """Rows that rules hold of: `rows` takes them from the window of a run."""

    name: str
    rows: Callable[[Window], DataFrame]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Batch:
    """Rows and the rules that hold of them."""

    subject: str
    rows: DataFrame
    rules: Sequence[Rule]


@dataclass(frozen=True)
class Finding:
    """What a rule came to: how many rows it was tried on, how many break it, and the first 200 of those as JSON."""

    subject: str
    rule: Rule
    checked: int
    violations: int
    violating: list[str]


# --- bronze ---


def polls_since(window: Window) -> DataFrame:
    """Rows of bronze in the window, and those of the poll that it begins after; `is_new` tells them apart."""
    clusters = window.clusters.select("cluster", "done_poll", "settled_poll")
    first, last = clusters.agg(F.min(F.coalesce("done_poll", F.lit(""))), F.max("settled_poll")).collect()[0]
    return (
        window.lake.read(clusters.sparkSession, bronze.METADATA_POLLS)
        .where(F.col("poll_id").between(first, last))  # what passes over older files
        .join(F.broadcast(clusters), "cluster")
        .where("poll_id >= coalesce(done_poll, '') AND poll_id <= settled_poll")
        .withColumn("is_new", F.col("poll_id") > F.coalesce("done_poll", F.lit("")))
    )


def headers(window: Window) -> DataFrame:
    """New headers of polls, each with when the one before was sent and the topics that bronze has of it."""
    rows = polls_since(window)
    topics = (
        rows.where("record = 'topic' AND present")
        .groupBy("cluster", "poll_id")
        .agg(F.count_distinct("topic").alias("topics"))
    )
    before = Over.partitionBy("cluster").orderBy("poll_id").rowsBetween(Over.unboundedPreceding, -1)
    return (
        rows.where("record = 'poll'")
        .withColumn("prev_sent_at", F.last("sent_at", ignorenulls=True).over(before))
        .where("is_new")
        .join(topics, ["cluster", "poll_id"], "left")
        .withColumn("topics", F.coalesce("topics", F.lit(0)))
        .withColumn("measured_ms", (F.unix_micros("received_at") - F.unix_micros("sent_at")) / 1000)
    )


def answered_topics(window: Window) -> DataFrame:
    """Topics as newly answered, with the partition numbers that came."""
    return _numbered(
        polls_since(window)
        .where("is_new AND record = 'topic' AND present AND error_code = 0")
        .groupBy("cluster", "poll_id", "topic")
        .agg(
            F.max("partition_count").alias("partition_count"),
            F.flatten(F.collect_list("partitions.partition")).alias("_numbers"),
        )
    )


def _numbered(topics: DataFrame) -> DataFrame:
    """Replace `_numbers` by what is told of them: how many there are, and the first ten that should be there and are not."""
    wanted = F.when(F.col("partition_count") > 0, F.sequence(F.lit(0), F.col("partition_count") - 1))
    numbers = F.coalesce("_numbers", F.array().cast("array<int>"))
    return topics.withColumns(
        {"partitions": F.size(numbers), "missing": F.slice(F.array_except(wanted, numbers), 1, 10)}
    ).drop("_numbers")


def log_rows(window: Window) -> DataFrame:
    """Rows of the coordinators' log that were read between the polls of the window, each with where the span before it ended.

    Of records prev_next_offset is null; of the first span of each partition too: what was before it is not looked at.
    """
    spans = Over.partitionBy("cluster", "log_partition", F.col("record") == "record").orderBy("read_at", "offset")
    rows = window.lake.read(window.clusters.sparkSession, bronze.GROUP_LOG).drop("cluster_id")
    since = [] if window.since is None else [F.col("read_at") >= F.timestamp_micros(F.lit(window.since))]
    return (
        reduce(DataFrame.where, since, rows)
        .join(F.broadcast(window.clusters.select("cluster", "done_at", "settled_at")), "cluster")
        .where("(done_at IS NULL OR read_at > done_at) AND read_at <= settled_at")
        .withColumn("prev_next_offset", F.lag("next_offset").over(spans))
    )


# --- silver ---


def new_states(window: Window) -> DataFrame:
    """States of partitions that are new."""
    return window.new(window.read(silver.PARTITION_SNAPSHOTS, window.since, "first_seen_at"))


def known_topics(window: Window) -> DataFrame:
    """Topics of which something is new and that live, with the partition numbers that silver has of them."""
    open_rows = {
        table: window.read(table, window.since, "superseded_at", open_too=True).where("superseded_poll IS NULL")
        for table in (silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS)
    }
    topic = ["cluster_id", "topic"]
    touched = reduce(DataFrame.unionByName, (window.new(rows).select(topic) for rows in open_rows.values())).distinct()
    numbers = open_rows[silver.PARTITION_SNAPSHOTS].groupBy(topic).agg(F.collect_list("partition").alias("_numbers"))
    return _numbered(
        open_rows[silver.TOPIC_SNAPSHOTS]
        .where("error_code = 0 AND partition_count IS NOT NULL")
        .join(F.broadcast(touched), topic, "left_semi")
        .join(numbers, topic, "left")
    )


def intervals(window: Window) -> DataFrame:
    """Rows over time of everything that began or ended a state, each with the one that follows: `table`, `key` as JSON."""
    tables = (
        silver.BROKER_SNAPSHOTS,
        silver.TOPIC_SNAPSHOTS,
        silver.PARTITION_SNAPSHOTS,
        silver.CLUSTER_SNAPSHOTS,
        *silver.ENRICHMENTS.values(),
    )
    return reduce(DataFrame.unionByName, (_intervals_of(table, window) for table in tables))


def _intervals_of(table: Table, window: Window) -> DataFrame:
    key = list(table.key[:-1])
    rows = window.read(table, window.since, "superseded_at", open_too=True)
    touched = window.new(rows).unionByName(window.superseded(rows)).select(key).distinct()
    of_one = Over.partitionBy(key)
    return (
        rows.join(touched, key, "left_semi")
        .withColumn("next_first_poll", F.lead("first_poll").over(of_one.orderBy("first_poll")))
        .withColumn("current_rows", F.count_if(F.col("superseded_poll").isNull()).over(of_one))
        .select(
            F.lit(table.full_name).alias("table"),
            "cluster",
            F.to_json(F.struct(key)).alias("key"),
            "first_poll",
            "superseded_poll",
            "next_first_poll",
            "current_rows",
        )
    )


def new_gaps(window: Window) -> DataFrame:
    """Gaps in polling that ended in the window."""
    return window.within(window.read_gold(silver.POLL_GAPS, window.since, "until_at"), "until_poll")


def clusters_now(progress: DataFrame, configured: DataFrame, now: Column) -> DataFrame:
    """The clusters that are configured (`cluster`), with their last good poll."""
    return configured.join(progress, "cluster", "left").select(
        "cluster",
        F.col("applied_at").alias("last_good_at"),
        F.col("applied_interval_ms").alias("interval_ms"),
        F.coalesce("failed_polls", F.lit(0)).alias("failed_polls"),
        F.coalesce("error_kinds", F.array().cast("array<string>")).alias("error_kinds"),
        now.alias("now"),
    )


# --- the rules ---


def _differ(one: str, other: str) -> str:
    return f"abs({one} - {other}) > {CLOCK_TOLERANCE_MS}"


_INCOMPLETE = "partitions <> partition_count OR size(missing) > 0"
_SPAN = ("cluster", "log_partition", "record", "offset", "read_at")
_STATE = ("cluster", "topic", "partition", "first_poll")

SUBJECTS = (
    Subject(
        "bronze polls",
        headers,
        (
            Rule(
                "key_frame_complete",
                "critical",
                "A key frame has every topic of its answer.",
                "key_frame AND topics <> topic_count",
                ("cluster", "poll_id", "topic_count", "topics"),
            ),
            Rule(
                "polls_sent_in_order",
                "warning",
                "No poll was sent before the one ahead of it: else the poller's clock stepped back.",
                "sent_at < prev_sent_at",
                ("cluster", "poll_id", "prev_sent_at", "sent_at"),
            ),
            Rule(
                "clocks_in_order",
                "warning",
                "A poll is due, is sent and is answered, in this order (within a second).",
                f"unix_millis(sent_at) < unix_millis(scheduled_at) - {CLOCK_TOLERANCE_MS} OR received_at < sent_at",
                ("cluster", "poll_id", "scheduled_at", "sent_at", "received_at"),
            ),
            Rule(
                "clock_steady",
                "warning",
                "The clock and the stopwatch agree on how long an answer took (within a second).",
                _differ("measured_ms", "latency_ms"),
                ("cluster", "poll_id", "sent_at", "received_at", "latency_ms"),
            ),
        ),
    ),
    Subject(
        "bronze topics",
        answered_topics,
        (
            Rule(
                "answered_partitions_complete",
                "critical",
                "A topic is answered with its partitions 0, 1, ..., each once.",
                _INCOMPLETE,
                ("cluster", "poll_id", "topic", "partition_count", "partitions", "missing"),
            ),
        ),
    ),
    Subject(
        "bronze group log",
        log_rows,
        (
            Rule(
                "log_read_on",
                "critical",
                "Each offset of the coordinators' log is gone through once: reading goes on where it had come to.",
                "record <> 'record' AND offset <> prev_next_offset",
                (*_SPAN, "prev_next_offset"),
            ),
            Rule(
                "log_read_in_time",
                "warning",
                "No part of the coordinators' log is gone before it is read: else groups are not known until each is written anew.",
                "record IN ('lost', 'truncated')",
                (*_SPAN, "next_offset"),
            ),
            Rule(
                "log_decoded",
                "warning",
                "Every record of the coordinators' log but offset commits is of a type and version that is known.",
                "record = 'record' AND error IS NOT NULL",
                (*_SPAN, "type", "version", "group_id", "error"),
            ),
        ),
    ),
    Subject(
        "silver partitions",
        new_states,
        (
            Rule(
                "leader_is_replica",
                "critical",
                "The leader is one of the replicas, or -1.",
                "leader <> -1 AND NOT array_contains(replicas, leader)",
                (*_STATE, "leader", "replicas"),
            ),
            Rule(
                "isr_within_replicas",
                "critical",
                "Every broker of the ISR is a replica.",
                "size(array_except(isr, replicas)) > 0",
                (*_STATE, "isr", "replicas"),
            ),
            Rule(
                "offline_within_replicas",
                "critical",
                "Every offline replica is a replica.",
                "size(array_except(offline_replicas, replicas)) > 0",
                (*_STATE, "offline_replicas", "replicas"),
            ),
            Rule(
                "replicas_distinct",
                "critical",
                "No broker is twice among the replicas, the ISR or the offline replicas.",
                " OR ".join(
                    f"size(array_distinct({each})) < size({each})" for each in ("replicas", "isr", "offline_replicas")
                ),
                (*_STATE, "replicas", "isr", "offline_replicas"),
            ),
            Rule(
                "epochs_rise",
                "warning",
                "Leader epochs do not fall within a topic id: else the cluster's metadata went back, and was believed after five polls.",
                "leader_epoch < prev_leader_epoch",
                (*_STATE, "topic_id", "prev_leader_epoch", "leader_epoch"),
            ),
        ),
    ),
    Subject(
        "silver topics",
        known_topics,
        (
            Rule(
                "known_partitions_complete",
                "critical",
                "Silver has the partitions 0, 1, ... of a topic that lives, each once.",
                _INCOMPLETE,
                ("cluster", "topic", "partition_count", "partitions", "missing"),
            ),
        ),
    ),
    Subject(
        "silver intervals",
        intervals,
        (
            Rule(
                "one_current_row",
                "critical",
                "A key of a snapshot table has one current row at most.",
                "superseded_poll IS NULL AND current_rows > 1",
                ("table", "key", "first_poll", "current_rows"),
            ),
            Rule(
                "intervals_apart",
                "critical",
                "A state is over when the next one begins.",
                "next_first_poll IS NOT NULL AND (superseded_poll IS NULL OR superseded_poll > next_first_poll)",
                ("table", "key", "first_poll", "superseded_poll", "next_first_poll"),
            ),
        ),
    ),
    Subject(
        "silver gaps",
        new_gaps,
        (
            Rule(
                "polled_without_gaps",
                "warning",
                "Good polls are not more than two intervals apart: nothing is known of what happened between.",
                "true",
                ("cluster", "after_at", "until_at", "reason", "failed_polls", "error_kinds"),
            ),
        ),
    ),
)

NOW = "silver progress"
POLLED_NOW = Rule(
    "polled_now",
    "critical",
    "A cluster that is configured had a good poll within two intervals and two minutes from now.",
    f"last_good_at IS NULL OR unix_millis(now) > unix_millis(last_good_at) + 2 * interval_ms + {LATE_BY_MS}",
    ("cluster", "last_good_at", "now", "interval_ms", "failed_polls", "error_kinds"),
)
"""Holds of `clusters_now` at any time, whatever is new."""
