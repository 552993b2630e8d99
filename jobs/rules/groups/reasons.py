"""Why a group rebalanced, inferred from what differs before and after. Kafka's own reason (KIP-800) is only in coordinators' logs."""

from jobs.rules.groups.moves import Change, Identity, assigned, changes, identity
from jobs.rules.groups.state import CLASSIC, Member, Partitions, Rebalance, Standing, numbered
from schemas.gold import REASONS


def reasons(rebalance: Rebalance, before: Standing, after: Standing) -> list[str]:
    """The reasons that hold, in the order of schemas.gold.REASONS; `same_members` where nothing visible explains it."""
    went = changes(before.members, after.members)
    left = [who for who, change in went.items() if change.after is None]
    left += [identity(member_id, member) for member_id, member in rebalance.passed.items()]
    stayed = [
        (before.members[change.before], after.members[change.after])
        for change in went.values()
        if change.before is not None and change.after is not None
    ]
    holds = {
        "member_joined": bool(rebalance.passed) or any(change.before is None for change in went.values()),
        "member_left": any(kind == "member" for kind, _ in left),
        # Static members do not leave when they close: they time out (or an administrator removes them, which looks the same).
        "static_member_timed_out": any(kind == "instance" for kind, _ in left),
        "subscription_changed": _subscription_changed(stayed),
        "partitions_changed": _partitions_changed(before, after, went, stayed, rebalance.withheld),
        "assignor_changed": before.assignor is not None
        and after.assignor is not None
        and before.assignor != after.assignor,
        "group_emptied": not after.members,
        "converted": rebalance.prev_group_type is not None,
    }
    return [reason for reason in REASONS if holds.get(reason)] or ["same_members"]


def _subscription_changed(stayed: list[tuple[Member, Member]]) -> bool:
    return any(
        (was.topics is not None and now.topics is not None and was.topics != now.topics)
        or was.pattern != now.pattern
        or (
            was.topology_epoch is not None
            and now.topology_epoch is not None
            and was.topology_epoch != now.topology_epoch
        )
        for was, now in stayed
    )


def _partitions_changed(
    before: Standing,
    after: Standing,
    went: dict[Identity, Change],
    stayed: list[tuple[Member, Member]],
    withheld: Partitions,
) -> bool:
    if before.group_type != after.group_type:
        return False
    if after.group_type == CLASSIC:
        if len(stayed) != len(went) or _subscription_changed(stayed):
            return False
        had, has = assigned(before.members), assigned(after.members)
        return had is not None and has is not None and had != has | numbered(withheld)
    matched_anew = any(
        was.pattern is not None
        and was.pattern == now.pattern
        and before.patterns.get(was.pattern) != after.patterns.get(was.pattern)
        for was, now in stayed
    )
    same_topics = _subscribed(before) == _subscribed(after)
    hashes = (before.metadata_hash, after.metadata_hash)
    return matched_anew or (same_topics and None not in hashes and hashes[0] != hashes[1])


def _subscribed(standing: Standing) -> tuple[set[str], set[str | None], int | None]:
    """What the group's metadata hash is over: topics by name, what its patterns matched, and its topology."""
    members = standing.members.values()
    return (
        {topic for member in members for topic in member.topics or ()},
        {standing.patterns.get(member.pattern) for member in members if member.pattern is not None},
        standing.topology_epoch,
    )
