"""Does the script to a cluster and two groups, a step after every broker shows the one before."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from compat.compare import Window
from compat.model import Expected, Key, State, first_states
from compat.script import (
    BEFORE,
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    GROUP_TOPIC,
    GROWN,
    MOVES,
    REBORN,
    THIRD,
    TOPICS,
    Step,
)
from compat.versions import Version
from local_cluster import LocalCluster, probe
from local_cluster.members import Member, Members
from local_cluster.nodes import PLAINTEXT
from truth.administration import Administration, AdministrationError
from truth.groups.described import EMPTY, STABLE, Describer, describer
from truth.groups.script import CONSUMER, RANGE, Kind

SESSION_MS: Final = 6_000
_LONG_SESSION_MS: Final = 45_000
"""Of members that stay: they must outlast the coordinator's death."""
_CONSUMER_SESSION_MS: Final = 15_000
PROPERTIES: Final = {
    # Who dies is missed sooner than by default; nothing happens that the script has not.
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "auto.leader.rebalance.enable": "false",
    "group.consumer.min.session.timeout.ms": str(_CONSUMER_SESSION_MS),
    "group.consumer.session.timeout.ms": str(_CONSUMER_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
PAUSE_SECONDS: Final = 6.0
"""Between a step's end and the next: some polls, and a batch's commit, without any."""
_LATEST_SECONDS: Final = 90.0
_LOOK_SECONDS: Final = 0.2

Say = Callable[[str], None]


class Groups:
    """The two groups, or the classic one alone where the version has no other."""

    def __init__(
        self, version: Version, members: Members, describers: Mapping[Kind, Describer]
    ) -> None:
        self.kinds = {CLASSIC_GROUP: RANGE} | (
            {CONSUMER_GROUP: CONSUMER} if version.has_consumer_groups else {}
        )
        self._members = members
        self._describers = describers
        self._live: dict[tuple[str, str], Member] = {}
        self._partitions = sum(len(topic.replicas) for topic in TOPICS if topic.name == GROUP_TOPIC)

    def do(self, step: Step) -> None:
        """Let the member of each group join, leave or crash; or wait for more partitions."""
        for group, kind in self.kinds.items():
            if step.action == "join":
                self._live[group, step.member] = self._start(group, kind, step)
            elif step.action == "leave":
                self._live.pop((group, step.member)).stop()
            elif step.action == "crash":
                self._live.pop((group, step.member)).crash()
        if step.action == "grow":
            self._partitions += len(GROWN)

    def await_quiet(self) -> None:
        """Wait until each coordinator describes its group as the script wants it.

        Raises AdministrationError.
        """
        for group, kind in self.kinds.items():
            live = sorted(member for of_group, member in self._live if of_group == group)
            _await(partial(self._unquiet, group, kind, live))

    def _unquiet(self, group: str, kind: Kind, live: list[str]) -> str:
        found = self._describers[kind](group)
        if found is None:
            return f"{group} is not described"
        held = [each for holder in found.holders for each in holder.partitions]
        wanted = [(GROUP_TOPIC, number) for number in range(self._partitions)] if live else []
        members = sorted(holder.client_id for holder in found.holders)
        if (found.state, members, sorted(held)) == (STABLE if live else EMPTY, live, wanted):
            return ""
        return f"{group} is {found.state} with {members}, which have {sorted(held)}"

    def _start(self, group: str, kind: Kind, step: Step) -> Member:
        session = SESSION_MS if step.member == THIRD else _LONG_SESSION_MS
        return self._members.start(
            group=group,
            topics=[GROUP_TOPIC],
            client_id=step.member,
            protocol=kind.protocol,
            assignor=kind.assignor,
            config={"session.timeout.ms": session} if kind.protocol == "classic" else None,
        )


@contextlib.contextmanager
def prepared(cluster: LocalCluster, version: Version) -> Iterator[Groups]:
    """Topics are there, led by their preferred replicas, and one member is in each group."""
    Administration(cluster).create_topics(TOPICS)
    await_states(cluster, first_states())
    servers = cluster.bootstrap_servers
    with contextlib.ExitStack() as started:
        describers = {
            kind: started.enter_context(describer(kind, servers)) for kind in (RANGE, CONSUMER)
        }
        groups = Groups(version, started.enter_context(Members(servers)), describers)
        groups.do(BEFORE)
        groups.await_quiet()
        yield groups


def play(cluster: LocalCluster, groups: Groups, steps: list[Expected], say: Say) -> list[Window]:
    """Do the steps.

    Raises AdministrationError if the cluster, or a group, does not come to what the model says.
    """
    administration = Administration(cluster)
    windows: list[Window] = []
    for each in steps:
        began_at = datetime.now(UTC)
        _do(cluster, administration, each.step)
        groups.do(each.step)
        await_states(cluster, each.states)
        groups.await_quiet()
        settled_at = datetime.now(UTC)
        say(f"{each.step}: {settled_at - began_at}")
        time.sleep(PAUSE_SECONDS)
        windows.append(Window(each, began_at, settled_at, datetime.now(UTC)))
    return windows


def _do(cluster: LocalCluster, administration: Administration, step: Step) -> None:
    if step.action == "stop":
        cluster.stop(step.broker)
    elif step.action == "kill":
        cluster.kill(step.broker)
    elif step.action == "start":
        cluster.start(step.broker)
    elif step.action == "elect":
        administration.elect(unclean=False)
    elif step.action == "reassign":
        administration.reassign(MOVES)
    elif step.action == "recreate":
        administration.delete_topics([REBORN.name])
        _await(partial(_uncreated, administration))
    elif step.action == "grow":
        administration.grow(GROWN)


def _uncreated(administration: Administration) -> str:
    """Create it as soon as the old one is gone: no poll need see that it was."""
    try:
        administration.create_topics([REBORN])
    except AdministrationError as error:
        return str(error)
    return ""


def await_states(cluster: LocalCluster, states: Mapping[Key, State]) -> None:
    """Wait until every broker that runs shows these states of partitions, and no others."""
    for node_id, node in cluster.nodes.items():
        if node.is_broker and cluster.state(node_id) != "down":
            _await(partial(_unlike, node.ports[PLAINTEXT], states))


def _unlike(port: int, states: Mapping[Key, State]) -> str:
    try:
        answer = probe.metadata_of(port)
    except OSError as error:
        return str(error)
    shown = {
        (topic.name, each.partition_index): (
            tuple(each.replica_nodes),
            each.leader_id,
            frozenset(each.isr_nodes),
        )
        for topic in answer.topics
        for each in topic.partitions
    }
    wanted = {key: (state.replicas, state.leader, state.isr) for key, state in states.items()}
    return "; ".join(
        f"{topic}-{number} is {shown.get((topic, number))} and not {wanted.get((topic, number))}"
        for topic, number in sorted(wanted.keys() | shown.keys())
        if shown.get((topic, number)) != wanted.get((topic, number))
    )


def _await(missing: Callable[[], str]) -> None:
    deadline = time.monotonic() + _LATEST_SECONDS
    while why := missing():
        if time.monotonic() > deadline:
            raise AdministrationError(
                f"not as the script wants it after {_LATEST_SECONDS:.0f} s: {why}"
            )
        time.sleep(_LOOK_SECONDS)
