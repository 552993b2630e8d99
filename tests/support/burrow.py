"""Burrow's judgement of a partition, written again function by function after
core/internal/evaluator/caching.go of linkedin/Burrow (ced55ba), as it is with `allowed-lag` 0: what
the product's statuses are held against.
"""

from __future__ import annotations

from typing import NamedTuple


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
