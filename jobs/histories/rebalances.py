"""The coordinators' log and polls of groups -> rebalances: who had what before and after, why, for
how long, and how often.

A round folds what is new of each group (jobs/rules/groups/fold_rebalances.py). What one source
tells is stored as it tells it; views join the rest (schemas/views/).
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.configuration.config import Thresholds
from jobs.histories.group_rows import GroupRows
from jobs.histories.positions import LOG, log_version, read_again, read_to
from jobs.rounds.appended import VERSIONS_A_ROUND, appended, new_versions
from jobs.rounds.history import Context, History, News, Output
from jobs.rounds.plan import State, States, kept_since, state_of
from jobs.rules.groups.fold_rebalances import GroupTake, Positions, fold, forgets_before
from jobs.rules.round import SILVER
from schemas import groups
from schemas.bronze import GROUP_LOG, NOT_TAKEN
from schemas.internal import GROUP_STATES
from schemas.silver import COORDINATORS, GROUP_SNAPSHOTS
from schemas.table import Table

JOB = histories.REBALANCE_HISTORY.name


@dataclass(frozen=True)
class GroupPlan:
    """All that a round takes. `at`: of the round. `clusters`: by alias. `versions`: first and last
    of bronze.group_log that no round has noted. `kept_since`: from when on retention has left gold
    whole. `remembered`: for how long groups are that are gone. `left_out`: the clusters that were
    left out when the log was read.
    """

    at: datetime
    thresholds: Thresholds
    clusters: dict[str, GroupTake]
    versions: tuple[int, int] | None
    kept_since: datetime | None
    remembered: timedelta
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """How far each partition of a cluster's log was taken: era and offset. `at`: of that round."""

    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(kw_only=True)
class GroupNews(News):
    """The news of groups, as they were read."""

    plan: GroupPlan
    read: GroupRows


class RebalanceHistory(History[GroupNews]):
    """The history of groups."""

    declared = (histories.REBALANCE_HISTORY,)
    job = JOB
    names = (JOB,)
    woken_by = (GROUP_LOG,)
    after = (SILVER,)
    needs_silver: ClassVar[Mapping[Table, Collection[str]]] = {GROUP_SNAPSHOTS: (JOB,)}
    needs: ClassVar[Mapping[Table, str]] = {
        GROUP_LOG: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, positions FROM {{states}} WHERE history = '{JOB}'
            ) USING (cluster)
            WHERE {NOT_TAKEN}
        """
    }
    tables = (*groups.TABLES, GROUP_STATES)
    live = tables
    plan_type = GroupPlan

    def __init__(self) -> None:
        self._looked: dict[str, str] = {}
        """By alias, the last poll up to which silver says nothing new of groups."""
        self._noted = -1
        """The last version of bronze.group_log up to which rounds have noted what they took."""

    def due(self, context: Context, now: datetime) -> GroupNews:
        """New rows of the log, and new states of groups in silver."""
        states = context.run.states.read(context.spark, context.lake)
        unnoted = [
            row for (of, _), row in context.states.items() if of == JOB and row["round"] is None
        ]
        clusters = {
            row["cluster"]: GroupTake(row["cluster_id"]) for row in unnoted if row["cluster"] != LOG
        }
        clusters |= self._new_polls(context, states)
        last = log_version(context, JOB).version
        since, end = new_versions(context.spark, context.lake, GROUP_LOG, last)
        if since < last or all(row["cluster"] != LOG for row in unnoted):
            self._noted = since
        config = context.config
        plan = GroupPlan(
            now,
            config.thresholds,
            clusters,
            (self._noted + 1, end) if end > self._noted else None,
            kept_since(states, "gold"),
            config.bronze_retention,
            tuple(context.left_out),
        )
        of_log = (since + 1, end) if end > since else None
        ids = {cluster: row["cluster_id"] for cluster, row in _of_silver(states).items()}
        news = _news(context, plan, of_log, ids)
        is_full = end - self._noted >= VERSIONS_A_ROUND
        news.is_due = bool(news.keys) or (is_full and bool(news.read.ends or unnoted))
        if not news.is_due:
            self._looked |= {of: each.until for of, each in clusters.items() if each.until}
        return news

    def planned(self, context: Context, plan: GroupPlan) -> GroupNews:
        """The rows of the log and of silver that a planned round takes."""
        ids = {cluster: each.cluster_id for cluster, each in plan.clusters.items()}
        return _news(context, plan, plan.versions, ids, planned=plan.at)

    def note(self, context: Context, news: GroupNews, output: Output | None) -> Iterable[State]:
        """How far each cluster is, and the log of all."""
        for cluster, each in news.plan.clusters.items():
            if output is None and cluster not in news.read.ends:
                continue
            before, memory = context.states.get((JOB, cluster), {}), _memory(context, cluster)
            until, until_at = (each.until, each.until_at) if output is not None else (None, None)
            ends = {str(of): position for of, position in news.read.ends.get(cluster, {}).items()}
            at, positions = memory.at if output is None else news.plan.at, memory.positions | ends
            yield state_of(
                JOB,
                cluster,
                Memory(positions, at),
                cluster_id=each.cluster_id,
                done_poll=until or before.get("done_poll"),
                done_at=until_at or before.get("done_at"),
                last_seen_at=news.read.read_at.get(cluster, before.get("last_seen_at")),
                positions={of: list(position) for of, position in positions.items()},
            )
        # Rows of a cluster whose id is not known yet are read again.
        if news.plan.versions is not None and not news.read.waits:
            yield read_to(context, JOB, news.plan.versions[1], news.plan.left_out)

    def go_back(self, context: Context) -> Iterable[State]:
        """Read the log again from where somebody was left out."""
        return read_again(context, JOB)

    def _new_polls(self, context: Context, states: States) -> dict[str, GroupTake]:
        """The clusters of which groups are polled, and silver has changed since."""
        found = {}
        for cluster, row in _of_silver(states).items():
            done = context.states.get((JOB, cluster), {}).get("done_poll")
            looked = max(done or "", self._looked.get(cluster, ""))
            is_new = looked < (row["done_poll"] or "") and looked < (row["changed_poll"] or "")
            if cluster in context.left_out or not is_new:
                continue
            if "groups" in json.loads(row["memory"]).get("enriched", {}):
                until, until_at = row["done_poll"], row["done_at"]
                found[cluster] = GroupTake(row["cluster_id"], done, until, until_at)
        if found:
            rows = context.lake.read(context.spark, COORDINATORS)
            of_cluster = rows.where(F.col("cluster").isin(*found)).groupBy("cluster")
            for cluster, last in of_cluster.agg(F.max("log_partition")).collect():
                found[cluster] = replace(found[cluster], log_partitions=last + 1)
        return found


def _news(
    context: Context,
    plan: GroupPlan,
    versions: tuple[int, int] | None,
    ids: Mapping[str, str],
    *,
    planned: datetime | None = None,
) -> GroupNews:
    """The news of these versions of the log, and of the polls of a plan. `ids`: see `add_log`."""
    read = GroupRows()
    if versions is not None:
        log = appended(context.spark, context.lake, GROUP_LOG, *versions, planned=planned)
        known = {*ids, *(of for history, of in context.states if history == JOB and of != LOG)}
        taken = {cluster: _positions(context, cluster) for cluster in known}
        read.add_log(context, log, ids, taken, plan.left_out)
    read.add_polls(context, plan.clusters)
    clusters = {of: GroupTake(id_) for of, id_ in read.ids.items()} | plan.clusters
    forgets = partial(forgets_before, remembered=plan.remembered, kept_since=plan.kept_since)
    return GroupNews(
        plan=replace(plan, clusters=clusters),
        read=read,
        rows=read.rows,
        keys=read.keys,
        fold=partial(
            fold,
            clusters=clusters,
            ends=read.ends,
            limits=plan.thresholds,
            at=plan.at,
            forgets=forgets,
        ),
        clusters={key.rpartition("/")[0] for key in read.keys},
        says=f"groups of {len(clusters)} cluster(s)",
    )


def _of_silver(states: States) -> dict[str, State]:
    """How far silver is with each cluster whose id is known, by alias."""
    return {
        cluster: row
        for (history, cluster), row in states.items()
        if history == SILVER and row["cluster_id"] is not None
    }


def _memory(context: Context, cluster: str) -> Memory:
    return context.memory(JOB, cluster, Memory) or Memory()


def _positions(context: Context, cluster: str) -> Positions:
    """How far each partition of a cluster's log was taken."""
    return {int(each): position for each, position in _memory(context, cluster).positions.items()}
