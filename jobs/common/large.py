"""Clusters so large that no one task may hold them: what is said of their topics is compared before the fold.

From digests it follows of which topics something new may be said. Where these have many partitions they are compared in
slots, by hash of the topic (jobs/rules/silver/compare.py). What differs is folded by cluster like that of any other.
The first answer of a cluster is not
compared: its partitions become rows as they are (jobs/rules/silver/compare.py).
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.common.live import PARTS, part_of
from jobs.common.stage import (
    arrow_schema,
    column_of,
    ddl,
    packed_ddl,
    side_by_side_in_arrow,
    struct_of,
    tables_of,
    unpacked,
)
from jobs.rules import takes
from jobs.rules.silver.cluster import poll_of
from jobs.rules.silver.compare import Part, first_rows, narrow, to_look_at
from jobs.rules.silver.enrichments import min_isr_of_changed
from jobs.rules.silver.state import Place, Row, State
from jobs.rules.takes import Take
from schemas.bronze import METADATA_POLLS
from schemas.silver import PARTITION_SNAPSHOTS, TOPIC_CONFIGS, TOPIC_SNAPSHOTS
from schemas.table import PART, Table

_HEADER = ("cluster", "poll_id", "is_key_frame", "api_version", "received_at", "sent_at", "interval_ms")
_DIGESTS = ("cluster", "poll_id", "topic", "chunk", "present", "digest", "digest_version", "partition_count")
_SAID = (
    *("poll_id", "record", "topic", "chunk", "partition_count", "present", "topic_id", "error_code", "is_internal"),
    *("digest", "digest_version", "partitions"),
)
_KEY = ("topic", "partition", "first_poll")
_COMPARED = {
    METADATA_POLLS: _SAID,
    TOPIC_SNAPSHOTS: ("topic", "topic_id", "partition_count"),
    PARTITION_SNAPSHOTS: (
        *(*_KEY, "topic_id", "error_code", "leader", "leader_epoch"),
        *("replicas", "isr", "offline_replicas"),
    ),
}
"""The columns of rows that are compared."""

_LOOKED_AT, _MIN_ISR, _DIFFERS = "_looked_at", "_min_isr", "_differs"


Times = dict[tuple[str, int, str], int]
"""Key of a row of silver.partition_snapshots -> for how many partitions it stands (gold.news.TIMES)."""


@dataclass(frozen=True)
class Narrowed:
    """The rows that the fold has to see: of bronze, live ones packed, live ones of partitions. `first`: rows that
    become live without it.
    """

    said: DataFrame
    live: DataFrame
    partitions: DataFrame
    first: DataFrame | None


@dataclass(frozen=True)
class _Look:
    """The topics of a large cluster that have to be looked at.

    `headers`: of polls whose rows of topics are read. `topics`: names, which list so many `partitions` in all answers.
    `min_isr`: the topics whose settings may change, and the highest min.insync.replicas that is known of each.
    """

    take: Take
    state: State
    headers: pa.Table
    topics: list[str]
    partitions: int
    min_isr: Mapping[str, int]

    @property
    def alias(self) -> str:
        return self.take.cluster

    @property
    def is_compared(self) -> bool:
        """Whether partitions have to be compared, for there are too many for one task."""
        return not self.take.first_poll and self.partitions > takes.PARTITIONS_A_PART


def narrowed(
    said: DataFrame,
    live: DataFrame,
    partitions: DataFrame,
    *,
    clusters: Iterable[Take],
    states: Mapping[str, State],
    cuts: Mapping[str, int],
) -> Narrowed:
    """The rows that the fold has to see of a round in which there are large clusters.

    `live`: packed. `partitions`: all live rows of partitions. `states`: of silver, by alias. `cuts`: into how many
    parts the topics of a cluster are cut where its live rows lie, by alias.
    """
    clusters = list(clusters)
    large = {each.cluster: each for each in clusters if each.is_large}
    is_large = F.col("cluster").isin(list(large))
    looks = _looks(said.where(is_large), live.where(is_large), large, states)
    topics = F.broadcast(said.sparkSession.createDataFrame(_topics_of(looks)))
    firsts = [look for look in looks if look.take.first_poll]
    first = [_first(said, look) for look in firsts]
    is_first = F.col("cluster").isin([look.alias for look in firsts])

    is_kept = ~is_large | (F.col("record") != "topic") | is_first | F.col(_LOOKED_AT)
    said = said.join(topics, ["cluster", "topic"], "left").where(is_kept).select(*METADATA_POLLS.column_names)
    if first:
        said = said.withColumn("partitions", F.when(~is_first, F.col("partitions")))
    of_topic = column_of(TOPIC_SNAPSHOTS)
    is_kept = ~is_large | F.col(of_topic).isNull() | F.col(_LOOKED_AT)
    named = live.withColumn("topic", F.col(of_topic)[0]["topic"])
    live = named.join(topics, ["cluster", "topic"], "left").where(is_kept).select(*live.columns)

    lie_in = _parts(clusters, looks, cuts)
    partitions = partitions.where(F.col("cluster").isin([each.cluster for each in clusters]))
    partitions = partitions.where(F.col(PART).isin(sorted(lie_in))).join(topics, ["cluster", "topic"], "left")
    is_needed = F.col(_LOOKED_AT)
    if compared := {look.alias: look for look in looks if look.is_compared}:
        differing = _compared(said, live, partitions.where(_LOOKED_AT), compared).localCheckpoint()
        is_compared = F.col("cluster").isin(list(compared))
        keys = unpacked(differing, PARTITION_SNAPSHOTS, "cluster").select("cluster", *_KEY, F.lit(True).alias(_DIFFERS))
        partitions = partitions.join(F.broadcast(keys), ["cluster", *_KEY], "left")
        is_needed = F.when(is_compared, F.col(_DIFFERS)).otherwise(F.col(_LOOKED_AT))
        said = said.where(~is_compared | (F.col("record") != "topic")).unionByName(
            unpacked(differing, METADATA_POLLS, "cluster"), allowMissingColumns=True
        )
    partitions = partitions.where(~is_large | is_needed | (F.size("isr") <= F.col(_MIN_ISR)))
    return Narrowed(
        said.select(*METADATA_POLLS.column_names),
        live,
        partitions.select(*PARTITION_SNAPSHOTS.column_names),
        reduce(DataFrame.unionByName, first) if first else None,
    )


def summed(rows: DataFrame, clusters: Iterable[str]) -> tuple[DataFrame, Mapping[str, Times]]:
    """Rows of partitions that gold has not had yet, of these clusters one for all that are the same to gold; and of how
    many, by alias.

    `rows`: with `_min_isr`, the highest min.insync.replicas of the topic. To gold (jobs/rules/gold/) partitions are the
    same that were first seen by the same poll and are now as they were then, with a leader, all replicas in sync and
    more than
    min.insync.replicas of them.
    """
    is_quiet = F.coalesce(
        F.col("cluster").isin(list(clusters))
        & F.expr("prev_replicas IS NULL AND superseded_poll IS NULL AND leader >= 0 AND array_sort(replicas) = isr")
        & (F.size("isr") > F.coalesce(_MIN_ISR, F.lit(-1))),
        F.lit(False),
    )
    same = ("cluster", "first_poll", "leader", F.col("replicas")[0], "error_code")
    first = F.min(F.struct("topic", "partition")).alias("_first")
    found = rows.where(is_quiet).groupBy(*same).agg(first, F.count("*").alias("_times")).collect()
    times: dict[str, Times] = {}
    for row in found:
        times.setdefault(row["cluster"], {})[row["_first"]["topic"], row["_first"]["partition"], row["first_poll"]] = (
            row["_times"]
        )
    keys = [(cluster, *key) for cluster, of_cluster in times.items() for key in of_cluster]
    named = rows.sparkSession.createDataFrame(keys, "cluster string, topic string, partition int, first_poll string")
    named = F.broadcast(named.withColumn("_is_one", F.lit(True)))
    return rows.join(named, ["cluster", *_KEY], "left").where(~is_quiet | F.col("_is_one")), times


def part_of_partitions(cuts: Mapping[str, int]) -> Column:
    """Where live rows of partitions lie: those of a large cluster by topic. `cuts`: cluster id -> into how many parts
    topics are cut.
    """
    part = F.pmod(F.crc32("cluster_id"), F.lit(PARTS)).cast("int")
    for cluster_id, cut in cuts.items():
        if cut > 1:
            of_topic = F.pmod(F.crc32(F.concat("cluster_id", F.lit("/"), "topic")), F.lit(cut)) + PARTS
            part = F.when(F.col("cluster_id") == cluster_id, of_topic.cast("int")).otherwise(part)
    return part


def _part_of_topic(cluster_id: str, topic: str, cut: int) -> int:
    return PARTS + zlib.crc32(f"{cluster_id}/{topic}".encode()) % cut if cut > 1 else part_of(cluster_id)


def _parts(clusters: Iterable[Take], looks: Iterable[_Look], cuts: Mapping[str, int]) -> set[int]:
    """The parts in which the live rows lie that have to be looked at."""
    looked = {look.alias: look for look in looks}
    parts: set[int] = set()
    for each in clusters:
        if each.claimed_id is None:
            continue
        if (look := looked.get(each.cluster)) is None:
            parts.add(part_of(each.claimed_id))
        else:
            cut = cuts.get(each.cluster, 1)
            parts |= {_part_of_topic(each.claimed_id, topic, cut) for topic in (*look.topics, *look.min_isr)}
    return parts


# --- what has to be looked at: by rows that are few, or small ---


def _looks(said: DataFrame, live: DataFrame, large: Mapping[str, Take], states: Mapping[str, State]) -> list[_Look]:
    headers = said.where("record = 'poll'").select(*_HEADER).toArrow()
    rows = said.where("record = 'topic' AND chunk = 0").select(*_DIGESTS).toArrow()
    topics = unpacked(live, TOPIC_SNAPSHOTS).select("cluster", "topic").toArrow()
    settings, known = [], []
    if any("configs" in each.records for each in large.values()):
        settings = said.where("record = 'configs'").select("cluster", "poll_id", "topic", "configs").toArrow()
        settings = settings.to_pylist(maps_as_pydicts="strict")
        known = unpacked(live, TOPIC_CONFIGS).toArrow().to_pylist()
    return [
        _look(
            take,
            states[alias],
            headers=_of(alias, headers),
            rows=_of(alias, rows),
            topics=_of(alias, topics),
            min_isr=min_isr_of_changed(
                [poll_id for poll_id, records in take.polls.items() if "configs" in records],
                [row for row in settings if row["cluster"] == alias],
                [row for row in known if row["cluster"] == alias],
            ),
        )
        for alias, take in large.items()
    ]


def _look(
    take: Take, state: State, *, headers: pa.Table, rows: pa.Table, topics: pa.Table, min_isr: Mapping[str, int]
) -> _Look:
    read = [poll_id for poll_id, records in take.polls.items() if "topic" in records or poll_id == take.first_poll]
    headers = headers.filter(pc.is_in(headers["poll_id"], pa.array(read, pa.string())))
    if take.first_poll:
        return _Look(take, state, headers, [], 0, {})
    names = to_look_at(state, headers, rows, topics)
    listed = rows.filter(pc.is_in(rows["topic"], names))["partition_count"]
    return _Look(take, state, headers, names.to_pylist(), pc.sum(listed).as_py() or 0, min_isr)


def _of(alias: str, rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(rows["cluster"], alias))


def _topics_of(looks: Iterable[_Look]) -> pa.Table:
    """cluster, topic, whether it is looked at, and min.insync.replicas where that may have changed."""
    rows: list[Row] = []
    for look in looks:
        looked_at = set(look.topics)
        rows += [
            {"cluster": look.alias, "topic": topic, _LOOKED_AT: topic in looked_at, _MIN_ISR: look.min_isr.get(topic)}
            for topic in looked_at.union(look.min_isr)
        ]
    names = [("cluster", pa.string()), ("topic", pa.string()), (_LOOKED_AT, pa.bool_()), (_MIN_ISR, pa.int32())]
    return pa.Table.from_pylist(rows, pa.schema(names))


# --- the first answer ---


def _first(said: DataFrame, look: _Look) -> DataFrame:
    """The partitions of a cluster's first answer, as rows of silver."""
    is_said = (F.col("poll_id") == look.take.first_poll) & (F.col("record") == "topic")
    rows = said.where((F.col("cluster") == look.alias) & is_said)
    [header] = look.headers.to_pylist()
    place, version = Place(poll_of(header, None), None), header["api_version"]
    cluster = {"cluster_id": look.take.claimed_id, "cluster": look.alias}
    schema = arrow_schema(PARTITION_SNAPSHOTS)

    def of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield first_rows(place, version, batch, cluster, schema)

    return rows.select("topic", "present", "topic_id", "error_code", "partitions").mapInArrow(
        of_batches, ddl(PARTITION_SNAPSHOTS)
    )


# --- all others ---


def _compared(said: DataFrame, live: DataFrame, partitions: DataFrame, looks: Mapping[str, _Look]) -> DataFrame:
    """Rows of bronze about topics, and keys of live partitions, that the fold has to see; packed, with `cluster`."""
    known = unpacked(live, TOPIC_SNAPSHOTS)
    slots = {alias: look.take.parts for alias, look in looks.items()}
    topics, compared = _slotted(known, TOPIC_SNAPSHOTS, slots), _slotted(partitions, PARTITION_SNAPSHOTS, slots)
    sides = (
        _slotted(said.where("record = 'topic'"), METADATA_POLLS, slots),
        topics.unionByName(compared, allowMissingColumns=True),
    )
    states = {
        alias: replace(look.state, topic_digests={name: of for name in look.topics if (of := _digest(look, name))})
        for alias, look in looks.items()
    }
    headers = {alias: look.headers for alias, look in looks.items()}
    made = {METADATA_POLLS: _SAID, PARTITION_SNAPSHOTS: _KEY}
    types = {column_of(table): struct_of(table, names) for table, names in made.items()}
    columns = ", ".join(packed_ddl(table, names) for table, names in made.items())

    def of_slot(key: tuple[pa.Scalar, ...], said: pa.Table, live: pa.Table) -> pa.Table:
        alias = key[0].as_py()
        packed = tables_of(said) | tables_of(live)
        found = narrow(
            states[alias],
            headers[alias],
            Part(*(packed[table.full_name] for table in (METADATA_POLLS, TOPIC_SNAPSHOTS, PARTITION_SNAPSHOTS))),
        )
        rows = {column_of(METADATA_POLLS): found.said, column_of(PARTITION_SNAPSHOTS): found.partitions}
        return pa.concat_tables(
            side_by_side_in_arrow({"cluster": alias}, column, _structs(of_table, types[column]), types)
            for column, of_table in rows.items()
        )

    one, other = (side.groupBy("cluster", "_slot") for side in sides)
    return one.cogroup(other).applyInArrow(of_slot, f"cluster string, {columns}")


def _digest(look: _Look, topic: str) -> str | None:
    return look.state.topic_digests.get(topic)


def _slotted(rows: DataFrame, table: Table, slots: Mapping[str, int]) -> DataFrame:
    """Rows of these clusters, packed, with the slot of their topic."""
    cut = reduce(lambda rest, of: F.when(F.col("cluster") == of[0], of[1]).otherwise(rest), slots.items(), F.lit(1))
    slot = F.pmod(F.crc32("topic"), cut).alias("_slot")
    rows = rows.where(F.col("cluster").isin(list(slots)))
    return rows.select("cluster", slot, F.array(F.struct(*_COMPARED[table])).alias(column_of(table)))


def _structs(rows: pa.Table, type_: pa.StructType) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [rows[field.name].combine_chunks().cast(field.type) for field in type_], fields=list(type_)
    )
