"""Rules that bronze and silver must keep (validity.yaml), and the rows that must keep them: those that are new."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Literal, NamedTuple

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from jobs.common.window import State, Window
from schemas import bronze, silver
from schemas.table import Table

Severity = Literal["critical", "warning"]


@dataclass(frozen=True)
class Rule:
    """One rule: what it asks for, the SQL condition on a row that breaks it, and the columns that it shows of one."""

    name: str
    severity: Severity
    says: str
    broken: str
    shows: Sequence[str]


@dataclass(frozen=True)
class Batch:
    """Rows and the rules that hold of them."""

    subject: str
    rows: DataFrame
    rules: Sequence[Rule]


@dataclass(frozen=True)
class Finding:
    """The result of a rule: how many rows it was tried on, how many break it, and the first 200 of those as JSON."""

    subject: str
    rule: Rule
    checked: int
    violations: int
    violating: list[str]


# --- bronze ---


def polls_since(window: Window) -> DataFrame:
    """Rows of bronze in the window, and those of the poll that it begins after; `is_new` tells them apart."""
    clusters = window.clusters.select("cluster", "done_poll", "settled_poll")
    first, last = clusters.agg(F.min("done_poll"), F.max("settled_poll")).collect()[0]
    return (
        window.lake.read(clusters.sparkSession, bronze.METADATA_POLLS)
        .where(F.col("poll_id").between(first, last))  # what passes over older files
        .join(F.broadcast(clusters), "cluster")
        .where("poll_id BETWEEN done_poll AND settled_poll")
        .withColumn("is_new", F.expr("poll_id > done_poll"))
    )


def headers(window: Window) -> DataFrame:
    """New headers of polls, each with when the one before was sent and the topics that bronze has of it."""
    rows = polls_since(window)
    topics = rows.where("record = 'topic' AND present").groupBy("cluster", "poll_id")
    before = Over.partitionBy("cluster").orderBy("poll_id").rowsBetween(Over.unboundedPreceding, -1)
    return (
        rows.where("record = 'poll'")
        .withColumn("prev_sent_at", F.last("sent_at", ignorenulls=True).over(before))
        .where("is_new")
        .join(topics.agg(F.count_distinct("topic").alias("topics")), ["cluster", "poll_id"], "left")
        .fillna(0, "topics")
    )


def answered_topics(window: Window) -> DataFrame:
    """Topics as newly answered, with the partition numbers that came."""
    topics = polls_since(window).where("is_new AND record = 'topic' AND present AND error_code = 0")
    numbers = F.flatten(F.collect_list("partitions.partition"))
    return _numbered(
        topics.groupBy("cluster", "poll_id", "topic").agg(
            F.max("partition_count").alias("partition_count"), numbers.alias("numbers")
        )
    )


def _numbered(topics: DataFrame) -> DataFrame:
    """`topics` with how many `numbers` there are, and the first ten that should be there and are not."""
    wanted = F.expr("IF(partition_count > 0, sequence(0, partition_count - 1), NULL)")
    numbers = F.coalesce("numbers", F.array().cast("array<int>"))
    missing = F.slice(F.array_except(wanted, numbers), 1, 10)
    return topics.withColumns({"partitions": F.size(numbers), "missing": missing})


def log_rows(window: Window) -> DataFrame:
    """Rows of the coordinators' log that were read between the polls of the window, each with where the span before it
    ended.

    Of records prev_next_offset is null; of the first span of each partition too: what was before it is not looked at.
    """
    spans = Over.partitionBy("cluster", "log_partition", F.col("record") == "record").orderBy("read_at", "offset")
    return (
        window.later(bronze.GROUP_LOG, "read_at")
        .join(F.broadcast(window.clusters.drop("cluster_id")), "cluster")
        .where("(done_at IS NULL OR read_at > done_at) AND read_at <= settled_at")
        .withColumn("prev_next_offset", F.lag("next_offset").over(spans))
    )


# --- silver ---


def new_states(window: Window) -> DataFrame:
    """States of partitions that are new."""
    return window.read(silver.PARTITION_SNAPSHOTS, "valid_from").where("is_new")


def known_topics(window: Window) -> DataFrame:
    """Topics of which something is new and that live, with the partition numbers that silver has of them."""
    key = ["cluster_id", "topic"]
    topics, partitions = (
        window.read(table, "valid_to").where("superseded_poll IS NULL")
        for table in (silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS)
    )
    touched = topics.where("is_new").select(key).union(partitions.where("is_new").select(key)).distinct()
    return _numbered(
        topics.where("error_code = 0 AND partition_count IS NOT NULL")
        .join(F.broadcast(touched), key, "left_semi")
        .join(partitions.groupBy(key).agg(F.collect_list("partition").alias("numbers")), key, "left")
    )


def intervals(window: Window) -> DataFrame:
    """Rows over time of each `key` (JSON) of a `table` whose states changed, each with the one that follows."""
    return reduce(DataFrame.union, (_intervals_of(table, window) for table in silver.SNAPSHOTS))


def _intervals_of(table: Table, window: Window) -> DataFrame:
    key = list(table.key[:-1])
    rows = window.read(table, "valid_to")
    of_one = Over.partitionBy(key)
    return (
        rows.join(rows.where("is_changed").select(key), key, "left_semi")
        .withColumn("next_first_poll", F.lead("first_poll").over(of_one.orderBy("first_poll")))
        .withColumn("current_rows", F.count_if(F.col("superseded_poll").isNull()).over(of_one))
        .withColumns({"table": F.lit(table.full_name), "key": F.to_json(F.struct(key))})
        .select("table", "cluster", "key", "first_poll", "superseded_poll", "next_first_poll", "current_rows")
    )


def new_gaps(window: Window) -> DataFrame:
    """Gaps in polling that ended in the window."""
    return window.within(window.later(silver.POLL_GAPS, "gap_end"), "until_poll")


# --- the rules, and what they hold of ---


def _rules() -> dict[str, tuple[Rule, ...]]:
    written = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {subject: tuple(Rule(**rule) for rule in rules) for subject, rules in written.items()}


class Subject(NamedTuple):
    """Rows that rules hold of: `rows` takes them from the window of a run."""

    name: str
    rows: Callable[[Window], DataFrame]
    rules: tuple[Rule, ...]


_ROWS = {
    "bronze polls": headers,
    "bronze topics": answered_topics,
    "bronze group log": log_rows,
    "silver partitions": new_states,
    "silver topics": known_topics,
    "silver intervals": intervals,
    "silver gaps": new_gaps,
}
_RULES = _rules()
SUBJECTS = tuple(Subject(name, rows, _RULES[name]) for name, rows in _ROWS.items())
NOW = "silver progress"


def batches_of(window: Window) -> Iterator[Batch]:
    """The new rows of each subject, and its rules."""
    return (Batch(each.name, each.rows(window).localCheckpoint(), each.rules) for each in SUBJECTS)


def batch_of_now(spark: SparkSession, states: Iterable[State], aliases: Iterable[str], now: datetime) -> Batch:
    """The clusters that are configured, each with its last good poll: of them a rule holds at any time."""
    silver_rows = {state["cluster"]: state for state in states if state["history"] == "silver"}
    columns = (
        "cluster string, last_good_at timestamp, interval_ms bigint, failed_polls bigint, error_kinds array<string>, "
        "now timestamp"
    )
    rows = []
    for alias in aliases:
        state = silver_rows.get(alias, {"memory": "{}"})
        memory = json.loads(state["memory"])
        failed = memory.get("failed_polls", 0), memory.get("error_kinds", [])
        rows.append((alias, state.get("last_seen_at"), state.get("interval_ms"), *failed, now))
    return Batch(NOW, spark.createDataFrame(rows, columns), _RULES[NOW])
