"""How two moments of a group differ: members, who has which partitions, why it rebalanced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.rules.groups.rebalance_rows import Moves
from jobs.rules.groups.state import CLASSIC, STREAMS, Member, Rebalance, Standing, numbered
from schemas.groups import REASONS

Members = Mapping[str, Member]
Identity = tuple[str, str]
Owners = dict[tuple[str, int], set[Identity]]
NO_MOVES: Moves = {
    "partitions_kept": None,
    "partitions_moved": None,
    "partitions_added": None,
    "partitions_lost": None,
    "stickiness": None,
}


def identity(member_id: str, member: Member) -> Identity:
    """Who a member is: by instance id, which outlives a restart (KIP-345), else by member id."""
    return ("member", member_id) if member.instance_id is None else ("instance", member.instance_id)


def by_identity(members: Members) -> dict[Identity, tuple[str, Member]]:
    """Identity -> member id and member."""
    return {identity(*each): each for each in members.items()}


@dataclass(frozen=True)
class Change:
    """One member between two moments, under its ids; None where it was, or is, not there."""

    prev_member_id: str | None
    before: Member | None
    member_id: str | None
    after: Member | None

    @property
    def name(self) -> str:
        """stayed | joined | left | restarted; who came and went meanwhile has left."""
        if self.after is None:
            return "left"
        if self.before is None:
            return "joined"
        return "stayed" if self.prev_member_id == self.member_id else "restarted"


def changes(before: Members, after: Members) -> list[Change]:
    """The change of each member, those that stayed included."""
    nobody = (None, None)
    was, is_now = by_identity(before), by_identity(after)
    return [Change(*was.get(who, nobody), *is_now.get(who, nobody)) for who in was | is_now]


def owners(members: Members) -> Owners | None:
    """The members that have each partition that someone has; None where someone's are not known."""
    found: Owners = {}
    for member_id, member in members.items():
        if member.has is None:
            return None
        for partition in numbered(member.has):
            found.setdefault(partition, set()).add(identity(member_id, member))
    return found


def moves(before: Members, after: Members) -> Moves:
    """How partitions moved. One of several owners (share groups) is kept where one stayed."""
    had, have = owners(before), owners(after)
    # In a conversion one side names topics by name, the other by id.
    namings = {member.by_id for member in (*before.values(), *after.values()) if member.has}
    if had is None or have is None or len(namings) > 1:
        return NO_MOVES
    both = had.keys() & have.keys()
    kept = sum(1 for partition in both if had[partition] & have[partition])
    return {
        "partitions_kept": kept,
        "partitions_moved": len(both) - kept,
        "partitions_added": len(have) - len(both),
        "partitions_lost": len(had) - len(both),
        "stickiness": kept / len(had) if had else None,
    }


def skew(members: Members) -> int | None:
    """The partitions of the member that has the most, less those of the one that has the least;
    None where there is no member, or someone's are not known.
    """
    counts = [None if each.has is None else len(numbered(each.has)) for each in members.values()]
    known = [each for each in counts if each is not None]
    return max(known) - min(known) if known and len(known) == len(counts) else None


def reasons(
    rebalance: Rebalance,
    before: Standing,
    after: Standing,
    went: list[Change],
    moved: Moves,
) -> list[str]:
    """Reasons, inferred: Kafka's own (KIP-800) is only in coordinators' logs. `moved`: of moves."""
    stayed = [
        (each.before, each.after)
        for each in went
        if each.before is not None and each.after is not None
    ]
    left = [each.before for each in went if each.before is not None and each.after is None]
    is_static = {member.instance_id is not None for member in (*left, *rebalance.passed.values())}
    resubscribed = any(
        _differ(was.topics, now.topics)
        or was.pattern != now.pattern
        or _differ(was.topology_epoch, now.topology_epoch)
        for was, now in stayed
    )
    grew = refreshed = False
    if after.group_type == CLASSIC:
        # Only what members have tells of its partitions.
        had, has = owners(before.members), owners(after.members)
        is_known = tells_subscriptions(before) and tells_subscriptions(after)
        if (
            had is not None
            and has is not None
            and is_known
            and len(stayed) == len(went)
            and not resubscribed
        ):
            grew = had.keys() != has.keys() | rebalance.withheld
    else:
        patterns = {
            was.pattern for was, now in stayed if was.pattern and was.pattern == now.pattern
        }
        matched_others = any(
            before.patterns.get(each) != after.patterns.get(each) for each in patterns
        )
        is_other = _differ(before.metadata_hash, after.metadata_hash) or _is_rewritten(
            before, after
        )
        refreshed = matched_others or (is_other and _subscribed(before) == _subscribed(after))
        grew = refreshed and bool(moved["partitions_added"] or moved["partitions_lost"])
    is_same_type = before.group_type == after.group_type
    holds = {
        "member_joined": bool(rebalance.passed) or any(each.before is None for each in went),
        "member_left": False in is_static,
        # Most do not leave when they close (KIP-345), and time out; records do not tell it from a
        # leave (KIP-1092).
        "static_member_left": True in is_static,
        "subscription_changed": resubscribed,
        "partitions_changed": grew and is_same_type,
        # Racks of replicas are part of it, too (Utils.computeTopicHash of Kafka's coordinator).
        "metadata_changed": refreshed and not grew and is_same_type,
        "assignor_changed": _differ(before.assignor, after.assignor),
        "group_emptied": not after.members,
        "converted": rebalance.prev_group_type is not None,
    }
    return [reason for reason in REASONS if holds.get(reason)] or ["same_members"]


def tells_subscriptions(group: Standing) -> bool:
    """Whether each member's subscription is known; streams groups have a topology instead."""
    members = group.members.values()
    return group.group_type == STREAMS or all(
        each.topics is not None or each.pattern is not None for each in members
    )


def _differ(was: Any, now: Any) -> bool:
    """Whether both are known, and are not the same."""
    return was is not None and now is not None and was != now


def _is_rewritten(before: Standing, after: Standing) -> bool:
    """Whether the coordinator wrote other partition metadata, though it was of a Kafka without
    hashes before.

    It writes what changed alone, so the first that is read of a group that was there is a change,
    too.
    """
    return before.metadata_hash is None and _differ(
        before.partition_metadata or "", after.partition_metadata
    )


def _subscribed(group: Standing) -> tuple[Any, ...]:
    """All that is known of topics: those named, those that patterns matched, and the topology."""
    matched = {group.patterns.get(each.pattern) for each in group.members.values() if each.pattern}
    return group.topics, matched, group.topology_epoch
