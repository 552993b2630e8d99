"""Why a group rebalanced, inferred from what differs before and after. Kafka's own reason (KIP-800) is only in
coordinators' logs.
"""

from typing import Any

from jobs.rules.groups.moves import assigned, changes, identity
from jobs.rules.groups.state import CLASSIC, Member, Rebalance, Standing, numbered
from schemas.groups import REASONS

Stayed = list[tuple[Member, Member]]
"""Members that are there before and after, as they were and are."""


def reasons(rebalance: Rebalance, before: Standing, after: Standing) -> list[str]:
    """The reasons that hold, in the order of schemas.groups.REASONS; `same_members` where nothing visible explains
    it.
    """
    went = changes(before.members, after.members)
    stayed = [(each.before, each.after) for each in went.values() if each.before is not None and each.after is not None]
    left = {kind for (kind, _), each in went.items() if each.after is None}
    left |= {identity(member_id, member)[0] for member_id, member in rebalance.passed.items()}
    holds = {
        "member_joined": bool(rebalance.passed) or any(each.before is None for each in went.values()),
        "member_left": "member" in left,
        # Static members do not leave when they close: they time out (or an administrator removes them, which looks the
        # same).
        "static_member_timed_out": "instance" in left,
        "subscription_changed": _subscription_changed(stayed),
        "partitions_changed": _partitions_changed(rebalance, before, after, stayed, same=len(stayed) == len(went)),
        "assignor_changed": _differ(before.assignor, after.assignor),
        "group_emptied": not after.members,
        "converted": rebalance.prev_group_type is not None,
    }
    return [reason for reason in REASONS if holds.get(reason)] or ["same_members"]


def _differ(was: Any, now: Any) -> bool:
    """Whether both are known, and are not the same."""
    return was is not None and now is not None and was != now


def _subscription_changed(stayed: Stayed) -> bool:
    return any(
        _differ(was.topics, now.topics) or was.pattern != now.pattern or _differ(was.topology_epoch, now.topology_epoch)
        for was, now in stayed
    )


def _partitions_changed(rebalance: Rebalance, before: Standing, after: Standing, stayed: Stayed, *, same: bool) -> bool:
    """`same`: nobody came or left. Of a classic group only what its members have tells of its partitions."""
    if before.group_type != after.group_type:
        return False
    if after.group_type == CLASSIC:
        if not same or _subscription_changed(stayed):
            return False
        had, has = assigned(before.members), assigned(after.members)
        return had is not None and has is not None and had != has | numbered(rebalance.withheld)
    matched_others = any(
        was.pattern is not None
        and was.pattern == now.pattern
        and before.patterns.get(was.pattern) != after.patterns.get(was.pattern)
        for was, now in stayed
    )
    same_topics = _subscribed(before) == _subscribed(after)
    return matched_others or (same_topics and _differ(before.metadata_hash, after.metadata_hash))


def _subscribed(standing: Standing) -> tuple[set[str], set[str | None], int | None]:
    """The input of the group's metadata hash: topics by name, those that its patterns matched, and its topology."""
    members = standing.members.values()
    return (
        {topic for member in members for topic in member.topics or ()},
        {standing.patterns.get(member.pattern) for member in members if member.pattern is not None},
        standing.topology_epoch,
    )
