"""Classic groups (record type 2): each record is the whole group as one generation left it, or a static restart within it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.rules.groups.moves import assigned, by_identity, identity, restarts
from jobs.rules.groups.rows import COMPLETED, EMPTIED, End, Told
from jobs.rules.groups.state import CLASSIC, Member, Partitions, Rebalance, Standing, State, gathered, numbered, to_ms

CONSUMER_PROTOCOL = "consumer"
EAGER_ASSIGNORS = ("range", "roundrobin", "sticky")
COOPERATIVE_ASSIGNORS = ("cooperative-sticky",)


def classic_group(state: State, row: Mapping[str, Any], told: Told) -> State:
    """A group's value of type 2."""
    after = _standing(row, state.now)
    # Within the batch of a conversion `began` is the group as it was under the other type.
    before = state.began if state.converted_from and state.began.group_type != CLASSIC else state.now
    if after.generation == 0 and not after.members:
        return _made(state, row, after, told)
    known = state.known and before.generation is not None and (after.generation or 0) >= before.generation
    if known and after.generation == before.generation:
        _tell_restarts(row, before, after, told)
        stayed = by_identity(after.members).keys()
        leavers = {each: member for each, member in before.members.items() if identity(each, member) not in stayed}
        return replace(state, now=after, leavers=leavers or state.leavers)
    if known:
        _tell_restarts(row, before, after, told)
    return _generation(state, row, before if known else None, after, told)


def close_phase(state: State, told: Told) -> State:
    """The group with its open rebalance completed, where the phase that would have assigned what was given up did not come."""
    rebalance = state.rebalance
    if rebalance is None or rebalance.reached is None or rebalance.ended:
        return state
    end = End(COMPLETED, rebalance.reached, rebalance.reached)
    told.rebalance(state, replace(rebalance, withheld={}), state.now, end)
    return replace(state, rebalance=None, last_end=max(rebalance.reached, rebalance.began_by))


def _made(state: State, row: Mapping[str, Any], after: Standing, told: Told) -> State:
    if state.known and state.now.generation == 0 and not state.now.members:
        return state
    at = to_ms(row["timestamp"])
    told.event("created", row, at, at, group_type=CLASSIC, generation=0)
    state = close_phase(state, told)
    return replace(state, known=True, now=after, last_end=None, converted_from=None, leavers={})


def _generation(state: State, row: Mapping[str, Any], before: Standing | None, after: Standing, told: Told) -> State:
    at = to_ms(row["timestamp"])
    if before is not None and state.leavers:
        before = replace(before, members=state.leavers | before.members)
    going_on = state.rebalance if before is not None else None
    if going_on is None or not numbered(going_on.withheld) & (assigned(after.members) or set()):
        state = close_phase(state, told)
        going_on = None
    gap = (after.generation or 0) - (before.generation or 0) - 1 if before is not None else None
    began_by = min(at, to_ms(row["classic"]["state_timestamp"] or row["timestamp"]))
    if going_on is not None and before is not None:
        rebalance = replace(
            going_on,
            last_offset=row["offset"],
            incomplete=None if gap is None or going_on.incomplete is None else going_on.incomplete + gap,
            phases=going_on.phases + 1,
            passed=going_on.passed | {each: was for each, was in before.members.items() if each not in after.members},
        )
    else:
        rebalance = Rebalance(
            first_offset=row["offset"],
            last_offset=row["offset"],
            began_after=None if before is None or state.at is None else min(state.at, began_by),
            began_by=began_by,
            before=before,
            since_previous_ms=None if before is None or state.last_end is None else max(0, began_by - state.last_end),
            prev_group_type=state.converted_from,
            incomplete=gap,
        )
    withheld = _withheld(before, after)
    state = replace(state, known=True, now=after, converted_from=None, leavers={})
    if withheld:
        return replace(state, rebalance=replace(rebalance, withheld=withheld, reached=at))
    end = End.with_record(COMPLETED if after.members else EMPTIED, row)
    if before is None:
        # What is read first may be a restart's repetition: the state's timestamp then still bounds the end.
        end = replace(end, after=began_by, leader_epoch=None)
    told.rebalance(state, replace(rebalance, withheld={}), after, end)
    return replace(state, rebalance=None, last_end=max(at, rebalance.began_by))


def _withheld(before: Standing | None, after: Standing) -> Partitions:
    """What living members gave up in a cooperative generation and nobody has yet: the next one assigns it (KIP-429)."""
    has = assigned(after.members)
    if before is None or has is None or after.mode != "cooperative":
        return {}
    alive = by_identity(after.members)
    subscribed = {topic for member in after.members.values() for topic in member.topics or ()}
    withheld: Partitions = {}
    for each, member in before.members.items():
        if identity(each, member) not in alive:
            continue
        for topic, number in sorted(numbered(member.has or {}) - has):
            if topic in subscribed:
                withheld.setdefault(topic, []).append(number)
    return withheld


def _tell_restarts(row: Mapping[str, Any], before: Standing, after: Standing, told: Told) -> None:
    at = to_ms(row["timestamp"])
    for member_id, prev_member_id in restarts(before.members, after.members).items():
        member = after.members[member_id]
        told.event(
            "static_restart",
            row,
            at,
            at,
            group_type=CLASSIC,
            generation=after.generation,
            member_id=member_id,
            prev_member_id=prev_member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
        )


def _standing(row: Mapping[str, Any], before: Standing) -> Standing:
    group = row["classic"]
    # A group that nobody joined yet has no protocol type.
    protocol_type = group["protocol_type"] or before.protocol_type
    raw = group["members"] or ()
    return Standing(
        group_type=CLASSIC,
        generation=group["generation"],
        protocol_type=protocol_type,
        assignor=group["protocol"],
        mode=_mode(protocol_type, group["protocol"], raw, before),
        leader=group["leader"],
        members={member["member_id"]: _member(member, protocol_type) for member in raw},
    )


def _member(raw: Mapping[str, Any], protocol_type: str | None) -> Member:
    subscription = raw["subscription"]
    return Member(
        instance_id=raw["instance_id"],
        client_id=raw["client_id"],
        client_host=raw["client_host"],
        topics=None if subscription is None else sorted(subscription["topics"] or ()),
        has=_assignment(raw, protocol_type),
    )


def _assignment(raw: Mapping[str, Any], protocol_type: str | None) -> Partitions | None:
    if raw["assignment"] is None:
        # A leader that assigns nothing to a member may send no bytes at all.
        return {} if protocol_type == CONSUMER_PROTOCOL and not raw["assignment_bytes"] else None
    return gathered(raw["assignment"]["partitions"])


def _mode(
    protocol_type: str | None, assignor: str | None, members: Sequence[Mapping[str, Any]], before: Standing
) -> str | None:
    """Eager or cooperative: by name for Kafka's own assignors; of others by whether members kept what they had while they joined."""
    if protocol_type != CONSUMER_PROTOCOL or assignor is None:
        return None
    if assignor in EAGER_ASSIGNORS:
        return "eager"
    subscriptions = {each["member_id"]: each["subscription"] for each in members if each["subscription"]}
    if assignor in COOPERATIVE_ASSIGNORS or any(each["owned_partitions"] for each in subscriptions.values()):
        return "cooperative"
    gave_up = any(
        each in subscriptions and subscriptions[each]["version"] >= 1 and member.has
        for each, member in before.members.items()
    )
    return "eager" if gave_up else None
