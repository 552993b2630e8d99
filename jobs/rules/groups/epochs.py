"""Groups that the coordinator reconciles itself: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071), all
of one shape.

An epoch record begins a rebalance; it ends with the current assignment by which every member is stable at that epoch.
Epochs that are overtaken meanwhile belong to the same rebalance.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from jobs.rules.groups.endings import ended, interrupted
from jobs.rules.groups.rows import COMPLETED, EMPTIED, End, Told
from jobs.rules.groups.state import (
    CLASSIC,
    CLIENT,
    CONSUMER,
    SHARE,
    STREAMS,
    Member,
    Moment,
    Partitions,
    Standing,
    State,
    begun,
    gathered,
    total,
)

FIRST_EPOCHS = 2
"""A group's first written epoch is 1, or 2 where the one before was overtaken in memory."""

MODES = {CONSUMER: "cooperative", STREAMS: "cooperative"}
"""These only give up what must go; partitions of share groups have no owner."""

Row = Mapping[str, Any]


def epoch_record(state: State, row: Row, told: Told) -> State:
    """A group's epoch (types 3, 11, 17): a rebalance begins, or has a later epoch to reach."""
    value, now = row["group_epoch"], state.now
    epoch = value["epoch"]
    after = replace(now, generation=epoch, metadata_hash=value["metadata_hash"] or None)
    if now.generation is None:
        if state.known or (state.fresh and not state.gap and _is_first(epoch, now)):
            return _made(state, row, after, told)
        before = None
    elif epoch == now.generation:
        return replace(state, now=after)
    elif epoch < now.generation:
        # Deleted and made again, and that is compacted away.
        state = interrupted(state, row["timestamp"], told)
        before = None
    else:
        # Where records were missed the group is known once all that was seen of it converged.
        before = state.began if state.known or state.began.converged else None
    return _begin(state, row, before, after, told)


def member_record(state: State, row: Row, told: Told) -> State:
    """A member, as it asked to be (types 5, 10, 19)."""
    member_id, value = row["member_id"], row["member"]
    is_new = member_id not in state.now.members
    state = _with_member(
        state,
        row,
        **{name: value[name] for name in CLIENT},
        topics=None if value["topics"] is None else sorted(value["topics"]),
        pattern=value["regex"] or None,
        topology_epoch=value["topology_epoch"],
        assignor=value["assignor"],
    )
    if is_new:
        # A static member that is back under another id: the tombstones of the other are in the same batch.
        own = {member_id: state.now.members[member_id]}
        others = {each: was for each, was in (state.began.members | state.now.members).items() if each != member_id}
        told.restarts(Moment.of(row), others, replace(state.now, members=own))
    return state


def member_tombstone(state: State, row: Row, _: Told) -> State:
    """A member is gone (types 5, 10, 19); it passed, if it came after the rebalance began."""
    member_id, rebalance = row["member_id"], state.rebalance
    gone = state.now.members.get(member_id)
    if gone is None:
        return state
    rest = {each: member for each, member in state.now.members.items() if each != member_id}
    state = replace(state, now=_with(state.now, rest))
    if not rebalance or rebalance.ended or not rebalance.before or member_id in rebalance.before.members:
        return state
    return replace(state, rebalance=replace(rebalance, passed=rebalance.passed | {member_id: gone}))


def target_epoch_record(state: State, row: Row, _: Told) -> State:
    """The epoch of the target assignment (types 6, 12, 20)."""
    return replace(state, now=replace(state.now, target_epoch=row["target_epoch"]["epoch"]))


def target_record(state: State, row: Row, _: Told) -> State:
    """Set the partitions that a member is to have (types 7, 13, 21)."""
    has_tasks = state.now.group_type == STREAMS
    return _with_member(state, row, to_have=gathered(row["target"]["active_tasks" if has_tasks else "partitions"]))


def current_record(state: State, row: Row, told: Told) -> State:
    """Set the partitions that a member has (types 8, 14, 22): with the last of them a rebalance ends."""
    current = row["current"]
    if state.now.group_type == STREAMS:
        has = gathered(current["active_tasks"], current["active_tasks_pending_revocation"])
    else:
        has = gathered(current["assigned"], current["pending_revocation"])
    state = _restated(state, row["member_id"], current["epoch"], has)
    state = _with_member(state, row, has=has, epoch=current["epoch"], state=current["state"])
    rebalance = state.rebalance
    if rebalance is None or rebalance.awaits_epoch or not state.now.converged or (rebalance.ended and state.known):
        return state
    return _end(state, row, COMPLETED, told)


def pattern_record(state: State, row: Row, _: Told) -> State:
    """The topics that a subscribed pattern matched (type 16)."""
    value = row["regular_expression"]
    patterns = {each: topics for each, topics in state.now.patterns.items() if each != value["regex"]}
    if not row["is_tombstone"]:
        # Topics are only compared; a pattern may match thousands.
        topics = "\n".join(sorted(value["topics"] or ()))
        patterns[value["regex"]] = sha256(topics.encode()).hexdigest()[:16]
    return replace(state, now=replace(state.now, patterns=patterns))


def share_state_record(state: State, row: Row, _: Told) -> State:
    """The partitions that a share group has state of (type 15): while some is being made, an epoch that assigns them is
    to follow.
    """
    initializing = not row["is_tombstone"] and bool(row["share_state"]["initializing"])
    state = replace(state, now=replace(state.now, initializing=initializing))
    if state.rebalance is None or not initializing:
        return state
    return replace(state, rebalance=replace(state.rebalance, awaits_epoch=True, ended=False))


def topology_record(state: State, row: Row, _: Told) -> State:
    """The topology of a streams group (type 23)."""
    return replace(state, now=replace(state.now, topology_epoch=row["topology"]["epoch"]))


VALUES = {
    **dict.fromkeys((3, 11, 17), epoch_record),
    **dict.fromkeys((5, 10, 19), member_record),
    **dict.fromkeys((6, 12, 20), target_epoch_record),
    **dict.fromkeys((7, 13, 21), target_record),
    **dict.fromkeys((8, 14, 22), current_record),
    15: share_state_record,
    16: pattern_record,
    23: topology_record,
}
TOMBSTONES = {**dict.fromkeys((5, 10, 19), member_tombstone), 15: share_state_record, 16: pattern_record}
"""Those of groups aside, the others only come before one of these."""


# --- rebalances ---


def _is_first(epoch: int, now: Standing) -> bool:
    return epoch == 0 or (epoch <= FIRST_EPOCHS and bool(now.members))


def _made(state: State, row: Row, after: Standing, told: Told) -> State:
    told.event("created", Moment.of(row), group_type=after.group_type, generation=after.generation)
    state = replace(state, known=True, last_end=None)
    if not after.members:
        return replace(state, now=after)
    nobody = Standing(group_type=after.group_type, generation=max((after.generation or 0) - 1, 0))
    return _begin(state, row, nobody, after, told)


def _begin(state: State, row: Row, before: Standing | None, after: Standing, told: Told) -> State:
    now, rebalance = state.now, state.rebalance
    state = replace(state, now=after, known=before is not None or state.known)
    if rebalance is not None and not rebalance.ended:
        overtaken = (after.generation or 0) - (now.generation or 0)
        if state.began.converged and state.began.generation == now.generation:
            # Of share groups: an epoch that every member reached, and that only waited for state of partitions, did
            # complete.
            overtaken -= 1
        rebalance = replace(rebalance, skipped_generations=total(rebalance.skipped_generations, overtaken))
    else:
        rebalance = begun(state, before, after, replace(Moment.of(row), leader_epoch=None))
        state = replace(state, converted_from=None)
    state = replace(state, rebalance=replace(rebalance, awaits_epoch=after.initializing))
    return state if after.members else _end(state, row, EMPTIED, told)


def _end(state: State, row: Row, end_reason: str, told: Told) -> State:
    if state.rebalance is None:
        return state
    rebalance = replace(state.rebalance, ended=True)
    state = ended(state, rebalance, End(end_reason, Moment.of(row)), told)
    # The rest of a share group's batch may say that an epoch is to follow; and where not every member is known, one may
    # yet show up.
    may_reopen = state.now.group_type == SHARE or not state.known
    return replace(state, began=state.now, rebalance=rebalance if may_reopen else None)


# --- members ---


def _with(now: Standing, members: dict[str, Member]) -> Standing:
    """The group with these members, and the server-side assignor that most of them ask for; None where none does, or as
    many ask for another.
    """
    asked = Counter(member.assignor for member in members.values() if member.assignor is not None).most_common(2)
    is_one = bool(asked) and (len(asked) == 1 or asked[0][1] > asked[1][1])
    assignor = asked[0][0] if is_one else None
    return replace(now, members=members, assignor=assignor, mode=MODES.get(now.group_type or ""))


def _with_member(state: State, row: Row, /, **changed: Any) -> State:
    now, member_id = state.now, row["member_id"]
    known = now.members.get(member_id) or Member(by_id=now.group_type != STREAMS)
    return replace(state, now=_with(now, now.members | {member_id: replace(known, **changed)}))


def _restated(state: State, member_id: str, epoch: int, has: Partitions) -> State:
    """In a conversion the group as it was is said again, with topics by id: what a member had before, comparable with
    what follows.
    """
    was = state.began.members.get(member_id)
    if state.converted_from != CLASSIC or was is None or epoch != state.began.generation:
        return state
    members = state.began.members | {member_id: replace(was, has=has, by_id=True)}
    return replace(state, began=replace(state.began, members=members))
