"""Who came, left or stayed, and which partitions moved, between two moments of a group."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobs.rules.groups.state import Member, Partitions, numbered

Identity = tuple[str, str]
"""What stays the same when a static member restarts: its instance id; of others the member id."""

Owners = dict[tuple[str, int], set[Identity]]


def identity(member_id: str, member: Member) -> Identity:
    """Who a member is: static members by instance id (KIP-345), others by member id."""
    return ("member", member_id) if member.instance_id is None else ("instance", member.instance_id)


def by_identity(members: Mapping[str, Member]) -> dict[Identity, str]:
    """Identity -> member id."""
    return {identity(member_id, member): member_id for member_id, member in members.items()}


@dataclass(frozen=True)
class Change:
    """One member between two moments: `before` and `after` are its member ids, None where it was, or is, not there."""

    before: str | None
    after: str | None

    @property
    def name(self) -> str:
        """stayed | joined | left | restarted; who came and went meanwhile has left."""
        if self.after is None:
            return "left"
        if self.before is None:
            return "joined"
        return "stayed" if self.before == self.after else "restarted"


def changes(before: Mapping[str, Member], after: Mapping[str, Member]) -> dict[Identity, Change]:
    """What became of each member, those that stayed included."""
    was, is_now = by_identity(before), by_identity(after)
    return {who: Change(was.get(who), is_now.get(who)) for who in was | is_now}


def restarts(before: Mapping[str, Member], after: Mapping[str, Member]) -> dict[str, str]:
    """Member id afterwards -> before, of static members that came back under another one."""
    return {
        change.after: change.before
        for change in changes(before, after).values()
        if change.before is not None and change.after is not None and change.before != change.after
    }


def assigned(members: Mapping[str, Member]) -> set[tuple[str, int]] | None:
    """Every partition that someone has; None where someone's are not known."""
    every: set[tuple[str, int]] = set()
    for member in members.values():
        if member.has is None:
            return None
        every |= numbered(member.has)
    return every


@dataclass(frozen=True)
class Moves:
    """Counts of partitions between two moments, as in gold.rebalances."""

    kept: int
    moved: int
    added: int
    lost: int

    @property
    def stickiness(self) -> float | None:
        """Share of what was assigned before that stayed where it was; None where nothing was."""
        assigned = self.kept + self.moved + self.lost
        return self.kept / assigned if assigned else None


def moves(
    before: Mapping[str, Member], after: Mapping[str, Member], part_after: Callable[[Member], Partitions | None]
) -> Moves | None:
    """What moved. Of share groups, where a partition has several owners, it is kept where one of them stayed.

    `part_after`: what a member of `after` has. None where someone's partitions are not known, or the two sides name topics
    differently (by name and by id, in a conversion).
    """
    had = _owners(before, lambda member: member.has)
    have = _owners(after, part_after)
    if had is None or have is None:
        return None
    holders = [member for member in before.values() if member.has] + [
        member for member in after.values() if part_after(member)
    ]
    if len({member.by_id for member in holders}) > 1:
        return None
    both = had.keys() & have.keys()
    kept = sum(1 for partition in both if had[partition] & have[partition])
    return Moves(kept, len(both) - kept, len(have) - len(both), len(had) - len(both))


def _owners(members: Mapping[str, Member], part: Callable[[Member], Partitions | None]) -> Owners | None:
    owners: Owners = {}
    for member_id, member in members.items():
        partitions = part(member)
        if partitions is None:
            return None
        for partition in numbered(partitions):
            owners.setdefault(partition, set()).add(identity(member_id, member))
    return owners
