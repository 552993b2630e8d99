"""Transactions of a log: what its records come to, by pattern of transactional ids, and those that
a history needs one by one.

A stretch is what is read of a span between two multiples of `STRETCH` offsets of a log partition:
so its rows follow from the span alone, wherever answers are cut, and memory is bounded by count.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from metadata_source.columns.transaction_log import ROWS, STATE
from metadata_source.kafka_constants import LAST_MS
from metadata_source.logs.transaction.counts import (
    added,
    counts_of_episodes,
    counts_of_records,
    hours_of,
    no_counts,
    reduced,
    time_or_none,
)
from metadata_source.logs.transaction.entries import bounded, entries_of
from metadata_source.logs.transaction.episodes import (
    NONE,
    Fates,
    episodes_of,
    followed,
    joined,
    no_episodes,
    select,
)
from metadata_source.protocol.transaction_records import (
    PARTITIONS,
    read_ids,
    read_values,
)
from metadata_source.protocol.transaction_specs import DEAD
from metadata_source.transactional_ids import pattern_of, shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from metadata_source.logs.topic.positions import Span
    from metadata_source.logs.topic.reader import Records
    from metadata_source.logs.transaction.counts import Counts
    from metadata_source.logs.transaction.episodes import Episodes
    from metadata_source.protocol.vectors import Flags, Positions

STRETCH: Final = 5_000
"""Offsets of a log partition that a row spans at most: they bound ids and entries in memory."""
TOGETHER: Final = 2_000
"""Records of a log partition that are joined at once: each time takes a millisecond."""
STATES_A_ROW: Final = 1_000
MOST_PATTERNS: Final = 200
"""Patterns of a stretch that have rows of their own; the others are one."""


class Transactions:
    """Takes records of spans that are read side by side, and gives rows of transactions."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Take nothing yet. `spans`: of other partitions no records come."""
        self._next = {span.partition: span.start if span.follows_end else NONE for span in spans}
        """By log partition, the offset after the last record; NONE where that is not known."""
        self._compacted: set[int] = set()
        """The log partitions of which records were compacted away before they could be read."""
        self._open: dict[int, _Stretch] = {}
        """By log partition."""
        self._rows: list[pa.RecordBatch] = []

    def take(self, records: Records) -> Flags:
        """Take records; return which of them can be read."""
        is_good: Flags = np.zeros(len(records.offsets), dtype=np.bool_)
        at = np.flatnonzero(~records.is_control)
        keys = records.keys.take(pa.array(at)).dictionary_encode()
        ids, _ = read_ids(keys.dictionary)
        is_named = np.array([each is not None for each in ids] or [False])
        codes = keys.indices.fill_null(len(ids) or 0).to_numpy()
        values = read_values(records.values.take(pa.array(at)))
        good = np.append(is_named, False)[codes] if len(ids) else np.zeros(len(at), dtype=np.bool_)
        good[list(values.errors)] = False
        is_good[at[good]] = True
        numbers = values.numbers | {"partition_count": values.partition_counts}
        numbers["state"] = np.where(values.is_tombstone, DEAD, numbers.pop("status"))
        times = records.times[at]
        # Spark has no others.
        known = np.where((times >= 0) & (times <= LAST_MS), times, NONE)
        numbers |= {"ms": known, "offset": records.offsets[at]}
        numbers |= {"leader_epoch": records.leader_epochs[at], "code": codes}
        numbers |= {"is_after_hole": self._after_hole(records)[at].astype(np.int64)}
        partitions = records.partitions[at]
        for partition in np.unique(partitions[good]).tolist():
            mine = np.flatnonzero(good & (partitions == partition))
            stretches = numbers["offset"][mine] // STRETCH
            for number in np.unique(stretches).tolist():
                stretch = self._open.get(partition)
                if stretch is None or stretch.number != number:
                    self.end([partition])
                    stretch = self._open[partition] = _Stretch(number, partition)
                rows = mine[stretches == number]
                stretch.take(select(numbers, rows), ids, values.partitions.take(pa.array(rows)))
        return is_good

    def _after_hole(self, records: Records) -> Flags:
        """Return before which records others of their partition were compacted away."""
        found: Flags = np.zeros(len(records.offsets), dtype=np.bool_)
        for partition in np.unique(records.partitions).tolist():
            mine = np.flatnonzero(records.partitions == partition)
            offsets = records.offsets[mine]
            is_next = offsets == np.append(self._next.get(partition, NONE), offsets[:-1] + 1)
            self._next[partition] = int(offsets[-1]) + 1
            if partition in self._compacted:
                found[mine] = True
            elif not is_next.all():
                self._compacted.add(partition)
                found[mine] = np.logical_or.accumulate(~is_next)
        return found

    def end(self, partitions: Collection[int]) -> None:
        """End what is open of log partitions: their spans are over, or what follows was lost."""
        for partition in partitions:
            stretch = self._open.pop(partition, None)
            if stretch is not None:
                self._rows += stretch.rows()

    def rows(self) -> pa.Table:
        """Return the rows since the last call (schema `ROWS`)."""
        rows, self._rows = self._rows, []
        return pa.Table.from_batches(rows, ROWS)


class _Stretch:
    """What the records of a stretch come to so far: of each id one episode may still go on."""

    def __init__(self, number: int, partition: int) -> None:
        self.number = number
        self._partition = partition
        self._since_ms = NONE
        self._keys: dict[str, int] = {}
        self._episodes = no_episodes()
        self._partitions = pa.array([], PARTITIONS)
        """What `partitions_at` of the episodes is a row of."""
        self._counts = no_counts()
        self._waiting: list[tuple[Episodes, pa.ListArray]] = []
        self._entries: list[tuple[pa.StructArray, Episodes]] = []

    def take(self, records: Episodes, ids: list[str | None], partitions: pa.ListArray) -> None:
        """Take records in the order of offsets, and the partitions of each; `code`: of which id
        each is.
        """
        known = len(self._keys)
        used = np.unique(records["code"])
        key_of = np.full(int(used[-1]) + 1, NONE)
        for code in used.tolist():
            key_of[code] = self._keys.setdefault(ids[code] or "", len(self._keys))
        key = key_of[records.pop("code")]
        is_first = np.zeros_like(key)
        is_first[np.unique(key, return_index=True)[1]] = 1
        records |= {"key": key, "is_first": is_first * (key >= known)}
        if self._since_ms == NONE:
            self._since_ms = int(records["ms"][0])
        self._waiting.append((records, partitions))
        if sum(len(each["key"]) for each, _ in self._waiting) >= TOGETHER:
            self._join()

    def _join(self) -> None:
        """Count the records that wait, and join them with what is open."""
        if not self._waiting:
            return
        records = {
            name: np.concatenate([each[name] for each, _ in self._waiting])
            for name in self._waiting[0][0]
        }
        together = pa.concat_arrays([self._partitions, *(each for _, each in self._waiting)])
        self._waiting = []
        self._counts = added(self._counts, counts_of_records(records))
        at = np.arange(len(self._partitions), len(together))
        records["partitions_at"] = np.where(records["partition_count"] > 0, at, NONE)
        episodes, is_over = joined(followed(self._episodes, episodes_of(records)))
        self._finish(select(episodes, is_over), together)
        self._episodes, self._partitions = _compact(select(episodes, ~is_over), together)

    def _finish(self, episodes: Episodes, partitions: pa.ListArray) -> None:
        """Count episodes that are over, and make entries of those that need one."""
        if not len(episodes["key"]):
            return
        fates = Fates(episodes, self._since_ms)
        self._counts = added(self._counts, counts_of_episodes(episodes, fates))
        if fates.is_entry.any():
            chosen = select(episodes, fates.is_entry)
            chosen, named = _compact(chosen, partitions)
            names = list(self._keys)
            ids = pa.array([shortened(names[key]) for key in chosen["key"].tolist()], pa.string())
            fates = Fates(chosen, self._since_ms)
            self._entries.append((entries_of(chosen, fates, ids, named), chosen))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """End the stretch, and yield its rows."""
        self._join()
        self._finish(self._episodes, self._partitions)
        pattern_of_key, patterns = self._patterns()
        counts = dict(self._counts)
        counts["ids"] = np.ones_like(counts["key"])
        counts["key"] = pattern_of_key[counts["key"]]
        counts = reduced(counts, np.lexsort((counts["hour"], counts["key"])))
        entries, row_of = self._by_row(pattern_of_key, counts)
        yield _batch(self._partition, counts, patterns, entries, row_of)

    def _patterns(self) -> tuple[Positions, list[str | None]]:
        """Return by key the number of its pattern, and the patterns, those with most records first;
        the last one is None, of all others.
        """
        numbers: dict[str, int] = {}
        of_key = np.array(
            [numbers.setdefault(pattern_of(each), len(numbers)) for each in self._keys],
            dtype=np.int64,
        )
        counted = np.bincount(
            of_key[self._counts["key"]], self._counts["counted"], minlength=len(numbers)
        )
        first = np.full(len(numbers), np.iinfo(np.int64).max)
        np.minimum.at(first, of_key[self._counts["key"]], self._counts["from_offset"])
        order = np.lexsort((first, -counted))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        names = list(numbers)
        kept = [names[number] for number in order[:MOST_PATTERNS].tolist()]
        return np.minimum(rank, MOST_PATTERNS)[of_key], [*kept, None]

    def _by_row(
        self, pattern_of_key: Positions, counts: Counts
    ) -> tuple[pa.StructArray, Positions]:
        """Return the entries by the rows of counts that they belong to, in the order of offsets,
        and the row of each.
        """
        if not self._entries:
            return pa.array([], STATE), np.empty(0, dtype=np.int64)
        entries = pa.concat_arrays([each for each, _ in self._entries])
        key, ms, offset = (
            np.concatenate([of[name] for _, of in self._entries])
            for name in ("key", "ms", "offset")
        )
        row_of = {
            pair: row
            for row, pair in enumerate(
                zip(counts["key"].tolist(), counts["hour"].tolist(), strict=True)
            )
        }
        pairs = zip(pattern_of_key[key].tolist(), hours_of(ms).tolist(), strict=True)
        rows = np.array([row_of[pair] for pair in pairs], dtype=np.int64)
        order = np.lexsort((offset, rows))
        return entries.take(pa.array(order)), rows[order]


def _compact(episodes: Episodes, partitions: pa.ListArray) -> tuple[Episodes, pa.ListArray]:
    """Return episodes and the partitions that they name, and no others."""
    at = episodes["partitions_at"]
    named = np.flatnonzero(at != NONE)
    kept = bounded(partitions.take(pa.array(at[named])), episodes["partition_count"][named])
    at = np.full(len(at), NONE)
    at[named] = np.arange(len(named))
    return episodes | {"partitions_at": at}, kept


def _batch(
    partition: int,
    counts: Counts,
    patterns: list[str | None],
    entries: pa.StructArray,
    row_of: Positions,
) -> pa.RecordBatch:
    """Return the rows of counts with their entries; more than `STATES_A_ROW` take several rows."""
    rows: list[dict[str, Any]] = []
    bounds = [0]
    firsts = np.searchsorted(row_of, np.arange(len(counts["key"]) + 1)).tolist()
    for row, (begin, end) in enumerate(pairwise(firsts)):
        for chunk, start in enumerate(range(begin, max(end, begin + 1), STATES_A_ROW)):
            rows.append(_row(partition, counts, patterns, row, chunk))
            bounds.append(min(start + STATES_A_ROW, end))
    states = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), entries)
    without = pa.schema([field for field in ROWS if field.name != "states"])
    found = pa.RecordBatch.from_pylist(rows, without)
    return pa.RecordBatch.from_arrays([*found.columns, states], schema=ROWS)


def _row(
    partition: int, counts: Counts, patterns: list[str | None], row: int, chunk: int
) -> dict[str, Any]:
    one = {name: int(column[row]) for name, column in counts.items()}
    found: dict[str, Any] = {
        "record": "transactions",
        "log_partition": partition,
        "offset": one["from_offset"],
        "next_offset": one["to_offset"] + 1,
        "pattern": patterns[one["key"]],
        "chunk": chunk,
        "leader_epoch": one["leader_epoch"] if one["leader_epoch"] >= 0 else None,
        **{f"{name}_timestamp": _micros(one[f"{name}_ms"]) for name in ("from", "to")},
    }
    if chunk == 0:
        found |= {name: one[name] for name in _COUNTED}
        found |= {name: one[name] if one[name] >= 0 else None for name in _LONGEST}
        found["most_partitions"] = one["most_partitions"] or None
    return found


def _micros(ms: int) -> int | None:
    known = time_or_none(ms)
    return None if known is None else known * 1000


_LONGEST: Final = ("longest_ms", "longest_completing_ms")
_COUNTED: Final = (
    "counted",
    *ROWS.names[ROWS.get_field_index("ids") : ROWS.get_field_index("longest_ms")],
)
