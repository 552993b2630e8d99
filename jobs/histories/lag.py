"""Offsets of groups that polls asked for (`enrich: offsets`) -> how far each group was behind, and
commits that were removed.

A round folds the visits that are new, of each group (jobs/rules/groups/lag.py). It reads polls from
bronze, so it waits for no other history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.configuration.config import Config
from jobs.histories.visits import headers_of, is_planned, visits_of
from jobs.rounds.appended import appended
from jobs.rounds.commit import newest_version
from jobs.rounds.history import Context, History, News, Output
from jobs.rounds.live import PARTS
from jobs.rounds.plan import State, States, state_of, states_of
from jobs.rules.groups.fold_lag import ClusterKey, fold
from jobs.rules.groups.lag import Visit
from jobs.rules.groups.state import from_micros
from schemas.bronze import IS_VISIT, METADATA_POLLS
from schemas.consumption import GROUP_LAG, LAG_TABLES
from schemas.internal import LAG_STATES
from schemas.table import Table

JOB = histories.GROUP_LAG.name

Row = dict[str, Any]
_Memory = dict[str, Visit]
"""The last visit of each cluster that an alias led to, by its id."""


@dataclass(frozen=True)
class LagPlan:
    """The polls whose visits a round takes, by alias. `at`: of the round."""

    at: datetime
    polls: dict[str, list[str]]


@dataclass(kw_only=True)
class Visits(News):
    """The visits that a round takes, in order."""

    visits: Mapping[ClusterKey, Sequence[Visit]]


class GroupLag(History[Visits]):
    """The history of lag."""

    declared = (histories.GROUP_LAG,)
    job = JOB
    names = (JOB,)
    tables = (*LAG_TABLES, LAG_STATES)
    live = (GROUP_LAG, LAG_STATES)
    plan_type = LagPlan
    needs: ClassVar[Mapping[Table, str]] = {
        METADATA_POLLS: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, done_poll FROM {{states}} WHERE history = '{JOB}'
            ) USING (cluster)
            WHERE {IS_VISIT} AND NOT coalesce(poll_id <= done_poll, false)
        """
    }
    # Each note is two commits. `status` says from five minutes on that lag is behind.
    noted_after = timedelta(minutes=3)

    def __init__(self) -> None:
        self._version = -1
        """Of bronze.metadata_polls, up to which all visits were taken; -1 before any."""

    def due(self, context: Context, now: datetime) -> Visits:
        """The visits that no round has taken, of each cluster up to so many."""
        version = newest_version(context.spark, context.lake, METADATA_POLLS)
        if version == self._version:
            return Visits(plan=LagPlan(now, {}), visits={})
        polls = self._polls(context, version)
        headers = headers_of(polls.where(_is_not_taken(context.states)), context.left_out)
        most = context.config.polls_per_round
        taken = [header for of_alias in headers.values() for header in of_alias[:most]]
        is_more = len(taken) < sum(map(len, headers.values()))
        if not is_more:
            self._version = version
        return _news(context, polls, taken, now, is_more=is_more)

    def planned(self, context: Context, plan: LagPlan) -> Visits:
        """The visits of planned polls."""
        polls = context.lake.read(context.spark, METADATA_POLLS)
        headers = headers_of(polls.where(is_planned(plan.polls)))
        return _news(
            context, polls, [*chain.from_iterable(headers.values())], plan.at, is_more=False
        )

    def note(self, context: Context, news: Visits, output: Output | None) -> Iterable[State]:  # noqa: ARG002 - a visit that changed nothing was taken, too
        """How far each alias is. Of one that led to several clusters, the last poll counts."""
        rows: dict[str, State] = {}
        memories: dict[str, _Memory] = {}
        for (alias, cluster_id), visits in sorted(news.visits.items(), key=_last_poll):
            before, last = context.states.get((JOB, alias), {}), visits[-1]
            known = context.memory(JOB, alias, _Memory) or {}
            memories[alias] = {**memories.get(alias, known), cluster_id: last}
            rows[alias] = state_of(
                JOB,
                alias,
                memories[alias],
                cluster_id=cluster_id,
                done_poll=max(last.poll, before.get("done_poll") or ""),
                done_at=from_micros(last.seen),
            )
        return rows.values()

    def go_back(self, context: Context) -> Iterable[State]:  # noqa: ARG002
        """Look at all visits again that no round has taken."""
        self._version = -1
        return ()

    def waits(self, spark: SparkSession, config: Config) -> bool:
        """Whether bronze has visits that no round has taken."""
        visits = config.lake.read(spark, METADATA_POLLS).where(IS_VISIT)
        return not visits.where(_is_not_taken(states_of(spark, config.lake))).isEmpty()

    def _polls(self, context: Context, version: int) -> DataFrame:
        """The rows of bronze since the version that was looked at, up to another one."""
        if not 0 <= self._version < version:
            return context.lake.read_version(context.spark, METADATA_POLLS, version)
        return appended(context.spark, context.lake, METADATA_POLLS, self._version + 1, version)


def _last_poll(of: tuple[ClusterKey, Sequence[Visit]]) -> str:
    return of[1][-1].poll


def _news(
    context: Context, polls: DataFrame, headers: Sequence[Row], at: datetime, *, is_more: bool
) -> Visits:
    """The visits of these headers, and what they tell of groups."""
    plan = LagPlan(at, {})
    for header in headers:
        plan.polls.setdefault(header["cluster"], []).append(header["poll_id"])
    if not headers:
        return Visits(plan=plan, visits={}, is_more=is_more)
    visits, said = visits_of(polls, headers)
    before = {
        (alias, cluster_id): (context.memory(JOB, alias, _Memory) or {}).get(cluster_id)
        for alias, cluster_id in visits
    }
    return Visits(
        plan=plan,
        visits=visits,
        rows=[(METADATA_POLLS, said)],
        keys=[f"{alias}/{part}" for alias in plan.polls for part in range(PARTS)],
        fold=partial(fold, visits=visits, before=before, at=at),
        clusters=plan.polls.keys(),
        is_more=is_more,
        says=f"{len(headers)} asking(s) for offsets, of {len(visits)} cluster(s)",
    )


def _is_not_taken(states: States) -> Column:
    """That a poll came after those that rounds have taken."""
    done = [
        (cluster, row["done_poll"]) for (history, cluster), row in states.items() if history == JOB
    ]
    if not done:
        return F.lit(True)
    known = F.create_map(*(F.lit(each) for pair in done for each in pair))
    return F.coalesce(F.col("poll_id") > known[F.col("cluster")], F.lit(True))
