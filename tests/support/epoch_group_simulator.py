"""Coordinators of groups with epochs (KIP-848, KIP-932), as small as those of
group_simulator.py.
"""

from collections.abc import Iterable
from typing import Any

from tests.support.group_records import CONSUMER, SHARE, Kind
from tests.support.group_simulator import OTHER, Action, Group, Partition, Process, by_topic


class EpochGroup(Group):
    """What groups with epochs share: an epoch for each change, a target for each epoch, members
    that get there.
    """

    kind: Kind

    def __init__(self, partitions: int, *, busy: bool = False) -> None:
        super().__init__(partitions, busy=busy)
        self.target: dict[str, set[Partition]] = {}
        self.target_epoch = 0
        self.metadata_hash = 1
        self.epochs: dict[str, int] = {}
        self.stable: dict[str, bool] = {}

    @property
    def is_stable(self) -> bool:
        return self.is_stable_for(self.processes)

    def is_stable_for(self, names: Iterable[str]) -> bool:
        at_target = self.target_epoch == self.generation
        return at_target and all(
            self.stable[name] and self.epochs[name] == self.generation for name in names
        )

    def settle(self) -> None:
        while self.account is not None:
            for process in list(self.processes.values()):
                self._heartbeat(process)

    def _bump(self, records: list[Any]) -> None:
        self.account = self.account or self.opened()
        # The one before is overtaken, or was reached by everybody, who then waited for another.
        self.account.skipped_generations += self.account.generation > 0 and not self.is_stable
        self.generation += 1
        self.account.generation = self.generation
        records.append(self.kind.epoch(self.generation, self.metadata_hash))

    def _epoch(self, records: list[Any]) -> None:
        self._bump(records)
        self.log.batch(self.tick(), *records)

    def _join(self, process: Process, *, assign: bool) -> None:
        self.account = self.account or self.opened()
        self.account.came.add(process.name)
        records = [self._member(process)]
        self._bump(records)
        self.processes[process.name] = process
        self.epochs[process.name], self.stable[process.name] = 0, False
        self._heartbeat(process, records, assign=assign)

    def _subscribe(self, process: Process, *, assign: bool) -> None:
        process.topics ^= {OTHER}
        records = [self._member(process)]
        self._bump(records)
        self._heartbeat(process, records, assign=assign)

    def _leave(self, process: Process) -> None:
        records: list[Any] = self.kind.gone(process.member_id)
        self._bump(records)
        for kept in (self.processes, self.target, self.epochs, self.stable):
            kept.pop(process.name, None)
        self.log.batch(self.tick(), *records)
        if not self.processes:
            self.closed("emptied")

    def _member(self, process: Process) -> Any:
        return self.kind.member(
            process.member_id, sorted(process.topics), instance_id=process.instance_id
        )

    def _heartbeat(
        self, process: Process, records: list[Any] | None = None, *, assign: bool = True
    ) -> None:
        raise NotImplementedError

    def _retarget(self, targets: dict[str, set[Partition]], records: list[Any]) -> None:
        for name, process in self.processes.items():
            if self.target.get(name) != targets[name]:
                records.append(self.kind.target(process.member_id, by_topic(targets[name])))
        self.target, self.target_epoch = targets, self.generation
        records.append(self.kind.target_epoch(self.target_epoch))


class ConsumerGroup(EpochGroup):
    """A KIP-848 group: members heartbeat one by one, give up partitions that are theirs no more,
    and take over free ones.
    """

    kind = CONSUMER

    def __init__(self, partitions: int, *, busy: bool = False) -> None:
        super().__init__(partitions, busy=busy)
        self.pending: dict[str, set[Partition]] = {}

    def do(self, action: Action) -> None:
        what, number = action
        if what == "topic":
            self.toggle_topic(number)
            self.metadata_hash += 1
            if OTHER in self.wanted:
                self._epoch([])
        elif what == "join":
            self._join(self.newcomer(number), assign=number % 2 == 0)
        elif not self.processes:
            return
        elif what == "leave":
            self.pending.pop(self.picked(number).name, None)
            self._leave(self.picked(number))
        elif what == "subscribe":
            self._subscribe(self.picked(number), assign=number % 2 == 0)
        elif what == "restart":
            self._restart(self.picked(number))
        elif what == "fail":
            self._epoch([])
        else:
            self._heartbeat(self.picked(number))

    def _restart(self, process: Process) -> None:
        if not process.static:
            return
        old = process.member_id
        # It gives up what it was to give up (consumerGroupStaticMemberGroupLeave).
        process.owned -= self.pending.pop(process.name, set())
        self.log.batch(self.tick(), CONSUMER.current(old, -2, by_topic(process.owned)))
        if process.owned == self.target.get(process.name):
            self._close_if_stable(away=process)
        process.starts += 1
        self.restarts.append((old, process.member_id))
        new = process.member_id
        records: list[Any] = [
            *CONSUMER.gone(old),
            self._member(process),
            CONSUMER.target(new, by_topic(self.target.get(process.name, ()))),
            self._current(process),
        ]
        self.log.batch(self.tick(), *records)
        # An epoch in the same millisecond, side by side, could not be told from one with which it
        # restarted.
        self._written += self._written % 2
        self._close_if_stable()

    def _heartbeat(
        self, process: Process, records: list[Any] | None = None, *, assign: bool = True
    ) -> None:
        records = records or []
        if assign and self.target_epoch != self.generation:
            self._retarget(self.fair(), records)
        if process.name in self.target:
            self._reconcile(process, records)
        if records:
            self.log.batch(self.tick(), *records)
        self._close_if_stable()

    def _reconcile(self, process: Process, records: list[Any]) -> None:
        name, target = process.name, self.target[process.name]
        pending = self.pending.setdefault(name, set())
        was = (self.epochs[name], self.stable[name], set(process.owned), set(pending))
        extra = process.owned - target
        if pending:
            process.owned -= pending
            self.pending[name] = set()
        elif extra:
            self.pending[name], self.stable[name] = extra, False
        if not self.pending[name] and not process.owned - target:
            elsewhere = {
                each
                for other in self.processes.values()
                if other is not process
                for each in other.owned
            }
            process.owned |= target - elsewhere
            self.epochs[name], self.stable[name] = self.target_epoch, process.owned == target
        if was != (self.epochs[name], self.stable[name], process.owned, self.pending[name]):
            records.append(self._current(process))

    def _current(self, process: Process) -> Any:
        pending = self.pending.get(process.name, set())
        return CONSUMER.current(
            process.member_id,
            self.epochs[process.name],
            by_topic(process.owned - pending),
            pending=by_topic(pending) if pending else None,
            waits=not self.stable[process.name],
        )

    def _close_if_stable(self, away: Process | None = None) -> None:
        """`away`: who has all that it is to have, and reaches no epoch meanwhile."""
        there = self.processes.keys() - ({away.name} if away else set())
        if self.account is not None and self.is_stable_for(there):
            self.closed()


class ShareGroup(EpochGroup):
    """A share group: every member has all partitions of its topics that state was made of
    (KIP-932).

    State is made of the topics that somebody wants, by another broker, which may fail. What has
    state and is in no target is worth one more epoch
    (GroupMetadataManager.initializedAssignmentPending).
    """

    kind = SHARE

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.making: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.is_stale = False

    def do(self, action: Action) -> None:
        what, number = action
        if what == "topic":
            self._toggle(number)
        elif what == "join":
            self._join(self.newcomer(number), assign=number % 5 != 0)
        elif what == "restart":
            self._state(self.making if number % 3 else {})
        elif not self.processes:
            return
        elif what == "leave":
            self._leave(self.picked(number))
        elif what == "subscribe":
            self._subscribe(self.picked(number), assign=number % 5 != 0)
        elif what == "fail":
            self._epoch([])
        else:
            self._heartbeat(self.picked(number))

    def settle(self) -> None:
        while self.account is not None:
            self._state(self.making)
            for process in list(self.processes.values()):
                self._heartbeat(process)

    def newcomer(self, number: int) -> Process:
        process = super().newcomer(number)
        process.static = False
        return process

    def _toggle(self, number: int) -> None:
        self.toggle_topic(number)
        self.metadata_hash += 1
        if self.processes and OTHER in self.wanted and number % 2:
            self._epoch([])
        if OTHER not in self.topics and OTHER in self.making | self.made:
            # ShareGroupStatePartitionMetadata is cleaned up where a topic is deleted
            # (maybeCleanupShareGroupState).
            for of_state in (self.making, self.made):
                of_state.pop(OTHER, None)
            self._write_state([])

    def _state(self, made: dict[str, int]) -> None:
        """State was made, or (nothing is `made`) could not be."""
        if self.making:
            self.made |= made
            self.making = {}
            self._write_state([])

    def _write_state(self, records: list[Any]) -> None:
        parts = {
            name: [
                {"topic_id": topic, "topic": topic, "partitions": list(range(n))}
                for topic, n in of.items()
            ]
            for name, of in (("initializing", self.making), ("initialized", self.made))
        }
        self.log.batch(self.tick(), *records, (15, None, parts))
        self._close_if_done()

    def _heartbeat(
        self, process: Process, records: list[Any] | None = None, *, assign: bool = True
    ) -> None:
        records = records or []
        if self.target_epoch >= self.generation and self._is_worth_an_epoch():
            self._bump(records)
        if assign and self.target_epoch != self.generation:
            targets = {
                name: {
                    (topic, n)
                    for topic in each.topics & self.made.keys()
                    for n in range(self.made[topic])
                }
                for name, each in self.processes.items()
            }
            self._retarget(targets, records)
        name = process.name
        there = (self.target_epoch, self.target.get(name, set()))
        if name in self.target and (self.epochs[name], process.owned) != there:
            self.epochs[name], process.owned = there
            self.stable[name] = True
            records.append(
                SHARE.current(process.member_id, self.target_epoch, by_topic(process.owned))
            )
        lacks = (self.wanted & self.topics.keys()) - self.making.keys() - self.made.keys()
        if lacks:
            self.making = self.making | {topic: self.topics[topic] for topic in lacks}
            self._write_state(records)
        elif records:
            self.log.batch(self.tick(), *records)
            self._close_if_done()

    def _is_worth_an_epoch(self) -> bool:
        targeted = {each[0] for partitions in self.target.values() for each in partitions}
        return bool((self.wanted & self.made.keys()) - targeted)

    def _close_if_done(self) -> None:
        waits = self.wanted & self.making.keys()
        if (
            self.account is not None
            and self.is_stable
            and not waits
            and not self._is_worth_an_epoch()
        ):
            self.closed()
