"""Clusters so large that no one task may hold them: what is said of their topics is compared before
the fold.

From digests it follows of which topics something new may be said. Where these have many partitions
they are compared in slots, by hash of the topic (jobs/rules/silver/compare.py). What differs is
folded by cluster like that of any other. The first answer of a cluster is not compared: its
partitions become rows as they are. The live rows of a large cluster are written in parts of their
own.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import Commit
from jobs.rounds.history import Context, Inputs, Rows
from jobs.rounds.large_clusters import LargeClusters
from jobs.rounds.live import PARTS, in_parts, part_of
from jobs.rounds.stage import (
    Fold,
    arrow_schema,
    as_frame,
    as_stored,
    column_of,
    ddl,
    failing_as,
    frame_of,
    packed,
    packed_ddl,
    packed_in_arrow,
    side_by_side,
    struct_of,
    tables_of,
    unpacked,
)
from jobs.rules import takes
from jobs.rules.coordinators import coordinators
from jobs.rules.gold.news import TIMES
from jobs.rules.silver.cluster import poll_of
from jobs.rules.silver.compare import COMPARED, TOPIC_RECORD, first_rows, narrow
from jobs.rules.silver.opened import IS_OPENED, MIN_ISR, Opened, known_topics, opened, topics_of
from jobs.rules.silver.state import Observation, Row, State
from jobs.rules.takes import Take
from jobs.run.session import COMPILED_FROM, session_for
from metadata_source.kafka_constants import OFFSETS_TOPIC
from schemas.bronze import METADATA_POLLS
from schemas.silver import (
    COORDINATORS,
    PARTITION_REGISTRATIONS,
    PARTITION_SNAPSHOTS,
    TOPIC_CONFIGS,
    TOPIC_SNAPSHOTS,
)
from schemas.table import PART, Table

_HEADER = (
    "cluster", "poll_id", "is_key_frame", "api_version", "received_at", "sent_at",
    "interval_ms", "witnesses",
)  # fmt: skip
_DIGESTS = (
    "cluster", "poll_id", "topic", "chunk", "present", "digest", "digest_version",
    "partition_count",
)  # fmt: skip
_CONFIGS = ("cluster", "poll_id", "topic", "configs")
_KEY = ("topic", "partition", "first_poll")
_COMPARED = {
    METADATA_POLLS: TOPIC_RECORD,
    TOPIC_SNAPSHOTS: ("topic", "topic_id", "partition_count"),
    PARTITION_SNAPSHOTS: (*_KEY, *COMPARED),
}
"""The columns of rows that are compared."""

_DIFFERS = "_differs"

IS_QUIET: Final = f"""
    prev_error_code IS NULL AND superseded_poll IS NULL AND coalesce(leader, 0) >= 0
    AND (isr IS NULL OR array_sort(replicas) = isr AND size(isr) > coalesce({MIN_ISR}, -1))"""
"""Of a row of partitions: it is as it was when it was first seen, with a leader, all replicas in
sync and more than min.insync.replicas of them, or these mean nothing.
"""

Times = dict[tuple[str, int, str], int]
"""Key of a row of silver.partition_snapshots -> for how many partitions it stands (TIMES)."""


class LargePartitions:
    """Partitions in a round with large clusters: they do not pass through one task."""

    def __init__(self, context: Context, clusters: LargeClusters) -> None:
        self._spark, self._of = context.spark, clusters
        self._live: DataFrame | None = None
        """All live rows of partitions, where the fold needs some."""
        self._first: DataFrame | None = None
        """The rows of clusters' first answers, which become live without the fold."""
        if clusters.is_read:
            session = session_for(context.spark, COMPILED_FROM)
            self._live = context.live.read(PARTITION_SNAPSHOTS, session).where("is_current")
            context.live.forget(PARTITION_SNAPSHOTS)

    def bring(self, inputs: Inputs) -> Inputs:
        """The rows that the fold has to see: of topics that differ, and the partitions of these."""
        others, times = list(inputs.others), dict[str, Times]()
        if self._of.without_gold:
            at = next(i for i, (table, _) in enumerate(others) if table == PARTITION_SNAPSHOTS)
            rows, times = _summed(others[at][1], self._of.without_gold)
            others[at] = (PARTITION_SNAPSHOTS, rows)
        inputs = replace(inputs, others=others, fold=_counted(inputs.fold, times))
        if self._live is None:
            return inputs
        of_log = _partitions_of_log(self._spark, self._live, self._of.takes, inputs.live)
        inputs = self._narrowed(inputs, self._live)
        return replace(inputs, others=[*inputs.others, *of_log])

    def commit(self, rows: dict[Table, pa.Table]) -> list[Commit]:
        """The commit of partitions, in parts, of which each task has one: those that the fold made
        are taken out of `rows`, and all others stay as they are.
        """
        if self._live is None:
            return []
        changed = rows.pop(PARTITION_SNAPSHOTS, arrow_schema(PARTITION_SNAPSHOTS).empty_table())
        parts_now = {row["cluster_id"]: row["parts"] or 1 for row in self._of.silver.values()}
        for each in self._of.takes:
            parts_now[str(each.claimed_id)] = each.parts
        part = _part_of_partition(parts_now)
        made = frame_of(self._spark, changed)
        parts = {row[0] for row in made.select(part).distinct().collect()}
        for each in self._of.takes:
            if each.first_poll or self._of.is_cut_again(each):
                parts |= {part_of(str(each.claimed_id)), *range(PARTS, PARTS + each.parts)}
        if self._first is not None:
            self._add_coordinators(rows, self._first)
        if not parts:
            return []
        key = list(PARTITION_SNAPSHOTS.key)
        kept = self._live.where(in_parts(parts))
        kept = kept.join(F.broadcast(made.select(*key)), key, "left_anti")
        # No live row has a key of first ones.
        whole = [kept, made] if self._first is None else [kept, made, self._first]
        columns = PARTITION_SNAPSHOTS.column_names
        placed = reduce(DataFrame.unionByName, (each.select(*columns) for each in whole))
        placed = placed.withColumn(PART, F.when(F.col("valid_to").isNull(), part))
        return [Commit(PARTITION_SNAPSHOTS, placed.repartition(PART), in_parts(parts))]

    def _narrowed(self, inputs: Inputs, partitions: DataFrame) -> Inputs:
        """Leave out what is as before, but nothing that the log names: its records are changes."""
        takes_ = [each for each in self._of.takes if not (each.is_large and each.log)]
        large = {each.cluster: each for each in takes_ if each.is_large}
        is_large = F.col("cluster").isin(list(large))
        said = next(rows for table, rows in inputs.news if table == METADATA_POLLS)
        opened = _opened(said.where(is_large), inputs.live, large, self._of.states)
        topics = F.broadcast(as_frame(said.sparkSession, topics_of(opened)))
        firsts = {alias: each for alias, each in opened.items() if each.take.first_poll}
        if firsts:
            first = (_first(said, each) for each in firsts.values())
            self._first = reduce(DataFrame.unionByName, first)
        is_first = F.col("cluster").isin(list(firsts))

        is_kept = ~is_large | (F.col("record") != "topic") | is_first | F.col(IS_OPENED)
        said = said.join(topics, ["cluster", "topic"], "left").where(is_kept)
        said = said.select(*METADATA_POLLS.column_names)
        said = said.withColumn("partitions", F.when(~is_first, F.col("partitions")))
        known = known_topics(inputs.live[TOPIC_SNAPSHOTS], opened)

        partitions = partitions.where(F.col("cluster").isin([each.cluster for each in takes_]))
        partitions = partitions.where(in_parts(self._parts(takes_, opened)))
        partitions = partitions.join(topics, ["cluster", "topic"], "left")
        is_needed = F.col(IS_OPENED)
        # Those with too many partitions for one task.
        if compared := {
            alias: each
            for alias, each in opened.items()
            if each.partitions > takes.PARTITIONS_A_PART
        }:
            live = partitions.where(IS_OPENED)
            differing = _compared(said, known, live, compared).localCheckpoint()
            is_compared = F.col("cluster").isin(list(compared))
            keys = unpacked(differing, PARTITION_SNAPSHOTS, "cluster").select(
                "cluster", *_KEY, F.lit(True).alias(_DIFFERS)
            )
            partitions = partitions.join(F.broadcast(keys), ["cluster", *_KEY], "left")
            is_needed = F.when(is_compared, F.col(_DIFFERS)).otherwise(F.col(IS_OPENED))
            said = said.where(~is_compared | (F.col("record") != "topic")).unionByName(
                unpacked(differing, METADATA_POLLS, "cluster"), allowMissingColumns=True
            )
        partitions = partitions.where(~is_large | is_needed | (F.size("isr") <= F.col(MIN_ISR)))
        said = said.select(*METADATA_POLLS.column_names)
        return replace(
            inputs,
            news=[
                (METADATA_POLLS, said),
                *(each for each in inputs.news if each[0] != METADATA_POLLS),
            ],
            live={**inputs.live, TOPIC_SNAPSHOTS: known},
            others=[*inputs.others, (PARTITION_SNAPSHOTS, partitions)],
        )

    def _parts(self, takes_: Iterable[Take], opened: Mapping[str, Opened]) -> set[int]:
        """The parts with live rows of partitions that the fold needs; see _part_of_partition."""
        parts: set[int] = set()
        for each in takes_:
            of, cut = opened.get(each.cluster), self._of.parts_before(each.cluster)
            if each.claimed_id is None:
                continue
            if of is None:
                parts.add(part_of(each.claimed_id))
                continue
            for topic in (*of.topics, *of.min_isr):
                of_topic = PARTS + zlib.crc32(f"{each.claimed_id}/{topic}".encode()) % cut
                parts.add(of_topic if cut > 1 else part_of(each.claimed_id))
        return parts

    @staticmethod
    def _add_coordinators(rows: dict[Table, pa.Table], first: DataFrame) -> None:
        """Add the coordinators of a first answer, as the fold does not see its partitions."""
        began = as_stored(first.where(F.col("topic") == OFFSETS_TOPIC), PARTITION_SNAPSHOTS)
        led = pa.Table.from_pylist(coordinators(began.to_pylist(), ()), arrow_schema(COORDINATORS))
        if len(led):
            rows[COORDINATORS] = pa.concat_tables([led, *filter(None, [rows.get(COORDINATORS)])])


def _summed(rows: DataFrame, clusters: Iterable[str]) -> tuple[DataFrame, dict[str, Times]]:
    """Rows of partitions that gold has not had yet, of these clusters one for all that are the same
    to gold; and of how many, by alias.

    `rows`: with `_min_isr`, the highest min.insync.replicas of the topic. To gold
    (jobs/rules/gold/) partitions are the same that were first seen by the same poll and are quiet.
    """
    is_quiet = F.col("cluster").isin(list(clusters)) & F.expr(IS_QUIET)
    is_quiet = F.coalesce(is_quiet, F.lit(False))
    same = ("cluster", "first_poll", "leader", F.get("replicas", 0), "error_code")
    first = F.min(F.struct("topic", "partition")).alias("_first")
    found = rows.where(is_quiet).groupBy(*same).agg(first, F.count("*").alias("_times"))
    times: dict[str, Times] = {}
    keys = []
    for cluster, *key, count in found.select(
        "cluster", "_first.*", "first_poll", "_times"
    ).collect():
        times.setdefault(cluster, {})[tuple(key)] = count
        keys.append((cluster, *key))
    named = rows.sparkSession.createDataFrame(
        keys, "cluster string, topic string, partition int, first_poll string"
    )
    named = F.broadcast(named.withColumn("_is_one", F.lit(True)))
    return rows.join(named, ["cluster", *_KEY], "left").where(~is_quiet | F.col("_is_one")), times


def _part_of_partition(cuts: Mapping[str, int]) -> Column:
    """Where live rows of partitions lie: those of a large cluster by topic. `cuts`: cluster id ->
    into how many parts topics are cut.
    """
    part = F.pmod(F.crc32("cluster_id"), F.lit(PARTS)).cast("int")
    for cluster_id, cut in cuts.items():
        if cut > 1:
            of_topic = (
                F.pmod(F.crc32(F.concat("cluster_id", F.lit("/"), "topic")), F.lit(cut)) + PARTS
            )
            part = F.when(F.col("cluster_id") == cluster_id, of_topic.cast("int")).otherwise(part)
    return part


def _counted(fold: Fold, times: Mapping[str, Times]) -> Fold:
    """A fold whose partitions say for how many they stand (gold.news.TIMES)."""
    name = PARTITION_SNAPSHOTS.full_name

    def counting(
        cluster: str, news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]
    ) -> Mapping[str, Sequence[Row]]:
        if counted := times.get(cluster):
            keys = zip(*(live[name][each].to_pylist() for each in _KEY), strict=True)
            numbers = pa.array([counted.get(key, 1) for key in keys], pa.int64())
            live = {**live, name: live[name].append_column(TIMES, numbers)}
        return fold(cluster, news, live)

    return counting if times else fold


def _partitions_of_log(
    spark: SparkSession,
    partitions: DataFrame,
    takes_: Sequence[Take],
    live: Mapping[Table, pa.Table],
) -> list[Rows]:
    """Live rows of partitions of large clusters that records of the log need."""
    large = [each for each in takes_ if each.log and each.is_large]
    if not large:
        return []
    aliases = [each.cluster for each in large]
    registered = live[PARTITION_REGISTRATIONS]
    keys = registered.filter(pc.is_in(registered["cluster"], pa.array(aliases)))
    rows = partitions.where(F.col("cluster").isin(aliases))
    if not any(each.whole for each in large):
        wanted = frame_of(spark, keys.select(["cluster", "topic", "partition"]))
        rows = rows.join(F.broadcast(wanted), ["cluster", "topic", "partition"], "left_semi")
    return [(PARTITION_SNAPSHOTS, rows)]


def _opened(
    said: DataFrame,
    live: Mapping[Table, pa.Table],
    large: Mapping[str, Take],
    states: Mapping[str, State],
) -> dict[str, Opened]:
    """The topics to open, by alias: found by rows that are few, or small."""
    rows = {
        "headers": said.where("record = 'poll'").select(*_HEADER).toArrow(),
        "digests": said.where("record = 'topic' AND chunk = 0").select(*_DIGESTS).toArrow(),
        "topics": live[TOPIC_SNAPSHOTS],
    }
    if any("configs" in each.records for each in large.values()):
        rows["configs"] = said.where("record = 'configs'").select(*_CONFIGS).toArrow()
        rows["settings"] = live[TOPIC_CONFIGS]
    found = {}
    for alias, take in large.items():
        of = {name: each.filter(pc.equal(each["cluster"], alias)) for name, each in rows.items()}
        found[alias] = opened(take, states[alias], **of)
    return found


# --- the first answer ---


def _first(said: DataFrame, opened: Opened) -> DataFrame:
    """The partitions of a cluster's first answer, as rows of silver."""
    alias, schema = opened.take.cluster, arrow_schema(PARTITION_SNAPSHOTS)
    [header] = opened.headers.to_pylist()
    observation, version = Observation(poll_of(header), None), header["api_version"]
    kind = opened.take.kind
    cluster = {"cluster_id": opened.take.claimed_id, "cluster": alias}

    def of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with failing_as(alias):
                rows = first_rows(observation, version, batch, cluster, schema, kind=kind)
            yield rows

    is_said = (F.col("poll_id") == opened.take.first_poll) & (F.col("record") == "topic")
    topics = said.where((F.col("cluster") == alias) & is_said)
    topics = topics.select("topic", "present", "topic_id", "error_code", "partitions")
    return topics.mapInArrow(of_batches, ddl(PARTITION_SNAPSHOTS))


# --- all others ---


def _compared(
    said: DataFrame, topics: pa.Table, partitions: DataFrame, opened: Mapping[str, Opened]
) -> DataFrame:
    """Rows of bronze about topics, and keys of partitions, that the fold has to see; packed."""
    cut = F.lit(1)
    for alias, each in opened.items():
        cut = F.when(F.col("cluster") == alias, each.take.parts).otherwise(cut)
    slot = F.pmod(F.crc32("topic"), cut)

    def slotted(rows: DataFrame, table: Table) -> DataFrame:
        of_clusters = rows.where(F.col("cluster").isin(list(opened))).withColumn("_slot", slot)
        return packed(of_clusters, table, ("cluster", "_slot"), _COMPARED[table])

    of_topics = as_frame(session_for(said.sparkSession, len(topics)), topics)
    known = side_by_side(
        [slotted(of_topics, TOPIC_SNAPSHOTS), slotted(partitions, PARTITION_SNAPSHOTS)]
    )
    told = slotted(said.where("record = 'topic'"), METADATA_POLLS)
    headers, states, kinds = {}, {}, {alias: each.take.kind for alias, each in opened.items()}
    for alias, each in opened.items():
        digests = {
            topic: of for topic in each.topics if (of := each.state.topic_digests.get(topic))
        }
        headers[alias], states[alias] = each.headers, replace(each.state, topic_digests=digests)
    made = {METADATA_POLLS: TOPIC_RECORD, PARTITION_SNAPSHOTS: _KEY}
    types = {column_of(table): struct_of(table, names) for table, names in made.items()}
    columns = ", ".join(packed_ddl(table, names) for table, names in made.items())

    def of_slot(key: tuple[pa.Scalar, ...], said: pa.Table, live: pa.Table) -> pa.Table:
        alias = key[0].as_py()
        rows = tables_of(said) | tables_of(live)
        part = [
            rows[table.full_name]
            for table in (METADATA_POLLS, TOPIC_SNAPSHOTS, PARTITION_SNAPSHOTS)
        ]
        with failing_as(alias):
            told, _, known = narrow(states[alias], headers[alias], *part, kind=kinds[alias])
        left = {METADATA_POLLS: told, PARTITION_SNAPSHOTS: known}
        return packed_in_arrow(left, "cluster", lambda *_: alias, types)

    by = ("cluster", "_slot")
    return (
        told.groupBy(*by)
        .cogroup(known.groupBy(*by))
        .applyInArrow(of_slot, f"cluster string, {columns}")
    )
