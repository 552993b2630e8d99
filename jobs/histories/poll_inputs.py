"""The inputs of the fold of polls and of the controllers' log: the rows that it has to see.

The fold of a cluster is jobs/rules/round.py.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.histories.poll_headers import IS_HEADER, number_of
from jobs.histories.poll_plan import OF_POLLS, PollNews, gold_behind, of_silver, silver_state
from jobs.rounds.history import Context, Inputs, Rows
from jobs.rounds.large_clusters import LargeClusters
from jobs.rounds.live import part_of
from jobs.rounds.stage import arrow_schema, failing_as, frame_of
from jobs.rules import round as rules
from jobs.rules.arrow import rows_of
from jobs.rules.gold.isr_shrink import needed
from jobs.rules.log.needed import needed as needed_by_log
from jobs.rules.log.records import in_order
from jobs.rules.log.silver import TABLES as LOG_TABLES
from jobs.rules.round import GOLD, SILVER, RoundSettings
from jobs.rules.silver.cluster import BROKERS, CONTROLLER, WITNESSES
from jobs.rules.silver.compare import BESIDE, RECORD, TOPIC_RECORD, narrowed_rows
from jobs.rules.silver.state import Row
from jobs.rules.takes import Take
from jobs.run.session import COMPILED_FROM, session_for
from schemas import bronze, gold, silver
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.table import Table

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


def inputs_of(context: Context, news: PollNews) -> Inputs:
    """The rows that the fold of each cluster gets."""
    takes, settings, records = [*news.plan.clusters.values()], news.plan.settings, news.records
    made = settings.histories
    behind = {each.cluster: gold_behind(context, made, each.cluster) for each in takes}
    # Where gold is made alone, what silver remembers is not known.
    by_silver = takes if SILVER in made else ()
    large = LargeClusters(
        takes,
        of_silver(context),
        {each.cluster: silver_state(context, each.cluster) for each in by_silver},
        {each.cluster for each in takes if each.is_large and behind[each.cluster] == ""},
    )
    tables = _tables_read(settings, large)
    is_large = any(each.is_large for each in takes)
    if is_large and _PARTITIONS in tables:
        tables.remove(_PARTITIONS)
        large = replace(large, is_read=True)
    aliases = pa.array(each.cluster for each in takes)
    parts = {part_of(each.claimed_id) for each in takes if each.claimed_id is not None}
    live = {
        table: rows.filter(pc.is_in(rows["cluster"], aliases))
        for table, rows in context.live.of(tables, parts).items()
    }
    _leave_out(live, [each for each in takes if each.log and not each.whole], records)
    clusters = {each.cluster: each for each in takes}
    states = [row for (_, cluster), row in sorted(context.states.items()) if cluster in clusters]
    live[STATE] = pa.Table.from_pylist(states, arrow_schema(STATE))
    many = COMPILED_FROM if large.is_read else sum(map(len, live.values()))
    said = _said(session_for(context.spark, many), context, takes, news.versions)
    fresh = [(METADATA_POLLS, said.select(*METADATA_POLLS.column_names))]
    if records:
        rows = pa.concat_tables(records.values())
        fresh.append((bronze.CLUSTER_LOG, frame_of(context.spark, rows)))
    # The log may say something of what is as before in each answer.
    small = {
        each.cluster
        for each in takes
        if not (each.is_large or each.log) and behind[each.cluster] is None
    }
    written = [table for name in OF_POLLS if name in made for table in OF_POLLS[name]]
    return Inputs(
        partial(fold, clusters, settings, narrowed=small),
        [*written, STATE],
        fresh,
        live,
        _behind(context, behind),
        large if is_large else None,
    )


def _behind(context: Context, behind: Mapping[str, str | None]) -> list[Rows]:
    """Rows of silver that gold has not had yet, and partitions of topics whose settings it has not
    had. `behind`: alias -> `gold_behind`.
    """
    if not (later := [(cluster, poll) for cluster, poll in behind.items() if poll is not None]):
        return []
    since = F.broadcast(context.spark.createDataFrame(later, "cluster string, _done string"))
    is_later = F.expr("first_poll > _done OR superseded_poll > _done")
    read = {
        table: context.live.read(table).join(since, "cluster")
        for table in (*silver.SNAPSHOTS, *_REGISTRATIONS)
    }
    partitions = read.pop(silver.PARTITION_SNAPSHOTS)
    # A record of the log changes partitions as the others are then.
    is_wanted = {
        table: is_later | F.col("is_current") if table in _EVIDENCE else is_later for table in read
    }
    found = [(table, rows.where(is_wanted[table])) for table, rows in read.items()]
    min_isr = F.max(F.greatest("min_insync_replicas", "prev_min_insync_replicas")).alias("_min_isr")
    settings = read[silver.TOPIC_CONFIGS].where(is_later).groupBy("cluster", "topic").agg(min_isr)
    partitions = partitions.join(F.broadcast(settings), ["cluster", "topic"], "left")
    partitions = partitions.where(
        is_later | (F.col("is_current") & (F.size("isr") <= F.col("_min_isr")))
    )
    return [*found, (silver.PARTITION_SNAPSHOTS, partitions)]


def _tables_read(settings: RoundSettings, clusters: LargeClusters) -> list[Table]:
    """The tables of which live rows are read."""
    tables: list[Table] = []
    takes, states = clusters.takes, clusters.states
    if SILVER in settings.histories:
        records = {record for each in takes for record in each.records}
        # Where settings change, gold looks at the partitions as they are.
        is_read = not records.isdisjoint({"topic", "configs"}) or any(
            states[each.cluster].missing or clusters.is_cut_again(each) for each in takes
        )
        tables += _TOPICS if is_read else ()
        tables += [silver.BROKER_SNAPSHOTS] if BROKERS in records else ()
        if any(
            each.log or each.teller.polls_from or states[each.cluster].heir_of for each in takes
        ):
            tables += _OF_LOG
        tables += [gold.STALE_BROKERS] if WITNESSES in records else ()
        tables += [silver.QUORUM] if CONTROLLER in records else ()
        tables += [
            silver.ENRICHMENTS[record] for record in sorted(records & silver.ENRICHMENTS.keys())
        ]
    of_gold = [history for history in OF_POLLS if history in GOLD and history in settings.histories]
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
    numbers = [number_of(poll_id)[1] for each in takes for poll_id in each.polls]
    days = sorted({day for each in takes for day in each.days})
    rows = context.lake.read(spark, METADATA_POLLS)
    return rows.where(F.col("day").isin(days) & F.col("n").between(min(numbers), max(numbers)))


def fold(
    takes: Mapping[str, Take],
    settings: RoundSettings,
    cluster: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    narrowed: Collection[str],
) -> Mapping[str, Sequence[Row]]:
    """The rows of one cluster, from new and live ones; runs on executors.

    `narrowed`: the clusters of which the fold need not see what is as before.
    """
    each = takes[cluster]
    news, live = dict(news), dict(live)
    log = news.pop(bronze.CLUSTER_LOG.full_name, None)
    of_state = live.pop(STATE.full_name, None)
    states = {} if of_state is None else {row["history"]: row for row in rows_of(of_state)}
    if cluster in narrowed and SILVER in settings.histories and SILVER in states:
        news, live = narrowed_rows(states[SILVER]["memory"], each, news, live)
    live = needed(live, _topics(news, live))
    brought = {name: rows_of(of_table) for name, of_table in live.items()}
    said = [row for of_table in news.values() for row in _said_rows(of_table)]
    is_first = each.first_poll is not None
    records = [] if log is None else rows_of(in_order(log))
    taken = rules.ClusterInput(
        cluster,
        each.claimed_id,
        each.parts,
        said,
        brought,
        states,
        is_first,
        each.kind,
        records,
        each.teller,
        each.believe,
    )
    return rules.fold(taken, settings)


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
            of_kind = (*RECORD, record, *BESIDE.get(record, ()))
            rows = rows.select(TOPIC_RECORD if record == "topic" else of_kind)
        yield from rows_of(rows)
