"""Steps done to a group, with what its members and its coordinator said of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from truth.groups.script import Kind, Step
from truth.model.groups import Call, Holders


@dataclass(frozen=True)
class Happened:
    """A step of the script, from when it was begun until its group was quiet."""

    group: str
    kind: Kind
    step: Step
    began_at: datetime
    settled_at: datetime
    """The coordinator's first answer that showed the group as it then stayed."""
    before: Holders
    after: Holders
    calls: tuple[Call, ...] = ()
    """In order of time."""
    passed: frozenset[str] = frozenset()
    """Member ids that were seen to have joined meanwhile, also if they are gone again."""

    @property
    def restarted(self) -> Mapping[str, str]:
        """The member ids of static members that are back under another one, by the one before."""
        now = {
            holder.instance_id: member_id
            for member_id, holder in self.after.items()
            if holder.instance_id
        }
        return {
            member_id: now[holder.instance_id]
            for member_id, holder in self.before.items()
            if holder.instance_id in now and now[holder.instance_id] != member_id
        }

    @property
    def joined(self) -> frozenset[str]:
        """The member ids that are new, or were."""
        return (self.passed | self.after.keys()) - self.before.keys() - set(self.restarted.values())

    @property
    def left(self) -> frozenset[str]:
        """The member ids that are gone, those that only passed among them."""
        return (self.passed | self.before.keys()) - self.after.keys() - self.restarted.keys()

    def __str__(self) -> str:
        return f"{self.group}: {' and '.join(map(str, self.step))} at {self.began_at:%H:%M:%S.%f}"


@dataclass(frozen=True)
class Move:
    """The broker of coordinators was stopped, and those of some groups moved."""

    broker_id: int
    began_at: datetime
    ended_at: datetime
    """It had stopped by then."""
    groups: Mapping[str, int]
    """Group -> its coordinator afterwards; those alone whose coordinator the broker was."""
