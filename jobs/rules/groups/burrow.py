"""Burrow's status of a partition and of a group, in the order of `calculatePartitionStatus`
(core/internal/evaluator/caching.go, ced55ba). Burrow takes a negative lag for zero.

Burrow sees each commit. A visit sees the last one, and no commit that repeats the offset. So a
window is of the last ten visits that told of the group, and a commit has the time of the visit that
showed it first. STOP and STALL look alike then, but for how long: if no other offset was committed
within all of the window it is STALL, else it may be STOP. A window that is not whole has no status,
unless the partition has no lag.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

WINDOW: Final = 10
"""Observations by which Burrow judges a partition, unless its `intervals` says another number."""

_ERRORS: Final = frozenset({"STOP", "STALL", "REWIND"})


def group_status(of_partitions: Collection[str | None]) -> str | None:
    """The status of a group; None if that of no partition can be told."""
    if not _ERRORS.isdisjoint(of_partitions):
        return "ERROR"
    return next((each for each in ("WARNING", "OK") if each in of_partitions), None)


def partition_status(
    offsets: Sequence[int], lags: Sequence[int | None], *, oldest: int, newest: int, at: int
) -> str | None:
    """The status of a partition; None if it cannot be told.

    `offsets`, `lags`: the committed offset that each visit of the window showed, the last one last,
    and the lag then (None where that could not be told). `oldest`, `newest`: times of the commits
    that the first one and the last one showed, and `at` when the last one read them, in µs.
    """
    lag = lags[-1]
    if lag is None or (lag > 0 and len(offsets) < WINDOW):
        return None
    if lag <= 0:
        return "OK"
    # If no other offset was committed in all of the window, the group may commit that one again and
    # again: then it has not stopped.
    has_stopped = at - newest > newest - oldest and not _is_stalled(offsets)
    if has_stopped and not _was_lag_zero_recently(offsets, lags):
        return "STOP"
    if _is_rewound(offsets):
        return "REWIND"
    if _was_lag_ever_zero(lags):
        return "OK"
    if _is_stalled(offsets):
        return "STALL"
    return "WARNING" if _is_lag_not_decreasing(lags) else "OK"


def _was_lag_zero_recently(offsets: Sequence[int], lags: Iterable[int | None]) -> bool:
    """At one visit of the window the log ended no later than what is committed now."""
    each = zip(offsets, lags, strict=True)
    return any(lag is not None and offset + lag <= offsets[-1] for offset, lag in each)


def _is_rewound(offsets: Sequence[int]) -> bool:
    """The committed offset fell, and did not come back to where it was by the first fall."""
    if list(offsets) == sorted(offsets):
        return False  # As most are, and quick to tell.
    fell = next(n for n in range(1, len(offsets)) if offsets[n] < offsets[n - 1])
    return max(offsets[fell:]) < offsets[fell - 1]


def _was_lag_ever_zero(lags: Iterable[int | None]) -> bool:
    return any(lag is not None and lag <= 0 for lag in lags)


def _is_stalled(offsets: Sequence[int]) -> bool:
    """No other offset was committed in all of the window."""
    return offsets[0] == offsets[-1] and len(set(offsets)) == 1


def _is_lag_not_decreasing(lags: Iterable[int | None]) -> bool:
    """The lag never shrank; of visits that could tell it."""
    known = [lag for lag in lags if lag is not None]
    return all(one <= other for one, other in pairwise(known))
