"""Offsets of groups that polls asked for (`enrich: offsets`) -> how far each group was behind, and
commits that were removed.

A round folds the visits that are new, of each group (jobs/rules/groups/lag.py). It reads polls from
bronze, so it waits for no other history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from jobs.configuration import histories
from jobs.histories.answers import OfAnswers, days_needed, plan_of
from jobs.histories.visits import visits_of
from jobs.rounds.history import Context, News, Output
from jobs.rounds.live import PARTS
from jobs.rounds.plan import State, state_of
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


@dataclass(kw_only=True)
class Visits(News):
    """The visits that a round takes, in order."""

    visits: Mapping[ClusterKey, Sequence[Visit]]


class GroupLag(OfAnswers[Visits]):
    """The history of lag."""

    declared = (histories.GROUP_LAG,)
    job = JOB
    names = (JOB,)
    tables = (*LAG_TABLES, LAG_STATES)
    live = (GROUP_LAG, LAG_STATES)
    asked = IS_VISIT
    needs: ClassVar[Mapping[Table, str]] = {METADATA_POLLS: days_needed(JOB, IS_VISIT)}

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

    def taken(
        self,
        context: Context,
        polls: DataFrame | None,
        headers: Sequence[Row],
        at: datetime,
        *,
        is_more: bool = False,
    ) -> Visits:
        """The visits of these headers, and what they tell of groups."""
        plan = plan_of(headers, at)
        if polls is None or not headers:
            return Visits(plan=plan, visits={}, is_more=is_more)
        visits, offsets = visits_of(polls, headers)
        before = {
            (alias, cluster_id): (context.memory(JOB, alias, _Memory) or {}).get(cluster_id)
            for alias, cluster_id in visits
        }
        return Visits(
            plan=plan,
            visits=visits,
            rows=[(METADATA_POLLS, offsets)],
            keys=[f"{alias}/{part}" for alias in plan.polls for part in range(PARTS)],
            fold=partial(fold, visits=visits, before=before, at=at),
            clusters=plan.polls.keys(),
            is_more=is_more,
            says=f"{len(headers)} asking(s) for offsets, of {len(visits)} cluster(s)",
        )


def _last_poll(of: tuple[ClusterKey, Sequence[Visit]]) -> str:
    return of[1][-1].poll
