"""Offsets of groups that polls asked for (`enrich: offsets`) -> how far each group was behind, and
commits that were removed.

A round folds the visits that are new, of each group (jobs/rules/groups/lag.py). It reads polls from
bronze, so it waits for no other history.
"""

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import chain
from operator import itemgetter, or_
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.configuration.config import Config
from jobs.rounds.appended import appended
from jobs.rounds.commit import newest_version
from jobs.rounds.history import KEY, Context, History, Made, News
from jobs.rounds.live import PARTS
from jobs.rounds.plan import State, States, states_of
from jobs.rounds.stage import column_of, rows_in
from jobs.rules.arrow import rows_of
from jobs.rules.groups import lag
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, Memory, Told, Visit
from jobs.rules.groups.state import from_micros, to_micros
from jobs.rules.memory import dumps
from schemas.bronze import IS_VISIT, METADATA_POLLS
from schemas.consumption import GROUP_LAG, LAG_TABLES, REMOVED_COMMITS_TOLD
from schemas.internal import LAG_STATES
from schemas.table import PART, Table

JOB = histories.GROUP_LAG.name

_SAID = (
    "poll_id",
    "group_id",
    "is_simple",
    "topic",
    "partition",
    "committed_offset",
    "log_end",
    "error",
    "commit_read_before",
)
_HEADER = (
    "cluster",
    "cluster_id",
    "poll_id",
    "stream",
    "n",
    "scheduled_at",
    "answered_at",
    "topic_filter",
    "groups_pattern",
)
Row = dict[str, Any]
Place = tuple[str, str]
"""Alias and id of a cluster: an alias that leads to another cluster has lag of its own there."""
_Memory = dict[str, Visit]
"""The last visit of each cluster that an alias led to, by its id."""


@dataclass(frozen=True)
class LagInput:
    """The polls whose visits a round takes, by alias. `at`: of the round."""

    at: datetime
    polls: dict[str, list[str]]


@dataclass(kw_only=True)
class Visits(News):
    """The visits that a round takes, in order."""

    visits: Mapping[Place, Sequence[Visit]]


class GroupLag(History[Visits]):
    """The history of lag."""

    declared = (histories.GROUP_LAG,)
    job = JOB
    names = (JOB,)
    tables = (*LAG_TABLES, LAG_STATES)
    live = (GROUP_LAG, LAG_STATES)
    input_type = LagInput
    needed: ClassVar[Mapping[Table, str]] = {
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

    def look(self, context: Context, now: datetime) -> Visits:
        """The visits that no round has taken, of each cluster up to so many."""
        version = newest_version(context.spark, context.lake, METADATA_POLLS)
        if version == self._version:
            return Visits(takes=LagInput(now, {}), visits={})
        polls = self._polls(context, version)
        headers = _headers(polls.where(_is_not_taken(context.states)), context.aside)
        taken = [
            header
            for of_alias in headers.values()
            for header in of_alias[: context.config.polls_per_round]
        ]
        is_more = len(taken) < sum(map(len, headers.values()))
        if not is_more:
            self._version = version
        return _news(context, polls, taken, now, is_more=is_more)

    def again(self, context: Context, taken: LagInput) -> Visits:
        """The visits of planned polls."""
        polls = context.lake.read(context.spark, METADATA_POLLS)
        headers = _headers(polls.where(_is_planned(taken.polls)))
        return _news(context, polls, [*chain.from_iterable(headers.values())], taken.at)

    def after(self, context: Context, news: Visits, made: Made | None) -> Iterable[State]:  # noqa: ARG002 - a visit that changed nothing was taken, too
        """How far each alias is."""
        for (alias, cluster_id), visits in news.visits.items():
            before, last = context.states.get((JOB, alias), {}), visits[-1]
            memory = context.memory(JOB, alias, _Memory) or {}
            yield {
                "history": JOB,
                "cluster": alias,
                "cluster_id": cluster_id,
                "round": None,
                # Of an alias that led to several clusters, the last poll of all counts.
                "done_poll": max(last.poll, before.get("done_poll") or ""),
                "done_at": from_micros(last.seen),
                "memory": dumps(memory | {cluster_id: last}),
            }

    def go_back(self, context: Context) -> Iterable[State]:  # noqa: ARG002
        """Look at all visits again that no round has taken."""
        self._version = -1
        return ()

    @staticmethod
    def places_of(_: Table, rows: pa.Table) -> pa.ChunkedArray:
        """KEY of live rows."""
        return pc.binary_join_element_wise(
            rows["cluster"], rows["cluster_id"], rows[PART].cast(pa.string()), "/"
        )

    def is_left(self, spark: SparkSession, config: Config) -> bool:
        """Whether bronze has visits that no round has taken."""
        visits = config.lake.read(spark, METADATA_POLLS).where(IS_VISIT)
        return not visits.where(_is_not_taken(states_of(spark, config.lake))).isEmpty()

    def _polls(self, context: Context, version: int) -> DataFrame:
        """What bronze has had since the version that was looked at, up to another one."""
        if not 0 <= self._version < version:
            return context.lake.read_version(context.spark, METADATA_POLLS, version)
        return appended(context.spark, context.lake, METADATA_POLLS, self._version + 1, version)


def _headers(polls: DataFrame, aside: Container[str] = ()) -> dict[str, list[Row]]:
    """The headers of visits, in order, by alias."""
    # What answers tell is left alone: the first look of a run goes over all days of bronze.
    found: dict[str, list[Row]] = {}
    for header in sorted(
        rows_of(polls.where(IS_VISIT).select(*_HEADER).toArrow()), key=itemgetter("poll_id")
    ):
        if header["cluster"] not in aside:
            found.setdefault(header["cluster"], []).append(header)
    return found


def _news(
    context: Context,
    polls: DataFrame,
    headers: Sequence[Row],
    at: datetime,
    *,
    is_more: bool = False,
) -> Visits:
    """The visits of these headers, and what they tell of groups."""
    taken = LagInput(at, {})
    for header in headers:
        taken.polls.setdefault(header["cluster"], []).append(header["poll_id"])
    if not headers:
        return Visits(takes=taken, visits={}, is_more=is_more)
    answers = _answers(polls, headers)
    read_before = F.max(F.expr("array_max(offsets.commit_read_before)")).alias("read_before")
    last = rows_of(answers.groupBy("cluster", "poll_id").agg(read_before).toArrow())
    read = {(row["cluster"], row["poll_id"]): row["read_before"] for row in last}
    visits: dict[Place, list[Visit]] = {}
    for header in headers:
        # Without any group nothing says when they were listed.
        read_at = read.get((header["cluster"], header["poll_id"])) or header["answered_at"]
        visit = Visit(
            header["poll_id"],
            due=to_micros(header["scheduled_at"]),
            seen=to_micros(header["answered_at"]),
            read=to_micros(read_at),
            topic_filter=header["topic_filter"],
            groups_pattern=header["groups_pattern"],
        )
        visits.setdefault((header["cluster"], header["cluster_id"]), []).append(visit)
    said = answers.select("cluster", "cluster_id", "poll_id", F.explode("offsets").alias("_told"))
    packed = F.array(F.struct("poll_id", *(f"_told.{name}" for name in _SAID[1:])))
    clusters = {"/".join(place): place for place in visits}
    before = {
        cluster: (context.memory(JOB, alias, _Memory) or {}).get(cluster_id)
        for cluster, (alias, cluster_id) in clusters.items()
    }
    of_clusters = {cluster: visits[place] for cluster, place in clusters.items()}
    return Visits(
        takes=taken,
        visits=visits,
        rows=[
            said.select(_key("_told.group_id").alias(KEY), packed.alias(column_of(METADATA_POLLS)))
        ],
        places=[f"{cluster}/{part}" for cluster in clusters for part in range(PARTS)],
        fold=partial(_fold, visits=of_clusters, before=before, places=clusters, at=at),
        clusters={alias for alias, _ in visits},
        is_more=is_more,
        says=f"{len(headers)} asking(s) for offsets, of {len(visits)} cluster(s)",
    )


def _answers(polls: DataFrame, headers: Sequence[Row]) -> DataFrame:
    """The answers of visits about groups, among `polls`: cluster, poll_id, cluster_id, and offsets
    of many partitions a row.
    """
    wanted = [(header["cluster"], header["poll_id"], header["cluster_id"]) for header in headers]
    visits = polls.sparkSession.createDataFrame(
        wanted, "cluster string, poll_id string, cluster_id string"
    )
    spans: dict[str, list[int]] = defaultdict(list)
    for header in headers:
        spans[header["stream"]].append(header["n"])
    # Of streams and numbers files have statistics.
    within = " OR ".join(
        f"(stream = '{stream}' AND n BETWEEN {min(numbers)} AND {max(numbers)})"
        for stream, numbers in spans.items()
    )
    told = polls.where("record = 'offsets'").where(within).select("cluster", "poll_id", "offsets")
    return told.join(F.broadcast(visits), ["cluster", "poll_id"])


def _is_not_taken(states: States) -> Column:
    """That a poll came after those that rounds have taken."""
    done = [
        (cluster, row["done_poll"]) for (history, cluster), row in states.items() if history == JOB
    ]
    if not done:
        return F.lit(True)
    known = F.create_map(*(F.lit(each) for pair in done for each in pair))
    return F.coalesce(F.col("poll_id") > known[F.col("cluster")], F.lit(True))


def _is_planned(polls: Mapping[str, Sequence[str]]) -> Column:
    """That a poll is one of these, by alias."""
    of_aliases = [
        (F.col("cluster") == alias) & F.col("poll_id").isin(list(ids))
        for alias, ids in polls.items()
    ]
    return reduce(or_, of_aliases, F.lit(False))


def _fold(
    key: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    visits: Mapping[str, Sequence[Visit]],
    before: Mapping[str, Visit | None],
    places: Mapping[str, Place],
    at: datetime,
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster's groups in one part; runs on executors. The other mappings are by
    cluster.
    """
    cluster = key.rpartition("/")[0]
    alias, cluster_id = places[cluster]
    told = _told(said.get(METADATA_POLLS.full_name))
    kept = {row["group_id"]: row["memory"] for row in rows_in(live, LAG_STATES)}
    rows = {row["group_id"]: row for row in rows_in(live, GROUP_LAG)}
    made: dict[str, list[Row]] = {table.full_name: [] for table in GroupLag.tables}
    for group_id in sorted({*told, *kept, *rows}):
        group, memory = Group(cluster_id, alias, group_id), kept.get(group_id)
        remembered, of_group = lag.fold(
            group,
            None if memory is None else Memory.from_json(json.loads(memory)),
            rows.get(group_id),
            visits[cluster],
            told=told.get(group_id, {}),
            before=before[cluster],
        )
        made[GROUP_LAG.full_name] += [row | {"updated_at": at} for row in of_group.lag]
        made[REMOVED_COMMITS_TOLD.full_name] += of_group.removed
        text = (
            None if remembered is None else json.dumps(remembered.to_json(), separators=(",", ":"))
        )
        if text != memory:
            made[LAG_STATES.full_name].append(vars(group) | {"memory": text})
    return made


def _told(said: pa.Table | None) -> dict[str, dict[str, Told]]:
    """The answers of visits, by group and poll."""
    found: dict[str, dict[str, Told]] = defaultdict(dict)
    if said is None:
        return found
    read = said.schema.get_field_index("commit_read_before")
    said = said.set_column(read, "commit_read_before", said["commit_read_before"].cast(pa.int64()))
    commits: dict[tuple[str, str], list[Commit]] = {}
    columns = (said[name].to_pylist() for name in _SAID)
    for poll, group_id, is_simple, topic, partition, offset, end, error, read_at in zip(
        *columns, strict=True
    ):
        if topic is None:
            # A group without a commit, or one that could not be asked.
            found[group_id][poll] = Told(read_at or 0, is_simple, [] if error is None else None)
            continue
        of_group = commits.get((group_id, poll))
        if of_group is None:
            of_group = commits[group_id, poll] = []
            found[group_id][poll] = Told(read_at, is_simple, of_group)
        of_group.append(Commit(topic, partition, offset, end))
    return found


def _key(group_id: str) -> Column:
    return F.concat_ws(
        "/", "cluster", "cluster_id", F.expr(f"CAST(crc32({group_id}) % {PARTS} AS STRING)")
    )
