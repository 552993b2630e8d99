"""The members of one group that run, as a script has left them."""

from collections import Counter
from typing import Final

from local_cluster.members import Member, Members
from truth.groups.described import EMPTY, STABLE, Description
from truth.groups.script import PARTITIONS, Deed, Kind, is_static
from truth.model.groups import Holder

SESSION_SECONDS: Final = 5


class Actors:
    """The members of a group, and the topics whose partitions they share out."""

    def __init__(self, group: str, kind: Kind, members: Members) -> None:
        self.group = group
        self.kind = kind
        self.topic, self.other = f"{group}-a", f"{group}-b"
        self.partitions = {self.topic: PARTITIONS, self.other: 2}
        self.started: list[Member] = []
        """All that ever ran, in the order of their starts."""
        self._members = members
        self._live: dict[str, Member] = {}
        self._wide: set[str] = set()
        self._paused: set[str] = set()

    def start(self, client_id: str) -> Member:
        """Start a member of this client id."""
        member = self._members.start(
            group=self.group,
            topics=[self.topic, self.other] if client_id in self._wide else [self.topic],
            client_id=client_id,
            protocol=self.kind.protocol,
            assignor=self.kind.assignor,
            instance_id=f"{client_id}-instance" if is_static(client_id) else None,
            config={"session.timeout.ms": SESSION_SECONDS * 1000}
            if self.kind.protocol == "classic"
            else None,
            work=self.kind.work,
        )
        self.started.append(member)
        self._live[client_id] = member
        return member

    def act(self, deed: Deed) -> None:
        """Do one thing to a member that lives."""
        member = self._live[deed.member]
        if deed.action in ("leave", "expire"):
            del self._live[deed.member]
            self._wide.discard(deed.member)
            member.stop()
        elif deed.action == "crash":
            del self._live[deed.member]
            self._wide.discard(deed.member)
            member.crash()
        elif deed.action == "restart":
            member.stop()
            self.start(deed.member)
        elif deed.action == "pause":
            self._paused.add(deed.member)
            member.pause()
        elif deed.action == "resume":
            self._paused.remove(deed.member)
            member.resume()
        elif deed.action == "widen":
            self._wide.add(deed.member)
            member.subscribe(self.topic, self.other)
        elif deed.action == "narrow":
            self._wide.remove(deed.member)
            member.subscribe(self.topic)

    def fit(self, found: Description) -> bool:
        """Return whether the group is as scripted, and members have what the coordinator says."""
        live = {name: member for name, member in self._live.items() if name not in self._paused}
        if sorted(holder.client_id for holder in found.holders) != sorted(live):
            return False
        if found.state != (STABLE if live else EMPTY):
            return False
        if live and not self._covers(found):
            return False
        return all(agrees(live[holder.client_id], self.kind, holder) for holder in found.holders)

    def _covers(self, found: Description) -> bool:
        """Whether each partition that is subscribed to has its member, and nobody anything else."""
        held = Counter(partition for holder in found.holders for partition in holder.partitions)
        topics = [self.topic, *([self.other] if self._wide - self._paused else [])]
        wanted = {(topic, number) for topic in topics for number in range(self.partitions[topic])}
        if self.kind.protocol == "streams":  # by subtopology, of which there is one
            return sorted(number for _, number in held.elements()) == sorted(
                number for _, number in wanted
            )
        return held.keys() == wanted and (
            self.kind.protocol == "share" or held.total() == len(wanted)
        )

    def log_ends(self) -> str:
        """Return what the members that live hold and log, for an error."""
        return "".join(
            f"\n{member}, {member.state}, has {len(member.owned)}: {member.log_end}"
            for member in self._live.values()
        )


def agrees(member: Member, kind: Kind, holder: Holder) -> bool:
    """Return whether a member says of itself what its coordinator says, if it is told."""
    told = member.told
    if kind.protocol == "share":
        return True
    if not told or told[-1].owned != holder.partitions:
        return False
    return kind.java or told[-1].member_id == holder.member_id
