"""Small coordinators that write their log and keep their own account of what happened: who came, went and owned what,
by event.

They are plainer than Kafka's and say nothing of times. What each account holds is written down as things are done to
the group, never read back from the records.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.group_records import CONSUMER, Log, classic, classic_member

Action = tuple[str, int]
"""What to do, and a number that picks whom."""

TOPIC = "t"


@dataclass
class Process:
    """A client under its present member id."""

    name: str
    static: bool
    starts: int = 1
    owned: set[int] = field(default_factory=set)

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.starts}"

    @property
    def instance_id(self) -> str | None:
        return self.name if self.static else None


@dataclass
class Account:
    """One rebalance as it is lived through: before it, and what was done while it went on."""

    prev_generation: int
    owners: dict[int, str]
    members: set[str]
    ids: dict[str, str]
    came: set[str] = field(default_factory=set)
    generation: int = 0
    phases: int = 1
    skipped_generations: int = 0

    def told(self, processes: Iterable[Process], end_reason: str) -> dict[str, Any]:
        after = {process.name: process for process in processes}
        owners = {number: name for name, process in after.items() for number in process.owned}
        joined = self.came - self.members
        kept = sum(owners.get(number) == name for number, name in self.owners.items())
        lost = sum(number not in owners for number in self.owners)
        return {
            "generation": self.generation,
            "prev_generation": self.prev_generation,
            "skipped_generations": self.skipped_generations,
            "phases": self.phases,
            "end_reason": end_reason,
            "members": len(after),
            "prev_members": len(self.members),
            "members_joined": len(joined),
            "members_left": len((self.members | joined) - after.keys()),
            "members_restarted": sum(after[name].member_id != old for name, old in self.ids.items() if name in after),
            "partitions_kept": kept,
            "partitions_moved": len(self.owners) - kept - lost,
            "partitions_added": sum(number not in self.owners for number in owners),
            "partitions_lost": lost,
        }


class Group:
    """What both coordinators share: processes, their account, the clock."""

    def __init__(self, partitions: int, *, busy: bool = False) -> None:
        self.log = Log()
        self.busy = busy
        self.partitions = partitions
        self.processes: dict[str, Process] = {}
        self.generation = 0
        self.seconds = 0.0
        self.accounts: list[dict[str, Any]] = []
        self.restarts: list[tuple[str, str]] = []
        self.account: Account | None = None
        self._named = 0
        self._written = 0

    def opened(self) -> Account:
        owners = {number: process.name for process in self.processes.values() for number in process.owned}
        ids = {process.name: process.member_id for process in self.processes.values()}
        return Account(self.generation, owners, set(ids), ids)

    def closed(self, end_reason: str = "completed") -> None:
        assert self.account is not None
        self.accounts.append(self.account.told(self.processes.values(), end_reason))
        self.account = None

    def newcomer(self, number: int) -> Process:
        self._named += 1
        return Process(f"p{self._named}", static=number % 3 == 0)

    def picked(self, number: int) -> Process:
        return list(self.processes.values())[number % len(self.processes)]

    def tick(self) -> float:
        """The time of what is written next; where the coordinator is busy, two changes share a time and lie side by
        side.
        """
        if self.busy and self._written % 2:
            self.log.next_offset -= 1
        else:
            self.seconds += 1
        self._written += 1
        return self.seconds

    def fair(self) -> dict[str, set[int]]:
        """A sticky assignment: who has too much gives up its highest, what is free goes to who has least."""
        kept: dict[str, set[int]] = {}
        most = -(-self.partitions // len(self.processes))
        for name, process in self.processes.items():
            kept[name] = set(sorted(process.owned)[:most])
        for number in range(self.partitions):
            if not any(number in numbers for numbers in kept.values()):
                min(kept.items(), key=lambda each: (len(each[1]), each[0]))[1].add(number)
        return kept


class ClassicGroup(Group):
    """A classic group, eager or cooperative. `old`: of a coordinator of Kafka 3.9 or before, without generation 0."""

    def __init__(self, partitions: int, *, cooperative: bool, old: bool = False) -> None:
        super().__init__(partitions)
        self.protocol = "cooperative-sticky" if cooperative else "range"
        self.withheld: set[int] = set()
        if not old:
            self.log.batch(0, classic(0, protocol_type=""))

    def do(self, action: Action) -> None:
        what, number = action
        if what == "join":
            self._change(came=self.newcomer(number))
        elif not self.processes:
            return
        elif what == "leave":
            self._change(went=self.picked(number))
        elif what == "restart":
            self._restart(self.picked(number))
        elif what == "fail":
            self._change(failures=1 + number % 3)
        elif what == "settle":
            self.settle()

    def settle(self) -> None:
        if self.withheld:
            self._change()

    def _change(self, came: Process | None = None, went: Process | None = None, failures: int = 0) -> None:
        account = self.account or self.opened()
        leftover = went is not None and len(self.processes) == 1
        if leftover and self.account is not None:
            # The phase that would have assigned what was given up never comes.
            self.closed()
            account = self.opened()
        before = {process.name for process in self.processes.values()}
        if came is not None:
            self.processes[came.name] = came
            account.came.add(came.name)
        if went is not None:
            del self.processes[went.name]
        account.phases += self.account is not None
        account.skipped_generations += failures
        self.generation += 1 + failures
        account.generation = self.generation
        self.account, self.withheld = account, set()
        if not self.processes:
            self._write()
            self.closed("emptied")
            return
        self._assign(before)
        self._write()
        if not self.withheld:
            self.closed()

    def _assign(self, before: set[str]) -> None:
        owner = {number: name for name, process in self.processes.items() for number in process.owned}
        for name, numbers in self.fair().items():
            moving = {number for number in numbers if owner.get(number, name) != name}
            if self.protocol == "range":
                moving = set()
            self.withheld |= moving
            self.processes[name].owned = numbers - moving

    def _restart(self, process: Process) -> None:
        if process.static:
            old = process.member_id
            process.starts += 1
            self.restarts.append((old, process.member_id))
            self._write()

    def _write(self) -> None:
        members = [
            classic_member(each.member_id, [TOPIC], {TOPIC: sorted(each.owned)}, instance_id=each.instance_id)
            for each in self.processes.values()
        ]
        self.log.batch(self.tick(), classic(self.generation, members, protocol=self.protocol))


class ConsumerGroup(Group):
    """A KIP-848 group: members heartbeat one by one, give up what is not theirs any more, and take over
    what is free.
    """

    def __init__(self, partitions: int, *, busy: bool = False) -> None:
        super().__init__(partitions, busy=busy)
        self.target: dict[str, set[int]] = {}
        self.target_epoch = 0
        self.epochs: dict[str, int] = {}
        self.stable: dict[str, bool] = {}
        self.pending: dict[str, set[int]] = {}

    def do(self, action: Action) -> None:
        what, number = action
        if what == "join":
            self._join(self.newcomer(number), assign=number % 2 == 0)
        elif not self.processes:
            return
        elif what == "leave":
            self._leave(self.picked(number))
        elif what == "restart":
            self._restart(self.picked(number))
        elif what == "fail":
            self._epoch([])
        else:
            self._heartbeat(self.picked(number))

    def settle(self) -> None:
        while self.account is not None:
            for process in list(self.processes.values()):
                self._heartbeat(process)

    def _bump(self, records: list[Any]) -> None:
        assert self.account is not None
        self.account.skipped_generations += self.account.generation > 0  # the one before is overtaken
        self.generation += 1
        self.account.generation = self.generation
        records.append(CONSUMER.epoch(self.generation))

    def _epoch(self, records: list[Any]) -> None:
        self.account = self.account or self.opened()
        self._bump(records)
        self.log.batch(self.tick(), *records)

    def _join(self, process: Process, *, assign: bool) -> None:
        self.account = self.account or self.opened()
        self.account.came.add(process.name)
        self.processes[process.name] = process
        self.epochs[process.name], self.stable[process.name] = 0, False
        self.pending[process.name] = set()
        records: list[Any] = [CONSUMER.member(process.member_id, [TOPIC], instance_id=process.instance_id)]
        self._bump(records)
        if assign:
            self._retarget(records)
            self._reconcile(process, records)
        self.log.batch(self.tick(), *records)
        self._close_if_stable()

    def _leave(self, process: Process) -> None:
        self.account = self.account or self.opened()
        for kept in (self.processes, self.target, self.epochs, self.stable, self.pending):
            kept.pop(process.name, None)
        records: list[Any] = CONSUMER.gone(process.member_id)
        self._bump(records)
        self.log.batch(self.tick(), *records)
        if not self.processes:
            self.closed("emptied")

    def _restart(self, process: Process) -> None:
        if not process.static:
            return
        old = process.member_id
        has = {TOPIC: sorted(process.owned)}
        self.log.batch(self.tick(), CONSUMER.current(old, -2, has))
        process.starts += 1
        self.restarts.append((old, process.member_id))
        new = process.member_id
        records: list[Any] = [
            *CONSUMER.gone(old),
            CONSUMER.member(new, [TOPIC], instance_id=process.instance_id),
            CONSUMER.target(new, {TOPIC: sorted(self.target.get(process.name, ()))}),
            self._current(process),
        ]
        self.log.batch(self.tick(), *records)
        # An epoch in the same millisecond, side by side, could not be told from one with which it restarted.
        self._written += self._written % 2
        self._close_if_stable()

    def _heartbeat(self, process: Process) -> None:
        records: list[Any] = []
        if self.target_epoch != self.generation:
            self._retarget(records)
        self._reconcile(process, records)
        if records:
            self.log.batch(self.tick(), *records)
        self._close_if_stable()

    def _retarget(self, records: list[Any]) -> None:
        owned = {name: set(process.owned) for name, process in self.processes.items()}
        fair = self.fair()
        for name, process in self.processes.items():
            process.owned = owned[name]
            if self.target.get(name) != fair[name]:
                records.append(CONSUMER.target(process.member_id, {TOPIC: sorted(fair[name])}))
        self.target, self.target_epoch = fair, self.generation
        records.append(CONSUMER.target_epoch(self.target_epoch))

    def _reconcile(self, process: Process, records: list[Any]) -> None:
        name, target = process.name, self.target[process.name]
        was = (self.epochs[name], self.stable[name], set(process.owned), set(self.pending[name]))
        extra = process.owned - target
        if self.pending[name]:
            process.owned -= self.pending[name]
            self.pending[name] = set()
        elif extra:
            self.pending[name], self.stable[name] = extra, False
        if not self.pending[name] and not process.owned - target:
            elsewhere = {number for each in self.processes.values() if each is not process for number in each.owned}
            process.owned |= target - elsewhere
            self.epochs[name], self.stable[name] = self.target_epoch, process.owned == target
        if was != (self.epochs[name], self.stable[name], process.owned, self.pending[name]):
            records.append(self._current(process))

    def _current(self, process: Process) -> Any:
        pending = self.pending[process.name]
        return CONSUMER.current(
            process.member_id,
            self.epochs[process.name],
            {TOPIC: sorted(process.owned - pending)},
            pending={TOPIC: sorted(pending)} if pending else None,
            waits=not self.stable[process.name],
        )

    def _close_if_stable(self) -> None:
        at_epoch = all(epoch == self.generation for epoch in self.epochs.values())
        if self.account is not None and at_epoch and self.target_epoch == self.generation and all(self.stable.values()):
            self.closed()
