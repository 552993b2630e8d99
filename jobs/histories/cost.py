"""Rebalances that the coordinators' log tells, offset commits and the ends of logs ->
gold.rebalance_cost: for how long nobody consumed, how far a group fell behind, how much may have
been done twice.

A round takes rebalances that are over and new, and once a minute looks after rows that are live. It
reads bronze around them alone: if no group rebalances, the job reads nothing. Of bronze it takes no
more than the history of rebalances has had of the log: beyond that nobody knows which rebalance a
commit or a visit follows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from jobs.configuration import histories
from jobs.histories.cost_rows import Row, of_groups, over, rows_around, without_cost
from jobs.histories.rebalances import JOB as REBALANCE_HISTORY
from jobs.histories.rebalances import Memory as OfRebalances
from jobs.rounds.commit import newest_version
from jobs.rounds.history import Context, History, News, Output, key_of
from jobs.rounds.live import PARTS
from jobs.rounds.plan import State, States, state_of, states_of
from jobs.rules.groups.cost import CADENCE_FROM
from jobs.rules.groups.fold_cost import Times, fold
from jobs.rules.memory import loads
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES
from schemas.table import Table

JOB = histories.REBALANCE_COST.name

LOOK_EVERY = timedelta(minutes=1)
"""How often live rows are looked after."""

BEFORE = timedelta(minutes=15)
"""Rows of bronze are read from so long before what is new. A transaction is open for no longer,
unless brokers say otherwise (transaction.max.timeout.ms), and CADENCE_FROM is less.
"""

REBALANCES_A_ROUND = 1_000
"""How many rebalances a round takes, or all of one round of theirs."""

_BEGAN = itemgetter("began_before")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_SAYS = "cost of rebalances"


@dataclass(frozen=True)
class CostPlan:
    """The news that a round takes: rebalances told after `told_after`, up to `told_until`; and, for
    rows that are live, what there was from when the log was read last but one (`read_after`) up to
    then (`read_until`). `at`: of the round. `left_out`: the clusters that are left out; `held`:
    nothing of these was taken that was told later.
    """

    at: datetime
    told_after: datetime
    told_until: datetime
    read_after: Times
    read_until: Times
    left_out: tuple[str, ...] = ()
    held: datetime | None = None

    @property
    def moved(self) -> set[str]:
        """The clusters of whose log more is known."""
        return {
            alias
            for alias, at in self.read_until.items()
            if at > self.read_after.get(alias, _NEVER)
        }


@dataclass(frozen=True)
class Memory:
    """When the last rebalance was told that was taken, and by alias, when the log was read that was
    looked at. `held`: as of CostPlan.
    """

    told: datetime
    read: Times = field(default_factory=dict)
    held: datetime | None = None


class RebalanceCost(History[News]):
    """The cost of rebalances."""

    declared = (histories.REBALANCE_COST,)
    job = JOB
    names = (JOB,)
    tables = (REBALANCE_COST,)
    live = (REBALANCE_COST,)
    plan_type = CostPlan

    def __init__(self) -> None:
        self._told_version, self._looked_at = -1, _NEVER
        self._read: dict[str, datetime] = {}
        """By alias, up to when live rows were looked after: no less than internal.states has."""

    def due(self, context: Context, now: datetime) -> News | None:
        """Rebalances that are over and new; once a minute, what there is for rows that are live."""
        version = newest_version(context.spark, context.lake, REBALANCES)
        # A clock may be set back.
        is_due = not timedelta(0) <= now - self._looked_at < LOOK_EVERY and len(_kept(context)) > 0
        if version == self._told_version and not is_due:
            return None
        memory = context.memory(JOB, "", Memory) or Memory(_NEVER)
        noted_at, read_until = _told_up_to(context)
        fresh = [] if version == self._told_version else over(context, memory.told)
        fresh = [row for row in fresh if row["cluster"] not in context.left_out]
        # The rows of a round are there before it is noted how far that had the log.
        new = [row for row in fresh if row["updated_at"] <= noted_at]
        later = [row["updated_at"] for row in new if row["updated_at"] > memory.told]
        if len(later) > REBALANCES_A_ROUND:
            new = [row for row in new if row["updated_at"] <= later[REBALANCES_A_ROUND - 1]]
        told_until = max([memory.told, *(row["updated_at"] for row in new)])
        read_after = {**memory.read, **self._read}
        read_until = read_after | {
            alias: at for alias, at in read_until.items() if alias not in context.left_out
        }
        held = memory.held or memory.told if context.left_out else None
        plan = CostPlan(
            now, memory.told, told_until, read_after, read_until, tuple(context.left_out), held
        )
        self._looked_at, self._read = now, read_until
        is_due = told_until > memory.told
        if not is_due:
            self._told_version = version if len(new) == len(fresh) else -1
        return replace(_news(context, plan, new), is_due=is_due)

    def planned(self, context: Context, plan: CostPlan) -> News:
        """The history has one table: if that lacks the round, it is made of what there is now."""
        return _news(context, plan, over(context, plan.told_after, plan.told_until))

    def note(self, context: Context, news: News, output: Output | None) -> Iterable[State]:  # noqa: ARG002
        """How far it is with all clusters."""
        if output is not None:
            plan: CostPlan = news.plan
            yield _state(Memory(plan.told_until, plan.read_until, plan.held))

    def go_back(self, context: Context) -> Iterable[State]:
        """Look at rebalances again from where some were left out, but not at those with a cost."""
        self._told_version = -1
        memory = context.memory(JOB, "", Memory)
        if memory is not None and memory.held is not None:
            yield _state(Memory(memory.held, memory.read))

    @classmethod
    def joined(cls, own: States, other: States, rows: Mapping[Table, DataFrame]) -> Iterable[State]:
        """How far it is with the clusters of both lakes. If the other lake had not taken all of its
        rebalances, rebalances are looked at again from there on, but not those with a cost.
        """
        if (JOB, "") not in other:
            return
        theirs = loads(Memory, other[JOB, ""]["memory"])
        aliases = {cluster for _, cluster in other}
        read = {alias: at for alias, at in theirs.read.items() if alias in aliases}
        since = theirs.held or theirs.told
        if (JOB, "") not in own:
            yield _state(Memory(since, read))
            return
        ours = loads(Memory, own[JOB, ""]["memory"])
        later = f"updated_at > TIMESTAMP'{since.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
        is_left = REBALANCES in rows and not rows[REBALANCES].where(later).isEmpty()
        told = min(ours.told, since) if is_left else ours.told
        yield _state(Memory(told, {**ours.read, **read}, ours.held))


def _state(memory: Memory) -> State:
    """The row of internal.states that says how far the history is with all clusters."""
    return state_of(JOB, "", memory, done_at=memory.told, read_until=dict(memory.read))


def _told_up_to(context: Context) -> tuple[datetime, dict[str, datetime]]:
    """When the last round of rebalances was made that is noted as done; and by alias, when the log
    was read that it and those before had.
    """
    states = states_of(context.spark, context.lake)
    rows = {
        cluster: row
        for (history, cluster), row in states.items()
        if history == REBALANCE_HISTORY and cluster
    }
    made = (loads(OfRebalances, row["memory"]).at for row in rows.values())
    read = {
        cluster: row["last_seen_at"]
        for cluster, row in rows.items()
        if row["last_seen_at"] is not None
    }
    return max((at for at in made if at is not None), default=_NEVER), read


def _kept(context: Context) -> pa.Table:
    return context.live.of([REBALANCE_COST], range(PARTS))[REBALANCE_COST]


def _news(context: Context, plan: CostPlan, new: Sequence[Row]) -> News:
    """The rows of bronze around rebalances. `new`: some may have a cost already."""
    kept = _kept(context)
    kept = kept.filter(pc.invert(pc.is_in(kept["cluster"], pa.array(plan.left_out, pa.string()))))
    new = [row for row in new if row["cluster"] not in plan.left_out]
    new = without_cost(context, new)
    moved = plan.moved.intersection(kept["cluster"].to_pylist())
    if not new and not moved:
        return News(plan=plan, says=_SAYS)
    groups = set(zip(kept["cluster"].to_pylist(), kept["group_id"].to_pylist(), strict=True))
    groups |= {(row["cluster"], row["group_id"]) for row in new}
    begins = [*map(_BEGAN, new), *kept["began_before"].to_pylist()]
    found = of_groups(context, groups, min(begins) - CADENCE_FROM)
    # One that comes with a later round is as one that lasts: those before it end where it began.
    ids = {*kept["rebalance_id"].to_pylist(), *(row["id"] for row in new)}
    told = [
        row
        if row["updated_at"] <= plan.told_until or row["id"] in ids
        else row | {"ended_before": None}
        for row in found
    ]
    read_after = (plan.read_after.get(alias, plan.read_until[alias]) for alias in moved)
    since = min([*map(_BEGAN, new), *read_after])
    return News(
        plan=plan,
        rows=rows_around(context, told, since - BEFORE),
        keys={key_of(*group) for group in groups},
        fold=partial(fold, new={row["id"] for row in new}, at=plan.at, until=plan.read_until),
        clusters={cluster for cluster, _ in groups},
        says=_SAYS,
    )
