"""Rules that bronze, silver and rebalances must keep (validity.yaml), and the new rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rules.ids import LOG_ID
from schemas import bronze, gold, groups, silver, transactions
from schemas.in_spark import read_view
from schemas.internal import CLUSTERS, STATE_NOW
from schemas.lake import Lake
from schemas.table import Table

Severity = Literal["critical", "warning"]
State = Mapping[str, Any]
"""A row of internal.state."""

_BOUNDS = (
    "cluster string, done_poll string, done_at timestamp, settled_poll string, settled_at timestamp"
)


@dataclass(frozen=True)
class Rule:
    """One rule: its demand, the SQL condition on a row that breaks it, and the columns it shows."""

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
    """The result of a rule: rows it was tried on, rows that break it, the first 200 as JSON."""

    subject: str
    rule: Rule
    checked: int
    violations: int
    violating: list[str]


SUBJECTS: Mapping[str, tuple[str, list[Rule]]] = {
    subject: (
        of["rows"],
        [
            Rule(name, severity, rule[severity], rule["broken"], rule["shows"])
            for name, rule in of["rules"].items()
            for severity in get_args(Severity)
            if severity in rule
        ],
    )
    for subject, of in yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    ).items()
}
"""Rows, as SQL over the frames of a run, and their rules. NOW holds at any time, others of news."""
NOW = "silver progress"

_OVER_TIME = (*silver.SNAPSHOTS, *silver.OF_LOG, silver.HISTORY_SOURCES)

VALIDATED = "validate"
"""The rows of internal.state that say up to where all is validated have this history."""

_WINDOW = """
SELECT s.cluster, coalesce(v.done_poll, '') AS done_poll, v.done_at,
  s.done_poll AS settled_poll, s.done_at AS settled_at
FROM {clusters} s LEFT JOIN {validated} v ON v.cluster_id = s.cluster_id
WHERE s.done_poll > coalesce(v.done_poll, '')
"""
_DONE = f"""
SELECT '{VALIDATED}' AS history, cluster, 0L AS round, '{{{{}}}}' AS memory,
  max_by(cluster_id, done_poll) AS cluster_id, max(done_poll) AS done_poll,
  max_by(done_at, done_poll) AS done_at
FROM (SELECT * FROM {{clusters}} UNION ALL SELECT * FROM {{validated}})
WHERE done_poll IS NOT NULL GROUP BY cluster
"""
_INTERVALS = """
SELECT table, cluster, key, first_poll, superseded_poll,
  lead(first_poll) OVER (PARTITION BY table, cluster, key ORDER BY first_poll) AS next_first_poll,
  count_if(superseded_poll IS NULL) OVER (PARTITION BY table, cluster, key) AS current_rows
FROM {rows}
QUALIFY bool_or(first_poll > done_poll OR superseded_poll > done_poll)
  OVER (PARTITION BY table, cluster, key)
"""


@dataclass(frozen=True)
class Progress:
    """All that a run knows of: rounds go on while it validates. `clusters`: rows of
    internal.clusters. `validated`: those of internal.state up to where the run before has come.
    """

    clusters: DataFrame
    validated: DataFrame

    def window(self) -> list[State]:
        """The polls of each cluster that validation has not seen: those in (done, settled]."""
        return self._asked(_WINDOW)

    def done(self) -> list[State]:
        """The rows of internal.state that say that all is validated up to where history is."""
        return self._asked(_DONE)

    def _asked(self, sql: str) -> list[State]:
        frame = self.clusters.sparkSession.sql(sql, **vars(self))
        rows: list[State] = frame.toArrow().to_pylist()
        return rows


def progress(spark: SparkSession, lake: Lake) -> Progress:
    """How far history and validation have come by now."""
    validated = read_view(spark, lake, STATE_NOW).where(f"history = '{VALIDATED}'")
    clusters = read_view(spark, lake, CLUSTERS)
    return Progress(clusters.localCheckpoint(), validated.localCheckpoint())


def batches(
    lake: Lake,
    clusters: DataFrame,
    window: Sequence[State],
    aliases: Iterable[str],
    now: datetime,
) -> Iterator[Batch]:
    """The rows of each subject, with its rules: the clusters that are configured, and what is new
    in the window.
    """
    spark = clusters.sparkSession
    configured = spark.createDataFrame(
        [(alias, now) for alias in aliases], "cluster string, now timestamp"
    )
    frames = {"clusters": clusters, "configured": configured} | (
        _new(spark, lake, window) if window else {}
    )
    for subject in SUBJECTS if window else [NOW]:
        query, rules = SUBJECTS[subject]
        yield Batch(subject, spark.sql(query, **frames).localCheckpoint(), rules)


def _new(spark: SparkSession, lake: Lake, window: Sequence[State]) -> dict[str, Any]:
    """Frames of tables as far as the window goes, with the bounds of their clusters."""
    bounds = spark.createDataFrame([tuple(row.values()) for row in window], _BOUNDS)
    times = [row["done_at"] for row in window]
    # Of streams and numbers files have statistics, of the ids that are made of both they have none.
    # That of a record of the controllers' log begins with the poll before it.
    poll, _, _ = min(row["done_poll"] for row in window).partition(LOG_ID)
    stream, _, n = poll.partition("/")
    is_later = f"stream > '{stream}' OR (stream = '{stream}' AND n >= {int(n or 0)})"
    polls = (
        lake.read(spark, bronze.METADATA_POLLS).where(is_later).join(F.broadcast(bounds), "cluster")
    )

    def since(table: Table, time: str) -> DataFrame:
        rows = lake.read(spark, table)
        rows = (
            rows
            if None in times
            else rows.where((F.col(time) >= min(times)) | F.col(time).isNull())
        )
        return rows.join(F.broadcast(bounds), "cluster")

    def snapshots(table: Table) -> DataFrame:
        """As they were when the window ended: what came after is not known yet."""
        end = F.expr("IF(superseded_poll > settled_poll, NULL, superseded_poll)")
        return (
            since(table, "valid_to")
            .where("first_poll <= settled_poll")
            .withColumn("superseded_poll", end)
        )

    def intervals(table: Table) -> DataFrame:
        key = F.to_json(F.struct(*table.key[:-1])).alias("key")
        times = ("first_poll", "superseded_poll", "done_poll")
        return snapshots(table).select(
            F.lit(table.full_name).alias("table"), "cluster", key, *times
        )

    return {
        "polls": polls.where("poll_id BETWEEN done_poll AND settled_poll"),
        "log": since(bronze.GROUP_LOG, "read_at"),
        "transaction_log": since(transactions.TRANSACTION_LOG, "read_at"),
        "cluster_log": since(bronze.CLUSTER_LOG, "read_at"),
        "topics": snapshots(silver.TOPIC_SNAPSHOTS),
        "partitions": snapshots(silver.PARTITION_SNAPSHOTS),
        "intervals": spark.sql(
            _INTERVALS, rows=reduce(DataFrame.union, map(intervals, _OVER_TIME))
        ),
        "gaps": since(silver.POLL_GAPS, "gap_end"),
        "stale_brokers": since(gold.STALE_BROKERS, "ended_before"),
        "rebalances": since(groups.REBALANCES, "updated_at"),
        "members": since(groups.REBALANCE_MEMBERS, "updated_at"),
    }
