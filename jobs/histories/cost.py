"""Rebalances that the coordinators' log tells, offset commits and the ends of logs ->
gold.rebalance_cost: for how long nobody consumed, how far a group fell behind, how much may have
been done twice.

A round takes rebalances that are over and new, and once a minute looks after rows that are live. It
reads bronze around them alone: if no group rebalances, the job reads nothing. Of bronze it takes no
more than the history of rebalances has had of the log: beyond that nobody knows which rebalance a
commit or a visit follows.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.histories.rebalances import JOB as REBALANCES
from jobs.histories.rebalances import Memory as OfRebalances
from jobs.rounds.commit import newest_version
from jobs.rounds.history import KEY, Context, History, Made, News
from jobs.rounds.live import PARTS, part_of
from jobs.rounds.plan import State, states_of
from jobs.rounds.stage import ddl, packed, rows_in, uncollected
from jobs.rules.groups.commits import CommitLog, commit_log
from jobs.rules.groups.cost import CADENCE_FROM, Visit, fold
from jobs.rules.memory import dumps, loads
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES_TOLD
from schemas.table import PART, Table

JOB = histories.REBALANCE_COST.name

LOOK_EVERY = timedelta(minutes=1)
"""How often live rows are looked after."""

BEFORE = timedelta(minutes=15)
"""Rows of bronze are read from so long before what is new. A transaction is open for no longer,
unless brokers say otherwise (transaction.max.timeout.ms), and CADENCE_FROM is less.
"""

REBALANCES_A_ROUND = 1_000
"""How many rebalances a round takes, or all of one round of theirs."""

CLOCK_BACK = timedelta(minutes=5)
"""If the clock of a job went back by less, no rebalance is passed over."""

_BEGAN = itemgetter("began_before")
_NEVER, _EVER = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_TOLD = (
    *("id", "cluster_id", "cluster", "group_id", "log_partition", "first_offset", "last_offset"),
    *("began_before", "ended_before", "end_reason", "prev_members", "since_previous_ms"),
)
_LOGGED = (
    *("cluster_id", "log_partition", "record", "offset", "next_offset", "group_id", "producer_id"),
    *("is_committed", "chunk", "timestamp", "read_at", "offset_commits"),
)
_VISITED = (
    *("group_id", "topic", "partition", "committed_offset", "log_start", "log_end"),
    *("commit_read_after", "commit_read_before", "ends_read_after", "ends_read_before"),
)

Row = dict[str, Any]
_SAYS = "cost of rebalances"
Times = Mapping[str, datetime]
"""By alias of a cluster."""


@dataclass(frozen=True)
class CostInput:
    """The news that a round takes: rebalances told after `told_after`, up to `told_until`; and, for
    rows that are live, what there was from when the log was read last but one (`read_after`) up to
    then (`read_until`). `at`: of the round. `aside`: the clusters that are left out; `held`:
    nothing of these was taken that was told later.
    """

    at: datetime
    told_after: datetime
    told_until: datetime
    read_after: Times
    read_until: Times
    aside: tuple[str, ...] = ()
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
    looked at. `held`: as of CostInput.
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
    input_type = CostInput

    def __init__(self) -> None:
        self._told_version, self._looked_at = -1, _NEVER
        self._read: dict[str, datetime] = {}
        """By alias, up to when live rows were looked after: no less than what internal.states
        has.
        """

    def look(self, context: Context, now: datetime) -> News | None:
        """Rebalances that are over and new; once a minute, what there is for rows that are live."""
        version = newest_version(context.spark, context.lake, REBALANCES_TOLD)
        # A clock may be set back.
        is_due = not timedelta(0) <= now - self._looked_at < LOOK_EVERY and len(_kept(context)) > 0
        if version == self._told_version and not is_due:
            return None
        memory = context.memory(JOB, "", Memory) or Memory(_NEVER)
        noted_at, read_until = _told_up_to(context)
        fresh = [] if version == self._told_version else _new(context, memory.told)
        fresh = [row for row in fresh if row["cluster"] not in context.aside]
        # The rows of a round are there before it is noted how far that had the log.
        new = [row for row in fresh if row["updated_at"] <= noted_at]
        later = [row["updated_at"] for row in new if row["updated_at"] > memory.told]
        if len(later) > REBALANCES_A_ROUND:
            new = [row for row in new if row["updated_at"] <= later[REBALANCES_A_ROUND - 1]]
        told_until = max([memory.told, *(row["updated_at"] for row in new)])
        read_after = {**memory.read, **self._read}
        read_until = read_after | {
            alias: at for alias, at in read_until.items() if alias not in context.aside
        }
        held = memory.held or memory.told if context.aside else None
        take = CostInput(
            now, memory.told, told_until, read_after, read_until, tuple(context.aside), held
        )
        self._looked_at, self._read = now, read_until
        is_due = told_until > memory.told
        if not is_due:
            self._told_version = version if len(new) == len(fresh) else -1
        return replace(_news(context, take, new), is_due=is_due)

    def again(self, context: Context, taken: CostInput) -> News:
        """The history has one table: that has the round, or the round is made of what there is
        now.
        """
        return _news(context, taken, _new(context, taken.told_after, taken.told_until))

    def after(self, context: Context, news: News, made: Made | None) -> Iterable[State]:  # noqa: ARG002
        """How far it is with all clusters."""
        if made is not None:
            take: CostInput = news.takes
            memory = Memory(take.told_until, take.read_until, take.held)
            yield {"round": None} | _state(memory)

    def go_back(self, context: Context) -> Iterable[State]:
        """Look at rebalances again from where some were left out. Those that have a cost by then
        are passed over.
        """
        self._told_version = -1
        memory = context.memory(JOB, "", Memory)
        if memory is not None and memory.held is not None:
            yield context.states[JOB, ""] | _state(Memory(memory.held, memory.read))


def _state(memory: Memory) -> State:
    """The row of internal.states that says how far the history is with all clusters."""
    return {
        "history": JOB,
        "cluster": "",
        "done_at": memory.told,
        "read_until": dict(memory.read),
        "memory": dumps(memory),
    }


def _told_up_to(context: Context) -> tuple[datetime, dict[str, datetime]]:
    """When the last round of rebalances was made that is noted as done; and by alias, when the log
    was read that it and those before had.
    """
    states = states_of(context.spark, context.lake)
    rows = {
        cluster: row
        for (history, cluster), row in states.items()
        if history == REBALANCES and cluster
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


def _rebalances(context: Context) -> DataFrame:
    """Rebalances that may have a cost: share groups commit no offsets."""
    rebalances = context.lake.read(context.spark, REBALANCES_TOLD).where(
        "source = 'log' AND group_type <> 'share'"
    )
    return rebalances.select(*_TOLD, "updated_at")


def _new(context: Context, after: datetime, until: datetime = _EVER) -> list[Row]:
    """Rebalances that are over and were told after a time, up to another."""
    since = max(after - CLOCK_BACK, _NEVER)
    over = _rebalances(context).where(
        F.col("ended_before").isNotNull() & (F.col("updated_at") > F.lit(since))
    )
    found = sorted(over.toArrow().to_pylist(), key=itemgetter("updated_at"))
    return [row for row in found if row["updated_at"] <= until]


def _news(context: Context, take: CostInput, new: Sequence[Row]) -> News:
    """The rows of bronze around rebalances. `new`: some of these may have a cost already, as gold
    has them again.
    """
    kept = _kept(context)
    kept = kept.filter(pc.invert(pc.is_in(kept["cluster"], pa.array(take.aside, pa.string()))))
    new = [row for row in new if row["cluster"] not in take.aside]
    if new:
        begun = context.live.read(REBALANCE_COST).where(
            F.col("began_before") >= F.lit(min(map(_BEGAN, new)))
        )
        told_again = [row["id"] for row in new]
        done = {
            row[0]
            for row in begun.where(F.col("rebalance_id").isin(told_again))
            .select("rebalance_id")
            .collect()
        }
        new = [row for row in new if row["id"] not in done]
    moved = take.moved.intersection(kept["cluster"].to_pylist())
    if not new and not moved:
        return News(takes=take, says=_SAYS)
    groups = set(zip(kept["cluster"].to_pylist(), kept["group_id"].to_pylist(), strict=True))
    groups |= {(row["cluster"], row["group_id"]) for row in new}
    begins = [*map(_BEGAN, new), *kept["began_before"].to_pylist()]
    near = _rebalances(context).where(
        F.coalesce("ended_before", "began_before") >= F.lit(min(begins) - CADENCE_FROM)
    )
    wanted = F.broadcast(
        context.spark.createDataFrame(sorted(groups), "cluster string, group_id string")
    )
    found = near.join(wanted, ["cluster", "group_id"]).toArrow().to_pylist()
    # One that comes with a later round is as one that lasts: those before it end where it began.
    ids = {*kept["rebalance_id"].to_pylist(), *(row["id"] for row in new)}
    of_groups = [
        row
        if row["updated_at"] <= take.told_until or row["id"] in ids
        else row | {"ended_before": None}
        for row in found
    ]
    since = min(
        [
            *map(_BEGAN, new),
            *(take.read_after.get(alias, take.read_until[alias]) for alias in moved),
        ]
    )
    return News(
        takes=take,
        rows=_known(context, of_groups, since - BEFORE),
        places={f"{cluster}/{part_of(group_id)}" for cluster, group_id in groups},
        fold=partial(_fold, new={row["id"] for row in new}, at=take.at, until=take.read_until),
        clusters={cluster for cluster, _ in groups},
        says=_SAYS,
    )


def _known(context: Context, told: Sequence[Row], since: datetime) -> list[DataFrame]:
    """All that is known of groups that rebalanced, packed beside KEY: rebalances, and rows of the
    log and visits from `since` on.
    """
    spark = context.spark
    groups = {(row["cluster"], row["group_id"]): _key(row) for row in told}
    places = {(row["cluster"], row["log_partition"], _key(row)) for row in told}
    of_groups = F.broadcast(
        spark.createDataFrame(
            [(*group, key) for group, key in sorted(groups.items())],
            f"cluster string, group_id string, {KEY} string",
        )
    )
    of_places = F.broadcast(
        spark.createDataFrame(sorted(places), f"cluster string, log_partition int, {KEY} string")
    )
    rebalances = spark.createDataFrame(
        [tuple(row[name] for name in _TOLD) for row in told], ddl(REBALANCES_TOLD, _TOLD)
    ).join(of_groups, ["cluster", "group_id"])
    is_recent = (F.col("day") >= F.lit(since.date())) & (F.col("read_at") >= F.lit(since))
    log = context.lake.read(spark, GROUP_LOG).where(is_recent).select("cluster", *_LOGGED)
    commits = log.where("record = 'commits'").join(of_groups, ["cluster", "group_id"])
    # These say something of all groups of a partition of the log.
    others = log.where("record IN ('marker', 'lost', 'truncated')").join(
        of_places, ["cluster", "log_partition"]
    )
    of_log = [packed(rows, GROUP_LOG, (KEY,), _LOGGED) for rows in (commits, others)]
    return [
        packed(rebalances, REBALANCES_TOLD, (KEY,), _TOLD),
        *of_log,
        *_visits(context, of_groups, since),
    ]


def _visits(context: Context, of_groups: DataFrame, since: datetime) -> list[DataFrame]:
    """The visits of groups from `since` on; none where nobody asks."""
    spark = context.spark
    polls = context.lake.read(spark, METADATA_POLLS).where(F.col("day") >= F.lit(since.date()))
    headers = polls.where("record = 'answer' AND kind = 'offsets'").where(
        F.col("scheduled_at") >= F.lit(since)
    )
    # Each cluster has numbers of its own.
    place = F.struct("stream", "n")
    asked = headers.groupBy("cluster").agg(F.min(place).alias("_first")).collect()
    if not asked:
        return []
    of_clusters = spark.createDataFrame(
        asked, "cluster string, _first struct<stream: string, n: bigint>"
    )
    # Files have statistics of these two.
    first = min(each["_first"] for each in asked)
    is_later = (F.col("stream") > first.stream) | (
        (F.col("stream") == first.stream) & (F.col("n") >= first.n)
    )
    offsets = (
        polls.where("record = 'offsets'").where(is_later).join(F.broadcast(of_clusters), "cluster")
    )
    offsets = offsets.where(place >= F.col("_first")).select(
        "cluster", F.explode("offsets").alias("_of")
    )
    rows = (
        offsets.select("cluster", "_of.*")
        .where("topic IS NOT NULL")
        .join(of_groups, ["cluster", "group_id"])
    )
    return [packed(rows, METADATA_POLLS, (KEY,), _VISITED)]


def _key(row: Row) -> str:
    return f"{row['cluster']}/{part_of(row['group_id'])}"


def _fold(
    _: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    new: Container[str],
    at: datetime,
    until: Times,
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster's groups in one part; runs on executors."""
    with uncollected():
        told, kept = _by(_GROUP, said, REBALANCES_TOLD), _by(_GROUP, live, REBALANCE_COST)
        of_groups, visits = _by(_GROUP_ID, said, GROUP_LOG), _by(_GROUP_ID, said, METADATA_POLLS)
        made: list[Row] = []
        for group in sorted({*told, *kept}):
            cluster_id, cluster, group_id = group
            told_until = until.get(cluster, _NEVER)
            logs: dict[int, list[Row]] = {}
            for row in (*of_groups.get(group_id, ()), *of_groups.get(None, ())):
                # An alias may lead to another cluster than before.
                if row["cluster_id"] in (None, cluster_id) and row["read_at"] <= told_until:
                    logs.setdefault(row["log_partition"], []).append(row)
            seen: dict[tuple[str, int], list[Visit]] = {}
            for row in sorted(visits.get(group_id, ()), key=itemgetter("commit_read_before")):
                seen.setdefault((row["topic"], row["partition"]), []).append(Visit.of(row))
            before = [_as_folded(row) for row in kept.get(group, ())]
            found = fold(
                before, told.get(group, ()), new, partial(_log_of, logs), seen, until=told_until
            )
            made += [
                dict(zip(_OF_GROUP, group, strict=True)) | row | {"updated_at": at} for row in found
            ]
        return {REBALANCE_COST.full_name: made}


_OF_GROUP = ("cluster_id", "cluster", "group_id")
_GROUP, _GROUP_ID = itemgetter(*_OF_GROUP), itemgetter("group_id")
_NOT_FOLDED = (*_OF_GROUP, "updated_at", PART)


def _as_folded(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _NOT_FOLDED}


def _log_of(logs: Mapping[int, Sequence[Row]], partition: int) -> CommitLog:
    return commit_log(logs.get(partition, ()))


def _by(
    of: Callable[[Row], Any], tables: Mapping[str, pa.Table], table: Table
) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows_in(tables, table):
        found.setdefault(of(row), []).append(row)
    return found
