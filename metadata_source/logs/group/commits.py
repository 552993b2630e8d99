"""Offset commits of a log, as many as there are, and what they come to: an aggregate for each
group, topic and partition.

A commit is an aggregate of one. So there is one operation, `_merged`: aggregates of the same group,
topic and partition that follow each other become one. It makes those of an answer out of commits,
and those of a span out of answers.

A commit in a transaction counts when that is committed: it has the offset and the time of the
marker. Commits of a transaction that is open at the end of a span are an aggregate of their own,
which counts, or never does, by the row of the marker in a later span. So the first marker of each
producer in a span has a row: nobody knows here whether its transaction began before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import TIME
from metadata_source.columns.group_log import ENTRY, ROWS
from metadata_source.facts import LAST_MS
from metadata_source.protocol.offset_commits import are_commits, read_keys, read_values
from metadata_source.protocol.vectors import uuid_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from metadata_source.logs.topic.reader import Records
    from metadata_source.protocol.offset_commits import Values
    from metadata_source.protocol.vectors import Flags, Positions

    Aggregates = dict[str, Positions]
    """Columns of aggregates, one row each: those of `_COLUMNS`."""

ENTRIES_A_ROW: Final = 1_000

_NONE: Final = -1
_NO_TIME: Final = -1
_NO_GAP: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max

_COLUMNS: Final = (
    *(
        "key",
        "stretch",
        "commits",
        "from_offset",
        "from_ms",
        "first_committed",
        "to_offset",
        "to_ms",
        "last_committed",
    ),
    *(
        "gap_from_ms",
        "gap_to_ms",
        "falls",
        "fallen",
        "removed_offset",
        "removed_ms",
        "id_high",
        "id_low",
    ),
    *("producer", "log_partition"),
)
"""Columns of aggregates; the last two are of commits in transactions alone."""


class _Key(NamedTuple):
    group: int
    topic: str
    partition: int


class Commits:
    """Takes records of spans that are read side by side, and gives rows of what commits came to."""

    def __init__(self, groups_pattern: str | None = None) -> None:
        """`groups_pattern`: a regular expression (RE2) of whole names; commits of other groups are
        not kept.
        """
        self._pattern = groups_pattern
        self._codes: dict[tuple[int, bytes], int] = {}
        self._keys: list[_Key] = []
        self._group_codes: dict[tuple[int, bytes], int] = {}
        self._groups: list[str] = []
        self._group_of: Positions = np.empty(0, dtype=np.int64)
        self._open = _none()
        self._pending = _none()
        self._seen: set[tuple[int, int]] = set()
        """Log partition and producer of markers in what is open."""
        self._rows: list[pa.RecordBatch] = []

    def take(self, records: Records) -> Flags:
        """Take records; return which of them are commits that can be read."""
        is_commit = are_commits(records.keys) & ~records.is_control
        at = np.flatnonzero(is_commit)
        keys = self._codes_of(records.partitions[at], _only(records.keys, at))
        values = read_values(_only(records.values, at))
        wrong = np.zeros(len(records.offsets), dtype=np.bool_)
        wrong[at] = (values.is_wrong & (keys != _LEFT_OUT)) | (keys == _WRONG)
        commits = _commits(records, at, keys, values)
        is_good = ~values.is_wrong & (keys >= 0)
        if not is_good.all():
            commits, at = _taken(commits, is_good), at[is_good]
        if (
            len(self._pending["key"])
            or records.is_control.any()
            or (commits["producer"] >= 0).any()
        ):
            commits, at = self._resolved(records, commits, at)
        self._merge(records, commits, at, self._bounds(records, is_commit))
        return is_commit & ~wrong

    def end(self, partitions: Collection[int]) -> None:
        """End what is open of log partitions: their spans are over, or what follows was lost."""
        mine = np.isin(self._pending["log_partition"], list(partitions))
        for producer in np.unique(self._pending["producer"][mine]).tolist():
            of_producer = mine & (self._pending["producer"] == producer)
            self._give(_merged(_by_key(_taken(self._pending, of_producer))), producer)
        self._pending = _taken(self._pending, ~mine)
        mine = np.isin(self._open["log_partition"], list(partitions))
        self._give(_taken(self._open, mine))
        self._open = _taken(self._open, ~mine)
        self._seen = {each for each in self._seen if each[0] not in partitions}

    def rows(self) -> pa.Table:
        """Return the rows since the last call (schema `ROWS`)."""
        rows, self._rows = self._rows, []
        return pa.Table.from_batches(rows, ROWS)

    # --- names ---

    def _codes_of(self, partitions: Positions, keys: pa.BinaryArray) -> Positions:
        """Return the number of each key, or `_WRONG`, or `_LEFT_OUT`."""
        if not len(keys):
            return partitions
        encoded = keys.dictionary_encode()
        # A group's records are in one partition, unless somebody else than its coordinator wrote
        # them.
        width = int(partitions.max()) + 1
        pairs = encoded.indices.to_numpy() * np.int64(width) + partitions
        is_there = np.zeros(len(encoded.dictionary) * width, dtype=np.bool_)
        is_there[pairs] = True
        places = np.flatnonzero(is_there)
        raw = encoded.dictionary.take(pa.array(places // width)).to_pylist()
        known = list(zip((places % width).tolist(), raw, strict=True))
        new = [each for each in known if each not in self._codes]
        if new:
            self._learn(new)
        codes = np.zeros(len(is_there), dtype=np.int64)
        codes[places] = [self._codes[each] for each in known]
        found: Positions = codes[pairs]
        return found

    def _learn(self, new: list[tuple[int, bytes]]) -> None:
        names = read_keys(pa.array([raw for _, raw in new], pa.binary()))
        kept = self._kept([name[0] for name in names if name is not None])
        for (log_partition, raw), name in zip(new, names, strict=True):
            if name is None:
                self._codes[log_partition, raw] = _WRONG
            elif not kept[name[0]]:
                self._codes[log_partition, raw] = _LEFT_OUT
            else:
                group = self._group_codes.setdefault(
                    (log_partition, group_bytes(raw)), len(self._groups)
                )
                if group == len(self._groups):
                    self._groups.append(name[0])
                self._codes[log_partition, raw] = len(self._keys)
                self._keys.append(_Key(group, *name[1:]))
        self._group_of = np.array([key.group for key in self._keys], dtype=np.int64)

    def _kept(self, groups: list[str]) -> dict[str, bool]:
        if self._pattern is None:
            return dict.fromkeys(groups, True)
        matches = pc.match_substring_regex(pa.array(groups, pa.string()), self._pattern)
        return dict(zip(groups, matches.to_pylist(), strict=True))

    # --- transactions ---

    def _resolved(
        self, records: Records, commits: Aggregates, at: Positions
    ) -> tuple[Aggregates, Positions]:
        """Return the commits that count, and where: those in no transaction, and at the markers
        those that they commit. Keep those of open transactions.
        """
        is_pending = commits["producer"] >= 0
        before = len(self._pending["key"])
        pending = _joined(self._pending, _taken(commits, is_pending))
        markers, is_commit = self._markers(records)
        since = np.concatenate([np.full(before, -1), at[is_pending]])
        marker = _next_marker(pending, since, records, markers)
        self._pending = _taken(pending, marker < 0)
        counts = marker >= 0
        counts[counts] = is_commit[marker[counts]]
        counted, there = _taken(pending, counts), markers[marker[counts]]
        is_removal = counted["commits"] == 0
        for name, column in (
            ("offset", records.offsets[there]),
            ("ms", _known(records.times[there])),
        ):
            counted[f"removed_{name}"] = np.where(is_removal, column, _NONE)
            counted[f"from_{name}"] = counted[f"to_{name}"] = np.where(is_removal, _NONE, column)
        places = np.concatenate([at[~is_pending], there])
        order = np.argsort(places, kind="stable")
        return _taken(_joined(_taken(commits, ~is_pending), counted), order), places[order]

    def _markers(self, records: Records) -> tuple[Positions, Flags]:
        """Return where markers are, and which of them commit; give a row of the first of each
        producer.
        """
        at = np.flatnonzero(records.is_control & (records.producers >= 0))
        keys = _only(records.keys, at)
        # A version, and the type: ABORT(0) or COMMIT(1) of Kafka's ``ControlRecordType``.
        is_one = (
            pc.equal(pc.binary_length(keys), _MARKER_BYTES)
            .fill_null(False)
            .to_numpy(zero_copy_only=False)
        )
        at, keys = at[is_one], _only(keys, np.flatnonzero(is_one))
        kinds = np.frombuffer(b"".join(keys.to_pylist()), ">i2").reshape(-1, 2)[:, 1]
        is_end = (kinds == 0) | (kinds == 1)
        at, commits = at[is_end], kinds[is_end] == 1
        rows = []
        pairs = np.stack([records.partitions[at], records.producers[at]])
        for first in np.sort(np.unique(pairs, axis=1, return_index=True)[1]).tolist():
            partition, producer = (int(each) for each in pairs[:, first])
            if (partition, producer) in self._seen:
                continue
            self._seen.add((partition, producer))
            offset, ms = int(records.offsets[at[first]]), int(records.times[at[first]])
            rows.append(
                {
                    "record": "marker",
                    "log_partition": partition,
                    "offset": offset,
                    "next_offset": offset + 1,
                    "timestamp": ms * 1000 if 0 <= ms <= LAST_MS else None,
                    "producer_id": producer,
                    "is_committed": bool(commits[first]),
                }
            )
        if rows:
            self._rows.append(pa.RecordBatch.from_pylist(rows, ROWS))
        return at, commits

    # --- stretches ---

    def _merge(
        self, records: Records, commits: Aggregates, at: Positions, bounds: Positions
    ) -> None:
        """Merge commits with what is open, and give what was ended by records of its group."""
        step = len(records.offsets) + 1
        if len(bounds):
            groups = self._group_of[commits["key"]] * step
            commits["stretch"] = np.searchsorted(bounds, groups + at) - np.searchsorted(
                bounds, groups
            )
        commits = _merged(_by_key(commits))
        self._open = _merged(_by_key(_joined(self._open, commits)))
        if len(bounds):
            groups = self._group_of[self._open["key"]] * step
            ends = np.searchsorted(bounds, groups + step) - np.searchsorted(bounds, groups)
            is_over = self._open["stretch"] < ends
            self._give(_taken(self._open, is_over))
            self._open = _taken(self._open, ~is_over)
            self._open["stretch"] = np.zeros_like(self._open["key"])

    def _bounds(self, records: Records, is_commit: Flags) -> Positions:
        """Return where records of groups are that have commits: the group's number times one more
        than there are records, plus the record's place.
        """
        at = np.flatnonzero(~is_commit & ~records.is_control)
        if not len(at) or not self._groups:
            return np.empty(0, dtype=np.int64)
        keys, partitions = _only(records.keys, at).to_pylist(), records.partitions[at].tolist()
        groups = np.array(
            [
                _NONE
                if raw is None
                else self._group_codes.get((partition, group_bytes(raw)), _NONE)
                for partition, raw in zip(partitions, keys, strict=True)
            ]
        )
        bounds: Positions = np.sort(
            groups[groups >= 0] * (len(records.offsets) + 1) + at[groups >= 0]
        )
        return bounds

    # --- rows ---

    def _give(self, aggregates: Aggregates, producer: int | None = None) -> None:
        """Make rows of aggregates: one for each group and stretch, or several."""
        count = len(aggregates["key"])
        if not count:
            return
        begins = np.where(
            aggregates["commits"] > 0, aggregates["from_offset"], aggregates["removed_offset"]
        )
        order = np.lexsort((begins, aggregates["stretch"], self._group_of[aggregates["key"]]))
        aggregates, begins = _taken(aggregates, order), begins[order]
        groups, stretches = self._group_of[aggregates["key"]], aggregates["stretch"]
        is_first = np.ones(count, dtype=np.bool_)
        is_first[1:] = (groups[1:] != groups[:-1]) | (stretches[1:] != stretches[:-1])
        number = np.arange(count)
        number -= np.maximum.accumulate(np.where(is_first, number, 0))
        starts = np.flatnonzero(number % ENTRIES_A_ROW == 0)
        ends = np.maximum(aggregates["to_offset"], aggregates["removed_offset"]) + 1
        keys = [self._keys[key] for key in aggregates["key"].tolist()]
        offsets = pa.array(np.append(starts, count).astype(np.int32))
        columns = {
            "record": pa.repeat("commits", len(starts)),
            "log_partition": pa.array(aggregates["log_partition"][starts].astype(np.int32)),
            "offset": pa.array(np.minimum.reduceat(begins, starts)),
            "next_offset": pa.array(np.maximum.reduceat(ends, starts)),
            "group_id": pa.array(
                [self._groups[group] for group in groups[starts].tolist()], pa.string()
            ),
            "producer_id": pa.repeat(pa.scalar(producer, pa.int64()), len(starts)),
            "chunk": pa.array((number[starts] // ENTRIES_A_ROW).astype(np.int32)),
            "offset_commits": pa.ListArray.from_arrays(offsets, _entries(aggregates, keys)),
        }
        arrays = [columns.get(field.name, pa.nulls(len(starts), field.type)) for field in ROWS]
        self._rows.append(pa.RecordBatch.from_arrays(arrays, schema=ROWS))


_WRONG: Final = -1
_LEFT_OUT: Final = -2
_MARKER_BYTES: Final = 4


def group_bytes(key: bytes) -> bytes:
    """Return a group as a record's key names it: all keys begin with the type and the group."""
    return key[2 : 4 + int.from_bytes(key[2:4])]


def _only(array: pa.Array, rows: Positions) -> pa.Array:
    return array if len(rows) == len(array) else array.take(pa.array(rows))


def _known(times: Positions) -> Positions:
    """Return times, `_NO_TIME` for those that Spark has not."""
    return np.where((times >= 0) & (times <= LAST_MS), times, _NO_TIME)


def _commits(records: Records, at: Positions, keys: Positions, values: Values) -> Aggregates:
    """Return commits as aggregates of one."""
    is_removal = values.is_removal
    times, offsets = _known(records.times[at]), records.offsets[at]
    none, nothing = np.full(len(at), _NONE), np.zeros(len(at), dtype=np.int64)
    commits = dict.fromkeys(_COLUMNS, nothing)
    commits |= {"key": keys, "commits": (~is_removal).astype(np.int64)}
    commits |= {"log_partition": records.partitions[at], "producer": records.producers[at]}
    commits |= dict.fromkeys(("first_committed", "last_committed"), values.offsets)
    commits |= dict.fromkeys(("gap_from_ms", "gap_to_ms"), none)
    ids = values.topic_ids.view(np.int64)
    commits |= {"id_high": ids[:, 0], "id_low": ids[:, 1]}
    has_removals = is_removal.any()
    for name, column in (("offset", offsets), ("ms", times)):
        end = np.where(is_removal, _NONE, column) if has_removals else column
        commits |= dict.fromkeys((f"from_{name}", f"to_{name}"), end)
        commits[f"removed_{name}"] = np.where(is_removal, column, _NONE) if has_removals else none
    return commits


def _none() -> Aggregates:
    return {name: np.empty(0, dtype=np.int64) for name in _COLUMNS}


def _taken(aggregates: Aggregates, rows: Positions | Flags | slice) -> Aggregates:
    """Return some rows."""
    # Commits have the same column under several names.
    once = {id(column): column[rows] for column in aggregates.values()}
    return {name: once[id(column)] for name, column in aggregates.items()}


def _joined(one: Aggregates, other: Aggregates) -> Aggregates:
    return {name: np.concatenate([column, other[name]]) for name, column in one.items()}


def _by_key(aggregates: Aggregates) -> Aggregates:
    """Return aggregates by their keys, otherwise in the order in which they are."""
    keys = aggregates["key"]
    # NumPy sorts numbers of 16 bits by their digits, which takes a fraction of the time.
    narrow = keys.astype(np.uint16) if len(keys) and int(keys.max()) < 1 << 16 else keys
    return _taken(aggregates, np.argsort(narrow, kind="stable"))


def _next_marker(
    pending: Aggregates, since: Positions, records: Records, markers: Positions
) -> Positions:
    """Return of each commit in a transaction which marker ends that (an index of `markers`), -1
    where none does.
    """
    count = len(since)
    if not count or not len(markers):
        return np.full(count, -1)
    producer = np.concatenate([pending["producer"], records.producers[markers]])
    partition = np.concatenate([pending["log_partition"], records.partitions[markers]])
    order = np.lexsort((np.concatenate([since, markers]), producer, partition))
    nowhere = len(order)
    following = np.minimum.accumulate(
        np.where(order >= count, np.arange(len(order)), nowhere)[::-1]
    )[::-1]
    found = order[np.minimum(following, nowhere - 1)]
    is_same = (
        (producer[found] == producer[order])
        & (partition[found] == partition[order])
        & (following < nowhere)
    )
    marker = np.empty(len(order), dtype=np.int64)
    marker[order] = np.where(is_same, found - count, -1)
    return marker[:count]


def _merged(rows: Aggregates) -> Aggregates:
    """Return aggregates of one key that follow each other as one, up to a removal, another topic
    id, or another stretch.
    """
    count = len(rows["key"])
    if count < 2:
        return rows
    before, here = _taken(rows, slice(None, -1)), _taken(rows, slice(1, None))
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

    merged = _taken(rows, starts)
    merged["commits"] = np.add.reduceat(rows["commits"], starts)
    merged["falls"] = np.add.reduceat(falls, starts)
    merged["fallen"] = _sums(fallen, starts)
    longest = _first_longest(gaps, starts, lasts)
    merged["gap_from_ms"], merged["gap_to_ms"] = gap_from[longest], gap_to[longest]
    # A removal may be the last, without a commit.
    with_commit = np.maximum(lasts - (rows["commits"][lasts] == 0), starts)
    for name in ("to_offset", "to_ms", "last_committed"):
        merged[name] = rows[name][with_commit]
    for name in ("removed_offset", "removed_ms"):
        merged[name] = rows[name][lasts]
    return merged


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


def _entries(aggregates: Aggregates, keys: Iterable[_Key]) -> pa.StructArray:
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
