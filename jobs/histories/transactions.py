"""The transaction coordinators' log -> transactions that are long, stuck or were aborted by their
coordinator, and what the transactional ids of each pattern came to.

A round folds what is new of each partition of the log (jobs/rules/transactions/fold.py), and, as
the log was read up to its end, the partitions in which an open transaction is due to be long or
stuck.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.histories.positions import LOG, beyond, log_version, read_again, read_to
from jobs.rounds.appended import appended, new_versions
from jobs.rounds.history import KEY, Context, History, News, Output, key_column, key_of
from jobs.rounds.live import PARTS, part_column
from jobs.rounds.plan import State, state_of
from jobs.rules.groups.fold_rebalances import Positions
from jobs.rules.round import SILVER
from jobs.rules.transactions.fold import Until, fold, up_to
from schemas.bronze import NOT_TAKEN
from schemas.table import Table
from schemas.transactions import HISTORY_TABLES, LOG_MEMORIES, TRANSACTION_LOG

JOB = histories.TRANSACTION_HISTORY.name

_WRITTEN_WITHIN = timedelta(seconds=30)
"""A record is in the log so soon after its time; the clocks of brokers and of the driver differ by
less.
"""
_FOLDED = ("transactions", "lost", "truncated")
_COLUMNS = tuple(
    each.name
    for each in TRANSACTION_LOG.columns
    if each.name not in {"key", "value", "error", "day", "transactional_id", "is_tombstone"}
)


@dataclass(frozen=True)
class TransactionPlan:
    """All that a round takes. `at`: of the round. `versions`: first and last of the log in bronze.
    `ids`: alias -> cluster id, as silver has it. `left_out`: the clusters that were left out when
    the log was read.
    """

    at: datetime
    versions: tuple[int, int]
    ids: dict[str, str]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class LogOffsets:
    """How far each partition of a cluster's log was taken: era and offset."""

    positions: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(kw_only=True)
class TransactionNews(News):
    """`ends`: by alias, up to where the log was read. `read_at`: when its last rows were.
    `caught_up_at`: when that was all of it, by alias and log partition, None: all of them. `ids`:
    of all clusters that are folded. `waits`: whether there are rows of a cluster whose id nobody
    knows yet.
    """

    plan: TransactionPlan
    ends: Mapping[str, Positions]
    read_at: Mapping[str, datetime]
    caught_up_at: Mapping[tuple[str, int | None], datetime]
    ids: Mapping[str, str]
    waits: bool


class TransactionHistory(History[TransactionNews]):
    """The history of transactions."""

    declared = (histories.TRANSACTION_HISTORY,)
    job = JOB
    names = (JOB,)
    by = "log_partition"
    woken_by = (TRANSACTION_LOG,)
    after: ClassVar[Collection[str]] = (SILVER,)
    needs: ClassVar[Mapping[Table, str]] = {
        TRANSACTION_LOG: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, positions FROM {{states}} WHERE history = '{JOB}'
            ) USING (cluster)
            WHERE {NOT_TAKEN}
        """
    }
    tables = HISTORY_TABLES
    live = HISTORY_TABLES
    plan_type = TransactionPlan

    def due(self, context: Context, now: datetime) -> TransactionNews | None:
        """New rows of the log, and partitions in which a transaction is due to be long or stuck."""
        since, end = new_versions(
            context.spark, context.lake, TRANSACTION_LOG, log_version(context, JOB).version
        )
        if end <= since:
            return None
        states = context.run.states.read(context.spark, context.lake)
        ids = {
            cluster: row["cluster_id"]
            for (history, cluster), row in states.items()
            if history == SILVER and row["cluster_id"] is not None
        }
        plan = TransactionPlan(now, (since + 1, end), ids, tuple(context.left_out))
        news = _news(context, plan)
        news.is_due = bool(news.keys)
        return news

    def planned(self, context: Context, plan: TransactionPlan) -> TransactionNews:
        """The rows of the log that a planned round takes."""
        return _news(context, plan, is_again=True)

    def note(
        self,
        context: Context,
        news: TransactionNews,
        output: Output | None,  # noqa: ARG002 - how far the log was taken is noted either way
    ) -> Iterable[State]:
        """How far each cluster is, and the log of all."""
        for cluster, ends in news.ends.items():
            memory = context.memory(JOB, cluster, LogOffsets) or LogOffsets()
            positions = memory.positions | {str(of): position for of, position in ends.items()}
            yield state_of(
                JOB,
                cluster,
                LogOffsets(positions),
                cluster_id=news.ids[cluster],
                last_seen_at=news.read_at[cluster],
                positions={of: list(position) for of, position in positions.items()},
            )
        # Rows of a cluster whose id is not known yet are read again.
        if not news.waits:
            yield read_to(context, JOB, news.plan.versions[1], news.plan.left_out)

    def go_back(self, context: Context) -> Iterable[State]:
        """Read the log again from where somebody was left out."""
        return read_again(context, JOB)


def _news(context: Context, plan: TransactionPlan, *, is_again: bool = False) -> TransactionNews:
    """The news of a plan."""
    found = TransactionNews(
        plan=plan, ends={}, read_at={}, caught_up_at={}, ids=dict(plan.ids), waits=False, rows=[]
    )
    planned = plan.at if is_again else None
    log = appended(context.spark, context.lake, TRANSACTION_LOG, *plan.versions, planned=planned)
    keys = _add(context, log, found)
    until = {of: at - _WRITTEN_WITHIN for of, at in found.caught_up_at.items()}
    found.keys = keys | due_keys(context, until, found.ids)
    found.clusters = {key.rpartition("/")[0] for key in found.keys}
    found.fold = partial(fold, ids=found.ids, until=until, at=plan.at)
    found.says = f"transactions of {len(found.clusters)} cluster(s)"
    return found


def _add(context: Context, log: DataFrame, found: TransactionNews) -> set[str]:
    """Add rows of the log that no round has taken to news; returns the keys of those that say
    something.
    """
    known = context.spark.createDataFrame(
        list(found.plan.ids.items()), "cluster string, _id string"
    )
    rows = log.select(*_COLUMNS, "error").join(F.broadcast(known), "cluster", "left")
    rows = rows.where(~F.col("cluster").isin(list(found.plan.left_out)))
    rows = rows.withColumn("cluster_id", F.coalesce("cluster_id", "_id")).drop("_id")
    taken = {
        cluster: _positions(context, cluster)
        for history, cluster in context.states
        if history == JOB and cluster != LOG
    }
    rows = beyond(rows, taken).localCheckpoint()
    of_partition = rows.groupBy("cluster", "cluster_id", "log_partition").agg(
        F.max(F.struct("era", "goes_on_at")).alias("end"),
        F.max("read_at").alias("read_at"),
        F.max("caught_up_at").alias("caught_up_at"),
        F.max(F.expr("IF(error IS NULL, caught_up_at, NULL)")).alias("whole_at"),
        F.bool_or(F.col("record").isin(*_FOLDED)).alias("is_folded"),
    )
    keys: set[str] = set()
    ends: dict[str, Positions] = {}
    read_at: dict[str, datetime] = {}
    caught_up_at: dict[tuple[str, int | None], datetime] = {}
    ids = dict(found.ids)
    for row in of_partition.toArrow().to_pylist():
        cluster, log_partition = row["cluster"], row["log_partition"]
        if row["cluster_id"] is None:
            found.waits = True
            continue
        ids.setdefault(cluster, row["cluster_id"])
        position = row["end"]["era"], row["end"]["goes_on_at"]
        ends.setdefault(cluster, {})[log_partition] = position
        read_at[cluster] = max(row["read_at"], read_at.get(cluster, row["read_at"]))
        for of, at in ((None, row["whole_at"]), (log_partition, row["caught_up_at"])):
            if at is not None:
                caught_up_at[cluster, of] = max(at, caught_up_at.get((cluster, of), at))
        if row["is_folded"]:
            keys.add(key_of(cluster, str(log_partition)))
    found.ends, found.read_at, found.caught_up_at, found.ids = ends, read_at, caught_up_at, ids
    changes = rows.where(F.col("cluster_id").isNotNull() & F.col("record").isin(*_FOLDED))
    key = key_column(part_column("log_partition")).alias(KEY)
    found.rows = [(TRANSACTION_LOG, changes.select(key, *_COLUMNS, "era", "place"))]
    return keys


def due_keys(context: Context, until: Until, ids: Mapping[str, str]) -> set[str]:
    """The keys of partitions in which a transaction is due to be long or stuck, of the clusters
    that aliases lead to now.
    """
    rows = context.live.of([LOG_MEMORIES], range(PARTS))[LOG_MEMORIES]
    due = rows.filter(pc.is_valid(rows["due_at"]))
    names = ("cluster", "cluster_id", "log_partition", "due_at")
    return {
        key_of(cluster, str(log_partition))
        for cluster, cluster_id, log_partition, at in zip(
            *(due[name].to_pylist() for name in names), strict=True
        )
        if ids.get(cluster) == cluster_id
        and (silent_to := up_to(until, cluster, log_partition)) is not None
        and at < silent_to
    }


def _positions(context: Context, cluster: str) -> Positions:
    """How far each partition of a cluster's log was taken."""
    memory = context.memory(JOB, cluster, LogOffsets) or LogOffsets()
    return {int(each): position for each, position in memory.positions.items()}
