"""Small coordinators that write their log and keep their own account of what happened: who came,
went and owned what, by event.

They are plainer than Kafka's and say nothing of times. What each account holds is written down as
things are done to the group, never read back from the records. A rebalance is open (`account`)
while a client or the coordinator has something to do by Kafka's rules, which ends in one more
record of the group: a member that gave something up joins again, one that is not at the group's
epoch gets there, state of a share group's partitions is made. Topics that are deleted, and that
members give up, are part of each life.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.group_records import Log, classic, classic_member
from truth.model.groups import Owned, figures, skew

Action = tuple[str, int]
"""What to do, and a number that picks whom."""

WHAT = (
    "join",
    "join",
    "leave",
    "restart",
    "fail",
    "settle",
    "settle",
    "settle",
    "topic",
    "subscribe",
)
"""What can be done: what is done most is here most often."""

Partition = tuple[str, int]
TOPIC, OTHER = "t", "u"
"""Every member wants the first. The other comes and goes, and some want it."""


@dataclass
class Process:
    """A client under its present member id."""

    name: str
    static: bool
    topics: set[str] = field(default_factory=lambda: {TOPIC})
    starts: int = 1
    owned: set[Partition] = field(default_factory=set)
    joined_with: set[Partition] = field(default_factory=set)

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.starts}"

    @property
    def instance_id(self) -> str | None:
        return self.name if self.static else None


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def owned_by(processes: Iterable[Process]) -> Owned:
    return {process.name: frozenset(process.owned) for process in processes}


@dataclass
class Account:
    """One rebalance as it is lived through: before it, and what was done while it went on."""

    prev_generation: int
    owned: Owned
    ids: dict[str, str]
    came: set[str] = field(default_factory=set)
    generation: int = 0
    phases: int = 1
    skipped_generations: int = 0

    def told(self, processes: Iterable[Process], end_reason: str) -> dict[str, Any]:
        after = {process.name: process for process in processes}
        restarted = sum(
            after[name].member_id != old for name, old in self.ids.items() if name in after
        )
        owned = owned_by(after.values())
        return figures(self.owned, owned, passed=self.came, restarted=restarted) | {
            "generation": self.generation,
            "prev_generation": self.prev_generation,
            "skipped_generations": self.skipped_generations,
            "assignment_skew": skew(owned),
            "phases": self.phases,
            "end_reason": end_reason,
        }


class Group:
    """What all coordinators share: topics, processes, their account, the clock."""

    def __init__(self, partitions: int, *, busy: bool = False) -> None:
        self.log = Log()
        self.busy = busy
        self.topics = {TOPIC: partitions, OTHER: 2}
        self.processes: dict[str, Process] = {}
        self.generation = 0
        self.seconds = 0.0
        self.accounts: list[dict[str, Any]] = []
        self.restarts: list[tuple[str, str]] = []
        self.account: Account | None = None
        self._named = 0
        self._written = 0

    @property
    def wanted(self) -> set[str]:
        return {topic for process in self.processes.values() for topic in process.topics}

    def opened(self) -> Account:
        ids = {process.name: process.member_id for process in self.processes.values()}
        return Account(self.generation, owned_by(self.processes.values()), ids)

    def closed(self, end_reason: str = "completed") -> None:
        assert self.account is not None
        self.accounts.append(self.account.told(self.processes.values(), end_reason))
        self.account = None

    def newcomer(self, number: int) -> Process:
        self._named += 1
        topics = {TOPIC, OTHER} if number % 2 else {TOPIC}
        return Process(f"p{self._named}", static=number % 3 == 0, topics=topics)

    def picked(self, number: int) -> Process:
        return list(self.processes.values())[number % len(self.processes)]

    def toggle_topic(self, number: int) -> None:
        """Delete the other topic, or make it."""
        if self.topics.pop(OTHER, None) is None:
            self.topics[OTHER] = 1 + number % 3

    def tick(self) -> float:
        """The time of what is written next; where the coordinator is busy, two changes share a time
        and lie side by side.
        """
        if self.busy and self._written % 2:
            self.log.next_offset -= 1
        else:
            self.seconds += 1
        self._written += 1
        return self.seconds

    def fair(self) -> dict[str, set[Partition]]:
        """A sticky assignment: who has too many gives up the highest, and who has the fewest gets
        the free ones.
        """
        there = [
            (topic, n)
            for topic in sorted(self.wanted & self.topics.keys())
            for n in range(self.topics[topic])
        ]
        most = -(-len(there) // len(self.processes))
        kept = {
            name: set(
                [each for each in there if each in process.owned and each[0] in process.topics][
                    :most
                ]
            )
            for name, process in self.processes.items()
        }
        for each in there:
            if not any(each in partitions for partitions in kept.values()):
                fit = [
                    name for name, process in self.processes.items() if each[0] in process.topics
                ]
                kept[min(fit, key=lambda name: (len(kept[name]), name))].add(each)
        return kept


class ClassicGroup(Group):
    """A classic group, eager or cooperative.

    `old`: of a coordinator of Kafka 3.9 or before, without generation 0, and of clients that do not
    say what they join with.
    """

    def __init__(self, partitions: int, *, cooperative: bool, old: bool = False) -> None:
        super().__init__(partitions)
        self.protocol = "cooperative-sticky" if cooperative else "range"
        self.old = old
        self.rejoins: set[str] = set()
        if not old:
            self.log.batch(0, classic(0, protocol_type=""))

    def do(self, action: Action) -> None:
        what, number = action
        if what == "topic":
            self.toggle_topic(number)
            # Who leads the group sees it, at once or with the next change.
            if self.processes and number % 2:
                self._change()
        elif what == "join":
            self._change(came=self.newcomer(number))
        elif not self.processes:
            return
        elif what == "leave":
            self._change(went=self.picked(number))
        elif what == "subscribe":
            self.picked(number).topics ^= {OTHER}
            self._change()
        elif what == "restart":
            self._restart(self.picked(number))
        elif what == "fail":
            self._change(failures=1 + number % 3)
        elif what == "settle":
            self.settle()

    def settle(self) -> None:
        while self.rejoins:
            self._change()

    def _change(
        self, came: Process | None = None, went: Process | None = None, failures: int = 0
    ) -> None:
        account = self.account or self.opened()
        leftover = went is not None and len(self.processes) == 1
        if leftover and self.account is not None:
            # The phase that would have assigned what was given up never comes.
            self.closed()
            account = self.opened()
        if came is not None:
            self.processes[came.name] = came
            account.came.add(came.name)
        if went is not None:
            del self.processes[went.name]
        account.phases += self.account is not None
        account.skipped_generations += failures
        self.generation += 1 + failures
        account.generation = self.generation
        self.account, self.rejoins = account, set()
        if not self.processes:
            self._write()
            self.closed("emptied")
            return
        self._assign()
        self._write()
        if not self.rejoins:
            self.closed()

    def _assign(self) -> None:
        """Clients that are cooperative join with what they have and want; what another has is
        nobody's meanwhile.
        """
        is_eager = self.protocol == "range"
        for process in self.processes.values():
            process.joined_with = (
                set() if is_eager else {each for each in process.owned if each[0] in process.topics}
            )
        has = {
            each: process.name
            for process in self.processes.values()
            for each in process.joined_with
        }
        for name, partitions in self.fair().items():
            self.processes[name].owned = {
                each for each in partitions if has.get(each, name) == name
            }
        self.rejoins = {
            each.name for each in self.processes.values() if each.joined_with - each.owned
        }

    def _restart(self, process: Process) -> None:
        if process.static:
            self.rejoins.discard(process.name)
            if self.account is not None and not self.rejoins:
                self.closed()
            old = process.member_id
            process.starts += 1
            process.joined_with = set()
            self.restarts.append((old, process.member_id))
            self._write()

    def _write(self) -> None:
        members = [
            classic_member(
                each.member_id,
                sorted(each.topics),
                by_topic(each.owned),
                instance_id=each.instance_id,
                owned=None if self.old else by_topic(each.joined_with),
            )
            for each in self.processes.values()
        ]
        self.log.batch(self.tick(), classic(self.generation, members, protocol=self.protocol))
