"""Gold of all sources -> incidents: which rows belong together, their first cause, events.

A round folds all that is recent of each cluster of which gold has something new, or a deadline has
passed (jobs/rules/incidents/fold.py). It reads the tables in the versions that its plan names, so
that a round that is made again has the same events.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.configuration import histories
from jobs.configuration.severities import Severity
from jobs.histories.findings import Findings, Versions
from jobs.rounds.history import Context, History, Inputs, News, Output
from jobs.rounds.live import part_of
from jobs.rounds.plan import State, States, state_of
from jobs.rounds.stage import frame_of
from jobs.rules.incidents.fold import TABLES, ClusterTake, fold
from jobs.rules.incidents.incident import REVISED_WITHIN
from jobs.rules.round import SILVER
from schemas.incidents import EVENTS, INCIDENT_LINKS, INCIDENTS
from schemas.internal import STATE

JOB = histories.INCIDENTS.name

_OF_ALL: Final = ""
"""In place of an alias: of a history that has one row for all clusters."""


@dataclass(frozen=True)
class Memory:
    """`until`: of the observations that the last round of a cluster had. `seen`: how far each
    history was that it took rows of.
    """

    until: datetime | None = None
    seen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterPlan:
    """The part of a round that is one cluster's. `seen`: as of Memory. `poll`: the last one of
    silver.
    """

    cluster_id: str
    until: datetime
    after: datetime | None
    poll: str
    seen: dict[str, str]


@dataclass(frozen=True)
class IncidentPlan:
    """`versions`: in which the round reads each table. `severities`: of the configuration."""

    at: datetime
    versions: dict[str, int]
    clusters: dict[str, ClusterPlan]
    severities: dict[str, Severity]


class Incidents(History[News]):
    """The history of incidents."""

    declared = (histories.INCIDENTS,)
    job = JOB
    key = "cluster"
    by = "cluster_id"
    names = (JOB,)
    after: ClassVar[Collection[str]] = tuple(
        each.name
        for each in histories.DECLARED
        if each not in {histories.INCIDENTS, histories.CLUSTER_LOG, histories.STORAGE}
    )
    tables = (*TABLES, STATE)
    live = (INCIDENTS, INCIDENT_LINKS)
    plan_type = IncidentPlan

    def __init__(self) -> None:
        self._findings = Findings()
        self._folded: dict[str, Versions] = {}
        """Alias -> the versions of tables in which this process has folded it last."""

    def due(self, context: Context, now: datetime) -> News | None:
        """The clusters of which a history has something new, or whose deadline has passed."""
        states = context.run.states.read(context.spark, context.lake)
        found, due, changed = {}, set[str](), set[str]()
        for (history, cluster), row in states.items():
            if history != SILVER or row["done_at"] is None:
                continue
            if cluster in context.left_out or row["cluster_id"] is None:
                continue
            memory = context.memory(JOB, cluster, Memory) or Memory()
            deadline = context.states.get((JOB, cluster), {}).get("deadline")
            seen = _seen(states, cluster)
            is_over = deadline is not None and deadline <= row["done_at"]
            # `status` calls incidents late that have not had changes of silver.
            if is_over or seen.get(SILVER) != memory.seen.get(SILVER):
                due.add(cluster)
            changed |= {name for name, of in seen.items() if memory.seen.get(name) != of}
            if cluster in due or seen != memory.seen:
                found[cluster] = ClusterPlan(
                    row["cluster_id"], row["done_at"], memory.until, row["done_poll"], seen
                )
        if not found:
            return None
        versions = self._findings.versions(context, changed)
        # Rounds that wrote no row, as most of a cluster at rest, change no incident.
        found = {
            cluster: each
            for cluster, each in found.items()
            if cluster in due or self._folded.get(cluster) != versions
        }
        if not found:
            return None
        plan = IncidentPlan(now, versions, found, {**context.config.severities})
        return _news(context, plan, self._findings)

    def planned(self, context: Context, plan: IncidentPlan) -> News:
        """The rows that a planned round takes."""
        return _news(context, plan, Findings())

    def read(self, context: Context, news: News) -> Inputs:
        """New rows, and the incidents of these clusters that may still change."""
        plan: IncidentPlan = news.plan
        aliases = pa.array(sorted(plan.clusters))
        parts = {part_of(each.cluster_id) for each in plan.clusters.values()}
        live = {
            table: rows.filter(pc.is_in(rows["cluster"], aliases))
            for table, rows in context.live.of(self.live, parts).items()
        }
        assert news.fold is not None  # noqa: S101 - for mypy
        return Inputs(news.fold, self.tables, news.rows, live)

    def note(self, context: Context, news: News, output: Output | None) -> Iterable[State]:  # noqa: ARG002
        """Of clusters without any finding no fold was called."""
        plan: IncidentPlan = news.plan
        told = {row["cluster"] for row in (() if output is None else output.states)}
        for cluster, each in plan.clusters.items():
            if cluster not in told:
                yield _state(cluster, each, None)

    def done(self, context: Context, news: News) -> None:  # noqa: ARG002
        """Note in which versions of tables these clusters were folded."""
        plan: IncidentPlan = news.plan
        self._folded |= dict.fromkeys(plan.clusters, plan.versions)

    def forget(self, cluster: str) -> None:
        """Fold a cluster again, whatever has changed."""
        self._folded.pop(cluster, None)

    @staticmethod
    def keys_of(rows: pa.Table) -> pa.ChunkedArray:
        """The keys of live rows."""
        return rows["cluster"]


def _seen(states: States, cluster: str) -> dict[str, str]:
    """How far each history of a cluster is: by the last poll that changed it, or its last round."""
    found = {}
    for history in Incidents.after:
        row = states.get((history, cluster)) or states.get((history, _OF_ALL))
        if row is not None:
            found[history] = row["changed_poll"] or f"round {row['round']}"
    return found


def _news(context: Context, plan: IncidentPlan, findings: Findings) -> News:
    since = min(each.until for each in plan.clusters.values()) - REVISED_WITHIN
    rows = findings.rows(context, plan.versions, since)
    rows = rows.filter(pc.is_in(rows["cluster"], pa.array(sorted(plan.clusters))))
    return News(
        plan=plan,
        rows=[(INCIDENT_LINKS, frame_of(context.spark, rows))],
        keys=plan.clusters.keys(),
        fold=partial(_fold, plan=plan),
        clusters=plan.clusters.keys(),
        is_due=True,
        says=f"incidents of {len(plan.clusters)} cluster(s)",
    )


def _fold(
    cluster: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    plan: IncidentPlan,
) -> dict[str, list[dict[str, object]]]:
    of = plan.clusters[cluster]
    take = ClusterTake(of.cluster_id, of.until, of.after)
    made = fold(cluster, news, live, take=take, severities=plan.severities, at=plan.at)
    state = _state(cluster, of, made.due_at)
    return {
        INCIDENTS.full_name: made.incidents,
        INCIDENT_LINKS.full_name: made.links,
        EVENTS.full_name: made.events,
        STATE.full_name: [state | {"round": 0}],
    }


def _state(cluster: str, plan: ClusterPlan, due_at: datetime | None) -> State:
    return state_of(
        JOB,
        cluster,
        Memory(plan.until, plan.seen),
        cluster_id=plan.cluster_id,
        done_poll=plan.poll,
        done_at=plan.until,
        deadline=due_at,
    )
