"""Offsets of groups that polls asked for (`enrich: offsets`) -> how far each group was behind, and commits that were
removed.

A round folds the visits that are new, of each group (jobs/rules/groups/lag.py), in the one stage, and commits tables
side by side. It reads polls from bronze, so it waits for no other history.

spark-submit jobs/group_lag.py --config FILE [--once]
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.appended import appended
from jobs.common.cli import run_job
from jobs.common.commit import newest_version
from jobs.common.config import Config
from jobs.common.facts import IS_VISIT
from jobs.common.live import PARTS, LiveRows
from jobs.common.maker import Maker, job_of
from jobs.common.rounds import Step, states_of
from jobs.common.stage import column_of, folded, frame_of, packed_in_arrow, rows_in
from jobs.rules.arrow import rows_of
from jobs.rules.groups import lag
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, Memory, Told, Visit
from jobs.rules.groups.state import from_micros, to_micros
from schemas.bronze import METADATA_POLLS
from schemas.consumption import GROUP_LAG, LAG_TABLES, REMOVED_COMMITS_TOLD
from schemas.internal import LAG_STATES
from schemas.table import PART, Table

JOB = "group_lag"
TABLES = (*LAG_TABLES, LAG_STATES)
_KEY = "_place"
"""Column of what is folded at a time: the groups of one cluster in one part."""

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


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", run, argv)


def take_what_is_left(spark: SparkSession, config: Config) -> None:
    """Take the visits that no round has taken, where nobody asks for offsets any more. Bronze keeps them until then."""
    states = states_of(spark, config.lake)
    visits = config.lake.read(spark, METADATA_POLLS).where(IS_VISIT)
    if not visits.where(_is_not_taken(states)).isEmpty():
        GroupLag(spark, config).catch_up(whole=True)


@dataclass
class News:
    """The visits that a round takes, in order, and the visit before them.

    `is_all`: no other visit is new. `said`: what they tell of groups, packed, beside `_KEY`.
    """

    visits: dict[Place, list[Visit]] = field(default_factory=dict)
    before: dict[Place, Visit] = field(default_factory=dict)
    is_all: bool = True
    said: DataFrame | None = None


class GroupLag(Maker):
    """The history of lag, and how far it is. A state that no round has noted yet has no round."""

    by = "group_id"
    # Each note is two commits. `status` says from five minutes on that lag is behind.
    noted_after = timedelta(minutes=3)

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self._noted_at = datetime.now(UTC)
        self._version = -1
        """Of bronze.metadata_polls, up to which all visits were taken; -1 before any."""
        super().__init__(spark, config, [JOB])

    def _finish(self, step: Step, live: LiveRows) -> None:
        news = self._news(None, step.takes["polls"])
        self._write_round(step, self._made(news, step.takes["at"], live), news, live)

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write, or there is more."""
        version = newest_version(self._spark, self._lake, METADATA_POLLS)
        news = News() if version == self._version else self._news(version)
        made = self._made(news, now.isoformat(), self._live)
        self._in_round = {alias for alias, _ in news.visits}
        is_late = now - self._noted_at > self.noted_after
        states = self._after(None, news)
        if any(made.values()) or (is_late and any(row["round"] is None for row in states.values())):
            polls = {alias: [each.poll for each in visits] for (alias, _), visits in news.visits.items()}
            step = self._rounds.plan({"at": now.isoformat(), "polls": polls}, now)
            self._write_round(step, made, news, self._live)
            self._noted_at = now
            is_more = True
        else:
            self._states = states
            is_more = not news.is_all
        if news.is_all:
            self._version = version
        return is_more

    def _go_back(self) -> None:
        self._version = -1

    # --- what is new ---

    def _news(self, version: int | None, planned: Mapping[str, Sequence[str]] | None = None) -> News:
        """The visits up to a version of bronze.metadata_polls that no round has taken; or those of `planned` polls, by
        alias.
        """
        news = News()
        polls, most = self._polls(version), None if planned is not None else self._config.polls_per_round
        is_wanted = _is_not_taken(self._states) if planned is None else _is_planned(planned)
        # What answers tell is left alone: the first look of a run goes over all days of bronze.
        headers = rows_of(polls.where(IS_VISIT).where(is_wanted).select(*_HEADER).toArrow())
        by_alias: dict[str, list[Row]] = defaultdict(list)
        visits = [header for header in headers if header["cluster"] not in self.aside]
        for header in sorted(visits, key=lambda header: header["poll_id"]):
            by_alias[header["cluster"]].append(header)
        taken = [header for of_alias in by_alias.values() for header in of_alias[:most]]
        news.is_all = len(taken) == len(visits)
        if not taken:
            return news
        answers = self._answers(polls, taken)
        read_before = F.max(F.expr("array_max(offsets.commit_read_before)")).alias("read_before")
        last = rows_of(answers.groupBy("cluster", "poll_id").agg(read_before).toArrow())
        read = {(row["cluster"], row["poll_id"]): row["read_before"] for row in last}
        for header in taken:
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
            news.visits.setdefault((header["cluster"], header["cluster_id"]), []).append(visit)
        for alias, cluster_id in news.visits:
            if (known := self._memory(alias).get(cluster_id)) is not None:
                news.before[alias, cluster_id] = Visit(*known)
        said = answers.select("cluster", "cluster_id", "poll_id", F.explode("offsets").alias("_told"))
        packed = F.array(F.struct("poll_id", *(f"_told.{name}" for name in _SAID[1:])))
        news.said = said.select(_key("_told.group_id").alias(_KEY), packed.alias(column_of(METADATA_POLLS)))
        return news

    def _polls(self, version: int | None) -> DataFrame:
        """What bronze has had since the version that was looked at, up to another one; or all of it, now."""
        if version is None:
            return self._lake.read(self._spark, METADATA_POLLS)
        if not 0 <= self._version < version:
            return self._lake.read_version(self._spark, METADATA_POLLS, version)
        return appended(self._spark, self._lake, METADATA_POLLS, self._version + 1, version)

    def _answers(self, polls: DataFrame, headers: Sequence[Row]) -> DataFrame:
        """The answers of visits about groups, among `polls`: cluster, poll_id, cluster_id, and offsets of many
        partitions a row.
        """
        wanted = [(header["cluster"], header["poll_id"], header["cluster_id"]) for header in headers]
        visits = self._spark.createDataFrame(wanted, "cluster string, poll_id string, cluster_id string")
        rows = polls.where("record = 'offsets'")
        spans: dict[str, list[int]] = defaultdict(list)
        for header in headers:
            spans[header["stream"]].append(header["n"])
        # Of streams and numbers files have statistics.
        within = " OR ".join(
            f"(stream = '{stream}' AND n BETWEEN {min(numbers)} AND {max(numbers)})"
            for stream, numbers in spans.items()
        )
        told = rows.where(within).select("cluster", "poll_id", "offsets")
        return told.join(F.broadcast(visits), ["cluster", "poll_id"])

    def _memory(self, alias: str) -> Row:
        """The last visit of each cluster that the alias led to, by its id."""
        row = self._states.get((JOB, alias))
        return dict(json.loads(row["memory"])) if row else {}

    # --- a round ---

    def _made(self, news: News, at: str, live: LiveRows) -> dict[Table, pa.Table]:
        """The rows that a fold makes of what is new. `live`: as it was before the round."""
        if news.said is None:
            return {}
        clusters = {"/".join(place): place for place in news.visits}
        keys = pa.array(f"{cluster}/{part}" for cluster in clusters for part in range(PARTS))
        kept = live.of((GROUP_LAG, LAG_STATES), range(PARTS)).items()
        brought = {table: rows.filter(pc.is_in(_keys(table, rows), keys)) for table, rows in kept}
        fold = partial(
            _fold,
            visits={cluster: news.visits[place] for cluster, place in clusters.items()},
            before={cluster: news.before.get(place) for cluster, place in clusters.items()},
            places=clusters,
            at=datetime.fromisoformat(at),
        )
        return folded(news.said, frame_of(self._spark, packed_in_arrow(brought, _KEY, _keys)), TABLES, fold, _KEY)

    def _write_round(self, step: Step, made: Mapping[Table, pa.Table], news: News, live: LiveRows) -> None:
        count = sum(map(len, news.visits.values()))
        of = f"{count} asking(s) for offsets, of {len(news.visits)} cluster(s)"
        self._write(step, made, live, self._after(step.round, news), of=of)

    def _after(self, number: int | None, news: News) -> dict[tuple[str, str], Row]:
        """The rows of internal.states after what is new. `number`: of the round; None where nothing changed, and a
        later round notes it.
        """
        states = dict(self._states)
        for (alias, cluster_id), visits in news.visits.items():
            before = states.get((JOB, alias))
            memory = json.loads(before["memory"]) if before else {}
            last = visits[-1]
            # Of an alias that led to several clusters, the last poll of all counts.
            done = max(last.poll, (before or {}).get("done_poll") or "")
            states[JOB, alias] = {
                "history": JOB,
                "cluster": alias,
                "cluster_id": cluster_id,
                "round": number,
                "done_poll": done,
                "done_at": from_micros(last.seen),
                "memory": json.dumps(memory | {cluster_id: last}, separators=(",", ":")),
            }
        return {key: row | {"round": number} if row["round"] is None else row for key, row in states.items()}


run = job_of(GroupLag)
"""Keeps lag up with polls; with `once`, until nothing is new."""


def _is_not_taken(states: Mapping[tuple[str, str], Row]) -> Column:
    """That a poll came after those that rounds have taken."""
    done = [(cluster, row["done_poll"]) for (history, cluster), row in states.items() if history == JOB]
    if not done:
        return F.lit(True)
    known = F.create_map(*(F.lit(each) for pair in done for each in pair))
    return F.coalesce(F.col("poll_id") > known[F.col("cluster")], F.lit(True))


def _is_planned(polls: Mapping[str, Sequence[str]]) -> Column:
    """That a poll is one of these, by alias."""
    of_aliases = [(F.col("cluster") == alias) & F.col("poll_id").isin(list(ids)) for alias, ids in polls.items()]
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
    """The fold of one cluster's groups in one part; runs on executors. The other mappings are by cluster."""
    cluster = key.rpartition("/")[0]
    alias, cluster_id = places[cluster]
    told = _told(said.get(METADATA_POLLS.full_name))
    kept = {row["group_id"]: row["memory"] for row in rows_in(live, LAG_STATES)}
    rows = {row["group_id"]: row for row in rows_in(live, GROUP_LAG)}
    made: dict[str, list[Row]] = {table.full_name: [] for table in TABLES}
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
        text = None if remembered is None else json.dumps(remembered.to_json(), separators=(",", ":"))
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
    for poll, group_id, is_simple, topic, partition, offset, end, error, read_at in zip(*columns, strict=True):
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
    return F.concat_ws("/", "cluster", "cluster_id", F.expr(f"CAST(crc32({group_id}) % {PARTS} AS STRING)"))


def _keys(_: Table, rows: pa.Table) -> pa.ChunkedArray:
    """`_KEY` of live rows."""
    return pc.binary_join_element_wise(rows["cluster"], rows["cluster_id"], rows[PART].cast(pa.string()), "/")


if __name__ == "__main__":
    sys.exit(main())
