"""Does scripts to groups of real members, and waits after each step until the group is quiet."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Barrier, Event
from typing import Final, TypeVar

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from local_cluster import LocalCluster
from local_cluster.members import Member, Members, TopicPartition
from truth.dump import TruthError
from truth.groups.actors import SESSION_SECONDS, Actors, agrees
from truth.groups.described import STABLE, Describer, Description, describer
from truth.groups.happened import Happened, Move
from truth.groups.script import (
    CRASHES,
    GROWS_TO,
    PARTITIONS,
    WITHOUT_REBALANCE,
    Deed,
    Kind,
    Script,
    Step,
)
from truth.groups.worked import Records, appended, leave_records, work_of
from truth.model.groups import Call, Holders
from truth.model.work import Work

_SESSION = str(SESSION_SECONDS * 1000)
PROPERTIES: Final = {
    # Who dies is missed sooner than by default, and what the coordinator waits for by default it
    # does not.
    "group.min.session.timeout.ms": _SESSION,
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in {
            "min.session.timeout.ms": _SESSION,
            "session.timeout.ms": _SESSION,
            "min.heartbeat.interval.ms": "500",
            "heartbeat.interval.ms": "500",
        }.items()
    },
    "group.streams.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "1",
    # Coordinators move when the script says so.
    "auto.leader.rebalance.enable": "false",
}

_QUIET_SECONDS: Final = 2.0
"""So long a group stays as it is before it counts as quiet: more than a heartbeat, a refresh of
metadata and the second that the server's assignor waits between two runs."""
_STEADY_SECONDS: Final = 6.0
"""And so long it is left alone if its members work: the cadence of commits is known again then."""
_COMMITTED_SECONDS: Final = 4.0
"""Once no record comes, all were committed by then, with a third of transactions aborted too."""
_REST_SECONDS: Final = 68.0
"""For which nobody does anything at the end: history has a row of each group's lag each minute."""
_LATEST_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.25

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Played:
    """The steps done to the groups, and the moves of their coordinators."""

    happened: Mapping[str, Sequence[Happened]]
    """By group."""
    moves: Sequence[Move]
    work: Mapping[str, Work]
    """By group; of those whose members work."""


class Group:
    """A group that a script is done to. `happened` is what was done so far."""

    def __init__(
        self, kind: Kind, members: Members, admin: AdminClient, describe: Describer, say: Say
    ) -> None:
        self.kind = kind
        self.name = f"truth-{kind.name}"
        self.happened: list[Happened] = []
        self._actors = Actors(self.name, kind, members)
        self._admin = admin
        self._describe = describe
        self._say = say

    def create_topics(self) -> None:
        """Create the two topics of the group."""
        of_work = {"replication_factor": 3, "config": {"message.timestamp.type": "LogAppendTime"}}
        asked = [
            NewTopic(topic, partitions, **(of_work if self.kind.work else {}))
            for topic, partitions in self._actors.partitions.items()
        ]
        for created in self._admin.create_topics(asked).values():
            created.result(_LATEST_SECONDS)

    def play(self, steps: Iterable[Step]) -> None:
        """Do the steps. Raises TruthError when the group does not become quiet after one."""
        for step in steps:
            with self.doing(step):
                with ThreadPoolExecutor(len(step)) as pool:
                    passed = frozenset().union(*pool.map(self._do, step))
                self._passed = passed

    @contextlib.contextmanager
    def doing(self, step: Step) -> Iterator[None]:
        """Something is done to the group, by the step's name; then the group is waited for."""
        before: Holders = self.happened[-1].after if self.happened else {}
        known = {member: len(member.told) for member in self._actors.started}
        self._passed: frozenset[str] = frozenset()
        began_at = datetime.now(UTC)
        yield
        description, settled_at = self._await_quiet(
            patient=all(deed.action in WITHOUT_REBALANCE for deed in step)
        )
        calls = [
            Call(member.client_id, told)
            for member in self._actors.started
            for told in member.told[known.get(member, 0) :]
        ]
        happened = Happened(
            group=self.name,
            kind=self.kind,
            step=step,
            began_at=began_at,
            # A generation that changes nothing is called back after an answer that shows it all.
            settled_at=max([settled_at, *(call.told.at for call in calls)]),
            before=before,
            after={holder.member_id: holder for holder in description.holders},
            calls=tuple(sorted(calls, key=lambda call: call.told.at)),
            passed=self._passed,
        )
        self.happened.append(happened)
        self._say(f"{happened}, {len(happened.after)} members, quiet after {settled_at - began_at}")
        if self.kind.work:
            time.sleep(_STEADY_SECONDS)

    @property
    def at_work(self) -> dict[str, int]:
        """The topic that its members work through, and how many partitions it has."""
        return {self._actors.topic: PARTITIONS} if self.kind.work else {}

    def work(self, bootstrap_servers: str, rests_from: datetime) -> Work:
        """What its members did and committed."""
        ((topic, partitions),) = self.at_work.items()
        records = appended(bootstrap_servers, topic, partitions)
        return work_of(self._actors.started, records, rests_from)

    @property
    def coordinator(self) -> int:
        """The broker that coordinates it now."""
        return self._await(lambda _: True).coordinator

    def await_coordinator_other_than(self, broker_id: int) -> int:
        """Wait until another broker coordinates it; which."""
        return self._await(lambda found: found.coordinator != broker_id).coordinator

    def _do(self, deed: Deed) -> frozenset[str]:
        """Do one thing; the ids of members that joined and are gone again."""
        if deed.action == "join":
            self._actors.start(deed.member)
        elif deed.action == "crash_loop":
            return self._crash_loop(deed.member)
        elif deed.action == "grow":
            topic = self._actors.topic
            self._actors.partitions[topic] = GROWS_TO
            asked = [NewPartitions(topic, GROWS_TO)]
            self._admin.create_partitions(asked)[topic].result(_LATEST_SECONDS)
        else:
            self._actors.act(deed)
        return frozenset()

    def _crash_loop(self, client_id: str) -> frozenset[str]:
        """A member joins, and dies once the group is stable with it; the last one stays."""
        passed: set[str] = set()
        for _ in range(CRASHES):
            member = self._actors.start(client_id)
            passed.add(self._await_joined(member, passed))
            member.crash()
        self._actors.start(client_id)
        return frozenset(passed)

    def _await_joined(self, member: Member, passed: AbstractSet[str]) -> str:
        """The member id of a process; `passed` are those before it under its client id."""

        def ids(found: Description) -> list[str]:
            mine = [
                each
                for each in found.holders
                if each.client_id == member.client_id and each.member_id not in passed
            ]
            return [each.member_id for each in mine if agrees(member, self.kind, each)]

        (member_id,) = ids(self._await(lambda found: found.state == STABLE and bool(ids(found))))
        return member_id

    def _await_quiet(self, *, patient: bool) -> tuple[Description, datetime]:
        """The group as it stays, and since when; `patient` where nothing is to be seen."""
        quiet = timedelta(seconds=_QUIET_SECONDS * (2 if patient else 1))
        deadline = time.monotonic() + _LATEST_SECONDS
        since, held = datetime.now(UTC), None
        while time.monotonic() < deadline:
            found = self._describe(self.name)
            now = datetime.now(UTC)
            if found is None or not self._actors.fit(found):
                since, held = now, None
            elif held is None or _held(found) != held:
                since, held = now, _held(found)
            elif now - since > quiet:
                return found, since
            time.sleep(_LOOK_SECONDS)
        raise TruthError(f"{self.name} is not quiet after {_LATEST_SECONDS:.0f} s: {self._why()}")

    def _await(self, wanted: Callable[[Description], bool]) -> Description:
        deadline = time.monotonic() + _LATEST_SECONDS
        while time.monotonic() < deadline:
            found = self._describe(self.name)
            if found is not None and wanted(found):
                return found
            time.sleep(_LOOK_SECONDS)
        raise TruthError(
            f"{self.name} is not as the script wants it after {_LATEST_SECONDS:.0f} s: "
            f"{self._why()}"
        )

    def _why(self) -> str:
        return f"{self._describe(self.name)}{self._actors.log_ends()}"


def _held(found: Description) -> Mapping[str, frozenset[TopicPartition]]:
    return {holder.member_id: holder.partitions for holder in found.holders}


def play(cluster: LocalCluster, scripts: Sequence[Script], say: Say) -> Played:
    """Do all scripts at once; in the middle of them the broker that coordinates the first group is
    stopped for good. If members work, records come until the scripts end, then some that nobody
    does, and nobody does anything for a while.

    No member runs when this returns or raises.
    """
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    with contextlib.ExitStack() as started:
        members = started.enter_context(Members(servers))
        groups = [
            Group(
                script.kind,
                members,
                admin,
                started.enter_context(describer(script.kind, servers)),
                say,
            )
            for script in scripts
        ]
        pool = started.enter_context(ThreadPoolExecutor(len(groups)))

        def do(parts: Iterable[Iterable[Step]]) -> None:
            _results(
                [pool.submit(group.play, part) for group, part in zip(groups, parts, strict=True)]
            )

        for group in groups:
            group.create_topics()
        topics = {topic: n for group in groups for topic, n in group.at_work.items()}
        with Records(servers, topics) if topics else contextlib.nullcontext():
            do(script.before for script in scripts)
            move = _move(cluster, groups, pool)
            say(f"broker {move.broker_id} stopped, which coordinated {', '.join(move.groups)}")
            do(script.after for script in scripts)
            time.sleep(_COMMITTED_SECONDS if topics else 0)
        do(script.end for script in scripts)
        if topics:
            leave_records(servers, topics)
        rests_from = datetime.now(UTC)
        time.sleep(_REST_SECONDS if topics else 0)
        happened = {group.name: group.happened for group in groups}
        work = {group.name: group.work(servers, rests_from) for group in groups if group.kind.work}
        return Played(happened, [move], work)


def _move(cluster: LocalCluster, groups: Sequence[Group], pool: ThreadPoolExecutor) -> Move:
    """Stop the broker that coordinates the first group; nothing else is done to any."""
    before = {group.name: group.coordinator for group in groups}
    broker_id = before[groups[0].name]
    begun, stopped = Barrier(len(groups) + 1), Event()

    def hold(group: Group) -> int:
        with group.doing((Deed("move"),)):
            begun.wait()
            stopped.wait()
            return group.await_coordinator_other_than(broker_id)

    after = [pool.submit(hold, group) for group in groups]
    begun.wait()
    began_at = datetime.now(UTC)
    try:
        cluster.stop(broker_id)
        ended_at = datetime.now(UTC)
    finally:
        stopped.set()
    moved = dict(zip(before, _results(after), strict=True))
    return Move(
        broker_id,
        began_at,
        ended_at,
        {name: moved[name] for name, was in before.items() if was == broker_id},
    )


def _results(futures: Sequence[Future[T]]) -> list[T]:
    """The results of all, once all have ended; raises the error of the first that failed."""
    wait(futures)
    return [future.result() for future in futures]
