"""Who came, left or stayed, and which partitions moved, between two moments of a group."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.rules.groups.state import Member, Partitions, numbered

Identity = tuple[str, str]
"""The id that stays the same when a static member restarts: its instance id; of others the member id."""

Part = Callable[[Member], Partitions | None]
"""The partitions of a member that count; None where they are not known."""

MOVED = ("partitions_kept", "partitions_moved", "partitions_added", "partitions_lost", "stickiness")


def identity(member_id: str, member: Member) -> Identity:
    """Who a member is: static members by instance id (KIP-345), others by member id."""
    return ("member", member_id) if member.instance_id is None else ("instance", member.instance_id)


def by_identity(members: Mapping[str, Member]) -> dict[Identity, tuple[str, Member]]:
    """Identity -> member id and member."""
    return {identity(member_id, member): (member_id, member) for member_id, member in members.items()}


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


def changes(before: Mapping[str, Member], after: Mapping[str, Member]) -> dict[Identity, Change]:
    """The move of each member, those that stayed included."""
    nobody = (None, None)
    was, is_now = by_identity(before), by_identity(after)
    return {who: Change(*was.get(who, nobody), *is_now.get(who, nobody)) for who in was | is_now}


def assigned(members: Mapping[str, Member]) -> set[tuple[str, int]] | None:
    """Every partition that someone has; None where someone's are not known."""
    owners = _owners(members, lambda member: member.has)
    return None if owners is None else set(owners)


def moves(before: Mapping[str, Member], after: Mapping[str, Member], part: Part) -> dict[str, Any] | None:
    """The columns of MOVED. Of share groups, where a partition has several owners, it is kept where one of them stayed.

    `part`: what a member of `after` has. None where someone's partitions are not known, or the two sides name topics
    differently (by name and by id, in a conversion).
    """
    had, have = _owners(before, lambda member: member.has), _owners(after, part)
    holders = [*filter(lambda member: member.has, before.values()), *filter(part, after.values())]
    if had is None or have is None or len({member.by_id for member in holders}) > 1:
        return None
    both = had.keys() & have.keys()
    kept = sum(1 for partition in both if had[partition] & have[partition])
    counts = (kept, len(both) - kept, len(have) - len(both), len(had) - len(both))
    return dict(zip(MOVED, (*counts, kept / len(had) if had else None), strict=True))


def _owners(members: Mapping[str, Member], part: Part) -> dict[tuple[str, int], set[Identity]] | None:
    owners: dict[tuple[str, int], set[Identity]] = {}
    for member_id, member in members.items():
        partitions = part(member)
        if partitions is None:
            return None
        for partition in numbered(partitions):
            owners.setdefault(partition, set()).add(identity(member_id, member))
    return owners
