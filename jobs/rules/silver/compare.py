"""Answers about topics for all partitions at once, in NumPy and Arrow.

The difference between answers and history is the topics and partitions of a part that `fold` has to
look at: what is left out is as the last accepted answer said, in every answer of the round. The
first answer of a large cluster, with which each partition begins, becomes rows of silver as it is.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.silver.state import Observation, State
from jobs.rules.takes import Take
from metadata_source.kafka_constants import (
    LEADER_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    TRUSTED_EPOCHS_VERSION,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from metadata_source.kinds import KAFKA, KINDS
from metadata_source.protocol.oddities import LISTS, are_odd
from schemas.bronze import METADATA_POLLS, TOPIC_COLUMNS
from schemas.silver import PARTITION_SNAPSHOTS, TOPIC_SNAPSHOTS

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

COMPARED = (
    "topic_id",
    "error_code",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "offline_replicas",
)
"""The columns by which partitions are compared."""

RECORD = ("poll_id", "record", "topic", "chunk")
TOPIC_RECORD = (*RECORD, *(column.name for column in TOPIC_COLUMNS))
"""The columns of records of topics."""
BESIDE = {"quorum": ("quorum_replicas",), "log_dirs": ("broker_id",)}
"""The columns of records of other kinds, beside RECORD and the one with the kind's name."""

_ABSENT = pa.array([UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED], pa.int32())


def to_look_at(
    state: State, headers: pa.Table, said: pa.Table, topics: pa.Table, kind: str = KAFKA
) -> pa.Array:
    """The names of topics that some answer may say something new of; the arguments as for `narrow`.

    Of `said` no more is needed than poll_id, topic, chunk, present, digest and digest_version, of
    `topics` topic.
    """
    said = _among(said, "poll_id", headers["poll_id"])
    names = pc.unique(pa.concat_arrays([_column(said, "topic"), _column(topics, "topic")]))
    if kind != state.kind:
        return names
    # Whether each row says that its topic is there with the digest that was accepted last.
    known = [digest.split(":") for digest in state.topic_digests.values()]
    place = pc.index_in(said["topic"], pa.array(list(state.topic_digests), pa.string()))
    versions = pa.array([int(version) for version, _ in known], pa.int32()).take(place)
    digests = pa.array([bytes.fromhex(digest) for _, digest in known], pa.binary()).take(place)
    same = pc.and_(pc.equal(said["digest_version"], versions), pc.equal(said["digest"], digests))
    new = said["topic"].filter(pc.invert(pc.and_kleene(same, said["present"]).fill_null(False)))
    return names.filter(
        pa.array(_mask(pc.is_in(names, new)) | _is_unsettled(state.missing, headers, said, names))
    )


def narrow(
    state: State,
    headers: pa.Table,
    said: pa.Table,
    topics: pa.Table,
    partitions: pa.Table,
    *,
    kind: str = KAFKA,
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Leave out topics that no answer says anything new of, and of topics that are there as before
    such partitions.

    A topic without an id of which an epoch falls may be another one, with all of its partitions: it
    stays whole.

    `headers`: poll_id, is_key_frame and api_version of the polls whose rows of topics were read
    (records_to_read). `said`: rows of bronze about topics (record 'topic'); those of other polls
    are left out. `topics`, `partitions`: live rows of silver. All three of a part of the topics,
    and so are the answers. `kind`: of the cluster, as declared; if it was another one before,
    nothing is left out.
    """
    said = _among(said, "poll_id", headers["poll_id"])
    if kind != state.kind:
        return said, topics, partitions
    names = to_look_at(state, headers, said, topics, kind)
    said = _among(said, "topic", names)
    topics, partitions = (_among(rows, "topic", names) for rows in (topics, partitions))
    is_whole = _mask(pc.is_in(names, said["topic"].filter(pc.invert(_is_as_before(said, topics)))))
    is_whole |= _is_unsettled(state.missing, headers, said, names)

    versions = _column(headers, "api_version").fill_null(0).to_numpy()
    of_poll = _places(said["poll_id"], _column(headers, "poll_id"))
    row, told = _partitions_told(
        said, versions[of_poll] >= TRUSTED_EPOCHS_VERSION, KINDS[kind].columns
    )
    of_told = _places(said["topic"], names)[row]
    told_keys, known_keys = (
        _keys(of_told, told),
        _keys(_places(partitions["topic"], names), partitions),
    )
    known = partitions.take(pc.index_in(told_keys, known_keys))
    is_whole[
        of_told[_falls(told_keys.to_numpy(), pc.rank(said["poll_id"]).to_numpy()[row], told, known)]
    ] = True
    changed = told_keys.filter(pa.array(is_whole[of_told] | _differ(told, known)))
    is_same = pc.and_not(pc.is_in(known_keys, told_keys), pc.is_in(known_keys, changed))
    kept = _mask(pc.is_in(told_keys, changed))
    lists = pa.ListArray.from_arrays(
        pa.array(_ends(np.bincount(row[kept], minlength=len(said))), pa.int32()),
        _column(said, "partitions").flatten().filter(pa.array(kept)),
    )
    at = said.schema.get_field_index("partitions")
    return said.set_column(at, "partitions", lists), topics, partitions.filter(pc.invert(is_same))


def narrowed_rows(
    memory: str, take: Take, news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]
) -> tuple[Mapping[str, pa.Table], Mapping[str, pa.Table]]:
    """Rows of bronze and live rows of one cluster, by table, as `narrow` leaves them.

    Rows of bronze about topics lie apart from others. `memory`: of silver, in JSON. Where settings
    may have changed, gold looks at partitions that did not.
    """
    said = news[METADATA_POLLS.full_name]
    read = [poll_id for poll_id, records in take.polls.items() if "topic" in records]
    topics, partitions = (
        live.get(table.full_name) for table in (TOPIC_SNAPSHOTS, PARTITION_SNAPSHOTS)
    )
    if not read or topics is None or partitions is None:
        return news, live
    is_topic = pc.equal(said["record"], "topic")
    headers = said.filter(
        pc.and_(pc.equal(said["record"], "poll"), pc.is_in(said["poll_id"], pa.array(read)))
    )
    state = State.from_json(json.loads(memory))
    told, topics, kept = narrow(
        state, headers, said.filter(is_topic), topics, partitions, kind=take.kind
    )
    of_partitions = partitions if "configs" in take.records else kept
    return (
        {METADATA_POLLS.full_name: said.filter(pc.invert(is_topic)), "topics": told},
        {**live, TOPIC_SNAPSHOTS.full_name: topics, PARTITION_SNAPSHOTS.full_name: of_partitions},
    )


def first_rows(
    observation: Observation,
    api_version: int | None,
    said: pa.RecordBatch,
    constants: Mapping[str, Any],
    schema: pa.Schema,
    *,
    kind: str = KAFKA,
) -> pa.RecordBatch:
    """The rows of silver.partition_snapshots that `fold` makes of a first answer, where no topic
    was known before.

    `said`: rows of bronze about topics: topic, present, topic_id, error_code, partitions.
    `constants`: the columns that say which cluster it is. `schema`: of what is returned; columns
    that no first row has are null.
    """
    rows = pa.Table.from_batches([said])
    rows = rows.filter(pc.and_not(rows["present"], pc.is_in(rows["error_code"], _ABSENT)))
    is_trusted = np.full(len(rows), (api_version or 0) >= TRUSTED_EPOCHS_VERSION)
    row, told = _partitions_told(rows, is_trusted, KINDS[kind].columns)
    is_guess = pc.and_(
        pc.equal(told["error_code"], LEADER_NOT_AVAILABLE), pc.greater_equal(told["leader"], 0)
    )
    for name in ("leader", "leader_epoch"):
        at = told.column_names.index(name)
        untold = pa.scalar(None, told[name].type)
        told = told.set_column(at, name, pc.if_else(is_guess.fill_null(False), untold, told[name]))
    told = _without_odd_lists(told).append_column("topic", rows["topic"].take(pa.array(row)))
    values = {**constants, **observation.began}
    columns = [
        _column(told, field.name).cast(field.type)
        if field.name in told.column_names
        else pa.repeat(pa.scalar(values.get(field.name), field.type), len(told))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _without_odd_lists(told: pa.Table) -> pa.Table:
    """Partitions with null in the place of each list of `odd_lists`."""
    odd = {name: are_odd(_column(told, name)) for name in LISTS}
    for name in LISTS:
        unknown = pa.array(odd[name] | odd["replicas"])
        lists = pc.if_else(unknown, pa.scalar(None, told[name].type), told[name])
        told = told.set_column(told.column_names.index(name), name, lists)
    return told


def _partitions_told(
    said: pa.Table, is_trusted: Mask, nothing: Collection[str]
) -> tuple[Numbers, pa.Table]:
    """The row of each partition that rows of bronze say, and the partitions as silver has them,
    with topic_id.

    `is_trusted`: of each row, whether its leader epochs can be trusted; others are null, as columns
    are that mean `nothing`.
    """
    lists = _column(said, "partitions")
    row = _rows(lists)
    told = pa.Table.from_struct_array(lists.flatten())
    trusted = pc.if_else(pa.array(is_trusted[row], pa.bool_()), told["leader_epoch"], None)
    columns = {name: told[name] for name in told.column_names} | {
        "topic_id": said["topic_id"].take(pa.array(row)),
        "leader_epoch": trusted,
        **{name: _in_order(_column(told, name)) for name in ("isr", "offline_replicas")},
    }
    return row, pa.table(
        {
            name: pa.nulls(len(row), of.type) if name in nothing else of
            for name, of in columns.items()
        }
    )


def _is_unsettled(
    missing: Collection[str], headers: pa.Table, said: pa.Table, names: pa.Array
) -> Mask:
    """Whether each topic is missing, or absent from a key frame: not listed there."""
    key_frames = headers.filter(headers["is_key_frame"])
    lists = pc.and_(
        pc.is_in(said["poll_id"], _column(key_frames, "poll_id")), pc.equal(said["chunk"], 0)
    )
    listed = _places(said["topic"].filter(lists), names)
    is_absent: Mask = np.bincount(listed, minlength=len(names)) < len(key_frames)
    return is_absent | _mask(pc.is_in(names, pa.array(list(missing), pa.string())))


def _is_as_before(said: pa.Table, topics: pa.Table) -> pa.Array:
    """Whether each row shows its topic whole, with the id and the count of partitions it has."""
    known = topics.take(pc.index_in(said["topic"], _column(topics, "topic")))
    same_id = pc.or_kleene(
        pc.is_null(said["topic_id"]), pc.equal(said["topic_id"], known["topic_id"])
    )
    same_count = pc.equal(said["partition_count"], known["partition_count"])
    is_whole = pc.and_kleene(said["present"], pc.equal(said["error_code"], 0))
    return pc.and_kleene(pc.and_kleene(same_id, same_count), is_whole).fill_null(False)


def _keys(topic: Numbers, partitions: pa.Table) -> pa.Array:
    """A number for each partition. `topic`: the number of its topic."""
    return pa.array((topic << 32) + _column(partitions, "partition").to_numpy())


def _differ(told: pa.Table, known: pa.Table) -> Mask:
    """Whether each partition differs from the known one in its place (nulls: none is known)."""
    differ = _mask(pc.is_null(known["partition"]))
    for name in COMPARED:
        one, other = (_as_bytes(_column(rows, name)) for rows in (told, known))
        differ |= _mask(pc.and_(pc.is_valid(one), pc.not_equal(one, other).fill_null(True)))
    return differ


def _falls(key: Numbers, at: Numbers, told: pa.Table, known: pa.Table) -> Mask:
    """Whether each partition comes, without a topic id, in a lower epoch than known or told
    before.

    `key`: of each partition. `at`: when it was told. `known`: as for `_differ`.
    """
    epoch, before = (
        _column(rows, "leader_epoch").fill_null(-1).to_numpy() for rows in (told, known)
    )
    is_told = _mask(pc.is_null(told["topic_id"])) & (epoch >= 0)
    falls: Mask = is_told & (epoch < before)
    in_order = np.flatnonzero(is_told)
    in_order = in_order[np.lexsort((at[in_order], key[in_order]))]
    one, following = in_order[:-1], in_order[1:]
    falls[following[(key[one] == key[following]) & (epoch[following] < epoch[one])]] = True
    return falls


def _as_bytes(column: pa.Array) -> pa.Array:
    """Lists of numbers as bytes, which Arrow can compare; other columns as they are."""
    if not pa.types.is_list(column.type):
        return column
    numbers = column.flatten().to_numpy().astype(np.int32)
    buffers = [None, pa.py_buffer(4 * _ends(_sizes(column))), pa.py_buffer(numbers)]
    return pc.if_else(
        pc.is_valid(column), pa.Array.from_buffers(pa.large_binary(), len(column), buffers), None
    )


def _in_order(lists: pa.ListArray) -> pa.ListArray:
    """Each list in order; null lists stay."""
    numbers, ends = lists.flatten(), pa.array(_ends(_sizes(lists)), pa.int32())
    order = pa.array(np.lexsort((numbers.to_numpy(), _rows(lists))))
    return pa.ListArray.from_arrays(ends, numbers.take(order), mask=pc.is_null(lists))


def _among(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.filter(pc.is_in(rows[name], values))


def _places(values: pa.ChunkedArray, among: pa.Array) -> Numbers:
    """The place of each value among others, -1 where it is not."""
    return pc.index_in(values, among).fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _sizes(lists: pa.ListArray) -> Numbers:
    return pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _rows(lists: pa.ListArray) -> Numbers:
    """The row of each value of lists."""
    return np.repeat(np.arange(len(lists)), _sizes(lists))


def _ends(sizes: Numbers) -> Numbers:
    return np.append(0, np.cumsum(sizes))


def _mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    return values.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _column(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks()
