"""Offset commits of a log, as many as there are, and what they come to: an aggregate for each
group, topic and partition.

A commit in a transaction counts when that is committed: it has the offset and the time of the
marker. Commits of a transaction that is open at the end of a span are an aggregate of their own,
which counts, or never does, by the row of the marker in a later span. So the first marker of each
producer in a span has a row: nobody knows here whether its transaction began before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns.group_log import ROWS
from metadata_source.kafka_constants import LAST_MS
from metadata_source.logs.group.aggregates import (
    NONE,
    CommitKey,
    aggregates_of,
    by_key,
    entry_structs,
    join,
    known_times,
    merge,
    no_aggregates,
    select,
)
from metadata_source.protocol.offset_commits import are_commits, read_keys, read_values

if TYPE_CHECKING:
    from collections.abc import Collection

    from metadata_source.logs.group.aggregates import Aggregates
    from metadata_source.logs.topic.reader import Records
    from metadata_source.protocol.vectors import Flags, Positions

ENTRIES_A_ROW: Final = 1_000


class Commits:
    """Takes records of spans that are read side by side, and gives rows of what commits came to."""

    def __init__(self, groups_pattern: str | None = None) -> None:
        """`groups_pattern`: a regular expression (RE2) of whole names; others are not kept."""
        self._pattern = groups_pattern
        self._codes: dict[tuple[int, bytes], int] = {}
        self._keys: list[CommitKey] = []
        self._group_codes: dict[tuple[int, bytes], int] = {}
        self._groups: list[str] = []
        self._group_of: Positions = np.empty(0, dtype=np.int64)
        self._open = no_aggregates()
        self._pending = no_aggregates()
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
        commits = aggregates_of(records, at, keys, values)
        is_good = ~values.is_wrong & (keys >= 0)
        if not is_good.all():
            commits, at = select(commits, is_good), at[is_good]
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
            self._give(merge(by_key(select(self._pending, of_producer))), producer)
        self._pending = select(self._pending, ~mine)
        mine = np.isin(self._open["log_partition"], list(partitions))
        self._give(select(self._open, mine))
        self._open = select(self._open, ~mine)
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
        used = np.flatnonzero(is_there)
        raw = encoded.dictionary.take(pa.array(used // width)).to_pylist()
        known = list(zip((used % width).tolist(), raw, strict=True))
        new = [each for each in known if each not in self._codes]
        if new:
            self._learn(new)
        codes = np.zeros(len(is_there), dtype=np.int64)
        codes[used] = [self._codes[each] for each in known]
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
                self._keys.append(CommitKey(group, *name[1:]))
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
        pending = join(self._pending, select(commits, is_pending))
        markers, is_commit = self._markers(records)
        since = np.concatenate([np.full(before, -1), at[is_pending]])
        marker = _next_marker(pending, since, records, markers)
        self._pending = select(pending, marker < 0)
        counts = marker >= 0
        counts[counts] = is_commit[marker[counts]]
        counted, there = select(pending, counts), markers[marker[counts]]
        is_removal = counted["commits"] == 0
        for name, column in (
            ("offset", records.offsets[there]),
            ("ms", known_times(records.times[there])),
        ):
            counted[f"removed_{name}"] = np.where(is_removal, column, NONE)
            counted[f"from_{name}"] = counted[f"to_{name}"] = np.where(is_removal, NONE, column)
        where = np.concatenate([at[~is_pending], there])
        order = np.argsort(where, kind="stable")
        return select(join(select(commits, ~is_pending), counted), order), where[order]

    def _markers(self, records: Records) -> tuple[Positions, Flags]:
        """Return where markers are, and which commit; give a row of the first of each producer."""
        at = np.flatnonzero(records.is_control & (records.producers >= 0))
        keys = _only(records.keys, at)
        # A version, and the type: ABORT(0) or COMMIT(1) of Kafka's ``ControlRecordType``.
        is_one = (
            pc.equal(pc.binary_length(keys), _MARKER_BYTES)
            .fill_null(False)
            .to_numpy(zero_copy_only=False)
        )
        at, keys = at[is_one], _only(keys, np.flatnonzero(is_one))
        types = np.frombuffer(b"".join(keys.to_pylist()), ">i2").reshape(-1, 2)[:, 1]
        is_end = (types == 0) | (types == 1)
        at, commits = at[is_end], types[is_end] == 1
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
        commits = merge(by_key(commits))
        self._open = merge(by_key(join(self._open, commits)))
        if len(bounds):
            groups = self._group_of[self._open["key"]] * step
            ends = np.searchsorted(bounds, groups + step) - np.searchsorted(bounds, groups)
            is_over = self._open["stretch"] < ends
            self._give(select(self._open, is_over))
            self._open = select(self._open, ~is_over)
            self._open["stretch"] = np.zeros_like(self._open["key"])

    def _bounds(self, records: Records, is_commit: Flags) -> Positions:
        """Return where records of groups are that have commits: the group's number times one more
        than there are records, plus the record's position.
        """
        at = np.flatnonzero(~is_commit & ~records.is_control)
        if not len(at) or not self._groups:
            return np.empty(0, dtype=np.int64)
        keys, partitions = _only(records.keys, at).to_pylist(), records.partitions[at].tolist()
        groups = np.array(
            [
                NONE if raw is None else self._group_codes.get((partition, group_bytes(raw)), NONE)
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
        aggregates, begins = select(aggregates, order), begins[order]
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
            "offset_commits": pa.ListArray.from_arrays(offsets, entry_structs(aggregates, keys)),
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


def _next_marker(
    pending: Aggregates, since: Positions, records: Records, markers: Positions
) -> Positions:
    """Return which marker ends each commit's transaction (an index of `markers`), -1 for none."""
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
