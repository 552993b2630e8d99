"""Where a rebalance ends, and where a group's history breaks off: its tombstone, its conversion, missing records."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from jobs.rules.groups.rows import CONVERTED, DELETED, UNKNOWN, End, Told
from jobs.rules.groups.state import CLASSIC, Gone, Moment, Rebalance, Standing, State


def ended(state: State, rebalance: Rebalance, end: End, told: Told) -> State:
    """The state after a rebalance that ended."""
    told.rebalance(replace(rebalance, withheld={}), state.now, end)
    return replace(state, rebalance=None, last_end=max(end.at.by, rebalance.began.by))


def group_tombstone(state: State, row: Mapping[str, Any], group_type: str, told: Told) -> State:
    """The group is gone (tombstones of types 2, 3, 11, 17): deleted, unless the batch has it as another type."""
    now = state.now
    if now.group_type != group_type and (now.group_type is not None or state.known):
        return state
    if now.group_type is None:
        standing = Standing(group_type=group_type)
    else:
        # Members of other groups have tombstones of their own, which come first in the batch.
        standing = now if group_type == CLASSIC else state.began
    at = Moment.of(row)
    rebalance = None if state.rebalance is None or state.rebalance.ended else state.rebalance
    if rebalance is not None:
        told.rebalance(rebalance, standing, End(DELETED, at))
    told.event("deleted", at, group_type=group_type, generation=standing.generation)
    return replace(
        state,
        known=True,
        last_end=None,
        now=Standing(),
        rebalance=None,
        converted_from=None,
        leavers={},
        gone=Gone(at, standing, state.known, rebalance),
    )


def converted(state: State, row: Mapping[str, Any], group_type: str, told: Told) -> State:
    """The state where a batch that took a group away has it as another type.

    Kafka deletes no group that has members, so one that had some was converted (KIP-848); one without was taken over by
    a new group. Of a group that is not known, members that speak the classic protocol tell it.
    """
    gone = state.gone
    if gone is None or not _is_conversion(gone, row, group_type):
        return state
    was = gone.standing
    # Both take the place of the deletion that it looked like.
    if gone.rebalance is not None:
        told.rebalance(gone.rebalance, was, End(CONVERTED, gone.at))
    told.event("converted", gone.at, group_type=group_type, prev_group_type=was.group_type, generation=was.generation)
    return replace(
        state,
        known=gone.known,
        gap=True,
        now=Standing(group_type=group_type, generation=was.generation),
        began=was,
        converted_from=was.group_type,
        gone=None,
    )


def interrupted(state: State, by: datetime, told: Told) -> State:
    """The state where records are missing: nothing is known; a rebalance that was open ended, or not, by then."""
    rebalance = state.rebalance
    if rebalance is not None and not rebalance.ended:
        told.rebalance(rebalance, state.now, End(UNKNOWN, Moment(by, state.at, offset=state.last_offset)))
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
