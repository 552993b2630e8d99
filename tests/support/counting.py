"""A history without rules: how often each group was named. It shows what the engine does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobs.rounds.history import KEY, Context, History, News, Output, key_of
from jobs.rounds.plan import State, state_of
from jobs.rounds.stage import arrow_schema
from jobs.rules.arrow import rows_in
from schemas.internal import LAG_STATES
from tests.support.memory_lake import Frame
from tests.support.stage import Row

JOB = "group_lag"
NOTHING = "nothing"
"""A group that changes no row."""


@dataclass(frozen=True)
class CountPlan:
    """Those that were named from one place to another; and the clusters that are left out."""

    since: int
    until: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """`held`: from where on somebody was left out."""

    until: int
    held: int | None = None


class Counting(History[News]):
    """`named`: cluster and group. `most`: so many in a round. `is_due`: rounds are made whatever
    they say.
    """

    declared = ()
    job = JOB
    names = (JOB,)
    tables = (LAG_STATES,)
    live = (LAG_STATES,)
    plan_type = CountPlan

    def __init__(self, named: Sequence[tuple[str, str]], most: int = 100) -> None:
        self.named, self.most, self.is_due = named, most, False
        self.forgotten: list[str] = []
        self.finished = 0
        """Rounds that have taken news."""

    def due(self, context: Context, now: datetime) -> News | None:
        taken = context.memory(JOB, "", Taken) or Taken(0)
        until = min(taken.until + self.most, len(self.named))
        if until == taken.until:
            return None
        news = self._news(CountPlan(taken.until, until, tuple(context.left_out)))
        news.is_due, news.is_more = self.is_due, until < len(self.named)
        return news

    def planned(self, context: Context, plan: CountPlan) -> News:
        return self._news(plan)

    def note(self, context: Context, news: News, output: Output | None) -> Iterable[State]:
        held = (context.memory(JOB, "", Taken) or Taken(0)).held
        if news.plan.left_out and held is None:
            held = news.plan.since
        yield state_of(JOB, "", Taken(news.plan.until, held))

    def done(self, context: Context, news: News) -> None:
        until = (context.memory(JOB, "", Taken) or Taken(0)).until
        assert until == news.plan.until, "the context is of after the round"
        self.finished += 1

    def forget(self, cluster: str) -> None:
        self.forgotten.append(cluster)

    def _news(self, plan: CountPlan) -> News:
        named = [
            each for each in self.named[plan.since : plan.until] if each[0] not in plan.left_out
        ]
        rows = [
            {KEY: key_of(*each), "cluster_id": "id", "cluster": each[0], "group_id": each[1]}
            for each in named
        ]
        schema = pa.schema([(KEY, pa.string()), *arrow_schema(LAG_STATES)])
        return News(
            plan=plan,
            rows=[(LAG_STATES, Frame(pa.Table.from_pylist(rows, schema)))],
            keys={row[KEY] for row in rows},
            fold=counted,
            clusters={cluster for cluster, _ in named},
        )


def counted(
    key: str, news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]
) -> Mapping[str, Sequence[Row]]:
    """A group named `broken` is more than the fold can take."""
    counts = {row["group_id"]: int(row["memory"]) for row in rows_in(live, LAG_STATES)}
    changed: dict[str, Row] = {}
    for row in rows_in(news, LAG_STATES):
        group_id = row["group_id"]
        if group_id == "broken":
            raise KeyError(key)
        if group_id != NOTHING:
            counts[group_id] = counts.get(group_id, 0) + 1
            of_group: dict[str, Any] = {name: row[name] for name in ("cluster_id", "cluster")}
            changed[group_id] = of_group | {"group_id": group_id, "memory": str(counts[group_id])}
    return {LAG_STATES.full_name: [*changed.values()]}
