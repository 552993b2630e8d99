"""What records and episodes of transactional ids come to: counts by id and hour, or pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from metadata_source.logs.transaction.episodes import (
    BY_CLIENT,
    BY_COORDINATOR,
    COMPLETE,
    NONE,
)
from metadata_source.protocol.transaction_specs import COMPLETE_COMMIT, DEAD, EMPTY

if TYPE_CHECKING:
    from metadata_source.logs.transaction.episodes import Episodes, Fates
    from metadata_source.protocol.vectors import Positions

    Counts = dict[str, Positions]
    """Columns of counts, one row each: `key`, `hour` and those of `SUMS`, `MOST` and `LEAST`."""

_HOUR_MS: Final = 3_600_000
_NO_LEAST: Final = np.iinfo(np.int64).max
SUMS: Final = (
    *("counted", "ids", "begun", "committed", "aborted_by_client", "aborted_by_coordinator"),
    *("aborted_by_unknown", "timed_out", "epochs_raised", "producer_ids_given", "removed"),
    "total_ms",
)
MOST: Final = (
    *("to_offset", "to_ms", "leader_epoch", "longest_ms", "longest_completing_ms"),
    "most_partitions",
)
LEAST: Final = ("from_offset", "from_ms")


def hours_of(ms: Positions) -> Positions:
    """Return hours since 1970; -1 where there is no time."""
    hours: Positions = np.where(ms >= 0, ms // _HOUR_MS, NONE)
    return hours


def counts_of_records(records: Episodes) -> Counts:
    """Return what records count, one row each."""
    state, epoch = records["state"], records["producer_epoch"]
    before = records["previous_producer_id"]
    is_given = np.where(
        state == EMPTY,
        epoch == 0,
        np.isin(state, COMPLETE) & (before != NONE) & (before != records["producer_id"]),
    )
    ms = records["ms"]
    return _rows(
        records["key"],
        hours_of(ms),
        counted=np.ones_like(state),
        epochs_raised=(state == EMPTY) & (epoch > 0),
        producer_ids_given=is_given,
        removed=state == DEAD,
        most_partitions=records["partition_count"],
        leader_epoch=records["leader_epoch"],
        from_offset=records["offset"],
        to_offset=records["offset"],
        from_ms=np.where(ms >= 0, ms, _NO_LEAST),
        to_ms=ms,
    )


def counts_of_episodes(episodes: Episodes, fates: Fates) -> Counts:
    """Return what episodes that are over count: where they begin, and where they are complete."""
    is_complete = fates.is_complete
    is_aborted = is_complete & fates.is_aborted
    is_known = np.isin(fates.aborted_by, (BY_CLIENT, BY_COORDINATOR))
    begins = _rows(episodes["key"], hours_of(episodes["from_ms"]), begun=fates.begun)
    ends = _rows(
        episodes["key"],
        hours_of(episodes["ms"]),
        committed=episodes["state"] == COMPLETE_COMMIT,
        aborted_by_client=is_aborted & (fates.aborted_by == BY_CLIENT),
        aborted_by_coordinator=is_aborted & (fates.aborted_by == BY_COORDINATOR),
        aborted_by_unknown=is_aborted & ~is_known,
        timed_out=is_aborted & fates.is_late & (fates.aborted_by != BY_CLIENT),
        total_ms=np.where(is_complete, np.maximum(fates.duration_ms, 0), 0),
        longest_ms=np.where(is_complete, fates.duration_ms, NONE),
        longest_completing_ms=np.where(is_complete, fates.completing_ms, NONE),
    )
    return added(begins, ends)


def added(*counts: Counts) -> Counts:
    """Return counts, those of one key and hour as one."""
    together = {name: np.concatenate([each[name] for each in counts]) for name in counts[0]}
    return reduced(together, np.lexsort((together["hour"], together["key"])))


def reduced(counts: Counts, order: Positions) -> Counts:
    """Return counts in an order in which those of one key and hour follow each other, as one."""
    if not len(order):
        return counts
    rows = {name: column[order] for name, column in counts.items()}
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (rows["key"][1:] != rows["key"][:-1]) | (rows["hour"][1:] != rows["hour"][:-1])
    starts = np.flatnonzero(is_new)
    return {
        **{name: rows[name][starts] for name in ("key", "hour")},
        **{name: np.add.reduceat(rows[name], starts) for name in SUMS},
        **{name: np.maximum.reduceat(rows[name], starts) for name in MOST},
        **{name: np.minimum.reduceat(rows[name], starts) for name in LEAST},
    }


def no_counts() -> Counts:
    """Return counts without a row."""
    nothing = np.empty(0, dtype=np.int64)
    return _rows(nothing, nothing)


def time_or_none(ms: int) -> int | None:
    """Return a time of counts, ms since 1970; None where there is none."""
    return ms if 0 <= ms < _NO_LEAST else None


def _rows(key: Positions, hour: Positions, **given: Positions) -> Counts:
    of_all = dict.fromkeys(SUMS, np.zeros_like(key)) | dict.fromkeys(MOST, np.full_like(key, NONE))
    of_all |= dict.fromkeys(LEAST, np.full_like(key, _NO_LEAST))
    numbers = {name: column.astype(np.int64) for name, column in given.items()}
    return {"key": key, "hour": hour} | of_all | numbers
