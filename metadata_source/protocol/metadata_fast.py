"""The topics of a large Metadata response, read with a few NumPy operations for each megabyte
instead of a step for each partition.

A partition's entry has a variable length, so where it begins is known only from the entry before
it. This module guesses instead: it takes every byte position at which an entry could begin, links
each to the position where that entry would end (where another entry begins, or a topic ends and the
next topic's first entry begins), and drops positions that nothing leads to. What remains is the one
chain from the first topic on. It is then proven: each entry and each topic's header was read by the
exact rules at the position where the one before it ends, and each topic has as many entries as its
count says; so, by induction, the exact reader would have read the same.

Whatever is not of the usual shape (a list of more than 126 nodes, no replicas, more in-sync
replicas than replicas, none of them although there is a leader, a partition number of 2^16 or a
leader epoch of 2^24, tagged fields) and whatever is wrong ends in None: the exact reader (`exact`)
then reads the body, and reports what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.protocol.encoding import FIXED_BYTES, MAX_STRING
from metadata_source.protocol.spec import METADATA_RESPONSE, PARTITION, TOPIC, Array, Primitive
from metadata_source.protocol.vectors import Bytes, Flags, Positions, clipped, slices, varints, view

if TYPE_CHECKING:
    from metadata_source.protocol.exact import Columns

_WINDOW = 1 << 18
# of a loop that usual bodies go through a few times, and only bodies made to take time go through
# often
_MAX_ROUNDS = 1000
_SMALLEST_HEADER = 8  # bytes of a topic's header (version 0, no name)
_ROOT = _NOWHERE = -1
_PAST_ANY = np.iinfo(np.int64).max
_NONE: Positions = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where things stand in the entries of one version, from the tables."""

    flexible: bool
    scalars: dict[str, int]  # of a partition: the byte at which each field before the lists begins
    scalars_type: np.dtype[np.void]
    lists: tuple[str, ...]  # of a partition
    topic_id: bool
    is_internal: bool
    authorized_operations: bool
    nullable_name: bool

    @property
    def count_size(self) -> int:
        """Bytes of a length below 127."""
        return 1 if self.flexible else 4

    @property
    def tags_size(self) -> int:
        """Bytes of a section without tagged fields."""
        return 1 if self.flexible else 0

    @property
    def topic_tail(self) -> int:
        """Bytes of a topic after its partitions."""
        return 4 * self.authorized_operations + self.tags_size


@cache
def _layout(version: int) -> _Layout:
    fields = PARTITION.in_version(version)
    sizes = {
        each.name: FIXED_BYTES[each.type] for each in fields if isinstance(each.type, Primitive)
    }
    begins = accumulate(sizes.values(), initial=0)
    topic = {each.name: each for each in TOPIC.in_version(version)}
    return _Layout(
        flexible=METADATA_RESPONSE.flexible(version),
        scalars=dict(zip(sizes, begins, strict=False)),
        scalars_type=np.dtype([(name, f">i{size}") for name, size in sizes.items()]),
        lists=tuple(each.name for each in fields if isinstance(each.type, Array)),
        topic_id="topic_id" in topic,
        is_internal="is_internal" in topic,
        authorized_operations="topic_authorized_operations" in topic,
        nullable_name=topic["name"].nullable_in(version),
    )


@dataclass(frozen=True, slots=True)
class _Headers:
    """Positions and lengths of the fields before the partitions of topics, one row a topic."""

    start: Positions
    name: Positions  # first byte of the name
    name_length: Positions  # -1 for null
    fixed: Positions  # first byte after the name
    partitions: Positions  # how many
    end: Positions  # where the first partition, or the rest of the topic, begins

    def __getitem__(self, rows: npt.NDArray[Any]) -> _Headers:
        return _Headers(*(getattr(self, each)[rows] for each in self.__slots__))

    @classmethod
    def joined(cls, parts: list[_Headers]) -> _Headers:
        """Return the rows of all parts."""
        return cls(
            *(np.concatenate([getattr(part, each) for part in parts]) for each in cls.__slots__)
        )


def read_topics(body: bytes, position: int, count: int, version: int) -> tuple[Columns, int] | None:
    """Return the columns of `count` topics from `position` on, and the position after them; None if
    they are not as usual.

    The columns are those of the exact reader, as NumPy arrays, but names are an Arrow array, and
    topic ids one bytes object.
    """
    if not count:
        return {}, position
    layout = _layout(version)
    data = np.frombuffer(body, dtype=np.uint8)
    chain = _chain(data, position, layout)
    if chain is None:
        return None
    headers, begins, ends = chain
    inside = np.diff(np.searchsorted(begins, headers.start), append=len(begins))
    if len(headers.start) != count or not np.array_equal(inside, headers.partitions):
        return None
    last = ends[-1:] if headers.partitions[-1] else headers.end[-1:]
    after, whole = _after_topics(data, last, layout)
    if not whole.all():
        return None
    rests = np.append(headers.start[1:], after) - layout.topic_tail
    names = _names(data, headers)
    if names is None:
        return None
    columns = _topic_columns(body, headers, rests, layout) | _partition_columns(
        body, begins, layout
    )
    columns["topics.name"] = names
    return columns, int(after[0])


def _chain(
    data: Bytes, position: int, layout: _Layout
) -> tuple[_Headers, Positions, Positions] | None:
    """Return the headers, and begins and ends of the partitions, of all topics that follow each
    other from `position` on.

    The counts of partitions in the headers have not been looked at, except that topics without any
    are passed over.
    """
    windows = [_candidates(data, low, layout) for low in range(position, len(data), _WINDOW)]
    begins = np.concatenate([begin for begin, _ in windows])
    ends = np.concatenate([end for _, end in windows])
    # A candidate leads to the next one, or to a later one, or over the end of its topic, or
    # nowhere.
    leads_to = np.arange(1, len(begins) + 1)
    elsewhere = np.flatnonzero(ends != np.append(begins[1:], -1))
    leads_to[elsewhere] = _index_of(begins, ends[elsewhere], elsewhere + 1)
    last = elsewhere[leads_to[elsewhere] == _NOWHERE]
    starts, whole = _after_topics(data, ends[last], layout)
    owners = np.append(_ROOT, last[whole])
    starts = np.append(position, starts[whole])
    found: list[tuple[Positions, _Headers]] = []
    first = np.array([_NOWHERE])
    while len(owners):
        headers, good = _headers(data, starts, layout)
        owners, headers = owners[good], headers[good]
        found.append((owners, headers))
        if (
            len(found) > _MAX_ROUNDS
            or sum(len(each) for each, _ in found) > len(data) // _SMALLEST_HEADER
        ):
            return None  # more than a body can have: made to take time
        filled = headers.partitions > 0
        targets = _index_of(begins, headers.end[filled], owners[filled] + 1)
        is_root = owners[filled] == _ROOT
        leads_to[owners[filled][~is_root]] = targets[~is_root]
        first = np.append(first, targets[is_root])
        starts, whole = _after_topics(data, headers.end[~filled], layout)
        owners, starts = owners[~filled][whole], starts[whole]
    reached = _reached(leads_to, int(first[-1]))
    if reached is None:
        return None
    owners = np.concatenate([each for each, _ in found])
    on_chain = np.append(reached, True)[owners]  # _ROOT is the last index
    headers = _Headers.joined([each for _, each in found])[on_chain]
    return headers[np.argsort(headers.start, kind="stable")], begins[reached], ends[reached]


def _candidates(data: Bytes, low: int, layout: _Layout) -> tuple[Positions, Positions]:
    """Return begin and end of every possible partition entry that begins in the window from `low`
    on.

    Reading every position, most of which are no entry, is cheap as long as it is done with whole
    slices of bytes; only the positions that pass are looked at one by one.
    """
    size = layout.count_size
    at_count = layout.scalars_type.itemsize
    smallest = at_count + size * len(layout.lists) + 4 + layout.tags_size
    width = min(_WINDOW, len(data) - smallest + 1 - low)
    if width <= 0:
        return _NONE, _NONE

    def at(offset: int) -> Bytes:
        return data[low + offset : low + offset + width]

    def small(name: str) -> Flags:
        """Return where the field's first byte is that of a number near zero, on either side."""
        return at(layout.scalars[name]) + np.uint8(1) < 2

    number = layout.scalars["partition_index"]
    zeros = at(number) | at(number + 1)
    for high in range(size - 1):
        zeros |= at(at_count + high)
    least = np.uint8(1 + layout.flexible)
    possible = (zeros == 0) & (at(at_count + size - 1) - least < 0x80 - least) & small("error_code")
    if "leader_epoch" in layout.scalars:
        possible &= small("leader_epoch")
    begins = np.flatnonzero(possible) + low
    lengths = data[begins + (at_count + size - 1)].astype(np.int64) - layout.flexible
    replicas = lengths
    ends = begins + (at_count + size)
    for name in layout.lists[1:]:
        ends += 4 * lengths
        lengths = _small_lengths(data, ends, layout)
        good = (lengths >= 0) & (lengths <= replicas)
        if name == "isr_nodes":
            good &= (lengths > 0) | (data[begins + layout.scalars["leader_id"]] == 0xFF)
        begins, ends, lengths, replicas = (
            begins[good],
            ends[good] + size,
            lengths[good],
            replicas[good],
        )
    ends += 4 * lengths
    if layout.flexible:
        good = data.take(ends, mode="clip") == 0
        begins, ends = begins[good], ends[good] + 1
    inside = ends <= len(data)
    return begins[inside], ends[inside]


def _small_lengths(data: Bytes, positions: Positions, layout: _Layout) -> Positions:
    """Return the lengths of lists that are there: too large if not small, negative if null."""
    if layout.flexible:
        return data.take(positions, mode="clip").astype(np.int64) - 1
    return clipped(data, ">i4", positions)


def _headers(data: Bytes, starts: Positions, layout: _Layout) -> tuple[_Headers, Flags]:
    """Return the topic headers that begin there, and which of them are whole and well-formed."""
    name, name_length, good = _lengths(data, starts + 2, 2, layout)
    fixed = name + np.maximum(name_length, 0)
    end, partitions, good_count = _lengths(
        data, fixed + 16 * layout.topic_id + layout.is_internal, 4, layout
    )
    good &= good_count & (name_length >= -layout.nullable_name) & (name_length <= MAX_STRING)
    good &= (partitions >= 0) & (end <= len(data))
    return _Headers(starts, name, name_length, fixed, partitions, end), good


def _lengths(
    data: Bytes, positions: Positions, size: int, layout: _Layout
) -> tuple[Positions, Positions, Flags]:
    """Return for lengths (classic: of `size` bytes) the positions after them, their values, and
    which are well-formed.

    A varint of more than three bytes is not: nothing usual is that long.
    """
    if not layout.flexible:
        return (
            positions + size,
            clipped(data, f">i{size}", positions),
            np.ones(len(positions), dtype=np.bool_),
        )
    values, after, good = varints(data, positions)
    return after, values - 1, good


def _after_topics(data: Bytes, positions: Positions, layout: _Layout) -> tuple[Positions, Flags]:
    """Return where topics end whose last partition ends there, and which of them are whole."""
    after = positions + layout.topic_tail
    whole = after <= len(data)
    if layout.flexible:
        whole &= data.take(after - 1, mode="clip") == 0
    return after, whole


def _index_of(ascending: Positions, wanted: Positions, guess: Positions) -> Positions:
    """Return the index of each wanted position, _NOWHERE for those that are not there.

    It is the guessed index or a later one; guesses may be one past the end. Most are right, and
    searching takes longer.
    """
    guessed = np.append(ascending, _PAST_ANY)[guess]
    index = np.where(guessed == wanted, guess, _NOWHERE)
    later = np.flatnonzero(guessed < wanted)
    searched = np.searchsorted(ascending, wanted[later])
    there = np.append(ascending, _PAST_ANY)[searched] == wanted[later]
    index[later[there]] = searched[there]
    return index


def _reached(leads_to: Positions, first: int) -> Flags | None:
    """Return which candidates the first one leads to (itself included), by taking away those that
    nothing leads to.

    All links go forward, so what is left after that leads back to the first.
    """
    count = len(leads_to)
    ways = np.bincount(leads_to[leads_to != _NOWHERE], minlength=count)
    if first != _NOWHERE:
        ways[first] += 1
    reached = ways > 0
    dropped = np.flatnonzero(~reached)
    for _ in range(_MAX_ROUNDS):
        if not len(dropped):
            return reached
        orphans = leads_to[dropped]
        orphans = orphans[orphans != _NOWHERE]
        np.subtract.at(ways, orphans, 1)
        dropped = np.unique(orphans[ways[orphans] == 0])
        reached[dropped] = False
    return None


def _names(data: Bytes, headers: _Headers) -> pa.Array | None:
    """Return the topics' names, None if one is not UTF-8."""
    names = slices(data, headers.name, headers.fixed, pa.string())
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return None
    null = headers.name_length < 0
    return pc.if_else(pa.array(null), None, names) if null.any() else names


def _topic_columns(body: bytes, headers: _Headers, rests: Positions, layout: _Layout) -> Columns:
    columns: Columns = {
        "topics.error_code": view(body, ">i2")[headers.start],
        "topics.partitions": headers.partitions,
    }
    if layout.topic_id:
        columns["topics.topic_id"] = view(body, "V16")[headers.fixed].tobytes()
    if layout.is_internal:
        columns["topics.is_internal"] = view(body, "u1")[headers.fixed + 16 * layout.topic_id]
    if layout.authorized_operations:
        columns["topics.topic_authorized_operations"] = view(body, ">i4")[rests]
    return columns


def _partition_columns(body: bytes, begins: Positions, layout: _Layout) -> Columns:
    key = "topics.partitions."
    scalars = view(body, f"V{layout.scalars_type.itemsize}")[begins].view(layout.scalars_type)
    columns: Columns = {key + name: scalars[name] for name in layout.scalars}
    position = begins + (layout.scalars_type.itemsize + layout.count_size)
    for name in layout.lists:
        lengths = view(body, "u1")[position - 1] - np.uint8(layout.flexible)
        columns[key + name] = lengths
        columns[f"{key}{name}.item"] = _nodes(body, position, lengths)
        position += 4 * lengths.astype(np.int64) + layout.count_size
    return columns


def _nodes(body: bytes, positions: Positions, lengths: Bytes) -> npt.NDArray[np.int32]:
    """Return the entries of all lists, one list after the other."""
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        return view(body, f"V{4 * int(lengths[0])}")[positions].view(">i4").astype(np.int32)
    first_entry = np.cumsum(lengths, dtype=np.int64) - lengths
    where = np.repeat(positions - 4 * first_entry, lengths)
    where += np.arange(0, 4 * len(where), 4)
    nodes: npt.NDArray[np.int32] = view(body, ">i4")[where].astype(np.int32)
    return nodes
