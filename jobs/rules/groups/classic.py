"""Classic groups (record type 2): a record is the whole group, after a generation or restart."""

from collections.abc import Sequence
from dataclasses import replace

from jobs.rules.groups.compare import by_identity, changes, identity
from jobs.rules.groups.rows import COMPLETED, EMPTIED, GroupOutput, begun, ended, overtaken, skipped
from jobs.rules.groups.state import (
    CLASSIC,
    Member,
    Moment,
    Partitions,
    Row,
    Standing,
    State,
    gathered,
)

CONSUMER_PROTOCOL = "consumer"
EAGER, COOPERATIVE = "eager", "cooperative"
MODES = {
    **dict.fromkeys(("range", "roundrobin", "sticky"), EAGER),
    "cooperative-sticky": COOPERATIVE,
}
"""How Kafka's own assignors rebalance."""
NOBODY = Standing(CLASSIC, 0)
"""A group that is made, before its first rebalance."""


def classic_group(state: State, row: Row, output: GroupOutput) -> State:
    """A group's value of type 2."""
    after, at = _standing(row["classic"], state.now), Moment.of(row)
    generation = after.generation or 0
    # Within the batch of a conversion `began` is the group as it was under the other type.
    before = (
        state.began if state.converted_from and state.began.group_type != CLASSIC else state.now
    )
    if generation == 0 and not after.members:
        if not state.known or state.now.generation != 0 or state.now.members:
            output.event("created", at, after)
            state = replace(_known(_phase_closed(state, output), after), last_end=None)
        return state
    if not state.known or before.generation is None or generation < before.generation:
        if not _is_first(state, after):
            return _generation(state, row, None, after, output)
        state = replace(_phase_closed(state, output), last_end=None)
        output.event("created", _joined(state, row), NOBODY)
        return _generation(state, row, NOBODY, after, output)
    output.restarts(at, before.members, after)
    if generation > before.generation:
        return _generation(
            state, row, replace(before, members=state.leavers | before.members), after, output
        )
    stayed = by_identity(after.members)
    leavers = {
        each: member
        for each, member in before.members.items()
        if identity(each, member) not in stayed
    }
    return replace(
        _after_static_restart(state, after, output), now=after, leavers=leavers or state.leavers
    )


def _is_first(state: State, after: Standing) -> bool:
    """Whether the group was made since its record before that was read, if any.

    Coordinators of Kafka 3.9 and before keep generation 0, without members, in memory alone
    (GroupCoordinator calls initNextGeneration before storeGroup). If the record before is a
    tombstone, the group was made. Otherwise generation 1 tells it, unless records were lost and it
    may be a static member's restart, which writes the generation again.
    """
    if state.known and state.now.generation is None:
        return True
    return after.generation == 1 and (state.at is None or not _has_static(after))


def _has_static(group: Standing) -> bool:
    return any(member.instance_id is not None for member in group.members.values())


def _joined(state: State, row: Row) -> Moment:
    """When a generation's join phase ended: by then the rebalance had begun, after the group's
    record before.
    """
    at = Moment.of(row)
    by = min(at.by, row["classic"]["state_timestamp"] or at.by)
    return replace(
        at, by=by, after=None if state.at is None else min(state.at, by), leader_epoch=None
    )


def _generation(
    state: State, row: Row, before: Standing | None, after: Standing, output: GroupOutput
) -> State:
    at, rebalance = Moment.of(row), state.rebalance
    if before and rebalance and after.members:
        # Whoever gave something up has joined again, or is gone.
        passed = {each: was for each, was in before.members.items() if each not in after.members}
        rebalance = overtaken(rebalance, skipped(before, after))
        rebalance = replace(
            rebalance, phases=rebalance.phases + 1, passed=rebalance.passed | passed
        )
    else:
        state = _phase_closed(state, output)
        began = _joined(state, row)
        rebalance = begun(state, before, after, began if before else replace(began, after=None))
    may_repeat = before is None or (not state.known and _has_static(after))
    state = _known(state, after)
    given_up = {} if before is None else _given_up(row, before, after)
    if given_up:
        return replace(state, rebalance=replace(rebalance, given_up=given_up, reached=at.by))
    if may_repeat:
        # A static member's restart writes the generation again, with when the group became stable,
        # after its end.
        since = at.after if row["classic"]["state_timestamp"] is None else rebalance.began.by
        at = replace(at, after=None if _has_static(after) else since, leader_epoch=None)
    return ended(state, rebalance, COMPLETED if after.members else EMPTIED, at, output)


def _known(state: State, now: Standing) -> State:
    return replace(state, known=True, now=now, converted_from=None, leavers={})


def _phase_closed(state: State, output: GroupOutput) -> State:
    """The group where the phase that would assign what was given up did not come: it completed."""
    rebalance = state.rebalance
    if rebalance is None or rebalance.reached is None:
        return state
    reached = Moment(rebalance.reached, rebalance.reached, offset=state.last_offset)
    return ended(state, rebalance, COMPLETED, reached, output)


def _after_static_restart(state: State, after: Standing, output: GroupOutput) -> State:
    """The group after a static member's restart, by which it lets go of all that it had: it does
    not join again.
    """
    if state.rebalance is None:
        return state
    given_up = {
        each: had for each, had in state.rebalance.given_up.items() if each in after.members
    }
    if not given_up:
        return _phase_closed(state, output)
    return replace(state, rebalance=replace(state.rebalance, given_up=given_up))


def _given_up(row: Row, before: Standing, after: Standing) -> dict[str, Partitions]:
    """The partitions that members of a cooperative group joined with and have no more, by member
    id.

    Each of these members gives them up and joins again, whoever is to have them
    (ConsumerCoordinator.onJoinComplete of Kafka's client, KIP-429): one more generation follows,
    and none if nobody gave up anything.
    """
    if after.mode != COOPERATIVE:
        return {}
    output = {
        each["member_id"]: (each["subscription"] or {}).get("owned_partitions")
        for each in _members(row)
    }
    found = {}
    for each in changes(before.members, after.members):
        if each.member_id is not None and each.after is not None and each.after.has is not None:
            owned = output[each.member_id]
            had = _kept(each.before, each.after) if owned is None else gathered(owned)
            left = {
                topic: sorted({*numbers} - {*each.after.has.get(topic, ())})
                for topic, numbers in had.items()
            }
            found[each.member_id] = {topic: numbers for topic, numbers in left.items() if numbers}
    return {member_id: left for member_id, left in found.items() if left}


def _kept(before: Member | None, after: Member) -> Partitions:
    """The partitions that a member joins with, if its subscription (version 0) does not say so: of
    topics it wants.

    It gives up the others before it joins (ConsumerCoordinator.onJoinPrepare).
    """
    had = before.has if before is not None and before.has is not None else {}
    return {topic: numbers for topic, numbers in had.items() if topic in (after.topics or ())}


def _members(row: Row) -> Sequence[Row]:
    members: Sequence[Row] = row["classic"]["members"] or ()
    return members


def _standing(group: Row, before: Standing) -> Standing:
    # A group that nobody joined yet has no protocol type.
    protocol_type, assignor = group["protocol_type"] or before.protocol_type, group["protocol"]
    members = {
        member["member_id"]: _member(member, protocol_type) for member in group["members"] or ()
    }
    mode = _mode(protocol_type, assignor, group["members"] or (), before)
    return Standing(
        CLASSIC,
        group["generation"],
        protocol_type,
        assignor,
        mode,
        group["leader"],
        members=members,
    )


def _member(member: Row, protocol_type: str | None) -> Member:
    subscription, assignment = member["subscription"], member["assignment"]
    topics = None if subscription is None else sorted(subscription["topics"] or ())
    has = None if assignment is None else gathered(assignment["partitions"])
    if has is None and protocol_type == CONSUMER_PROTOCOL and not member["assignment_bytes"]:
        has = {}  # A leader that assigns nothing to a member may send no bytes at all.
    return Member.of(
        member,
        topics=topics,
        has=has,
        session_timeout_ms=member.get("session_timeout_ms"),
        rack=None if subscription is None else subscription.get("rack"),
    )


def _mode(
    protocol_type: str | None, assignor: str | None, members: Sequence[Row], before: Standing
) -> str | None:
    """Eager or cooperative: Kafka's assignors by name, others by whether who joined had some."""
    if protocol_type != CONSUMER_PROTOCOL or assignor is None:
        return None
    if assignor in MODES:
        return MODES[assignor]
    subscriptions = {
        each["member_id"]: each["subscription"] for each in members if each["subscription"]
    }
    if any(each["owned_partitions"] for each in subscriptions.values()):
        return COOPERATIVE
    asked = [
        (before.members[each], of) for each, of in subscriptions.items() if each in before.members
    ]
    return EAGER if any(was.has and of["version"] >= 1 for was, of in asked) else None
