"""Classic groups (record type 2): each record is the whole group as one generation left it, or a static restart within
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.rules.groups.endings import ended
from jobs.rules.groups.moves import assigned, by_identity, identity
from jobs.rules.groups.rows import COMPLETED, EMPTIED, End, Told
from jobs.rules.groups.state import (
    CLASSIC,
    CLIENT,
    Member,
    Moment,
    Partitions,
    Standing,
    State,
    begun,
    gathered,
    numbered,
    skipped,
    total,
)

CONSUMER_PROTOCOL = "consumer"
EAGER, COOPERATIVE = "eager", "cooperative"
MODES = {**dict.fromkeys(("range", "roundrobin", "sticky"), EAGER), "cooperative-sticky": COOPERATIVE}
"""How Kafka's own assignors rebalance."""


def classic_group(state: State, row: Mapping[str, Any], told: Told) -> State:
    """A group's value of type 2."""
    after = _standing(row, state.now)
    if after.generation == 0 and not after.members:
        return _made(state, row, after, told)
    # Within the batch of a conversion `began` is the group as it was under the other type.
    before = state.began if state.converted_from and state.began.group_type != CLASSIC else state.now
    generation = after.generation or 0
    if not state.known or before.generation is None or generation < before.generation:
        return _generation(state, row, None, after, told)
    told.restarts(Moment.of(row), before.members, after)
    if generation > before.generation:
        return _generation(state, row, before, after, told)
    stayed = by_identity(after.members)
    leavers = {each: member for each, member in before.members.items() if identity(each, member) not in stayed}
    return replace(state, now=after, leavers=leavers or state.leavers)


def _phase_closed(state: State, told: Told) -> State:
    """The group with its open rebalance completed, where the phase that would have assigned what was given up did not
    come.
    """
    rebalance = state.rebalance
    if rebalance is None or rebalance.reached is None:
        return state
    reached = Moment(rebalance.reached, rebalance.reached, offset=state.last_offset)
    return ended(state, rebalance, End(COMPLETED, reached), told)


def _made(state: State, row: Mapping[str, Any], after: Standing, told: Told) -> State:
    if state.known and state.now.generation == 0 and not state.now.members:
        return state
    told.event("created", Moment.of(row), group_type=CLASSIC, generation=0)
    state = _phase_closed(state, told)
    return replace(state, known=True, now=after, last_end=None, converted_from=None, leavers={})


def _generation(state: State, row: Mapping[str, Any], before: Standing | None, after: Standing, told: Told) -> State:
    at, rebalance = Moment.of(row), state.rebalance
    if before is not None and state.leavers:
        before = replace(before, members=state.leavers | before.members)
    if before and rebalance and numbered(rebalance.withheld) & (assigned(after.members) or set()):
        rebalance = replace(
            rebalance,
            skipped_generations=total(rebalance.skipped_generations, skipped(before, after)),
            phases=rebalance.phases + 1,
            passed=rebalance.passed | {each: was for each, was in before.members.items() if each not in after.members},
        )
    else:
        state = _phase_closed(state, told)
        by = min(at.by, row["classic"]["state_timestamp"] or at.by)
        since = None if before is None or state.at is None else min(state.at, by)
        rebalance = begun(state, before, after, Moment(by, since, at.log_partition, at.offset))
    state = replace(state, known=True, now=after, converted_from=None, leavers={})
    withheld = _withheld(before, after)
    if withheld:
        return replace(state, rebalance=replace(rebalance, withheld=withheld, reached=at.by))
    if before is None:
        # The record that is read first may be a restart's repetition: the state's timestamp then still bounds the end.
        at = replace(at, after=rebalance.began.by, leader_epoch=None)
    return ended(state, rebalance, End(COMPLETED if after.members else EMPTIED, at), told)


def _withheld(before: Standing | None, after: Standing) -> Partitions:
    """The partitions that living members gave up in a cooperative generation, that nobody has yet: the next one assigns
    them (KIP-429).
    """
    has = assigned(after.members)
    if before is None or has is None or after.mode != COOPERATIVE:
        return {}
    alive = by_identity(after.members)
    subscribed = {topic for member in after.members.values() for topic in member.topics or ()}
    given_up: set[tuple[str, int]] = set()
    for each, member in before.members.items():
        if identity(each, member) in alive:
            given_up |= numbered(member.has or {}) - has
    withheld: Partitions = {}
    for topic, number in sorted(given_up):
        if topic in subscribed:
            withheld.setdefault(topic, []).append(number)
    return withheld


def _standing(row: Mapping[str, Any], before: Standing) -> Standing:
    group = row["classic"]
    # A group that nobody joined yet has no protocol type.
    protocol_type = group["protocol_type"] or before.protocol_type
    members = group["members"] or ()
    return Standing(
        group_type=CLASSIC,
        generation=group["generation"],
        protocol_type=protocol_type,
        assignor=group["protocol"],
        mode=_mode(protocol_type, group["protocol"], members, before),
        leader=group["leader"],
        members={member["member_id"]: _member(member, protocol_type) for member in members},
    )


def _member(member: Mapping[str, Any], protocol_type: str | None) -> Member:
    subscription, assignment = member["subscription"], member["assignment"]
    if assignment is not None:
        has: Partitions | None = gathered(assignment["partitions"])
    else:
        # A leader that assigns nothing to a member may send no bytes at all.
        has = {} if protocol_type == CONSUMER_PROTOCOL and not member["assignment_bytes"] else None
    return Member(
        **{name: member[name] for name in CLIENT},
        topics=None if subscription is None else sorted(subscription["topics"] or ()),
        has=has,
    )


def _mode(
    protocol_type: str | None, assignor: str | None, members: Sequence[Mapping[str, Any]], before: Standing
) -> str | None:
    """Eager or cooperative: by name for Kafka's own assignors; of others by whether members kept what they had while
    they joined.
    """
    if protocol_type != CONSUMER_PROTOCOL or assignor is None:
        return None
    if assignor in MODES:
        return MODES[assignor]
    subscriptions = {each["member_id"]: each["subscription"] for each in members if each["subscription"]}
    if any(each["owned_partitions"] for each in subscriptions.values()):
        return COOPERATIVE
    gave_up = any(
        each in subscriptions and subscriptions[each]["version"] >= 1 and member.has
        for each, member in before.members.items()
    )
    return EAGER if gave_up else None
