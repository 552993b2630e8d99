"""The coordinators' log and polls of groups -> rebalances: who had what before and after, why, for how long, and how
often.

A round folds what is new of each group (jobs/rules/groups/group.py) in the one stage, and commits tables side by side.
What one source tells is stored as it tells it; views join the rest (schemas/views/).

spark-submit jobs/rebalance_history.py --config FILE [--once]
"""

import gc
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.cli import run_job
from jobs.common.commit import commit_of_states, newest_version
from jobs.common.config import Config, Thresholds
from jobs.common.group_log import PLACE, VERSIONS_A_ROUND, Places, appended, new_rows
from jobs.common.live import PARTS, LiveRows
from jobs.common.maker import Maker, job_of
from jobs.common.rounds import Step
from jobs.common.stage import column_of, folded, frame_of, packed, packed_in_arrow, side_by_side
from jobs.rules.gold.news import as_of
from jobs.rules.groups import group as rules
from jobs.rules.groups.group import Group
from jobs.rules.groups.partition import log_partition
from jobs.rules.takes import NOTED_AFTER
from schemas import groups
from schemas.bronze import GROUP_LOG
from schemas.internal import GROUP_STATES, STATE
from schemas.silver import COORDINATORS, GROUP_SNAPSHOTS
from schemas.table import PART, Table

JOB = "rebalance_history"
TABLES = (*groups.TABLES, GROUP_STATES)
_KEY = "_place"
"""Column of what is folded at a time: the groups of one cluster in one part."""

_LOG = ""
"""In place of an alias: the row of internal.state that says how far bronze.group_log was taken."""

Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


@dataclass(frozen=True)
class Take:
    """What a round takes of a cluster: its new rows of the log, and of polls of groups those after `since` (None: all)
    up to `until`.

    `until` is None where nothing is taken of polls. `log_partitions`: how many the log has, as far as polls know.
    """

    cluster_id: str
    since: str | None = None
    until: str | None = None
    until_at: str | None = None
    log_partitions: int | None = None


@dataclass(frozen=True)
class Logged:
    """What some versions of the log appended: rows with their places, kept; by alias the cluster's id, each partition's
    end, parts of groups.

    `waits`: whether there are rows of a cluster whose id nobody knows yet.
    """

    versions: list[int]
    rows: DataFrame | None
    ids: Mapping[str, str]
    ends: Mapping[str, Places]
    parts: Mapping[str, set[int]]
    waits: bool

    def after(self, quiet: "Logged") -> "Logged":
        """The same with versions before it in which there was nothing of groups."""
        ends = {
            cluster: {**quiet.ends.get(cluster, {}), **self.ends.get(cluster, {})}
            for cluster in {**quiet.ends, **self.ends}
        }
        versions = [quiet.versions[0], self.versions[1]]
        return Logged(versions, self.rows, {**quiet.ids, **self.ids}, ends, self.parts, self.waits)


@dataclass(frozen=True)
class Polled:
    """New states of groups, as polls show them: rows of silver.group_snapshots, kept; by alias the parts of
    their groups.
    """

    rows: DataFrame
    parts: Mapping[str, set[int]]


@dataclass(frozen=True)
class News:
    """All that a round takes: of clusters by alias, of the log, of polls."""

    takes: Mapping[str, Take]
    logged: Logged | None
    polled: Polled | None

    @property
    def parts(self) -> dict[str, set[int]]:
        """The parts of each cluster's groups that have news, by alias."""
        parts: dict[str, set[int]] = {}
        for each in (self.logged, self.polled):
            for cluster, of_cluster in (each.parts if each else {}).items():
                if of_cluster:
                    parts.setdefault(cluster, set()).update(of_cluster)
        return parts

    @property
    def ends(self) -> Mapping[str, Places]:
        """By alias, up to where each partition of the log is taken."""
        return {} if self.logged is None else self.logged.ends


@dataclass(frozen=True)
class Plan:
    """What the fold of all groups in a round is given. `read_to`: by alias and partition, the offset up to which the
    log was read.
    """

    takes: Mapping[str, Take]
    read_to: Mapping[str, Mapping[int, int]]
    limits: Thresholds
    at: datetime


class RebalanceHistory(Maker):
    """The history of groups, and how far it is."""

    by = "group_id"

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._looked: dict[str, str] = {}
        self._quiet: Logged | None = None
        self._noted_at = datetime.now(UTC)
        super().__init__(spark, config, [JOB])
        self._states = self._read_states()

    def _finish(self, step: Step, live: LiveRows) -> None:
        self._states = self._read_states(step.round)
        takes = {cluster: Take(**taken) for cluster, taken in step.takes["clusters"].items()}
        ids = {cluster: each.cluster_id for cluster, each in takes.items()}
        news = News(takes, self._read_log(step.takes["log"], ids), self._read_polls(takes))
        self._make(news, step.takes, lambda: step, live)

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write."""
        of_silver = self._silver()
        logged = self._new_log({each["cluster"]: each["cluster_id"] for each in of_silver})
        polled = self._new_polls(of_silver)
        takes = {cluster: Take(id_) for cluster, id_ in (logged.ids if logged else {}).items()} | polled
        news = News(takes, logged, self._read_polls(polled))
        is_late = now - self._noted_at > NOTED_AFTER or (logged is not None and _is_full(logged.versions))
        if not news.parts and not (news.ends and is_late):
            self._looked |= {cluster: str(each.until) for cluster, each in polled.items()}
            self._quiet = None if logged is None or logged.waits else replace(logged, rows=None)
            return False
        plan = {
            "at": now.isoformat(),
            "thresholds": self._config.thresholds.to_json(),
            "clusters": {cluster: vars(each) for cluster, each in takes.items()},
            "log": None if logged is None else logged.versions,
        }
        # A fold writes nothing, so the plan need not be there before it.
        planned = self._writers.submit(self._rounds.plan, plan)
        self._make(news, plan, planned.result, self._live)
        self._noted_at, self._quiet = now, None
        return True

    # --- what is new ---

    def _silver(self) -> list[Row]:
        """How far silver is with each cluster."""
        names = ("cluster", "cluster_id", "done_poll", "done_at", "changed_poll", "memory")
        rows = self._lake.read(self._spark, STATE).where("history = 'silver' AND cluster_id IS NOT NULL")
        found: list[Row] = rows.select(*names).toArrow().to_pylist()
        return found

    def _new_log(self, ids: Mapping[str, str]) -> Logged | None:
        """What the log has that no round has taken; None where there is nothing. What was looked at, and is quiet, is
        not read again.
        """
        first = self._memory(_LOG).get("version", -1) + 1
        newest = newest_version(self._spark, self._lake, GROUP_LOG)
        if newest < first - 1:
            first = 0  # The table was made again.
        if newest < max(first, 1):
            return None
        last = min(newest, first + VERSIONS_A_ROUND - 1)
        quiet = self._quiet
        if quiet is None or quiet.versions[0] != first:
            return self._read_log([first, last], ids)
        if quiet.versions[1] >= last:
            return quiet
        found = self._read_log([quiet.versions[1] + 1, last], ids)
        return found and found.after(quiet)

    def _read_log(self, versions: list[int] | None, ids: Mapping[str, str]) -> "Logged | None":
        """What these versions of the log appended. `ids`: alias -> cluster id, of clusters whose answers did not tell
        it.
        """
        if versions is None:
            return None
        known = self._spark.createDataFrame(list(ids.items()), "cluster string, _id string")
        rows = appended(self._spark, self._lake, *versions).join(F.broadcast(known), "cluster", "left")
        rows = rows.withColumn("cluster_id", F.coalesce("cluster_id", "_id")).drop("_id")
        new = new_rows(rows, {cluster: self._places(cluster) for cluster in {*ids, *self._states}})
        new = new.localCheckpoint()
        has_group = F.col("is_record") & F.col("group_id").isNotNull()
        found = (
            new.groupBy("cluster", "cluster_id", "log_partition")
            .agg(
                F.max(F.struct("era", "goes_on_at")).alias("end"),
                F.max(F.col("record").isin("lost", "truncated")).alias("gap"),
                F.collect_set(F.when(has_group, _part_of_group())).alias("parts"),
            )
            .collect()
        )
        known_rows = [row for row in found if row.cluster_id is not None]
        ends: dict[str, dict[int, tuple[int, int]]] = {}
        parts: dict[str, set[int]] = {}
        for row in known_rows:
            ends.setdefault(row.cluster, {})[row.log_partition] = row.end.era, row.end.goes_on_at
            parts.setdefault(row.cluster, set()).update(range(PARTS) if row.gap else row.parts)
        return Logged(
            versions,
            new.where("cluster_id IS NOT NULL AND record <> 'read'"),
            {row.cluster: row.cluster_id for row in known_rows},
            ends,
            parts,
            waits=len(known_rows) < len(found),
        )

    def _new_polls(self, of_silver: Iterable[Row]) -> dict[str, Take]:
        """The clusters of which groups are polled, and silver has changed since."""
        candidates = []
        for row in of_silver:
            state = self._states.get(row["cluster"])
            done = (state and state["done_poll"]) or ""
            beyond = max(done, self._looked.get(row["cluster"], ""))
            is_new = row["done_poll"] is not None and beyond < row["done_poll"] and beyond < (row["changed_poll"] or "")
            if is_new and "groups" in json.loads(row["memory"]).get("enriched", {}):
                candidates.append((row, done or None))
        if not candidates:
            return {}
        counts = self._log_partitions()
        return {
            row["cluster"]: Take(
                row["cluster_id"], done, row["done_poll"], row["done_at"].isoformat(), counts.get(row["cluster"])
            )
            for row, done in candidates
        }

    def _log_partitions(self) -> dict[str, int]:
        """Alias -> how many partitions the log has, as far as polls know."""
        rows = self._lake.read(self._spark, COORDINATORS).groupBy("cluster").agg(F.max("log_partition"))
        return {cluster: last + 1 for cluster, last in rows.collect()}

    def _read_polls(self, takes: Mapping[str, Take]) -> "Polled | None":
        """The states of groups that began, or ended, in these polls; kept."""
        taken = [(cluster, each.since or "", each.until) for cluster, each in takes.items() if each.until is not None]
        if not taken:
            return None
        least = min(since for _, since, _ in taken)
        bounds = self._spark.createDataFrame(taken, "cluster string, _since string, _until string")
        rows = self._lake.read(self._spark, GROUP_SNAPSHOTS)
        rows = rows.where(F.col("is_current") | (F.col("superseded_poll") > least)).join(F.broadcast(bounds), "cluster")
        began = "first_poll > _since AND first_poll <= _until"
        rows = rows.where(f"({began}) OR (superseded_poll > _since AND superseded_poll <= _until)")
        rows = rows.drop("_since", "_until").localCheckpoint()
        parts: dict[str, set[int]] = {}
        for cluster, part in rows.select("cluster", _part_of_group()).distinct().collect():
            parts.setdefault(cluster, set()).add(part)
        return Polled(rows, parts)

    # --- a round ---

    def _make(self, news: News, plan: Mapping[str, Any], planned: Callable[[], Step], live: LiveRows) -> None:
        """Fold what a round takes, commit its tables side by side, and say that it is done.

        `planned`: waits until the round is planned. `live`: as it was before the round.
        """
        made = self._folded(news, plan, live) if news.parts else {}
        step = planned()
        states = self._after(step, news)
        self._write(step, made, live, [commit_of_states(self._spark, [JOB], states.values())])
        self._states = states

    def _folded(self, news: News, plan: Mapping[str, Any], live: LiveRows) -> dict[Table, pa.Table]:
        """What the fold makes of the news of each cluster's groups, by parts, by table."""
        sides = []
        if news.logged is not None and news.logged.rows is not None:
            in_parts = F.when(F.col("is_record"), F.array(_part_of_group())).otherwise(
                F.array(*(F.lit(part) for part in range(PARTS)))
            )
            # A gap says something of every group that is kept in its partition.
            rows = news.logged.rows.where("NOT is_record OR group_id IS NOT NULL").withColumn(PART, F.explode(in_parts))
            columns = (*GROUP_LOG.column_names, *PLACE)
            packed_rows = F.array(F.struct(*columns)).alias(column_of(GROUP_LOG))
            sides.append(rows.select(_key(F.col(PART)).alias(_KEY), packed_rows))
        if news.polled is not None:
            keyed = news.polled.rows.withColumn(_KEY, _key(_part_of_group()))
            sides.append(packed(keyed, GROUP_SNAPSHOTS, (_KEY,)))
        keys = [_text(cluster, part) for cluster, of_cluster in news.parts.items() for part in of_cluster]
        parts = {part for of_cluster in news.parts.values() for part in of_cluster}
        brought = {
            table: rows.filter(pc.is_in(_keys(table, rows), pa.array(keys)))
            for table, rows in live.of(TABLES, parts).items()
        }
        held = Plan(
            news.takes,
            {cluster: {p: at for p, (_, at) in places.items()} for cluster, places in news.ends.items()},
            Thresholds.from_json(plan["thresholds"]),
            datetime.fromisoformat(plan["at"]),
        )
        packed_live = frame_of(self._spark, packed_in_arrow(brought, _KEY, _keys))
        return folded(side_by_side(sides), packed_live, TABLES, partial(_fold, held), _KEY)

    def _after(self, step: Step, news: News) -> dict[str, Row]:
        """The job's rows of internal.state after a round, by alias."""
        states = dict(self._states)
        for cluster, each in news.takes.items():
            before = states.get(cluster, {})
            places = {str(p): place for p, place in (self._places(cluster) | {**news.ends.get(cluster, {})}).items()}
            states[cluster] = {
                "history": JOB,
                "cluster": cluster,
                "cluster_id": each.cluster_id,
                "round": step.round,
                "done_poll": each.until or before.get("done_poll"),
                "done_at": datetime.fromisoformat(each.until_at) if each.until_at else before.get("done_at"),
                "memory": json.dumps({"places": places}, separators=(",", ":")),
            }
        # Rows of a cluster whose id is not known yet are read again.
        if news.logged is not None and not news.logged.waits:
            memory = json.dumps({"version": news.logged.versions[1]})
            states[_LOG] = {"history": JOB, "cluster": _LOG, "round": step.round, "memory": memory}
        return states

    def _memory(self, cluster: str) -> Row:
        row = self._states.get(cluster)
        found: Row = json.loads(row["memory"]) if row else {}
        return found

    def _places(self, cluster: str) -> dict[int, tuple[int, int]]:
        """How far each partition of a cluster's log was taken."""
        return {int(p): (era, offset) for p, (era, offset) in self._memory(cluster).get("places", {}).items()}

    def _read_states(self, number: int | None = None) -> dict[str, Row]:
        """The job's rows of internal.state, as they are or were before the round `number`, by alias."""
        rows = self._read(STATE, number).where(f"history = '{JOB}'")
        return {row["cluster"]: row for row in rows.select(*STATE.column_names).toArrow().to_pylist()}


run = job_of(RebalanceHistory)
"""Keeps gold up with the log and with silver; with `once`, until nothing is new."""


def _fold(
    plan: Plan, key: str, said: Mapping[str, pa.Table], live: Mapping[str, pa.Table]
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster's groups in one part; runs on executors."""
    gc.disable()  # It would look through all rows again and again, and there is nothing to find.
    try:
        cluster = key.rpartition("/")[0]
        take, order = plan.takes[cluster], _place_of
        records, gaps = _by_group(_rows(said, GROUP_LOG), order)
        states, _ = _by_group(_rows(said, GROUP_SNAPSHOTS), lambda row: row["first_poll"])
        kept = {row["group_id"]: json.loads(row["memory"]) for row in _rows(live, GROUP_STATES)}
        of_groups = {table.full_name: _by_group(_rows(live, table))[0] for table in groups.TABLES}
        made: dict[str, list[Row]] = {table.full_name: [] for table in TABLES}
        for group_id in _touched(records, states, kept, gaps):
            memory = kept.get(group_id)
            own = records.get(group_id, [])
            partition = own[0]["log_partition"] if own else _partition_of(memory)
            rows = sorted((*own, *(gaps.get(partition, ()) if partition is not None else ())), key=order)
            told = rules.News(
                rows,
                plan.read_to.get(cluster, {}),
                [_as_taken(row, take) for row in states.get(group_id, ())],
                take.log_partitions and log_partition(group_id, take.log_partitions),
            )
            group = Group(take.cluster_id, cluster, group_id)
            brought = {name: of.get(group_id, ()) for name, of in of_groups.items()}
            folded = rules.fold(group, memory, brought, told, plan.limits)
            for table, of_table in folded.rows.items():
                made[table] += [row | {"updated_at": plan.at} for row in of_table]
            text = json.dumps(folded.memory, separators=(",", ":"))
            made[GROUP_STATES.full_name].append(vars(group) | {"memory": text})
        return made
    finally:
        gc.enable()


def _place_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def _rows(tables: Mapping[str, pa.Table], table: Table) -> list[Row]:
    found = tables.get(table.full_name)
    return [] if found is None else found.to_pylist(maps_as_pydicts="strict")


def _by_group(
    rows: Iterable[Row], order: Callable[[Row], Any] | None = None
) -> tuple[dict[str, list[Row]], dict[int, list[Row]]]:
    """Rows by group; and those of no group, gaps, by partition of the log."""
    of_groups: dict[str, list[Row]] = {}
    of_none: dict[int, list[Row]] = {}
    for row in rows if order is None else sorted(rows, key=order):
        if row["group_id"] is None:
            of_none.setdefault(row["log_partition"], []).append(row)
        else:
            of_groups.setdefault(row["group_id"], []).append(row)
    return of_groups, of_none


def _touched(
    records: Mapping[str, Any], states: Mapping[str, Any], kept: Mapping[str, Row], gaps: Mapping[int, Any]
) -> list[str]:
    """The groups with news: those in a partition of which something is missing among them."""
    missed = [group_id for group_id, memory in kept.items() if _partition_of(memory) in gaps]
    return sorted({*records, *states, *missed})


def _partition_of(memory: Row | None) -> int | None:
    """The partition of the log that a group's records were read from; None before any."""
    state = (memory or {}).get(rules.LOG, {}).get("state", {})
    return state.get("log_partition")  # type: ignore[no-any-return]


def _as_taken(row: Row, take: Take) -> Row:
    """A state of a group as the last poll that is taken knew it."""
    return as_of(row, str(take.until)) | {"is_new": row["first_poll"] > (take.since or "")}


def _is_full(versions: list[int]) -> bool:
    """Whether a round takes as many versions of the log as it may: more may follow."""
    return versions[1] - versions[0] + 1 >= VERSIONS_A_ROUND


def _part_of_group(group_id: Column | None = None) -> Column:
    """The part that a group is in."""
    return (F.crc32(F.col("group_id") if group_id is None else group_id) % PARTS).cast("int")


def _keys(_: Table, rows: pa.Table) -> pa.ChunkedArray:
    """`_key` of live rows."""
    return pc.binary_join_element_wise(rows["cluster"], rows[PART].cast(pa.string()), "/")


def _key(part: Column) -> Column:
    return F.concat_ws("/", "cluster", part.cast("string"))


def _text(cluster: str, part: int) -> str:
    return f"{cluster}/{part}"


if __name__ == "__main__":
    sys.exit(main())
