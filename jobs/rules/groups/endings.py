"""Where a group's history breaks off: its tombstone, its conversion to another type, records that are missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.rules.groups.rows import CONVERTED, DELETED, UNKNOWN, End, Told
from jobs.rules.groups.state import CLASSIC, Gone, Rebalance, Standing, State, to_ms


def group_tombstone(state: State, row: Mapping[str, Any], group_type: str, told: Told) -> State:
    """The group is gone (tombstones of types 2, 3, 11, 17): deleted, as long as the batch does not go on with another type."""
    if state.now.group_type not in (None, group_type) or (state.now.group_type is None and state.known):
        return state
    if state.now.group_type is None:
        standing = Standing(group_type=group_type)
    else:
        # Members of other groups have tombstones of their own, which come first in the batch.
        standing = state.now if group_type == CLASSIC else state.began
    rebalance = None if state.rebalance is None or state.rebalance.ended else state.rebalance
    if rebalance is not None:
        told.rebalance(state, _last(rebalance, row), standing, End.with_record(DELETED, row))
    at = to_ms(row["timestamp"])
    told.event("deleted", row, at, at, group_type=group_type, generation=standing.generation)
    return replace(
        state,
        known=True,
        last_end=None,
        now=Standing(),
        rebalance=None,
        converted_from=None,
        leavers={},
        gone=Gone(row["offset"], standing, state.known, rebalance),
    )


def converted(state: State, row: Mapping[str, Any], group_type: str, told: Told) -> State:
    """The state where a batch that took a group away goes on with it as another type.

    Kafka deletes no group that has members, so one that had some was converted (KIP-848); one without was taken over by a new group.
    Of a group that is not known, members that speak the classic protocol tell it.
    """
    gone = state.gone
    if gone is None or not _is_conversion(gone, row, group_type):
        return state
    at = to_ms(row["timestamp"])
    if gone.rebalance is not None:
        told.rebalance(state, _last(gone.rebalance, row, gone.offset), gone.standing, End.with_record(CONVERTED, row))
    told.event(
        "converted",
        row,
        at,
        at,
        offset=gone.offset,  # in place of the deletion that it looked like
        group_type=group_type,
        prev_group_type=gone.standing.group_type,
        generation=gone.standing.generation,
    )
    return replace(
        state,
        known=gone.known,
        gap=True,
        now=Standing(group_type=group_type, generation=gone.standing.generation),
        began=gone.standing,
        converted_from=gone.standing.group_type,
        gone=None,
    )


def interrupted(state: State, by: int, told: Told) -> State:
    """The state where records are missing: nothing is known; what went on ended, or not, by `by`, ms."""
    rebalance = state.rebalance
    if rebalance is not None and not rebalance.ended:
        told.rebalance(state, rebalance, state.now, End(UNKNOWN, state.at, by))
    return State(
        log_partition=state.log_partition,
        last_offset=state.last_offset,
        at=state.at,
        gap=True,
        truncated=state.truncated,
    )


def _is_conversion(gone: Gone, row: Mapping[str, Any], group_type: str) -> bool:
    if group_type == gone.standing.group_type:
        return False
    if gone.known:
        return bool(gone.standing.members)
    if group_type == CLASSIC:
        return bool(row["classic"]["members"])
    return row["member"] is not None and bool(row["member"]["protocols"])


def _last(rebalance: Rebalance, row: Mapping[str, Any], offset: int | None = None) -> Rebalance:
    return replace(rebalance, last_offset=row["offset"] if offset is None else offset)
