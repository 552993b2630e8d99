"""Groups that the coordinator reconciles: consumer (KIP-848), share (KIP-932), streams (KIP-1071),
all of one shape.

An epoch record begins a rebalance; it ends with the current assignment by which every member is
stable at that epoch, or is away and has all that it is to have. Epochs that are overtaken meanwhile
belong to the same rebalance.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from jobs.rules.groups.removed import revoking_since, time_out
from jobs.rules.groups.rows import (
    COMPLETED,
    EMPTIED,
    GroupOutput,
    begun,
    ended,
    interrupted,
    overtaken,
    skipped,
)
from jobs.rules.groups.state import (
    CLASSIC,
    CLIENT,
    SHARE,
    STREAMS,
    Member,
    Moment,
    Row,
    Standing,
    State,
    gathered,
    numbered,
)

FIRST_EPOCH = 2
"""Of the groups that Kafka 4.4 makes. Before, it was 1."""


def epoch_record(state: State, row: Row, output: GroupOutput) -> State:
    """A group's epoch (types 3, 11, 17): a rebalance begins, or has a later epoch to reach."""
    epoch, now, before = row["group_epoch"]["epoch"], state.now, None
    after = replace(
        now, generation=epoch, metadata_hash=row["group_epoch"]["metadata_hash"] or None
    )
    if now.generation is None:
        # The first that is written is 1; of streams groups of Kafka 4.2 it is 2
        # (GroupMetadataManager of that version). Of any other group 2 may be all that compaction
        # has left, unless its member tells (`_created_at_epoch_2`).
        first = 2 if now.group_type == STREAMS else 1
        is_first = epoch == 0 or (epoch <= first and bool(now.members))
        if state.known or (state.fresh and not state.gap and is_first):
            output.event("created", Moment.of(row), after)
            state = replace(state, known=True)
            if not after.members:
                return replace(state, now=after)
            before = Standing(group_type=after.group_type, generation=max(epoch - 1, 0))
    elif epoch == now.generation:
        return replace(state, now=after)
    elif epoch < now.generation:
        # Deleted and made again, and that is compacted away.
        state = interrupted(state, row["timestamp"], output)
    elif state.known or state.began.converged:
        # Where records were missed the group is known once all that was seen of it converged.
        before = state.began

    rebalance, began = state.open_rebalance, state.began
    if rebalance is None:
        rebalance = begun(state, before, after, replace(Moment.of(row), leader_epoch=None))
        state = replace(state, converted_from=None)
    else:
        # Every member of a share group may have reached the epoch before, which only waited for
        # state of partitions.
        is_completed = began.converged and began.generation == now.generation
        rebalance = overtaken(rebalance, epoch - (now.generation or 0) - (1 if is_completed else 0))
    state = replace(state, now=after, known=before is not None or state.known, rebalance=rebalance)
    return state if after.members else _end(state, row, EMPTIED, output)


def member_record(state: State, row: Row, output: GroupOutput) -> State:
    """A member, as it asked to be, or gone (types 5, 10, 19); it passed, if it came after the
    rebalance began.
    """
    id_, value, before = row["member_id"], row["member"], state.now.members
    others = {each: member for each, member in before.items() if each != id_}
    if row["is_tombstone"] and id_ not in before:
        return state
    if row["is_tombstone"]:
        by = time_out(before[id_], row["timestamp"])
        removed = {} if by is None else {id_: by}
        if (rebalance := state.open_rebalance) and rebalance.before:
            passed, removed = rebalance.passed | {id_: before[id_]}, rebalance.removed | removed
            state = replace(state, rebalance=replace(rebalance, passed=passed, removed=removed))
        else:
            state = replace(state, removed=state.removed | removed)
        return replace(state, now=state.now.with_members(others))
    asked = {name: value[name] for name in (*CLIENT, "topology_epoch", "assignor", "rack")}
    if not value["protocols"]:
        asked["rebalance_timeout_ms"] = value["rebalance_timeout_ms"]
    topics = None if value["topics"] is None else sorted(value["topics"])
    state = _with_member(state, row, **asked, topics=topics, pattern=value["regex"] or None)
    if id_ in before and before[id_].instance_id != value["instance_id"]:
        # It never changes: the record that says so had not been read.
        state = _with_instance(state, id_, value["instance_id"])
    elif id_ not in before:
        # A static member that is back under another id: the tombstones of the other are in the same
        # batch.
        output.restarts(
            Moment.of(row),
            state.began.members,
            replace(state.now, members={id_: state.now.members[id_]}),
        )
    return state


def target_epoch_record(state: State, row: Row, _: GroupOutput) -> State:
    """The epoch of the target assignment (types 6, 12, 20)."""
    return _with_now(state, target_epoch=row["target_epoch"]["epoch"])


def target_record(state: State, row: Row, _: GroupOutput) -> State:
    """The partitions that a member is to have (types 7, 13, 21)."""
    return _with_member(
        state, row, to_have=gathered(row["target"]["partitions"], row["target"]["active_tasks"])
    )


def current_record(state: State, row: Row, output: GroupOutput) -> State:
    """The partitions of a member (types 8, 14, 22): with the last of them a rebalance ends."""
    current, began = row["current"], state.began
    names = ("assigned", "pending_revocation", "active_tasks", "active_tasks_pending_revocation")
    has, was = gathered(*(current[name] for name in names)), began.members.get(row["member_id"])
    if state.converted_from == CLASSIC and was is not None and current["epoch"] == began.generation:
        # In a conversion the group as it was is said again, with topics by id: comparable with what
        # follows.
        restated = began.members | {row["member_id"]: replace(was, has=has, by_id=True)}
        state = replace(state, began=replace(began, members=restated))
    state = _created_at_epoch_2(state, row, output)
    epoch, code = current["epoch"], current["state"]
    since = revoking_since(state.now.group_type, epoch, code, row["timestamp"])
    state = _with_member(state, row, has=has, epoch=epoch, state=code, revoking_since=since)
    return _end_if_reached(state, row, output)


def _created_at_epoch_2(state: State, row: Row, output: GroupOutput) -> State:
    """The state where a group was made with epoch 2, as by Kafka 4.4: its only member comes from no
    epoch.

    Before 4.4 the first epoch is 1. If compaction has left the second one alone, the member comes
    from epoch 1, or there is another member.
    """
    now, rebalance = state.now, state.rebalance
    is_first = state.fresh and not state.known and not state.gap and now.generation == FIRST_EPOCH
    if (
        rebalance is None
        or not is_first
        or len(now.members) != 1
        or row["current"]["prev_epoch"] != 0
    ):
        return state
    output.event("created", Moment.of(row), now)
    before = Standing(group_type=now.group_type, generation=FIRST_EPOCH - 1)
    rebalance = replace(rebalance, before=before, skipped_generations=skipped(before, now))
    return replace(state, known=True, rebalance=rebalance)


def pattern_record(state: State, row: Row, _: GroupOutput) -> State:
    """The topics that a subscribed pattern matched (type 16)."""
    value = row["regular_expression"]
    patterns = {
        each: matched for each, matched in state.now.patterns.items() if each != value["regex"]
    }
    if not row["is_tombstone"]:
        patterns[value["regex"]] = _digest(value["topics"] or ())
    return _with_now(state, patterns=patterns)


def partition_metadata_record(state: State, row: Row, _: GroupOutput) -> State:
    """The metadata of the topics that are subscribed to (type 4), before the epoch that a change of
    it begins.

    Kafka 3.7 to 4.0 write it where it changed (GroupMetadataManager.consumerGroupHeartbeat); later
    ones keep a hash with the epoch, and leave a tombstone.
    """
    return _with_now(state, partition_metadata=_digest(map(repr, row["partition_metadata"])))


def share_state_record(state: State, row: Row, output: GroupOutput) -> State:
    """The partitions that a share group has state of, or will have (type 15): an epoch follows that
    assigns the latter.

    None follows for those that are not in the making any more and have no state: their topic was
    deleted (GroupMetadataManager.maybeCleanupShareGroupState), or the state could not be made. If
    the latter is tried again, its epoch is a rebalance of its own.
    """
    value = {} if row["is_tombstone"] else row["share_state"]
    being_made, made = (value.get(name) or () for name in ("initializing", "initialized"))
    still = numbered(gathered(being_made)) | (numbered(state.now.making) & numbered(gathered(made)))
    making = gathered(
        {"topic": topic_id, "partitions": [number]} for topic_id, number in sorted(still)
    )
    names = {
        each["topic_id"]: each["topic"]
        for each in (*being_made, *made)
        if each["topic_id"] in making
    }
    state = _with_now(state, making=making, names=names)
    if state.rebalance is not None and state.now.awaits_epoch:
        return replace(state, rebalance=replace(state.rebalance, ended=False))
    return _end_if_reached(state, row, output)


def topology_record(state: State, row: Row, _: GroupOutput) -> State:
    """The topology of a streams group (type 23)."""
    return _with_now(state, topology_epoch=row["topology"]["epoch"])


STEPS = (epoch_record, member_record, target_epoch_record, target_record, current_record)
"""Every type of group has these."""

OF_CONSUMERS = (partition_metadata_record, pattern_record)
"""Those of consumer groups alone."""

WITH_TOMBSTONE = (member_record, pattern_record, share_state_record)
"""Those of groups aside, other tombstones only come before one of these."""


def _digest(texts: Iterable[str]) -> str:
    """Of what is only compared, in any order; there may be thousands."""
    return sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def _with_now(state: State, **changed: Any) -> State:
    return replace(state, now=replace(state.now, **changed))


def _with_member(state: State, row: Row, /, **changed: Any) -> State:
    now, member_id = state.now, row["member_id"]
    known = now.members.get(member_id) or Member(by_id=now.group_type != STREAMS)
    return replace(
        state, now=now.with_members(now.members | {member_id: replace(known, **changed)})
    )


def _with_instance(state: State, member_id: str, instance_id: str | None) -> State:
    """The state whose past has the member under its instance id, too: both tell who a member is."""

    def named(group: Standing) -> Standing:
        members = group.members
        if member_id not in members:
            return group
        return replace(
            group,
            members=members | {member_id: replace(members[member_id], instance_id=instance_id)},
        )

    rebalance = state.rebalance
    if rebalance is not None and rebalance.before is not None:
        rebalance = replace(rebalance, before=named(rebalance.before))
    return replace(state, began=named(state.began), rebalance=rebalance)


def _end_if_reached(state: State, row: Row, output: GroupOutput) -> State:
    """The state where a rebalance ended, if every member is where it is to be and nothing more is
    to come.
    """
    rebalance, now = state.rebalance, state.now
    if (
        rebalance is None
        or not now.converged
        or now.awaits_epoch
        or (rebalance.ended and state.known)
    ):
        return state
    return _end(state, row, COMPLETED, output)


def _end(state: State, row: Row, end_reason: str, output: GroupOutput) -> State:
    if state.rebalance is None:
        return state
    rebalance = replace(state.rebalance, ended=True)
    state = ended(state, rebalance, end_reason, Moment.of(row), output)
    # The rest of a share group's batch may say that an epoch is to follow; and where not every
    # member is known, one may yet show up.
    may_reopen = state.now.group_type == SHARE or not state.known
    return replace(state, began=state.now, rebalance=rebalance if may_reopen else None)
