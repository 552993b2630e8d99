"""Burrow's judgement of a partition, written again function by function after
core/internal/evaluator/caching.go of linkedin/Burrow (ced55ba), as it is with `allowed-lag` 0: what
the product's statuses are held against.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

WINDOW = 10
Observation = tuple[int, int | None, int]
"""A partition as a visit shows it: committed offset, lag, time."""


def window_of(seen: list[Observation]) -> tuple[list[Observation], list[int]]:
    """The last observations, and when a visit first showed what each of them shows."""
    committed = [seen[0][2]]
    for before, now in pairwise(seen):
        committed.append(now[2] if now[0] != before[0] else committed[-1])
    return seen[-WINDOW:], committed[-WINDOW:]


def status_of(seen: list[Observation]) -> str | None:
    """Burrow's status of a partition after all its observations."""
    lag = seen[-1][1]
    if lag is None or (lag > 0 and len(seen) < WINDOW):
        return None
    window, times = window_of(seen)
    if len({offset for offset, _, _ in window}) == 1:
        times = [time for _, _, time in window]  # It may commit the same again and again.
    ends = [None if lag is None else offset + lag for offset, lag, _ in window]
    offsets = [
        ConsumerOffset(offset, time, None if end is None else lag_of(end, offset))
        for (offset, _, _), end, time in zip(window, ends, times, strict=True)
    ]
    known = [end for end in ends if end is not None]
    return calculate_partition_status(
        offsets, known, lag_of(known[-1], offsets[-1].offset), seen[-1][2]
    )


class ConsumerOffset(NamedTuple):
    """A commit that Burrow keeps: times are ms since 1970. `lag` is None for one that was filled in
    later.
    """

    offset: int
    timestamp: int
    lag: int | None


def lag_of(broker_offset: int, committed: int) -> int:
    """As inmemory.go has it in addConsumerOffset and fetchConsumer: a commit beyond the broker's
    offset has none.
    """
    return broker_offset - committed if broker_offset > committed else 0


def calculate_partition_status(
    offsets: list[ConsumerOffset], broker_offsets: list[int], current_lag: int, now_ms: int
) -> str:
    status = "OK"
    if current_lag > 0:
        if check_if_offsets_stopped(offsets, now_ms) and not check_if_recent_lag_zero(
            offsets, broker_offsets
        ):
            return "STOP"
        rewind_index = check_if_offsets_rewind(offsets)
        if rewind_index > 0 and not check_if_rewind_recovered(offsets, rewind_index):
            return "REWIND"
        if is_lag_always_not_zero(offsets):
            if check_if_offsets_stalled(offsets):
                return "STALL"
            if check_if_lag_not_decreasing(offsets):
                return "WARNING"
    return status


def is_lag_always_not_zero(offsets: list[ConsumerOffset]) -> bool:
    return not any(each.lag is not None and each.lag <= 0 for each in offsets)


def check_if_offsets_rewind(offsets: list[ConsumerOffset]) -> int:
    for i in range(1, len(offsets)):
        if offsets[i].offset < offsets[i - 1].offset:
            return i
    return -1


def check_if_rewind_recovered(offsets: list[ConsumerOffset], reset_index: int) -> bool:
    previous_progress = offsets[reset_index - 1]
    return any(
        offsets[i].offset >= previous_progress.offset for i in range(reset_index, len(offsets))
    )


def check_if_offsets_stopped(offsets: list[ConsumerOffset], now_ms: int) -> bool:
    first, last = offsets[0].timestamp, offsets[-1].timestamp
    return now_ms - last > last - first


def check_if_offsets_stalled(offsets: list[ConsumerOffset]) -> bool:
    return all(offsets[i].offset == offsets[i - 1].offset for i in range(1, len(offsets)))


def check_if_lag_not_decreasing(offsets: list[ConsumerOffset]) -> bool:
    last_lag: int | None = None
    for each in offsets:
        if each.lag is not None:
            if last_lag is not None and each.lag < last_lag:
                return False
            last_lag = each.lag
    return True


def check_if_recent_lag_zero(offsets: list[ConsumerOffset], broker_offsets: list[int]) -> bool:
    last_offset = offsets[-1].offset
    return any(each <= last_offset for each in broker_offsets)
