"""Clusters so large that no one task may hold them: what is said of their topics is compared before
the fold.

From digests it follows of which topics something new may be said. Where these have many partitions
they are compared in slots, by hash of the topic (jobs/rules/silver/compare.py). What differs is
folded by cluster like that of any other. The first answer of a cluster is not compared: its
partitions become rows as they are.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.rounds.live import PARTS, in_parts, part_of
from jobs.rounds.stage import (
    arrow_schema,
    as_frame,
    column_of,
    ddl,
    failing_as,
    packed,
    packed_ddl,
    packed_in_arrow,
    side_by_side,
    struct_of,
    tables_of,
    unpacked,
)
from jobs.rules import takes
from jobs.rules.arrow import rows_of
from jobs.rules.silver.cluster import poll_of
from jobs.rules.silver.compare import COMPARED, first_rows, narrow, to_look_at
from jobs.rules.silver.enrichments import min_isr_of_changed
from jobs.rules.silver.state import Observation, Row, State
from jobs.rules.takes import Take
from schemas.bronze import METADATA_POLLS, TOPIC_COLUMNS
from schemas.silver import PARTITION_SNAPSHOTS, TOPIC_CONFIGS, TOPIC_SNAPSHOTS
from schemas.table import Table

OF_RECORD = ("poll_id", "record", "topic", "chunk")
SAID = (*OF_RECORD, *(column.name for column in TOPIC_COLUMNS))
"""The columns of records of topics."""

_HEADER = (
    "cluster",
    "poll_id",
    "is_key_frame",
    "api_version",
    "received_at",
    "sent_at",
    "interval_ms",
)
_DIGESTS = (
    "cluster",
    "poll_id",
    "topic",
    "chunk",
    "present",
    "digest",
    "digest_version",
    "partition_count",
)
_KEY = ("topic", "partition", "first_poll")
_COMPARED = {
    METADATA_POLLS: SAID,
    TOPIC_SNAPSHOTS: ("topic", "topic_id", "partition_count"),
    PARTITION_SNAPSHOTS: (*_KEY, *COMPARED),
}
"""The columns of rows that are compared."""

_LOOKED_AT, _MIN_ISR, _DIFFERS = "_looked_at", "_min_isr", "_differs"

Times = dict[tuple[str, int, str], int]
"""Key of a row of silver.partition_snapshots -> for how many partitions it stands
(gold.news.TIMES).
"""


@dataclass(frozen=True)
class _Look:
    """The topics of a large cluster that have to be looked at.

    `headers`: of polls whose rows of topics are read. `topics`: names, which list so many
    `partitions` in all answers. `min_isr`: the topics whose settings may change, and the highest
    min.insync.replicas that is known of each.
    """

    take: Take
    state: State
    headers: pa.Table
    topics: list[str]
    partitions: int
    min_isr: Mapping[str, int]


def narrowed(
    said: DataFrame,
    live: DataFrame,
    partitions: DataFrame,
    *,
    clusters: Sequence[Take],
    states: Mapping[str, State],
    cuts: Mapping[str, int],
) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame | None]:
    """The rows that the fold has to see of a round in which there are large clusters: of bronze,
    live ones packed, live ones of partitions. Then rows of partitions that become live without it.

    `live`: packed. `partitions`: all live rows of partitions. `states`: of silver, by alias.
    `cuts`: into how many parts the topics of a cluster are cut where its live rows lie, by alias.
    """
    large = {each.cluster: each for each in clusters if each.is_large}
    is_large = F.col("cluster").isin(list(large))
    looks = _looks(said.where(is_large), live.where(is_large), large, states)
    topics = F.broadcast(as_frame(said.sparkSession, _topics_of(looks)))
    firsts = {alias: look for alias, look in looks.items() if look.take.first_poll}
    first = [_first(said, look) for look in firsts.values()]
    is_first = F.col("cluster").isin(list(firsts))

    is_kept = ~is_large | (F.col("record") != "topic") | is_first | F.col(_LOOKED_AT)
    said = (
        said.join(topics, ["cluster", "topic"], "left")
        .where(is_kept)
        .select(*METADATA_POLLS.column_names)
    )
    said = said.withColumn("partitions", F.when(~is_first, F.col("partitions")))
    of_topic = column_of(TOPIC_SNAPSHOTS)
    is_kept = ~is_large | F.col(of_topic).isNull() | F.col(_LOOKED_AT)
    named = live.withColumn("topic", F.col(of_topic)[0]["topic"])
    live = named.join(topics, ["cluster", "topic"], "left").where(is_kept).select(*live.columns)

    partitions = partitions.where(F.col("cluster").isin([each.cluster for each in clusters]))
    partitions = partitions.where(in_parts(_parts(clusters, looks, cuts))).join(
        topics, ["cluster", "topic"], "left"
    )
    is_needed = F.col(_LOOKED_AT)
    # Those with too many partitions for one task.
    if compared := {
        alias: look for alias, look in looks.items() if look.partitions > takes.PARTITIONS_A_PART
    }:
        differing = _compared(said, live, partitions.where(_LOOKED_AT), compared).localCheckpoint()
        is_compared = F.col("cluster").isin(list(compared))
        keys = unpacked(differing, PARTITION_SNAPSHOTS, "cluster").select(
            "cluster", *_KEY, F.lit(True).alias(_DIFFERS)
        )
        partitions = partitions.join(F.broadcast(keys), ["cluster", *_KEY], "left")
        is_needed = F.when(is_compared, F.col(_DIFFERS)).otherwise(F.col(_LOOKED_AT))
        said = said.where(~is_compared | (F.col("record") != "topic")).unionByName(
            unpacked(differing, METADATA_POLLS, "cluster"), allowMissingColumns=True
        )
    partitions = partitions.where(~is_large | is_needed | (F.size("isr") <= F.col(_MIN_ISR)))
    return (
        said.select(*METADATA_POLLS.column_names),
        live,
        partitions.select(*PARTITION_SNAPSHOTS.column_names),
        reduce(DataFrame.unionByName, first) if first else None,
    )


def summed(rows: DataFrame, clusters: Iterable[str]) -> tuple[DataFrame, Mapping[str, Times]]:
    """Rows of partitions that gold has not had yet, of these clusters one for all that are the same
    to gold; and of how many, by alias.

    `rows`: with `_min_isr`, the highest min.insync.replicas of the topic. To gold
    (jobs/rules/gold/) partitions are the same that were first seen by the same poll and are now as
    they were then, with a leader, all replicas in sync and more than min.insync.replicas of them;
    or where these mean nothing.
    """
    is_quiet = F.coalesce(
        F.col("cluster").isin(list(clusters))
        & F.expr("prev_error_code IS NULL AND superseded_poll IS NULL AND coalesce(leader, 0) >= 0")
        & (F.expr("isr IS NULL OR array_sort(replicas) = isr"))
        & (F.col("isr").isNull() | (F.size("isr") > F.coalesce(_MIN_ISR, F.lit(-1)))),
        F.lit(False),
    )
    same = ("cluster", "first_poll", "leader", F.col("replicas")[0], "error_code")
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


def part_of_partitions(cuts: Mapping[str, int]) -> Column:
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


def _parts(
    clusters: Iterable[Take], looks: Mapping[str, _Look], cuts: Mapping[str, int]
) -> set[int]:
    """The parts in which the live rows lie that have to be looked at; those of partitions as in
    part_of_partitions.
    """
    parts: set[int] = set()
    for each in clusters:
        look, cut = looks.get(each.cluster), cuts.get(each.cluster, 1)
        if each.claimed_id is None:
            continue
        if look is None:
            parts.add(part_of(each.claimed_id))
            continue
        for topic in (*look.topics, *look.min_isr):
            of_topic = PARTS + zlib.crc32(f"{each.claimed_id}/{topic}".encode()) % cut
            parts.add(of_topic if cut > 1 else part_of(each.claimed_id))
    return parts


# --- what has to be looked at: by rows that are few, or small ---


def _looks(
    said: DataFrame, live: DataFrame, large: Mapping[str, Take], states: Mapping[str, State]
) -> dict[str, _Look]:
    headers = said.where("record = 'poll'").select(*_HEADER).toArrow()
    rows = said.where("record = 'topic' AND chunk = 0").select(*_DIGESTS).toArrow()
    topics = unpacked(live, TOPIC_SNAPSHOTS).select("cluster", "topic").toArrow()
    settings, known = [], []
    if any("configs" in each.records for each in large.values()):
        settings = (
            said.where("record = 'configs'")
            .select("cluster", "poll_id", "topic", "configs")
            .toArrow()
        )
        settings, known = rows_of(settings), rows_of(unpacked(live, TOPIC_CONFIGS).toArrow())
    looks = {}
    for alias, take in large.items():
        read = [
            poll
            for poll, records in take.polls.items()
            if "topic" in records or poll == take.first_poll
        ]
        of_poll = pc.is_in(headers["poll_id"], pa.array(read, pa.string()))
        own = headers.filter(pc.and_(pc.equal(headers["cluster"], alias), of_poll))
        if take.first_poll:
            looks[alias] = _Look(take, states[alias], own, [], 0, {})
            continue
        told, there = (each.filter(pc.equal(each["cluster"], alias)) for each in (rows, topics))
        names = to_look_at(states[alias], own, told, there, take.kind)
        listed = pc.sum(told.filter(pc.is_in(told["topic"], names))["partition_count"]).as_py() or 0
        min_isr = min_isr_of_changed(
            [poll_id for poll_id, records in take.polls.items() if "configs" in records],
            [row for row in settings if row["cluster"] == alias],
            [row for row in known if row["cluster"] == alias],
        )
        looks[alias] = _Look(take, states[alias], own, names.to_pylist(), listed, min_isr)
    return looks


def _topics_of(looks: Mapping[str, _Look]) -> pa.Table:
    """cluster, topic, whether it is looked at, and min.insync.replicas where that may have
    changed.
    """
    rows: list[Row] = []
    for alias, look in looks.items():
        looked_at = set(look.topics)
        rows += [
            {
                "cluster": alias,
                "topic": topic,
                _LOOKED_AT: topic in looked_at,
                _MIN_ISR: look.min_isr.get(topic),
            }
            for topic in looked_at.union(look.min_isr)
        ]
    names = [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        (_LOOKED_AT, pa.bool_()),
        (_MIN_ISR, pa.int32()),
    ]
    return pa.Table.from_pylist(rows, pa.schema(names))


# --- the first answer ---


def _first(said: DataFrame, look: _Look) -> DataFrame:
    """The partitions of a cluster's first answer, as rows of silver."""
    alias, schema = look.take.cluster, arrow_schema(PARTITION_SNAPSHOTS)
    [header] = look.headers.to_pylist()
    place, version, kind = Observation(poll_of(header), None), header["api_version"], look.take.kind
    cluster = {"cluster_id": look.take.claimed_id, "cluster": alias}

    def of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with failing_as(alias):
                rows = first_rows(place, version, batch, cluster, schema, kind=kind)
            yield rows

    is_said = (F.col("poll_id") == look.take.first_poll) & (F.col("record") == "topic")
    topics = said.where((F.col("cluster") == alias) & is_said)
    topics = topics.select("topic", "present", "topic_id", "error_code", "partitions")
    return topics.mapInArrow(of_batches, ddl(PARTITION_SNAPSHOTS))


# --- all others ---


def _compared(
    said: DataFrame, live: DataFrame, partitions: DataFrame, looks: Mapping[str, _Look]
) -> DataFrame:
    """Rows of bronze about topics, and keys of live partitions, that the fold has to see; packed,
    with `cluster`.
    """
    cut = F.lit(1)
    for alias, look in looks.items():
        cut = F.when(F.col("cluster") == alias, look.take.parts).otherwise(cut)
    slot = F.pmod(F.crc32("topic"), cut)

    def slotted(rows: DataFrame, table: Table) -> DataFrame:
        of_clusters = rows.where(F.col("cluster").isin(list(looks))).withColumn("_slot", slot)
        return packed(of_clusters, table, ("cluster", "_slot"), _COMPARED[table])

    topics = slotted(unpacked(live, TOPIC_SNAPSHOTS), TOPIC_SNAPSHOTS)
    known = side_by_side([topics, slotted(partitions, PARTITION_SNAPSHOTS)])
    told = slotted(said.where("record = 'topic'"), METADATA_POLLS)
    headers, states, kinds = {}, {}, {alias: look.take.kind for alias, look in looks.items()}
    for alias, look in looks.items():
        digests = {
            topic: of for topic in look.topics if (of := look.state.topic_digests.get(topic))
        }
        headers[alias], states[alias] = look.headers, replace(look.state, topic_digests=digests)
    made = {METADATA_POLLS: SAID, PARTITION_SNAPSHOTS: _KEY}
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
