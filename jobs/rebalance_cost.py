"""Rebalances that the coordinators' log tells, offset commits and the ends of logs -> gold.rebalance_cost: for how long
nobody consumed, how far a group fell behind, how much may have been done twice.

A round takes rebalances that are over and new, and once a minute looks after rows that are live. It reads bronze around
them alone: if no group rebalances, the job reads nothing. Of bronze it takes no more than the history of rebalances has
had of the log: beyond that nobody knows which rebalance a commit or a visit follows.

spark-submit jobs/rebalance_cost.py --config FILE [--once]
"""

import json
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import run_job
from jobs.common.commit import newest_version
from jobs.common.config import Config
from jobs.common.live import PARTS, LiveRows, part_of, places_of
from jobs.common.maker import Maker, job_of
from jobs.common.rounds import Step, states_of
from jobs.common.stage import ddl, folded, frame_of, packed, packed_in_arrow, rows_in, side_by_side, uncollected
from jobs.rebalance_history import JOB as REBALANCES
from jobs.rules.groups.commits import CommitLog, commit_log
from jobs.rules.groups.cost import CADENCE_FROM, Visit, fold
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES_TOLD
from schemas.table import PART, Table

JOB = "rebalance_cost"

LOOK_EVERY = timedelta(minutes=1)
"""How often live rows are looked after."""

BEFORE = timedelta(minutes=15)
"""Rows of bronze are read from so long before what is new. A transaction is open for no longer, unless brokers say
otherwise (transaction.max.timeout.ms), and CADENCE_FROM is less.
"""

REBALANCES_A_ROUND = 1_000
"""How many rebalances a round takes, or all of one round of theirs."""

CLOCK_BACK = timedelta(minutes=5)
"""If the clock of a job went back by less, no rebalance is passed over."""

_KEY = "_place"
"""Column of what is folded at a time: the groups of one cluster in one part."""
_OF = "cost of rebalances"
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


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


Times = Mapping[str, datetime]
"""By alias of a cluster."""


@dataclass(frozen=True)
class Take:
    """The news that a round takes: rebalances told after `told_after`, up to `told_until`; and, for rows that are live,
    what there was from when the log was read last but one (`read_after`) up to then (`read_until`). `at`: of the round.
    `aside`: the clusters that are left out; `held`: nothing of these was taken that was told later.
    """

    at: datetime
    told_after: datetime
    told_until: datetime
    read_after: Times
    read_until: Times
    aside: tuple[str, ...] = ()
    held: datetime | None = None

    @classmethod
    def of(cls, takes: Mapping[str, Any]) -> "Take":
        """As the plan of a round has it."""
        at, after, until = (datetime.fromisoformat(takes[name]) for name in ("at", "told_after", "told_until"))
        aside, held = tuple(takes.get("aside", ())), takes.get("held")
        times = _times(takes["read_after"]), _times(takes["read_until"])
        return cls(at, after, until, *times, aside, held and datetime.fromisoformat(held))

    def to_json(self) -> dict[str, Any]:
        """Fit for JSON."""
        times: dict[str, Any] = {name: getattr(self, name).isoformat() for name in ("at", "told_after", "told_until")}
        times |= {"read_after": _plain(self.read_after), "read_until": _plain(self.read_until)}
        return times | {"aside": self.aside, "held": self.held and self.held.isoformat()}

    @property
    def moved(self) -> set[str]:
        """The clusters of whose log more is known."""
        return {alias for alias, at in self.read_until.items() if at > self.read_after.get(alias, _NEVER)}


def _times(plain: Mapping[str, str]) -> dict[str, datetime]:
    return {alias: datetime.fromisoformat(at) for alias, at in plain.items()}


def _plain(times: Times) -> dict[str, str]:
    return {alias: at.isoformat() for alias, at in times.items()}


class RebalanceCost(Maker):
    """The cost of rebalances, and how far it is."""

    by = "group_id"
    is_held_for = False

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._told_version, self._looked_at = -1, _NEVER
        self._read: dict[str, datetime] = {}
        """By alias, up to when live rows were looked after: no less than what internal.states has."""
        super().__init__(spark, config, [JOB])

    def _finish(self, step: Step, live: LiveRows) -> None:
        # The history has one table: it has the round, or the round is made of what there is now.
        take = Take.of(step.takes)
        made = self._made(take, self._new(take.told_after, take.told_until), live)
        self._write(step, made, live, self._after(step.round, take), of=_OF)

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write."""
        version = newest_version(self._spark, self._lake, REBALANCES_TOLD)
        # A clock may be set back.
        is_due = not timedelta(0) <= now - self._looked_at < LOOK_EVERY and len(self._kept(self._live)) > 0
        if version == self._told_version and not is_due:
            return False
        memory = self._memory()
        told_after = datetime.fromisoformat(memory["told"]) if memory else _NEVER
        noted_at, read_until = self._told_up_to()
        told = [] if version == self._told_version else self._new(told_after)
        told = [row for row in told if row["cluster"] not in self.aside]
        # The rows of a round are there before it is noted how far that had the log.
        new = [row for row in told if row["updated_at"] <= noted_at]
        later = [row["updated_at"] for row in new if row["updated_at"] > told_after]
        if len(later) > REBALANCES_A_ROUND:
            new = [row for row in new if row["updated_at"] <= later[REBALANCES_A_ROUND - 1]]
        told_until = max([told_after, *(row["updated_at"] for row in new)])
        read_after = _times(memory.get("read", {})) | self._read
        read_until = {alias: at for alias, at in read_until.items() if alias not in self.aside}
        aside, held = tuple(self.aside), memory.get("held")
        held_at = (datetime.fromisoformat(held) if held else told_after) if aside else None
        take = Take(now, told_after, told_until, read_after, read_after | read_until, aside, held_at)
        made = self._made(take, new, self._live)
        self._looked_at, self._read = now, dict(take.read_until)
        if told_until == told_after:
            self._told_version = version if len(new) == len(told) else -1
            if not made:
                return False
        step = self._rounds.plan(take.to_json(), now)
        self._write(step, made, self._live, self._after(step.round, take), of=_OF)
        return True

    def _after(self, number: int, take: Take) -> dict[tuple[str, str], Row]:
        memory: Row = {"told": take.told_until.isoformat(), "read": _plain(take.read_until)}
        memory |= {"held": take.held.isoformat()} if take.held else {}
        row = {"history": JOB, "cluster": "", "round": number, "memory": json.dumps(memory)}
        return self._states | {(JOB, ""): row}

    def _memory(self) -> Row:
        return dict(json.loads(self._states[JOB, ""]["memory"])) if (JOB, "") in self._states else {}

    def _go_back(self) -> None:
        self._told_version = -1
        if held := (memory := self._memory()).pop("held", None):
            # Those that have a cost by then are passed over.
            self._states[JOB, ""] |= {"memory": json.dumps(memory | {"told": held})}

    def _told_up_to(self) -> tuple[datetime, dict[str, datetime]]:
        """When the last round of rebalances was made that is noted as done; and by alias, when the log was read that it
        and those before had.
        """
        states = states_of(self._spark, self._lake)
        rows = {cluster: row for (history, cluster), row in states.items() if history == REBALANCES and cluster}
        made = (json.loads(row["memory"]).get("at") for row in rows.values())
        read = {cluster: row["last_seen_at"] for cluster, row in rows.items() if row["last_seen_at"] is not None}
        return max((datetime.fromisoformat(at) for at in made if at), default=_NEVER), read

    def _kept(self, live: LiveRows) -> pa.Table:
        return live.of([REBALANCE_COST], range(PARTS))[REBALANCE_COST]

    def _told(self) -> DataFrame:
        """Rebalances that may have a cost: share groups commit no offsets."""
        told = self._lake.read(self._spark, REBALANCES_TOLD).where("source = 'log' AND group_type <> 'share'")
        return told.select(*_TOLD, "updated_at")

    def _new(self, after: datetime, until: datetime = _EVER) -> list[Row]:
        """Rebalances that are over and were told after a time, up to another."""
        since = max(after - CLOCK_BACK, _NEVER)
        told = self._told().where(F.col("ended_before").isNotNull() & (F.col("updated_at") > F.lit(since)))
        found = sorted(told.toArrow().to_pylist(), key=itemgetter("updated_at"))
        return [row for row in found if row["updated_at"] <= until]

    def _made(self, take: Take, new: Sequence[Row], live: LiveRows) -> dict[Table, pa.Table]:
        """The rows that a round writes. `new`: rebalances, some of which may have rows: they were told once more."""
        kept = self._kept(live)
        kept = kept.filter(pc.invert(pc.is_in(kept["cluster"], pa.array(take.aside, pa.string()))))
        new = [row for row in new if row["cluster"] not in take.aside]
        if new:
            begun = live.read(REBALANCE_COST).where(F.col("began_before") >= F.lit(min(map(_BEGAN, new))))
            told_again = [row["id"] for row in new]
            done = {
                row[0] for row in begun.where(F.col("rebalance_id").isin(told_again)).select("rebalance_id").collect()
            }
            new = [row for row in new if row["id"] not in done]
        moved = take.moved.intersection(kept["cluster"].to_pylist())
        if not new and not moved:
            return {}
        groups = set(zip(kept["cluster"].to_pylist(), kept["group_id"].to_pylist(), strict=True))
        groups |= {(row["cluster"], row["group_id"]) for row in new}
        self._in_round = {cluster for cluster, _ in groups}
        begins = [*map(_BEGAN, new), *kept["began_before"].to_pylist()]
        told = self._told().where(F.coalesce("ended_before", "began_before") >= F.lit(min(begins) - CADENCE_FROM))
        wanted = F.broadcast(self._spark.createDataFrame(sorted(groups), "cluster string, group_id string"))
        found = told.join(wanted, ["cluster", "group_id"]).toArrow().to_pylist()
        # One that comes with a later round is as one that lasts: those before it end where it began.
        ids = {*kept["rebalance_id"].to_pylist(), *(row["id"] for row in new)}
        of_groups = [
            row if row["updated_at"] <= take.told_until or row["id"] in ids else row | {"ended_before": None}
            for row in found
        ]
        since = min([*map(_BEGAN, new), *(take.read_after.get(alias, take.read_until[alias]) for alias in moved)])
        news = self._news(of_groups, since - BEFORE)
        packed_live = frame_of(self._spark, packed_in_arrow({REBALANCE_COST: kept}, _KEY, places_of))
        of = partial(_fold, new={row["id"] for row in new}, at=take.at, until=take.read_until)
        return folded(news, packed_live, [REBALANCE_COST], of, _KEY)

    def _news(self, told: Sequence[Row], since: datetime) -> DataFrame:
        """All that is known of groups that rebalanced, packed beside `_KEY`: rebalances, and rows of the log and visits
        from `since` on.
        """
        groups = {(row["cluster"], row["group_id"]): _key(row) for row in told}
        places = {(row["cluster"], row["log_partition"], _key(row)) for row in told}
        of_groups = F.broadcast(
            self._spark.createDataFrame(
                [(*group, key) for group, key in sorted(groups.items())],
                f"cluster string, group_id string, {_KEY} string",
            )
        )
        of_places = F.broadcast(
            self._spark.createDataFrame(sorted(places), f"cluster string, log_partition int, {_KEY} string")
        )
        rebalances = self._spark.createDataFrame(
            [tuple(row[name] for name in _TOLD) for row in told], ddl(REBALANCES_TOLD, _TOLD)
        ).join(of_groups, ["cluster", "group_id"])
        is_recent = (F.col("day") >= F.lit(since.date())) & (F.col("read_at") >= F.lit(since))
        log = self._lake.read(self._spark, GROUP_LOG).where(is_recent).select("cluster", *_LOGGED)
        commits = log.where("record = 'commits'").join(of_groups, ["cluster", "group_id"])
        # These say something of all groups of a partition of the log.
        others = log.where("record IN ('marker', 'lost', 'truncated')").join(of_places, ["cluster", "log_partition"])
        of_log = [packed(rows, GROUP_LOG, (_KEY,), _LOGGED) for rows in (commits, others)]
        return side_by_side(
            [packed(rebalances, REBALANCES_TOLD, (_KEY,), _TOLD), *of_log, *self._visits(of_groups, since)]
        )

    def _visits(self, of_groups: DataFrame, since: datetime) -> list[DataFrame]:
        """The visits of groups from `since` on; none where nobody asks."""
        polls = self._lake.read(self._spark, METADATA_POLLS).where(F.col("day") >= F.lit(since.date()))
        headers = polls.where("record = 'answer' AND kind = 'offsets'").where(F.col("scheduled_at") >= F.lit(since))
        # Each cluster has numbers of its own.
        place = F.struct("stream", "n")
        asked = headers.groupBy("cluster").agg(F.min(place).alias("_first")).collect()
        if not asked:
            return []
        of_clusters = self._spark.createDataFrame(asked, "cluster string, _first struct<stream: string, n: bigint>")
        # Files have statistics of these two.
        first = min(each["_first"] for each in asked)
        is_later = (F.col("stream") > first.stream) | ((F.col("stream") == first.stream) & (F.col("n") >= first.n))
        offsets = polls.where("record = 'offsets'").where(is_later).join(F.broadcast(of_clusters), "cluster")
        offsets = offsets.where(place >= F.col("_first")).select("cluster", F.explode("offsets").alias("_of"))
        rows = offsets.select("cluster", "_of.*").where("topic IS NOT NULL").join(of_groups, ["cluster", "group_id"])
        return [packed(rows, METADATA_POLLS, (_KEY,), _VISITED)]


def _key(row: Row) -> str:
    return f"{row['cluster']}/{part_of(row['group_id'])}"


run = job_of(RebalanceCost)
"""Keeps the cost of rebalances up with gold.rebalances; with `once`, until nothing is new."""


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
            found = fold(before, told.get(group, ()), new, partial(_log_of, logs), seen, until=told_until)
            made += [dict(zip(_OF_GROUP, group, strict=True)) | row | {"updated_at": at} for row in found]
        return {REBALANCE_COST.full_name: made}


_OF_GROUP = ("cluster_id", "cluster", "group_id")
_GROUP, _GROUP_ID = itemgetter(*_OF_GROUP), itemgetter("group_id")
_NOT_FOLDED = (*_OF_GROUP, "updated_at", PART)


def _as_folded(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _NOT_FOLDED}


def _log_of(logs: Mapping[int, Sequence[Row]], partition: int) -> CommitLog:
    return commit_log(logs.get(partition, ()))


def _by(of: Callable[[Row], Any], tables: Mapping[str, pa.Table], table: Table) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows_in(tables, table):
        found.setdefault(of(row), []).append(row)
    return found


if __name__ == "__main__":
    sys.exit(main())
