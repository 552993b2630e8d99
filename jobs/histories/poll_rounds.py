"""A round of polls and of the controllers' log: which rows its folds have to see, and what they
make.

The fold of a cluster is jobs/rules/round.py. Partitions of large clusters do not pass through one
task: jobs/rounds/large.py narrows them to what differs before the fold, and their commit is cut
into parts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Thresholds
from jobs.histories.poll_headers import IS_HEADER, place_of, silver_state
from jobs.rounds import large
from jobs.rounds.commit import Commit
from jobs.rounds.history import Context, Made, News
from jobs.rounds.live import PARTS, in_parts, part_of
from jobs.rounds.plan import State
from jobs.rounds.stage import (
    arrow_schema,
    as_stored,
    failing_as,
    folded,
    frame_of,
    packed,
    packed_in_arrow,
    side_by_side,
    uncollected,
)
from jobs.rules import round as rules
from jobs.rules.arrow import rows_of
from jobs.rules.coordinators import coordinators
from jobs.rules.gold.isr_shrink import needed
from jobs.rules.gold.news import TIMES
from jobs.rules.log import needed as needed_by_log
from jobs.rules.log.records import in_order
from jobs.rules.log.silver import TABLES as LOG_TABLES
from jobs.rules.round import GOLD, SILVER, Plan
from jobs.rules.silver.cluster import BROKERS, WITNESSES
from jobs.rules.silver.compare import narrowed_rows
from jobs.rules.silver.state import Row
from jobs.rules.takes import Take
from jobs.run.session import COMPILED_FROM, session_for
from metadata_source.facts import OFFSETS_TOPIC
from schemas import bronze, gold, silver
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.table import PART, Table

OF_POLLS = {
    SILVER: (*silver.TABLES, gold.STALE_BROKERS, gold.CONTROLLER_CHANGES),
    "isr_shrink": gold.ISR_TABLES,
    "leader_churn": gold.LEADER_TABLES,
}
"""History -> the tables that it writes."""

_PARTITIONS = silver.PARTITION_SNAPSHOTS
_OF_LOG = (*LOG_TABLES, silver.HISTORY_SOURCES)
"""The tables that the controllers' log may change."""

_REGISTRATIONS = (silver.BROKER_REGISTRATIONS, silver.PARTITION_REGISTRATIONS)
_EVIDENCE = (silver.BROKER_REGISTRATIONS, silver.REASSIGNMENTS, silver.PARTITION_ELR)
"""The tables of which rows that stood for long decide what a record of the log means."""

_TOPICS = (
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.BROKER_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
)
"""The tables that records of topics, and the header beside them, may change."""


@dataclass(frozen=True)
class DoneSilver:
    """How far silver of a cluster was when gold was planned, which another job makes."""

    cluster_id: str | None
    done_poll: str | None
    done_at: datetime
    changed_poll: str | None
    parts: int | None

    def row(self, cluster: str) -> State:
        """As internal.states has it."""
        return (
            dict.fromkeys(STATE.column_names) | {"history": SILVER, "cluster": cluster} | vars(self)
        )


@dataclass(frozen=True)
class PollInput:
    """All that a round takes. `at`: of the round. `log`: first and last version of
    bronze.cluster_log that no round has noted, and `is_rest`: no cluster's records of these are
    left. `silver`: where gold is made alone.
    """

    at: datetime
    histories: tuple[str, ...]
    thresholds: Thresholds
    migrating: tuple[str, ...]
    topic_filter: str | None
    clusters: dict[str, Take]
    log: tuple[int, int] | None
    is_rest: bool
    silver: dict[str, DoneSilver]

    @property
    def plan(self) -> Plan:
        """As the folds see it."""
        limits, migrating = self.thresholds, frozenset(self.migrating)
        return Plan(frozenset(self.histories), limits, self.at, migrating, self.topic_filter)


@dataclass(kw_only=True)
class PollNews(News):
    """`records`: by alias, rows of the controllers' log. `versions`: the first and the last of
    bronze.metadata_polls that appended the polls; None where that is not known, or their files may
    be gone.
    """

    takes: PollInput
    records: Mapping[str, pa.Table] = field(default_factory=dict)
    versions: tuple[int, int] | None = None


def of_silver(context: Context) -> dict[str, State]:
    """The rows of internal.state of silver, by alias."""
    return {cluster: row for (history, cluster), row in context.states.items() if history == SILVER}


def lacks_gold(context: Context, histories: Iterable[str], cluster: str) -> bool:
    """Whether some history of gold has nothing of silver yet. It is made before more of silver
    is.
    """
    done = context.states.get((SILVER, cluster), {}).get("done_poll")
    return done is not None and any(
        (history, cluster) not in context.states for history in histories
    )


def gold_behind(context: Context, histories: Iterable[str], cluster: str) -> str | None:
    """Up to which poll gold is done, where silver has rows of later ones; None where it has
    none.
    """
    changed = context.states.get((SILVER, cluster), {}).get("changed_poll") or ""
    told = [context.states.get((history, cluster), {}) for history in histories if history in GOLD]
    done = min((each.get("done_poll") or "" for each in told), default=changed)
    return done if changed > done else None


def parts_of(context: Context, cluster: str) -> int:
    """Into how many parts the topics of a cluster are cut, where its live rows lie."""
    return context.states.get((SILVER, cluster), {}).get("parts") or 1


def _is_cut_anew(context: Context, take: Take) -> bool:
    """Whether the topics of a cluster were cut into fewer parts before, where its live rows still
    lie.
    """
    return (SILVER, take.cluster) in context.states and parts_of(
        context, take.cluster
    ) != take.parts


def made_of(context: Context, news: PollNews) -> Made:
    """The rows that the folds make of what a round takes."""
    takes, plan, records = [*news.takes.clusters.values()], news.takes.plan, news.records
    tables, partitions = _tables_read(context, plan, takes), None
    if any(each.is_large for each in takes) and _PARTITIONS in tables:
        tables.remove(_PARTITIONS)
        partitions = context.live.read(
            _PARTITIONS, session_for(context.spark, COMPILED_FROM)
        ).where("is_current")
        context.live.forget(_PARTITIONS)
    clusters = {each.cluster: each for each in takes}
    aliases = pa.array(clusters)
    parts = {part_of(each.claimed_id) for each in takes if each.claimed_id is not None}
    brought = {
        table: rows.filter(pc.is_in(rows["cluster"], aliases))
        for table, rows in context.live.of(tables, parts).items()
    }
    _leave_out(brought, [each for each in takes if each.log and not each.whole], records)
    states = [row for (_, cluster), row in sorted(context.states.items()) if cluster in clusters]
    brought[STATE] = pa.Table.from_pylist(states, arrow_schema(STATE))
    sides = [
        frame_of(
            context.spark, packed_in_arrow(brought, "cluster", lambda _, rows: rows["cluster"])
        )
    ]
    many = COMPILED_FROM if partitions is not None else sum(map(len, brought.values()))
    said, first = _said(session_for(context.spark, many), context, takes, news.versions), None
    if partitions is not None:
        said, sides[0], seen, first = large.narrowed(
            said,
            sides[0],
            partitions,
            clusters=[each for each in takes if not (each.is_large and each.log)],
            states={cluster: silver_state(context, cluster) for cluster in clusters},
            cuts={cluster: parts_of(context, cluster) for cluster in clusters},
        )
        sides.append(packed(seen, _PARTITIONS))
        sides += _partitions_of_log(context, partitions, takes, brought)
    behind, times = _behind(context, plan, takes)
    # The log may say something of what is as before in each answer.
    small = {
        each.cluster
        for each in takes
        if not (each.is_large or each.log)
        and gold_behind(context, plan.histories, each.cluster) is None
    }
    fold = partial(_fold, clusters, plan, times=times, narrowed=small)
    fresh = [packed(said, METADATA_POLLS)]
    if records:
        rows = {bronze.CLUSTER_LOG: pa.concat_tables(records.values())}
        fresh.append(
            frame_of(
                context.spark, packed_in_arrow(rows, "cluster", lambda _, rows: rows["cluster"])
            )
        )
    written = [
        table for history in OF_POLLS if history in plan.histories for table in OF_POLLS[history]
    ]
    made = folded(side_by_side(fresh), side_by_side([*sides, *behind]), [*written, STATE], fold)
    states = [
        row | {"round": None} for row in rows_of(made.pop(STATE, arrow_schema(STATE).empty_table()))
    ]
    if partitions is None:
        return Made(made, states=states)
    if first is not None:
        began = as_stored(first.where(F.col("topic") == OFFSETS_TOPIC), _PARTITIONS).to_pylist()
        led = pa.Table.from_pylist(coordinators(began, ()), arrow_schema(silver.COORDINATORS))
        if len(led):
            made[silver.COORDINATORS] = pa.concat_tables(
                [led, *filter(None, [made.get(silver.COORDINATORS)])]
            )
    others = _commit_in_parts(context, made.pop(_PARTITIONS, None), first, partitions, takes)
    return Made(made, others, states)


def _behind(
    context: Context, plan: Plan, takes: Sequence[Take]
) -> tuple[list[DataFrame], Mapping[str, large.Times]]:
    """Rows of silver that gold has not had yet, and partitions of topics whose settings it has not
    had, packed; for how many partitions one of these rows stands, by alias and key.
    """
    done = {each.cluster: gold_behind(context, plan.histories, each.cluster) for each in takes}
    if not (later := [(cluster, poll) for cluster, poll in done.items() if poll is not None]):
        return [], {}
    since = F.broadcast(context.spark.createDataFrame(later, "cluster string, _done string"))
    is_later = F.expr("first_poll > _done OR superseded_poll > _done")
    read = {
        table: context.live.read(table).join(since, "cluster")
        for table in (*silver.SNAPSHOTS, *_REGISTRATIONS)
    }
    partitions = read.pop(silver.PARTITION_SNAPSHOTS)
    # A record of the log changes partitions as the others stand then.
    is_wanted = {
        table: is_later | F.col("is_current") if table in _EVIDENCE else is_later for table in read
    }
    behind = [packed(rows.where(is_wanted[table]), table) for table, rows in read.items()]
    min_isr = F.max(F.greatest("min_insync_replicas", "prev_min_insync_replicas")).alias("_min_isr")
    settings = read[silver.TOPIC_CONFIGS].where(is_later).groupBy("cluster", "topic").agg(min_isr)
    partitions = partitions.join(F.broadcast(settings), ["cluster", "topic"], "left")
    partitions = partitions.where(
        is_later | (F.col("is_current") & (F.size("isr") <= F.col("_min_isr")))
    )
    times: Mapping[str, large.Times] = {}
    if never := [each.cluster for each in takes if each.is_large and done[each.cluster] == ""]:
        partitions, times = large.summed(partitions, never)
    return [*behind, packed(partitions, silver.PARTITION_SNAPSHOTS)], times


def _tables_read(context: Context, plan: Plan, takes: Iterable[Take]) -> list[Table]:
    """The tables of which live rows are read."""
    tables: list[Table] = []
    if SILVER in plan.histories:
        records = {record for each in takes for record in each.records}
        # Where settings change, gold looks at the partitions as they are.
        is_read = not records.isdisjoint({"topic", "configs"}) or any(
            silver_state(context, each.cluster).missing or _is_cut_anew(context, each)
            for each in takes
        )
        tables += _TOPICS if is_read else ()
        tables += [silver.BROKER_SNAPSHOTS] if BROKERS in records else ()
        if any(
            each.log or each.told_from or silver_state(context, each.cluster).heir_of
            for each in takes
        ):
            tables += _OF_LOG
        tables += [gold.STALE_BROKERS] if WITNESSES in records else ()
        tables += [
            silver.ENRICHMENTS[record] for record in sorted(records & silver.ENRICHMENTS.keys())
        ]
    of_gold = [history for history in OF_POLLS if history in GOLD and history in plan.histories]
    return [
        *dict.fromkeys(
            (*tables, *(table for each in of_gold for table in OF_POLLS[each] if table.live))
        )
    ]


def _leave_out(
    brought: dict[Table, pa.Table], takes: Sequence[Take], records: Mapping[str, pa.Table]
) -> None:
    """Leave out live rows that the records of the log that are taken do not need."""
    if not takes:
        return
    aliases = pa.array([each.cluster for each in takes])
    parts: dict[Table, list[pa.Table]] = defaultdict(list)
    tables = {table.full_name: table for table in _OF_LOG if table in brought}
    for each in takes:
        live = {
            name: brought[table].filter(pc.equal(brought[table]["cluster"], each.cluster))
            for name, table in tables.items()
        }
        with failing_as(each.cluster):
            wanted = needed_by_log(live, records[each.cluster])
        for name, rows in wanted.items():
            parts[tables[name]].append(rows)
    for table, of_table in parts.items():
        others = brought[table].filter(pc.invert(pc.is_in(brought[table]["cluster"], aliases)))
        brought[table] = pa.concat_tables([others, *of_table])


def _partitions_of_log(
    context: Context,
    partitions: DataFrame,
    takes: Sequence[Take],
    brought: Mapping[Table, pa.Table],
) -> list[DataFrame]:
    """Live rows of partitions of large clusters that records of the log need. `partitions`: all
    live rows.
    """
    large_ones = [each for each in takes if each.log and each.is_large]
    if not large_ones:
        return []
    registered = brought[silver.PARTITION_REGISTRATIONS]
    keys = registered.filter(
        pc.is_in(registered["cluster"], pa.array([each.cluster for each in large_ones]))
    )
    rows = partitions.where(F.col("cluster").isin([each.cluster for each in large_ones]))
    if not any(each.whole for each in large_ones):
        wanted = frame_of(context.spark, keys.select(["cluster", "topic", "partition"]))
        rows = rows.join(F.broadcast(wanted), ["cluster", "topic", "partition"], "left_semi")
    return [packed(rows, _PARTITIONS)]


def _said(
    spark: SparkSession, context: Context, takes: Sequence[Take], versions: tuple[int, int] | None
) -> DataFrame:
    """The rows of bronze that the round reads."""
    polls = [
        (each.cluster, poll_id, list(records))
        for each in takes
        for poll_id, records in each.polls.items()
    ]
    wanted = spark.createDataFrame(polls, "cluster string, poll_id string, _records array<string>")
    if not polls:
        return context.lake.read(spark, METADATA_POLLS).where("false")
    return (
        _rows_of(spark, context, takes, versions)
        .join(F.broadcast(wanted), ["cluster", "poll_id"])
        .where(f"{IS_HEADER} OR array_contains(_records, record)")
    )


def _rows_of(
    spark: SparkSession, context: Context, takes: Sequence[Take], versions: tuple[int, int] | None
) -> DataFrame:
    """Rows of bronze, those of the polls that a round takes among them, in as few files as can be.

    Those are the files of the versions that this job has seen the polls in. Where it has not, their
    numbers may leave many files to be read: each cluster has numbers of its own, and a file has
    polls of all.
    """
    if versions is not None:
        return context.lake.read_appended(spark, METADATA_POLLS, *versions)
    numbers = [place_of(poll_id)[1] for each in takes for poll_id in each.polls]
    days = sorted({day for each in takes for day in each.days})
    rows = context.lake.read(spark, METADATA_POLLS)
    return rows.where(F.col("day").isin(days) & F.col("n").between(min(numbers), max(numbers)))


def _commit_in_parts(
    context: Context,
    changed: pa.Table | None,
    first: DataFrame | None,
    live: DataFrame,
    takes: Sequence[Take],
) -> list[Commit]:
    """The commit of silver.partition_snapshots where live rows of large clusters lie there in parts
    of their own, too many for one task. `live`: all live rows. `first`: new ones, whose keys no
    live row has.
    """
    rows = frame_of(
        context.spark, arrow_schema(_PARTITIONS).empty_table() if changed is None else changed
    )
    cuts = {row["cluster_id"]: row["parts"] or 1 for row in of_silver(context).values()}
    part = large.part_of_partitions(cuts | {str(each.claimed_id): each.parts for each in takes})
    parts = {row[0] for row in rows.select(part).distinct().collect()}
    for each in takes:
        if each.first_poll or _is_cut_anew(context, each):
            parts |= {part_of(str(each.claimed_id)), *range(PARTS, PARTS + each.parts)}
    if not parts:
        return []
    key = list(_PARTITIONS.key)
    kept = live.where(in_parts(parts)).join(F.broadcast(rows.select(*key)), key, "left_anti")
    whole = [kept, rows] if first is None else [kept, rows, first]
    placed = reduce(
        DataFrame.unionByName, (each.select(*_PARTITIONS.column_names) for each in whole)
    )
    placed = placed.withColumn(PART, F.when(F.col("valid_to").isNull(), part))
    return [Commit(_PARTITIONS, placed.repartition(PART), in_parts(parts))]


def _fold(
    takes: Mapping[str, Take],
    plan: Plan,
    cluster: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    times: Mapping[str, large.Times],
    narrowed: Collection[str],
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster, from and to packed rows, new ones and live ones; runs on executors.

    `narrowed`: the clusters of which the fold need not see what is as before.
    """
    with uncollected():
        each = takes[cluster]
        news, live = dict(news), dict(live)
        log = news.pop(bronze.CLUSTER_LOG.full_name, None)
        of_state = live.pop(STATE.full_name, None)
        states = {} if of_state is None else {row["history"]: row for row in rows_of(of_state)}
        if cluster in narrowed and SILVER in plan.histories and SILVER in states:
            news, live = narrowed_rows(states[SILVER]["memory"], each, news, live)
        live = needed(live, _topics(news, live))
        brought = {name: rows_of(of_table) for name, of_table in live.items()}
        said = [row for of_table in news.values() for row in _said_rows(of_table)]
        if counted := times.get(cluster):
            for row in brought[silver.PARTITION_SNAPSHOTS.full_name]:
                row[TIMES] = counted.get((row["topic"], row["partition"], row["first_poll"]), 1)
        is_first = each.first_poll is not None
        records = [] if log is None else rows_of(in_order(log))
        taken = rules.Taken(
            cluster,
            each.claimed_id,
            each.parts,
            said,
            brought,
            states,
            is_first,
            each.kind,
            records,
            each.by_log,
            each.told_from,
            each.believe,
        )
        return rules.fold(taken, plan)


def _topics(news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]) -> pa.Array:
    """The topics that may change, or whose partitions are brought."""
    columns = [rows["topic"] for rows in news.values()]
    if (partitions := live.get(_PARTITIONS.full_name)) is not None:
        columns.append(partitions["topic"])
    return pc.unique(
        pa.chunked_array([chunk for each in columns for chunk in each.chunks], pa.string())
    )


def _said_rows(said: pa.Table) -> Iterator[Row]:
    """Rows of bronze, headers whole, others with the columns that records of their kind have."""
    for record in said["record"].unique().to_pylist():
        rows = said.filter(pc.equal(said["record"], record))
        if record not in ("poll", "answer"):
            rows = rows.select(large.SAID if record == "topic" else [*large.OF_RECORD, record])
        yield from rows_of(rows)
