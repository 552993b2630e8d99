"""The difference between answers and history: the topics and partitions of a part that `fold` has to look at.

In NumPy and Arrow, for all partitions at once. What is left out is as the last accepted answer said, in every answer of
the round.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.silver.answers import TRUSTED_EPOCHS_VERSION
from jobs.rules.silver.state import State

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_STATE = ("topic_id", "error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")


@dataclass(frozen=True)
class Part:
    """A part of the topics: rows of bronze about them (record 'topic'), and their live rows of silver."""

    said: pa.Table
    topics: pa.Table
    partitions: pa.Table


def to_look_at(state: State, headers: pa.Table, said: pa.Table, topics: pa.Table) -> pa.Array:
    """The names of topics that some answer may say something new of; the arguments as for `narrow`.

    Of `said` no more is needed than poll_id, topic, chunk, present, digest and digest_version, of `topics` topic.
    """
    said = _of_polls(said, headers)
    names = pc.unique(pa.concat_arrays([_column(said, "topic"), _column(topics, "topic")]))
    of_row = _places(_column(said, "topic"), names)
    is_new = _any_of(of_row, ~_has_known_digest(state, said, names, of_row), len(names))
    return names.filter(pa.array(is_new | _is_unsettled(state.missing, headers, said, names), pa.bool_()))


def narrow(state: State, headers: pa.Table, part: Part) -> Part:
    """Leave out topics that no answer says anything new of, and of topics that are there as before such partitions.

    `headers`: poll_id, is_key_frame and api_version of the polls whose rows of topics were read (fold.records_to_read);
    what is said in others is left out.
    """
    names = to_look_at(state, headers, part.said, part.topics)
    said, topics, partitions = (
        rows.filter(pc.is_in(rows["topic"], names))
        for rows in (_of_polls(part.said, headers), part.topics, part.partitions)
    )
    of_row = _places(_column(said, "topic"), names)
    is_changed = _any_of(of_row, ~_is_as_before(said, topics), len(names))
    is_whole = is_changed | _is_unsettled(state.missing, headers, said, names)

    versions = _column(headers, "api_version").fill_null(0).to_numpy()
    polls = _places(_column(said, "poll_id"), _column(headers, "poll_id"))
    row, told = partitions_told(said, versions[polls] >= TRUSTED_EPOCHS_VERSION)
    of_told, of_known = of_row[row], _places(_column(partitions, "topic"), names)
    told_keys, known_keys = _keys(of_told, told), _keys(of_known, partitions)
    known = partitions.take(pc.index_in(told_keys, known_keys))
    changed = told_keys.filter(pa.array(is_whole[of_told] | _differ(told, known)))
    is_same = pc.and_not(pc.is_in(known_keys, told_keys), pc.is_in(known_keys, changed))
    return Part(
        _with_partitions(said, row, _mask(pc.is_in(told_keys, changed))),
        topics,
        partitions.filter(pa.array(is_whole[of_known] | ~_mask(is_same))),
    )


def partitions_told(said: pa.Table, is_trusted: Mask) -> tuple[Numbers, pa.Table]:
    """The row of each partition that rows of bronze say, and the partitions as silver has them, with topic_id.

    `is_trusted`: of each row, whether its leader epochs can be trusted; others are null.
    """
    lists = _column(said, "partitions")
    row = np.repeat(np.arange(len(lists)), _sizes(lists))
    told = pa.Table.from_struct_array(lists.flatten())
    trusted = pc.if_else(pa.array(is_trusted[row], pa.bool_()), told["leader_epoch"], None)
    columns = {name: told[name] for name in told.column_names} | {
        "topic_id": _column(said, "topic_id").take(pa.array(row)),
        "leader_epoch": trusted,
        **{name: _in_order(_column(told, name)) for name in ("isr", "offline_replicas")},
    }
    return row, pa.table(columns)


def _of_polls(said: pa.Table, headers: pa.Table) -> pa.Table:
    return said.filter(pc.is_in(said["poll_id"], _column(headers, "poll_id")))


def _is_unsettled(missing: Collection[str], headers: pa.Table, said: pa.Table, names: pa.Array) -> Mask:
    """Whether each topic is missing, or absent from a key frame: what one does not list is absent."""
    key_frames = headers.filter(headers["is_key_frame"])
    lists = pc.and_(pc.is_in(said["poll_id"], _column(key_frames, "poll_id")), pc.equal(said["chunk"], 0))
    places = _places(_column(said.filter(lists), "topic"), names)
    is_absent: Mask = np.bincount(places, minlength=len(names)) < len(key_frames)
    return is_absent | _mask(pc.is_in(names, pa.array(list(missing), pa.string())))


def _has_known_digest(state: State, said: pa.Table, names: pa.Array, of_row: Numbers) -> Mask:
    """Whether each row says that its topic is there with the digest that was accepted last."""
    known = [state.topic_digests.get(topic, ":").split(":") for topic in names.to_pylist()]
    versions = pa.array([int(version or 0) for version, _ in known], pa.int32()).take(pa.array(of_row))
    digests = pa.array([bytes.fromhex(digest) for _, digest in known], pa.binary()).take(pa.array(of_row))
    same = pc.and_(pc.equal(said["digest_version"], versions), pc.equal(said["digest"], digests))
    return _mask(pc.and_kleene(same, said["present"]))


def _is_as_before(said: pa.Table, topics: pa.Table) -> Mask:
    """Whether each row shows its topic whole, under the id and with the number of partitions that it has."""
    known = topics.take(pc.index_in(_column(said, "topic"), _column(topics, "topic")))
    same_id = pc.or_kleene(pc.is_null(said["topic_id"]), pc.equal(said["topic_id"], known["topic_id"]))
    same_count = pc.equal(said["partition_count"], known["partition_count"])
    is_whole = pc.and_kleene(said["present"], pc.equal(said["error_code"], 0))
    return _mask(pc.and_kleene(pc.and_kleene(same_id, same_count), is_whole))


def _keys(topic: Numbers, partitions: pa.Table) -> pa.Array:
    """A number for each partition. `topic`: the number of its topic."""
    return pa.array((topic << 32) + _column(partitions, "partition").to_numpy())


def _differ(told: pa.Table, known: pa.Table) -> Mask:
    """Whether each partition is told otherwise than the known one in the same place (nulls: none is known)."""
    differ = _mask(pc.is_null(known["partition"]))
    for name in _STATE:
        one, other = (_as_bytes(column) for column in (_column(told, name), _column(known, name)))
        differ |= _mask(pc.and_(pc.is_valid(one), pc.not_equal(one, other).fill_null(True)))
    return differ


def _as_bytes(column: pa.Array) -> pa.Array:
    """Lists of numbers as bytes, which Arrow can compare as it cannot lists; other columns as they are."""
    if not pa.types.is_list(column.type):
        return column
    numbers = column.flatten().to_numpy().astype(np.int32)
    ends = np.append(0, 4 * np.cumsum(_sizes(column)))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(numbers)]
    return pc.if_else(pc.is_valid(column), pa.Array.from_buffers(pa.large_binary(), len(column), buffers), None)


def _in_order(lists: pa.ListArray) -> pa.ListArray:
    """Each list in order; null lists stay."""
    numbers, row = lists.flatten(), np.repeat(np.arange(len(lists)), _sizes(lists))
    order = pa.array(np.lexsort((numbers.to_numpy(), row)))
    ends = pa.array(np.append(0, np.cumsum(_sizes(lists))), pa.int32())
    return pa.ListArray.from_arrays(ends, numbers.take(order), mask=pc.is_null(lists))


def _with_partitions(said: pa.Table, row: Numbers, keep: Mask) -> pa.Table:
    """The rows of bronze with those of their partitions that are kept. `row`: the row of each partition."""
    ends = np.cumsum(np.bincount(row[keep], minlength=len(said)))
    kept = _column(said, "partitions").flatten().filter(pa.array(keep))
    lists = pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), kept)
    return said.set_column(said.schema.get_field_index("partitions"), "partitions", lists)


def _places(values: pa.Array, among: pa.Array) -> Numbers:
    """The place of each value among others, -1 where it is not."""
    return pc.index_in(values, among).fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _any_of(places: Numbers, mask: Mask, size: int) -> Mask:
    """Whether the mask is set for any entry of each place."""
    found = np.zeros(size, np.bool_)
    found[places[mask]] = True
    return found


def _sizes(lists: pa.ListArray) -> Numbers:
    return pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    return values.fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _column(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks()
