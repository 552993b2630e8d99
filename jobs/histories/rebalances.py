"""The coordinators' log and polls of groups -> rebalances: who had what before and after, why, for
how long, and how often.

A round folds what is new of each group (jobs/rules/groups/group.py). What one source tells is
stored as it tells it; views join the rest (schemas/views/).
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.configuration.config import Thresholds
from jobs.histories.group_log import COLUMNS, PLACE, Places, new_rows
from jobs.rounds.appended import VERSIONS_A_ROUND, appended, upto
from jobs.rounds.commit import newest_version
from jobs.rounds.history import KEY, Context, History, Made, News
from jobs.rounds.live import PARTS
from jobs.rounds.plan import State, kept_since, states_of
from jobs.rounds.stage import column_of, packed, rows_in, uncollected
from jobs.rules.gold.news import as_of
from jobs.rules.groups import group as rules
from jobs.rules.groups.group import Group
from jobs.rules.groups.partition import log_partition
from jobs.rules.groups.state import written_by
from jobs.rules.memory import dumps
from jobs.rules.round import SILVER
from schemas import groups
from schemas.bronze import GROUP_LOG, NOT_TAKEN
from schemas.internal import GROUP_STATES, STATE
from schemas.silver import COORDINATORS, GROUP_SNAPSHOTS
from schemas.table import PART, Table

JOB = histories.REBALANCE_HISTORY.name
_PART_OF_GROUP = f"CAST(crc32(group_id) % {PARTS} AS INT)"

_LOG = ""
"""In place of an alias: the row of internal.states that says how far bronze.group_log was taken."""

_NEVER = datetime.min.replace(tzinfo=UTC)
_PLACE = itemgetter(*PLACE)
Row = dict[str, Any]


@dataclass(frozen=True)
class ClusterInput:
    """The part of a cluster that a round takes: new rows of its log, and polls of groups after
    `since` (None: all) up to `until`.

    `until` is None where nothing is taken of polls. `log_partitions`: how many the log has, as far
    as polls know.
    """

    cluster_id: str
    since: str | None = None
    until: str | None = None
    until_at: datetime | None = None
    log_partitions: int | None = None


@dataclass(frozen=True)
class GroupInput:
    """All that a round takes. `at`: of the round. `clusters`: by alias. `versions`: first and last
    of bronze.group_log that no round has noted. `kept_since`: from when on retention has left gold
    whole. `remembered`: for how long groups are that are gone. `aside`: the clusters that were left
    out when the log was read.
    """

    at: datetime
    thresholds: Thresholds
    clusters: dict[str, ClusterInput]
    versions: tuple[int, int] | None
    kept_since: datetime | None
    remembered: timedelta
    aside: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """How far each partition of a cluster's log was taken, by number: era and offset. `at`: of that
    round.
    """

    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(frozen=True)
class LogMemory:
    """The last version of bronze.group_log that was read; from `held` on somebody was left out."""

    version: int
    held: int | None = None


@dataclass
class Read:
    """Packed rows of the log and of silver, and the places of their groups. `ids`: of the clusters
    whose log has rows. `ends`: by alias, up to where the log was read; `read_at`: when its last
    rows were. `waits`: whether there are rows of a cluster whose id nobody knows yet.
    """

    rows: list[DataFrame] = field(default_factory=list)
    places: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    ends: dict[str, Places] = field(default_factory=lambda: defaultdict(dict))
    read_at: dict[str, datetime] = field(default_factory=dict)
    waits: bool = False


@dataclass(kw_only=True)
class GroupNews(News):
    """The news of groups, as they were read."""

    takes: GroupInput
    read: Read


class RebalanceHistory(History[GroupNews]):
    """The history of groups."""

    declared = (histories.REBALANCE_HISTORY,)
    job = JOB
    names = (JOB,)
    woken_by = (GROUP_LOG,)
    follows = (SILVER,)
    reads: ClassVar[Mapping[Table, Collection[str]]] = {GROUP_SNAPSHOTS: (JOB,)}
    needed: ClassVar[Mapping[Table, str]] = {
        GROUP_LOG: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, positions FROM {{states}} WHERE history = '{JOB}'
            ) USING (cluster)
            WHERE {NOT_TAKEN}
        """
    }
    tables = (*groups.TABLES, GROUP_STATES)
    live = tables
    input_type = GroupInput

    def __init__(self) -> None:
        self._looked: dict[str, str] = {}
        """By alias, the last poll up to which silver says nothing new of groups."""
        self._noted = -1
        """The last version of bronze.group_log up to which rounds have noted what they took."""
        self._silver_version: int | None = None
        self._of_silver: dict[str, State] = {}
        self._kept_since: datetime | None = None

    def look(self, context: Context, now: datetime) -> GroupNews:
        """New rows of the log, and new states of groups in silver."""
        of_silver = self._silver(context)
        unnoted = [
            row for (of, _), row in context.states.items() if of == JOB and row["round"] is None
        ]
        takes = {
            row["cluster"]: ClusterInput(row["cluster_id"])
            for row in unnoted
            if row["cluster"] != _LOG
        }
        takes |= self._new_polls(context, of_silver)
        newest, last = (
            newest_version(context.spark, context.lake, GROUP_LOG),
            _last_version(context),
        )
        if all(row["cluster"] != _LOG for row in unnoted):
            self._noted = last
        if newest < last:
            self._noted = last = -1  # The table was made again.
        end = (
            upto(context.spark, context.lake, GROUP_LOG, last + 1, newest)
            if newest > max(last, 0)
            else last
        )
        versions = (self._noted + 1, end) if end > self._noted else None
        read, aside = Read(), tuple(context.aside)
        if end > last:
            ids = {cluster: row["cluster_id"] for cluster, row in of_silver.items()}
            _read_log(context, read, (last + 1, end), ids, aside)
        _read_polls(context, read, takes)
        takes = {cluster: ClusterInput(id_) for cluster, id_ in read.ids.items()} | takes
        is_full = versions is not None and versions[1] - versions[0] + 1 >= VERSIONS_A_ROUND
        is_due = bool(read.places) or (is_full and bool(read.ends or unnoted))
        if not is_due:
            self._looked |= {
                cluster: each.until for cluster, each in takes.items() if each.until is not None
            }
        limits, retention = context.config.thresholds, context.config.bronze_retention
        taken = GroupInput(now, limits, takes, versions, self._kept_since, retention, aside)
        return _news(taken, read, is_due=is_due)

    def again(self, context: Context, taken: GroupInput) -> GroupNews:
        """The rows of the log and of silver that a planned round takes."""
        read = Read()
        if taken.versions is not None:
            ids = {cluster: each.cluster_id for cluster, each in taken.clusters.items()}
            _read_log(context, read, taken.versions, ids, taken.aside, planned=taken.at)
        _read_polls(context, read, taken.clusters)
        return _news(taken, read)

    def after(self, context: Context, news: GroupNews, made: Made | None) -> Iterable[State]:
        """How far each cluster is, and the log of all."""
        for cluster, each in news.takes.clusters.items():
            if made is None and cluster not in news.read.ends:
                continue
            before, memory = context.states.get((JOB, cluster), {}), _memory(context, cluster)
            until, until_at = (each.until, each.until_at) if made is not None else (None, None)
            ends = {
                str(partition): place
                for partition, place in news.read.ends.get(cluster, {}).items()
            }
            places = memory.places | ends
            yield {
                "history": JOB,
                "cluster": cluster,
                "cluster_id": each.cluster_id,
                "round": None,
                "done_poll": until or before.get("done_poll"),
                "done_at": until_at or before.get("done_at"),
                "last_seen_at": news.read.read_at.get(cluster, before.get("last_seen_at")),
                "positions": {partition: list(place) for partition, place in places.items()},
                "memory": dumps(Memory(places, memory.at if made is None else news.takes.at)),
            }
        # Rows of a cluster whose id is not known yet are read again.
        if news.takes.versions is not None and not news.read.waits:
            held = None
            if news.takes.aside:
                # What others have had from there on is passed over by their places.
                log = context.memory(JOB, _LOG, LogMemory) or LogMemory(-1)
                held = log.version if log.held is None else log.held
            of_log = LogMemory(news.takes.versions[1], held)
            yield {"history": JOB, "cluster": _LOG, "round": None, "memory": dumps(of_log)}

    def go_back(self, context: Context) -> Iterable[State]:
        """Read the log again from where somebody was left out."""
        log = context.memory(JOB, _LOG, LogMemory)
        if log is not None and log.held is not None:
            yield context.states[JOB, _LOG] | {"memory": dumps(LogMemory(log.held))}

    def _silver(self, context: Context) -> dict[str, State]:
        """How far silver is with each cluster, by alias; read again where internal.states has
        more.
        """
        version = newest_version(context.spark, context.lake, STATE)
        if version != self._silver_version:
            states = states_of(context.spark, context.lake)
            self._kept_since = kept_since(states, "gold")
            found = {cluster: row for (of, cluster), row in states.items() if of == SILVER}
            self._of_silver = {
                cluster: row for cluster, row in found.items() if row["cluster_id"] is not None
            }
            self._silver_version = version
        return self._of_silver

    def _new_polls(
        self, context: Context, of_silver: Mapping[str, State]
    ) -> dict[str, ClusterInput]:
        """The clusters of which groups are polled, and silver has changed since."""
        takes = {}
        for cluster, row in of_silver.items():
            done = context.states.get((JOB, cluster), {}).get("done_poll")
            looked = max(done or "", self._looked.get(cluster, ""))
            is_new = looked < (row["done_poll"] or "") and looked < (row["changed_poll"] or "")
            if (
                cluster not in context.aside
                and is_new
                and "groups" in json.loads(row["memory"]).get("enriched", {})
            ):
                takes[cluster] = ClusterInput(
                    row["cluster_id"], done, row["done_poll"], row["done_at"]
                )
        if takes:
            rows = context.lake.read(context.spark, COORDINATORS).where(
                F.col("cluster").isin(*takes)
            )
            for cluster, last in rows.groupBy("cluster").agg(F.max("log_partition")).collect():
                takes[cluster] = replace(takes[cluster], log_partitions=last + 1)
        return takes


def _read_log(
    context: Context,
    read: Read,
    versions: tuple[int, int],
    ids: Mapping[str, str],
    aside: Sequence[str],
    *,
    planned: datetime | None = None,
) -> None:
    """Read the rows that versions of the log appended. `ids`: alias -> cluster id, of clusters
    whose answers did not tell it. `aside`: the clusters that are left out. `planned`: as of
    `appended`.
    """
    known = context.spark.createDataFrame(list(ids.items()), "cluster string, _id string")
    rows = appended(context.spark, context.lake, GROUP_LOG, *versions, planned=planned)
    rows = rows.join(F.broadcast(known), "cluster", "left").where(
        ~F.col("cluster").isin(list(aside))
    )
    rows = rows.withColumn("cluster_id", F.coalesce("cluster_id", "_id")).drop("_id")
    clusters = {
        *ids,
        *(cluster for history, cluster in context.states if history == JOB and cluster != _LOG),
    }
    rows = new_rows(rows, {cluster: _places(context, cluster) for cluster in clusters})
    # A gap says something of every group that is kept in its partition; other rows without a group,
    # of none.
    of_group = F.when(F.col("group_id").isNotNull(), F.array(F.expr(_PART_OF_GROUP)))
    is_gap = F.col("record").isin("lost", "truncated")
    rows = rows.withColumn(
        "_parts", of_group.when(is_gap, F.array(*map(F.lit, range(PARTS))))
    ).localCheckpoint()
    end = F.max(F.struct("era", "goes_on_at")).alias("end")
    parts = F.flatten(F.collect_set("_parts")).alias("parts")
    read_at = F.max("read_at").alias("read_at")
    found = (
        rows.groupBy("cluster", "cluster_id", "log_partition")
        .agg(end, parts, read_at)
        .toArrow()
        .to_pylist()
    )
    for row in found:
        cluster = row["cluster"]
        if row["cluster_id"] is None:
            read.waits = True
            continue
        read.ids.setdefault(cluster, row["cluster_id"])
        read.ends[cluster][row["log_partition"]] = row["end"]["era"], row["end"]["goes_on_at"]
        read.places.update(f"{cluster}/{part}" for part in row["parts"])
        read.read_at[cluster] = max(row["read_at"], read.read_at.get(cluster, row["read_at"]))
    said = rows.where("cluster_id IS NOT NULL").withColumn(PART, F.explode("_parts"))
    columns = F.array(F.struct(*COLUMNS, *PLACE)).alias(column_of(GROUP_LOG))
    read.rows.append(said.select(_key(F.col(PART)).alias(KEY), columns))


def _read_polls(context: Context, read: Read, takes: Mapping[str, ClusterInput]) -> None:
    """Read the states of groups that began, or ended, in the polls that are taken."""
    taken = [
        (alias, each.since or "", each.until)
        for alias, each in takes.items()
        if each.until is not None
    ]
    if not taken:
        return
    least = min(since for _, since, _ in taken)
    bounds = context.spark.createDataFrame(taken, "cluster string, _since string, _until string")
    rows = context.lake.read(context.spark, GROUP_SNAPSHOTS)
    rows = rows.where(F.col("is_current") | (F.col("superseded_poll") > least)).join(
        F.broadcast(bounds), "cluster"
    )
    began = "first_poll > _since AND first_poll <= _until"
    rows = rows.where(
        f"({began}) OR (superseded_poll > _since AND superseded_poll <= _until)"
    ).localCheckpoint()
    keyed = rows.withColumn(KEY, _key(F.expr(_PART_OF_GROUP)))
    read.places.update(row[0] for row in keyed.select(KEY).distinct().collect())
    read.rows.append(packed(keyed, GROUP_SNAPSHOTS, (KEY,)))


def _news(taken: GroupInput, read: Read, *, is_due: bool = False) -> GroupNews:
    forgets = partial(forgets_before, remembered=taken.remembered, kept_since=taken.kept_since)
    return GroupNews(
        takes=taken,
        read=read,
        rows=read.rows,
        places=read.places,
        fold=partial(
            _fold,
            takes=taken.clusters,
            ends=read.ends,
            limits=taken.thresholds,
            at=taken.at,
            forgets=forgets,
        ),
        clusters={place.rpartition("/")[0] for place in read.places},
        is_due=is_due,
        says=f"groups of {len(taken.clusters)} cluster(s)",
    )


def _last_version(context: Context) -> int:
    """The last version of bronze.group_log that was read; -1 before any."""
    log = context.memory(JOB, _LOG, LogMemory)
    return -1 if log is None else log.version


def _memory(context: Context, cluster: str) -> Memory:
    return context.memory(JOB, cluster, Memory) or Memory()


def _places(context: Context, cluster: str) -> Places:
    """How far each partition of a cluster's log was taken."""
    return {int(partition): place for partition, place in _memory(context, cluster).places.items()}


def forgets_before(
    news: Iterable[datetime], remembered: timedelta, kept_since: datetime | None
) -> datetime:
    """Before when a group has to be gone to be forgotten, by the times of what is new in its part.

    `remembered`: as long as bronze is kept, which then knows nothing of the group either. Groups
    that come and go by the thousand, as console consumers do, would make each round slower.
    `kept_since`: from when on retention has left gold whole; None where it has dropped nothing.
    """
    newest = max(news, default=None)
    return max(newest - remembered if newest is not None else _NEVER, kept_since or _NEVER)


def _fold(
    key: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    takes: Mapping[str, ClusterInput],
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
        states = _by(
            "group_id",
            (as_of(row, str(take.until)) | {"is_new": row["first_poll"] > since} for row in seen),
        )
        kept = {row["group_id"]: json.loads(row["memory"]) for row in rows_in(live, GROUP_STATES)}
        of_groups = {
            table.full_name: _by("group_id", rows_in(live, table)) for table in groups.TABLES
        }
        partitions = {group_id: rules.partitions_of(memory) for group_id, memory in kept.items()}
        for group_id, of_group in records.items():
            partitions.setdefault(group_id, set()).update(row["log_partition"] for row in of_group)
        read_to = {p: offset for p, (_, offset) in ends.get(cluster, {}).items()}
        missed = {group_id for group_id, of_group in partitions.items() if of_group & gaps.keys()}
        made: dict[str, list[Row]] = {table.full_name: [] for table in RebalanceHistory.tables}
        for group_id in sorted({*records, *states, *missed}):
            group = Group(take.cluster_id, cluster, group_id)
            missing = [
                row for partition in partitions.get(group_id, ()) for row in gaps.get(partition, ())
            ]
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
        before = forgets(
            [*map(written_by, chain(*records.values())), *(row["valid_from"] for row in seen)]
        )
        for group_id in sorted(each for each in quiet if rules.is_over(kept[each], before)):
            last = rules.settled(
                {name: of_table.get(group_id, ()) for name, of_table in of_groups.items()}
            )
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
