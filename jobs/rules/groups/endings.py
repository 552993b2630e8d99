"""Where rebalances begin and end, and where history breaks off: a group's tombstone, a conversion, missing records."""

from dataclasses import replace
from datetime import datetime

from jobs.rules.groups.rows import CONVERTED, DELETED, MILLISECOND, UNKNOWN, End, Told
from jobs.rules.groups.state import CLASSIC, Gone, Moment, Rebalance, Row, Standing, State


def skipped(before: Standing | None, after: Standing) -> int | None:
    """Generations between the two; None where they are not known."""
    if before is None or before.generation is None or after.generation is None:
        return None
    return after.generation - before.generation - 1


def begun(state: State, before: Standing | None, after: Standing, began: Moment) -> Rebalance:
    """A rebalance that begins."""
    since = None if before is None or state.last_end is None else (began.by - state.last_end) // MILLISECOND
    return Rebalance(
        began,
        before=before,
        since_previous_ms=since and max(0, since),
        prev_group_type=state.converted_from,
        skipped_generations=skipped(before, after),
    )


def overtaken(rebalance: Rebalance, more: int | None) -> Rebalance:
    """The rebalance with more generations that never completed, where their number is known."""
    so_far = rebalance.skipped_generations
    return replace(rebalance, skipped_generations=None if so_far is None or more is None else so_far + more)


def ended(state: State, rebalance: Rebalance, end: End, told: Told) -> State:
    """The state after a rebalance that ended."""
    told.rebalance(replace(rebalance, withheld={}), state.now, end)
    return replace(state, rebalance=None, last_end=max(end.at.by, rebalance.began.by))


def interrupted(state: State, by: datetime, told: Told) -> State:
    """The state where records are missing: nothing is known; a rebalance that was open ended, or not, by then."""
    if state.rebalance is not None and not state.rebalance.ended:
        told.rebalance(state.rebalance, state.now, End(UNKNOWN, Moment(by, state.at, offset=state.last_offset)))
    return State(state.log_partition, state.last_offset, state.at, gap=True, truncated=state.truncated)


def group_tombstone(state: State, row: Row, group_type: str, told: Told) -> State:
    """The group is gone: deleted, unless the batch has it as another type."""
    at, rebalance = Moment.of(row), state.rebalance
    if state.now.group_type is None and not state.known:
        was = Standing(group_type=group_type)
    elif state.now.group_type == group_type:
        # Members of groups that are not classic have tombstones of their own, which come first in the batch.
        was = state.now if group_type == CLASSIC else state.began
    else:
        return state
    if rebalance is not None and rebalance.ended:
        rebalance = None
    if rebalance is not None:
        told.rebalance(rebalance, was, End(DELETED, at))
    told.event("deleted", at, replace(was, group_type=group_type))
    state = replace(state, gone=Gone(at, was, state.known, rebalance), known=True, now=Standing(), rebalance=None)
    return replace(state, last_end=None, converted_from=None, leavers={})


def converted(state: State, row: Row, group_type: str, told: Told) -> State:
    """The state where a batch that took a group away has it as another type.

    Kafka deletes no group that has members, so one that had some was converted (KIP-848); one without was taken over by
    a new group. Of a group that is not known, members that speak the classic protocol tell it.
    """
    gone = state.gone
    if gone is None or gone.standing.group_type == group_type:
        return state
    was, member = gone.standing, row["member"] or {}
    speaks_classic = row["classic"]["members"] if group_type == CLASSIC else member.get("protocols")
    if not (was.members if gone.known else speaks_classic):
        return state
    # Both take the place of the deletion that it looked like.
    if gone.rebalance is not None:
        told.rebalance(gone.rebalance, was, End(CONVERTED, gone.at))
    now = Standing(group_type=group_type, generation=was.generation)
    told.event("converted", gone.at, now, prev_group_type=was.group_type)
    return replace(state, known=gone.known, gap=True, now=now, began=was, converted_from=was.group_type, gone=None)
