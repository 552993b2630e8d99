"""The coordinators' log and polls of groups -> rebalances: who had what before and after, why, for how long, and how
often.

A round folds what is new of each group (jobs/rules/groups/group.py) in the one stage, and commits tables side by side.
What one source tells is stored as it tells it; views join the rest (schemas/views/).

spark-submit jobs/rebalance_history.py --config FILE [--once]
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.appended import VERSIONS_A_ROUND, appended, upto
from jobs.common.cli import run_job
from jobs.common.commit import newest_version
from jobs.common.config import Config, Thresholds
from jobs.common.expiry import kept_since
from jobs.common.group_log import COLUMNS, PLACE, Places, new_rows
from jobs.common.live import PARTS, LiveRows, places_of
from jobs.common.maker import Maker, job_of
from jobs.common.rounds import Step, states_of
from jobs.common.stage import column_of, folded, frame_of, packed, packed_in_arrow, rows_in, side_by_side, uncollected
from jobs.rules.gold.news import as_of
from jobs.rules.groups import group as rules
from jobs.rules.groups.group import Group
from jobs.rules.groups.partition import log_partition
from jobs.rules.groups.state import written_by
from jobs.rules.round import SILVER
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

_PART_OF_GROUP = f"CAST(crc32(group_id) % {PARTS} AS INT)"

_LOG = ""
"""In place of an alias: the row of internal.states that says how far bronze.group_log was taken."""

_NEVER = datetime.min.replace(tzinfo=UTC)
_PLACE = itemgetter(*PLACE)
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


@dataclass(frozen=True)
class Take:
    """The part of a cluster that a round takes: new rows of its log, and polls of groups after `since` (None: all)
    up to `until`.

    `until` is None where nothing is taken of polls. `log_partitions`: how many the log has, as far as polls know.
    """

    cluster_id: str
    since: str | None = None
    until: str | None = None
    until_at: str | None = None
    log_partitions: int | None = None


@dataclass
class News:
    """All that is new: by alias, what of a cluster, and the parts whose groups it is about.

    `versions`: first and last of bronze.group_log that are not noted. `ends`: by alias, up to where the log was read;
    `read_at`: when its last rows were. `waits`: whether there are rows of a cluster whose id nobody knows yet. `rows`:
    packed, beside `_KEY`.
    """

    takes: dict[str, Take] = field(default_factory=dict)
    versions: list[int] | None = None
    ends: dict[str, Places] = field(default_factory=lambda: defaultdict(dict))
    read_at: dict[str, datetime] = field(default_factory=dict)
    waits: bool = False
    parts: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    rows: list[DataFrame] = field(default_factory=list)


class RebalanceHistory(Maker):
    """The history of groups, and how far it is. A state that no round has noted yet has no round."""

    by = "group_id"

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._noted_at = datetime.now(UTC)
        self._looked: dict[str, str] = {}
        self._silver_version: int | None = None
        self._of_silver: dict[str, Row] = {}
        self._kept_since: datetime | None = None
        super().__init__(spark, config, [JOB])
        self._noted = self._last_version()

    def _finish(self, step: Step, live: LiveRows) -> None:
        takes = {cluster: Take(**taken) for cluster, taken in step.takes["clusters"].items()}
        news = News(takes, step.takes["log"])
        if news.versions is not None:
            ids = {cluster: each.cluster_id for cluster, each in takes.items()}
            planned = datetime.fromisoformat(step.takes["at"])
            self._read_log(news, news.versions[0], ids, step.takes.get("aside", ()), planned)
        self._read_polls(news)
        self._make(news, step.takes, lambda: step, live)

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write."""
        of_silver = self._silver()
        ids = {cluster: row["cluster_id"] for cluster, row in of_silver.items()}
        news = News({row["cluster"]: Take(row["cluster_id"]) for row in self._unnoted() if row["cluster"] != _LOG})
        newest, last = newest_version(self._spark, self._lake, GROUP_LOG), self._last_version()
        if newest < last:
            self._noted = last = -1  # The table was made again.
        if newest > max(last, 0):
            news.versions = [self._noted + 1, upto(self._spark, self._lake, GROUP_LOG, last + 1, newest)]
            self._read_log(news, last + 1, ids, self.aside)
        elif last > self._noted:
            news.versions = [self._noted + 1, last]
        news.takes |= self._new_polls(of_silver)
        self._read_polls(news)
        is_full = news.versions is not None and news.versions[1] - news.versions[0] + 1 >= VERSIONS_A_ROUND
        is_late = now - self._noted_at > NOTED_AFTER or is_full
        if not any(news.parts.values()) and not (is_late and (news.ends or self._unnoted())):
            self._looked |= {cluster: each.until for cluster, each in news.takes.items() if each.until is not None}
            self._states = self._after(None, news, list(self.aside))
            return False
        plan = {
            "at": now.isoformat(),
            "thresholds": self._config.thresholds.to_json(),
            "clusters": {cluster: vars(each) for cluster, each in news.takes.items()},
            "log": news.versions,
            "kept_since": self._kept_since and self._kept_since.isoformat(),
            "remembered_s": self._config.bronze_retention.total_seconds(),
            "aside": list(self.aside),
        }
        self._make(news, plan, self._plan(plan, now), self._live)
        self._in_round = {cluster for cluster, parts in news.parts.items() if parts}
        self._noted_at, self._noted = now, self._last_version()
        return True

    def _go_back(self) -> None:
        if (held := self._memory(_LOG).get("held")) is not None:
            self._states[JOB, _LOG] |= {"memory": json.dumps({"version": held})}
            self._noted = held

    # --- what is new ---

    def _silver(self) -> dict[str, Row]:
        """How far silver is with each cluster, by alias; read again where internal.states has more."""
        version = newest_version(self._spark, self._lake, STATE)
        if version != self._silver_version:
            states = states_of(self._spark, self._lake)
            self._kept_since = kept_since(states, "gold")
            found = {cluster: row for (of, cluster), row in states.items() if of == SILVER}
            self._of_silver = {cluster: row for cluster, row in found.items() if row["cluster_id"] is not None}
            self._silver_version = version
        return self._of_silver

    def _read_log(
        self,
        news: News,
        first: int,
        ids: Mapping[str, str],
        aside: Iterable[str],
        planned: datetime | None = None,
    ) -> None:
        """Add what versions of the log appended, from `first` on. `ids`: alias -> cluster id, of clusters whose answers
        did not tell it. `aside`: the clusters that are left out. `planned`: as of `appended`.
        """
        assert news.versions is not None  # noqa: S101 - for the type checker
        known = self._spark.createDataFrame(list(ids.items()), "cluster string, _id string")
        rows = appended(self._spark, self._lake, GROUP_LOG, first, news.versions[1], planned=planned).join(
            F.broadcast(known), "cluster", "left"
        )
        rows = rows.where(~F.col("cluster").isin(list(aside)))
        rows = rows.withColumn("cluster_id", F.coalesce("cluster_id", "_id")).drop("_id")
        clusters = {*ids, *(cluster for history, cluster in self._states if history == JOB)}
        rows = new_rows(rows, {cluster: self._places(cluster) for cluster in clusters})
        # A gap says something of every group that is kept in its partition; other rows without a group, of none.
        of_group = F.when(F.col("group_id").isNotNull(), F.array(F.expr(_PART_OF_GROUP)))
        is_gap = F.col("record").isin("lost", "truncated")
        rows = rows.withColumn("_parts", of_group.when(is_gap, F.array(*map(F.lit, range(PARTS))))).localCheckpoint()
        end = F.max(F.struct("era", "goes_on_at")).alias("end")
        parts = F.flatten(F.collect_set("_parts")).alias("parts")
        read_at = F.max("read_at").alias("read_at")
        found = rows.groupBy("cluster", "cluster_id", "log_partition").agg(end, parts, read_at).toArrow().to_pylist()
        for row in found:
            cluster = row["cluster"]
            if row["cluster_id"] is None:
                news.waits = True
                continue
            news.takes.setdefault(cluster, Take(row["cluster_id"]))
            news.ends[cluster][row["log_partition"]] = row["end"]["era"], row["end"]["goes_on_at"]
            news.parts[cluster].update(row["parts"])
            news.read_at[cluster] = max(row["read_at"], news.read_at.get(cluster, row["read_at"]))
        said = rows.where("cluster_id IS NOT NULL").withColumn(PART, F.explode("_parts"))
        columns = F.array(F.struct(*COLUMNS, *PLACE)).alias(column_of(GROUP_LOG))
        news.rows.append(said.select(_key(F.col(PART)).alias(_KEY), columns))

    def _new_polls(self, of_silver: Mapping[str, Row]) -> dict[str, Take]:
        """The clusters of which groups are polled, and silver has changed since."""
        takes = {}
        for cluster, row in of_silver.items():
            done = self._states.get((JOB, cluster), {}).get("done_poll")
            looked = max(done or "", self._looked.get(cluster, ""))
            is_new = looked < (row["done_poll"] or "") and looked < (row["changed_poll"] or "")
            if cluster not in self.aside and is_new and "groups" in json.loads(row["memory"]).get("enriched", {}):
                takes[cluster] = Take(row["cluster_id"], done, row["done_poll"], row["done_at"].isoformat())
        if takes:
            logs = self._lake.read(self._spark, COORDINATORS).where(F.col("cluster").isin(*takes)).groupBy("cluster")
            for cluster, last in logs.agg(F.max("log_partition")).collect():
                takes[cluster] = replace(takes[cluster], log_partitions=last + 1)
        return takes

    def _read_polls(self, news: News) -> None:
        """Add the states of groups that began, or ended, in the polls that are taken."""
        taken = [(alias, each.since or "", each.until) for alias, each in news.takes.items() if each.until is not None]
        if not taken:
            return
        least = min(since for _, since, _ in taken)
        bounds = self._spark.createDataFrame(taken, "cluster string, _since string, _until string")
        rows = self._lake.read(self._spark, GROUP_SNAPSHOTS)
        rows = rows.where(F.col("is_current") | (F.col("superseded_poll") > least)).join(F.broadcast(bounds), "cluster")
        began = "first_poll > _since AND first_poll <= _until"
        rows = rows.where(f"({began}) OR (superseded_poll > _since AND superseded_poll <= _until)").localCheckpoint()
        for cluster, part in rows.select("cluster", F.expr(_PART_OF_GROUP)).distinct().collect():
            news.parts[cluster].add(part)
        keyed = rows.withColumn(_KEY, _key(F.expr(_PART_OF_GROUP)))
        news.rows.append(packed(keyed, GROUP_SNAPSHOTS, (_KEY,)))

    # --- a round ---

    def _make(self, news: News, plan: Mapping[str, Any], planned: Callable[[], Step], live: LiveRows) -> None:
        """Fold what a round takes, commit its tables side by side, and say that it is done.

        `planned`: waits until the round is planned. `live`: as it was before the round.
        """
        made: dict[Table, pa.Table] = {}
        if parts := set[int]().union(*news.parts.values()):
            keys = pa.array(f"{cluster}/{part}" for cluster, of_cluster in news.parts.items() for part in of_cluster)
            of_parts = live.of(TABLES, parts).items()
            brought = {table: rows.filter(pc.is_in(places_of(table, rows), keys)) for table, rows in of_parts}
            packed_live = frame_of(self._spark, packed_in_arrow(brought, _KEY, places_of))
            limits, at = Thresholds.from_json(plan["thresholds"]), datetime.fromisoformat(plan["at"])
            since = plan["kept_since"] and datetime.fromisoformat(plan["kept_since"])
            forgets = partial(forgets_before, remembered=timedelta(seconds=plan["remembered_s"]), kept_since=since)
            fold = partial(_fold, takes=news.takes, ends=news.ends, limits=limits, at=at, forgets=forgets)
            made = folded(side_by_side(news.rows), packed_live, TABLES, fold, _KEY)
        step = planned()
        states = self._after(step.round, news, plan.get("aside", ()), plan["at"])
        self._write(step, made, live, states, of=f"groups of {len(news.takes)} cluster(s)")

    def _after(
        self, number: int | None, news: News, aside: Collection[str], at: str | None = None
    ) -> dict[tuple[str, str], Row]:
        """The rows of internal.states after what is new. `number`: of the round, and `at` its time; None where what is
        new is quiet, and is noted by a later round. `aside`: the clusters that were left out when the log was read.
        """
        states = dict(self._states)
        for cluster, each in news.takes.items():
            if number is None and cluster not in news.ends:
                continue
            before = states.get((JOB, cluster), {})
            until = each.until if number is not None else None
            places, memory = self._places(cluster) | news.ends.get(cluster, {}), self._memory(cluster)
            states[JOB, cluster] = {
                "history": JOB,
                "cluster": cluster,
                "cluster_id": each.cluster_id,
                "round": number,
                "done_poll": until or before.get("done_poll"),
                "done_at": datetime.fromisoformat(each.until_at) if until and each.until_at else before.get("done_at"),
                "last_seen_at": news.read_at.get(cluster, before.get("last_seen_at")),
                "memory": json.dumps({"places": places, "at": at or memory.get("at")}, separators=(",", ":")),
            }
        # Rows of a cluster whose id is not known yet are read again.
        if news.versions is not None and not news.waits:
            memory = {"version": news.versions[1]}
            if aside:
                # From there on somebody is left out; what others have had is passed over by their places.
                memory["held"] = self._memory(_LOG).get("held", self._last_version())
            states[JOB, _LOG] = {"history": JOB, "cluster": _LOG, "round": number, "memory": json.dumps(memory)}
        return {key: row | {"round": number} if row["round"] is None else row for key, row in states.items()}

    def _unnoted(self) -> list[Row]:
        """The states that say more than those of the last round."""
        return [row for (history, _), row in self._states.items() if history == JOB and row["round"] is None]

    def _memory(self, cluster: str) -> Row:
        row = self._states.get((JOB, cluster))
        return dict(json.loads(row["memory"])) if row else {}

    def _last_version(self) -> int:
        """The last version of bronze.group_log that was read; -1 before any."""
        return int(self._memory(_LOG).get("version", -1))

    def _places(self, cluster: str) -> Places:
        """How far each partition of a cluster's log was taken."""
        return {int(p): (era, offset) for p, (era, offset) in self._memory(cluster).get("places", {}).items()}


def forgets_before(news: Iterable[datetime], remembered: timedelta, kept_since: datetime | None) -> datetime:
    """Before when a group has to be gone to be forgotten, by the times of what is new in its part.

    `remembered`: as long as bronze is kept, which then knows nothing of the group either. Groups that come and go by
    the thousand, as console consumers do, would make each round slower. `kept_since`: from when on retention has left
    gold whole; None where it has dropped nothing.
    """
    newest = max(news, default=None)
    return max(newest - remembered if newest is not None else _NEVER, kept_since or _NEVER)


run = job_of(RebalanceHistory)
"""Keeps gold up with the log and with silver; with `once`, until nothing is new."""


def _fold(
    key: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    takes: Mapping[str, Take],
    ends: Mapping[str, Places],
    limits: Thresholds,
    at: datetime,
    forgets: Callable[[Iterable[datetime]], datetime],
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster's groups in one part; runs on executors.

    `forgets`: says of the times of what is new before when a group has to be gone to be forgotten.
    """
    with uncollected():
        cluster = key.rpartition("/")[0]
        take = takes[cluster]
        records = _by("group_id", sorted(rows_in(said, GROUP_LOG), key=_PLACE))
        gaps = _by("log_partition", records.pop(None, ()))
        seen = sorted(rows_in(said, GROUP_SNAPSHOTS), key=itemgetter("first_poll"))
        since = take.since or ""
        states = _by("group_id", (as_of(row, str(take.until)) | {"is_new": row["first_poll"] > since} for row in seen))
        kept = {row["group_id"]: json.loads(row["memory"]) for row in rows_in(live, GROUP_STATES)}
        of_groups = {table.full_name: _by("group_id", rows_in(live, table)) for table in groups.TABLES}
        partitions = {group_id: rules.partitions_of(memory) for group_id, memory in kept.items()}
        for group_id, of_group in records.items():
            partitions.setdefault(group_id, set()).update(row["log_partition"] for row in of_group)
        read_to = {p: offset for p, (_, offset) in ends.get(cluster, {}).items()}
        missed = {group_id for group_id, of_group in partitions.items() if of_group & gaps.keys()}
        made: dict[str, list[Row]] = {table.full_name: [] for table in TABLES}
        for group_id in sorted({*records, *states, *missed}):
            group = Group(take.cluster_id, cluster, group_id)
            missing = [row for partition in partitions.get(group_id, ()) for row in gaps.get(partition, ())]
            memory, rows = rules.fold(
                group,
                kept.get(group_id),
                {name: of_table.get(group_id, ()) for name, of_table in of_groups.items()},
                limits,
                records=sorted((*records.get(group_id, ()), *missing), key=_PLACE),
                read_to=read_to,
                states=states.get(group_id, ()),
                log_partition=take.log_partitions and log_partition(group_id, take.log_partitions),
            )
            for table, of_table in rows.items():
                made[table] += [row | {"updated_at": at} for row in of_table]
            text = json.dumps(memory, separators=(",", ":"))
            made[GROUP_STATES.full_name].append(vars(group) | {"memory": text})
        quiet = kept.keys() - {*records, *states, *missed}
        before = forgets([*map(written_by, chain(*records.values())), *(row["valid_from"] for row in seen)])
        for group_id in sorted(each for each in quiet if rules.is_over(kept[each], before)):
            last = rules.settled({name: of_table.get(group_id, ()) for name, of_table in of_groups.items()})
            for name, rows_of_table in last.items():
                made[name] += [row | {"updated_at": at} for row in rows_of_table]
            gone = Group(take.cluster_id, cluster, group_id)
            made[GROUP_STATES.full_name].append(vars(gone) | {"memory": None})
        return made


def _by(name: str, rows: Iterable[Row]) -> dict[Any, list[Row]]:
    found = dict[Any, list[Row]]()
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found


def _key(part: Column) -> Column:
    return F.concat_ws("/", "cluster", part.cast("string"))


if __name__ == "__main__":
    sys.exit(main())
