"""Groups that the coordinator reconciles itself: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071), all of one shape.

An epoch record begins a rebalance; it ends with the current assignment by which every member is stable at that epoch. Epochs that are
overtaken meanwhile belong to the same rebalance.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from jobs.rules.groups.endings import interrupted
from jobs.rules.groups.moves import identity
from jobs.rules.groups.rows import COMPLETED, EMPTIED, End, Told
from jobs.rules.groups.state import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    Member,
    Partitions,
    Rebalance,
    Standing,
    State,
    gathered,
    to_ms,
)

EPOCHS = (3, 11, 17)
MEMBERS = (5, 10, 19)
TARGET_EPOCHS = (6, 12, 20)
TARGETS = (7, 13, 21)
CURRENTS = (8, 14, 22)
SHARE_STATE, PATTERN, TOPOLOGY = 15, 16, 23

FIRST_EPOCHS = 2
"""A group's first written epoch is 1, or 2 where the one before was overtaken in memory."""

MODES = {CONSUMER: "cooperative", STREAMS: "cooperative"}
"""These only give up what must go; partitions of share groups have no owner."""


def epoch_record(state: State, row: Mapping[str, Any], told: Told) -> State:
    """A group's epoch (types 3, 11, 17): a rebalance begins, or goes on towards a later epoch."""
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
        state = interrupted(state, to_ms(row["timestamp"]), told)
        before = None
    else:
        # Where records were missed the group is known once all that was seen of it converged.
        before = state.began if state.known or state.began.converged else None
    return _begin(state, row, before, after, told)


def member_record(state: State, row: Mapping[str, Any], told: Told) -> State:
    """A member, as it asked to be (types 5, 10, 19)."""
    member_id, now = row["member_id"], state.now
    if row["tombstone"]:
        gone = now.members.get(member_id)
        if gone is None:
            return state
        rest = {each: member for each, member in now.members.items() if each != member_id}
        state = replace(state, now=_with(now, rest))
        going_on = state.rebalance
        if going_on is None or going_on.ended or going_on.before is None or member_id in going_on.before.members:
            return state
        return replace(state, rebalance=replace(going_on, passed=going_on.passed | {member_id: gone}))
    value = row["member"]
    known = now.members.get(member_id)
    member = replace(
        known or _blank(now),
        instance_id=value["instance_id"],
        client_id=value["client_id"],
        client_host=value["client_host"],
        topics=None if value["topics"] is None else sorted(value["topics"]),
        pattern=value["regex"] or None,
        topology_epoch=value["topology_epoch"],
        assignor=value["assignor"],
    )
    if known is None and member.instance_id is not None:
        _tell_restart(state, row, member, told)
    return replace(state, now=_with(now, now.members | {member_id: member}))


def target_epoch_record(state: State, row: Mapping[str, Any]) -> State:
    """The epoch of the target assignment (types 6, 12, 20)."""
    if row["tombstone"]:
        return state
    return replace(state, now=replace(state.now, target_epoch=row["target_epoch"]["epoch"]))


def target_record(state: State, row: Mapping[str, Any]) -> State:
    """What a member is to have (types 7, 13, 21)."""
    if row["tombstone"]:
        return state
    target = row["target"]
    tasks = state.now.group_type == STREAMS
    return _with_member(state, row, to_have=gathered(target["active_tasks"] if tasks else target["partitions"]))


def current_record(state: State, row: Mapping[str, Any], told: Told) -> State:
    """What a member has (types 8, 14, 22): with the last of them a rebalance ends."""
    if row["tombstone"]:
        return state
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


def pattern_record(state: State, row: Mapping[str, Any]) -> State:
    """The topics that a subscribed pattern matched (type 16)."""
    value = row["regular_expression"]
    patterns = {each: topics for each, topics in state.now.patterns.items() if each != value["regex"]}
    if not row["tombstone"]:
        # Topics are only compared; a pattern may match thousands.
        topics = "\n".join(sorted(value["topics"] or ()))
        patterns[value["regex"]] = sha256(topics.encode()).hexdigest()[:16]
    return replace(state, now=replace(state.now, patterns=patterns))


def share_state_record(state: State, row: Mapping[str, Any]) -> State:
    """The partitions that a share group has state of (type 15): while some is being made, an epoch that assigns them is to follow."""
    initializing = not row["tombstone"] and bool(row["share_state"]["initializing"])
    state = replace(state, now=replace(state.now, initializing=initializing))
    if state.rebalance is None or not initializing:
        return state
    return replace(state, rebalance=replace(state.rebalance, awaits_epoch=True, ended=False))


def topology_record(state: State, row: Mapping[str, Any]) -> State:
    """The topology of a streams group (type 23)."""
    if row["tombstone"]:
        return state
    return replace(state, now=replace(state.now, topology_epoch=row["topology"]["epoch"]))


# --- rebalances ---


def _is_first(epoch: int, now: Standing) -> bool:
    return epoch == 0 or (epoch <= FIRST_EPOCHS and bool(now.members))


def _made(state: State, row: Mapping[str, Any], after: Standing, told: Told) -> State:
    at = to_ms(row["timestamp"])
    told.event("created", row, at, at, group_type=after.group_type, generation=after.generation)
    state = replace(state, known=True, last_end=None)
    if not after.members:
        return replace(state, now=after)
    nobody = Standing(group_type=after.group_type, generation=max((after.generation or 0) - 1, 0))
    return _begin(state, row, nobody, after, told)


def _begin(state: State, row: Mapping[str, Any], before: Standing | None, after: Standing, told: Told) -> State:
    at = to_ms(row["timestamp"])
    now, rebalance = state.now, state.rebalance
    state = replace(state, now=after, known=before is not None or state.known)
    if rebalance is not None and not rebalance.ended:
        # Of share groups: an epoch that every member reached, and that only waited for state of partitions, did complete.
        reached = state.began.converged and state.began.generation == now.generation
        overtaken = (after.generation or 0) - (now.generation or 0) - int(reached)
        rebalance = replace(
            rebalance,
            incomplete=None if rebalance.incomplete is None else rebalance.incomplete + overtaken,
            awaits_epoch=after.initializing,
        )
    else:
        rebalance = Rebalance(
            first_offset=row["offset"],
            last_offset=row["offset"],
            began_after=at,
            began_by=at,
            before=before,
            since_previous_ms=None if before is None or state.last_end is None else max(0, at - state.last_end),
            prev_group_type=state.converted_from,
            incomplete=_overtaken(before, after),
            awaits_epoch=after.initializing,
        )
        state = replace(state, converted_from=None)
    state = replace(state, rebalance=rebalance)
    return state if after.members else _end(state, row, EMPTIED, told)


def _overtaken(before: Standing | None, after: Standing) -> int | None:
    if before is None or before.generation is None or after.generation is None:
        return None
    return after.generation - before.generation - 1


def _end(state: State, row: Mapping[str, Any], ended_as: str, told: Told) -> State:
    if state.rebalance is None:
        return state
    end = End.with_record(ended_as, row)
    rebalance = replace(state.rebalance, last_offset=row["offset"], ended=True)
    told.rebalance(state, rebalance, state.now, end)
    # The rest of a share group's batch may say that an epoch is to follow; and where not every member is known, one may yet show up.
    may_go_on = state.now.group_type == SHARE or not state.known
    return replace(
        state,
        rebalance=rebalance if may_go_on else None,
        began=state.now,
        last_end=max(end.by, rebalance.began_by),
    )


# --- members ---


def _with(now: Standing, members: dict[str, Member]) -> Standing:
    return replace(now, members=members, assignor=_assignor(members.values()), mode=MODES.get(now.group_type or ""))


def _assignor(members: Iterable[Member]) -> str | None:
    """The server-side assignor that most members ask for; None where none does, or as many ask for another."""
    asked = Counter(member.assignor for member in members if member.assignor is not None).most_common(2)
    if not asked or (len(asked) == 2 and asked[0][1] == asked[1][1]):
        return None
    return asked[0][0]


def _blank(now: Standing) -> Member:
    return Member(by_id=now.group_type != STREAMS)


def _with_member(state: State, row: Mapping[str, Any], /, **changed: Any) -> State:
    member = replace(state.now.members.get(row["member_id"]) or _blank(state.now), **changed)
    return replace(state, now=_with(state.now, state.now.members | {row["member_id"]: member}))


def _restated(state: State, member_id: str, epoch: int, has: Partitions) -> State:
    """In a conversion the group as it was is said again, with topics by id: what a member had before, comparable with what follows."""
    was = state.began.members.get(member_id)
    if state.converted_from != CLASSIC or was is None or epoch != state.began.generation:
        return state
    members = state.began.members | {member_id: replace(was, has=has, by_id=True)}
    return replace(state, began=replace(state.began, members=members))


def _tell_restart(state: State, row: Mapping[str, Any], member: Member, told: Told) -> None:
    """A static member that is back under another id: its tombstones are in the same batch."""
    at = to_ms(row["timestamp"])
    who = identity(row["member_id"], member)
    for each, was in (state.began.members | state.now.members).items():
        if each != row["member_id"] and identity(each, was) == who:
            told.event(
                "static_restart",
                row,
                at,
                at,
                group_type=state.now.group_type,
                generation=state.now.generation,
                member_id=row["member_id"],
                prev_member_id=each,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
            )
