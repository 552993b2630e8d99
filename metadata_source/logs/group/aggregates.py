"""Aggregates of offset commits: what commits of a group, topic and partition come to.

A commit is an aggregate of one. Aggregates of the same group, topic and partition that follow each
other become one by `merge`: those of an answer out of commits, those of a span out of answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from metadata_source.columns import TIME
from metadata_source.columns.group_log import ENTRY
from metadata_source.kafka_constants import LAST_MS
from metadata_source.protocol.vectors import uuid_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metadata_source.logs.topic.reader import Records
    from metadata_source.protocol.offset_commits import Values
    from metadata_source.protocol.vectors import Flags, Positions

    Aggregates = dict[str, Positions]
    """Columns of aggregates, one row each: those of `_COLUMNS`."""

NONE: Final = -1
_NO_TIME: Final = -1
_NO_GAP: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max

_COLUMNS: Final = (
    "key",
    "stretch",
    "commits",
    "from_offset",
    "from_ms",
    "first_committed",
    "to_offset",
    "to_ms",
    "last_committed",
    "gap_from_ms",
    "gap_to_ms",
    "falls",
    "fallen",
    "removed_offset",
    "removed_ms",
    "id_high",
    "id_low",
    *("producer", "log_partition"),
)
"""Columns of aggregates; the last two are of commits in transactions alone."""


class CommitKey(NamedTuple):
    """Whose commits they are: `group` is a number of `Commits`."""

    group: int
    topic: str
    partition: int


def aggregates_of(records: Records, at: Positions, keys: Positions, values: Values) -> Aggregates:
    """Return commits as aggregates of one."""
    is_removal = values.is_removal
    times, offsets = known_times(records.times[at]), records.offsets[at]
    none, nothing = np.full(len(at), NONE), np.zeros(len(at), dtype=np.int64)
    commits = dict.fromkeys(_COLUMNS, nothing)
    commits |= {"key": keys, "commits": (~is_removal).astype(np.int64)}
    commits |= {"log_partition": records.partitions[at], "producer": records.producers[at]}
    commits |= dict.fromkeys(("first_committed", "last_committed"), values.offsets)
    commits |= dict.fromkeys(("gap_from_ms", "gap_to_ms"), none)
    ids = values.topic_ids.view(np.int64)
    commits |= {"id_high": ids[:, 0], "id_low": ids[:, 1]}
    has_removals = is_removal.any()
    for name, column in (("offset", offsets), ("ms", times)):
        end = np.where(is_removal, NONE, column) if has_removals else column
        commits |= dict.fromkeys((f"from_{name}", f"to_{name}"), end)
        commits[f"removed_{name}"] = np.where(is_removal, column, NONE) if has_removals else none
    return commits


def no_aggregates() -> Aggregates:
    """Return aggregates without a row."""
    return {name: np.empty(0, dtype=np.int64) for name in _COLUMNS}


def select(aggregates: Aggregates, rows: Positions | Flags | slice) -> Aggregates:
    """Return some rows."""
    # Commits have the same column under several names.
    once = {id(column): column[rows] for column in aggregates.values()}
    return {name: once[id(column)] for name, column in aggregates.items()}


def join(one: Aggregates, other: Aggregates) -> Aggregates:
    """Return the rows of one, then those of the other."""
    return {name: np.concatenate([column, other[name]]) for name, column in one.items()}


def by_key(aggregates: Aggregates) -> Aggregates:
    """Return aggregates by their keys, otherwise in the order in which they are."""
    keys = aggregates["key"]
    # NumPy sorts numbers of 16 bits by their digits, which takes a fraction of the time.
    narrow = keys.astype(np.uint16) if len(keys) and int(keys.max()) < 1 << 16 else keys
    return select(aggregates, np.argsort(narrow, kind="stable"))


def merge(rows: Aggregates) -> Aggregates:
    """Return aggregates of one key that follow each other as one, up to a removal, another topic
    id, or another stretch.
    """
    count = len(rows["key"])
    if count < 2:
        return rows
    before, here = select(rows, slice(None, -1)), select(rows, slice(1, None))
    has_commits = here["commits"] > 0
    is_new = (
        (before["key"] != here["key"])
        | (before["stretch"] != here["stretch"])
        | (before["removed_offset"] >= 0)
    )
    is_other = (before["id_high"] != here["id_high"]) | (before["id_low"] != here["id_low"])
    is_new |= has_commits & is_other
    if is_new.all():
        return rows
    starts = np.append(0, np.flatnonzero(is_new) + 1)
    lasts = np.append(starts[1:], count) - 1
    joins = ~is_new & has_commits

    fall = np.where(joins, before["last_committed"] - here["first_committed"], 0)
    falls, fallen = rows["falls"].copy(), rows["fallen"].copy()
    falls[1:] += fall > 0
    fallen[1:] = _sum(fallen[1:], np.maximum(fall, 0))
    is_timed = joins & (before["to_ms"] != _NO_TIME) & (here["from_ms"] != _NO_TIME)
    gap_from, gap_to = rows["gap_from_ms"].copy(), rows["gap_to_ms"].copy()
    gaps = np.where(gap_from != _NO_TIME, gap_to - gap_from, _NO_GAP)
    crossing = np.where(is_timed, here["from_ms"] - before["to_ms"], _NO_GAP)
    is_longer = is_timed & (crossing >= gaps[1:])
    gap_from[1:] = np.where(is_longer, before["to_ms"], gap_from[1:])
    gap_to[1:] = np.where(is_longer, here["from_ms"], gap_to[1:])
    gaps[1:] = np.where(is_longer, crossing, gaps[1:])

    whole = select(rows, starts)
    whole["commits"] = np.add.reduceat(rows["commits"], starts)
    whole["falls"] = np.add.reduceat(falls, starts)
    whole["fallen"] = _sums(fallen, starts)
    longest = _first_longest(gaps, starts, lasts)
    whole["gap_from_ms"], whole["gap_to_ms"] = gap_from[longest], gap_to[longest]
    # A removal may be the last, without a commit.
    with_commit = np.maximum(lasts - (rows["commits"][lasts] == 0), starts)
    for name in ("to_offset", "to_ms", "last_committed"):
        whole[name] = rows[name][with_commit]
    for name in ("removed_offset", "removed_ms"):
        whole[name] = rows[name][lasts]
    return whole


def _sum(one: Positions, other: Positions) -> Positions:
    """Return sums, the largest number in place of a larger one."""
    return np.where(one > _MOST - other, _MOST, one + np.minimum(other, _MOST - one))


def _sums(numbers: Positions, starts: Positions) -> Positions:
    is_large = np.add.reduceat(numbers.astype(np.float64), starts) >= float(_MOST)
    return np.where(is_large, _MOST, np.add.reduceat(numbers, starts))


def _first_longest(gaps: Positions, starts: Positions, lasts: Positions) -> Positions:
    """Return which row of each group has its longest gap, the first of such rows."""
    longest = np.maximum.reduceat(gaps, starts)
    group = np.repeat(np.arange(len(starts)), lasts - starts + 1)
    rows = np.flatnonzero(gaps == longest[group])
    _, first = np.unique(group[rows], return_index=True)
    found: Positions = rows[first]
    return found


def entry_structs(aggregates: Aggregates, keys: Iterable[CommitKey]) -> pa.StructArray:
    """Return aggregates as elements of bronze's `offset_commits`, whose keys these are."""
    keys = list(keys)
    has_commits = aggregates["commits"] > 0
    ids = np.stack([aggregates["id_high"], aggregates["id_low"]], axis=1).view(np.uint8)
    columns = {
        "topic": pa.array([key.topic for key in keys], pa.string()),
        "partition": pa.array([key.partition for key in keys], pa.int32()),
        "topic_id": uuid_texts(ids),
        "first_committed": _numbers(aggregates["first_committed"], has_commits),
        "last_committed": _numbers(aggregates["last_committed"], has_commits),
        "from_timestamp": _times(aggregates["from_ms"]),
        "to_timestamp": _times(aggregates["to_ms"]),
        "gap_from": _times(aggregates["gap_from_ms"]),
        "gap_to": _times(aggregates["gap_to_ms"]),
        "removed_timestamp": _times(aggregates["removed_ms"]),
    }
    columns |= {name: _numbers(aggregates[name], True) for name in ("commits", "falls", "fallen")}
    columns |= {
        name: _numbers(aggregates[name], aggregates[name] >= 0)
        for name in ("from_offset", "to_offset", "removed_offset")
    }
    return pa.StructArray.from_arrays([columns[field.name] for field in ENTRY], fields=list(ENTRY))


def _numbers(numbers: Positions, is_known: Flags | bool) -> pa.Int64Array:
    return pa.array(numbers, mask=None if is_known is True else ~is_known)


def _times(ms: Positions) -> pa.TimestampArray:
    return pa.array(ms * 1000, mask=ms == _NO_TIME).cast(TIME)


def known_times(times: Positions) -> Positions:
    """Return times, `_NO_TIME` for those that Spark has not."""
    return np.where((times >= 0) & (times <= LAST_MS), times, _NO_TIME)
