"""A seeded random series of things done to a cluster, and the journal of when each was.

`plan` decides everything beforehand, from the seed alone; `play` does it. No more than two brokers
are out at once, and all are back in the end. Controllers that are apart from the brokers may fail
too: which of them is the active one is seen when a step is done.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from local_cluster import LocalCluster, LocalClusterError
from local_cluster.controllers import active_controller
from truth.administration import Administration, AdministrationError, NewTopic

SESSION_SECONDS: Final = 6.0
LAG_SECONDS: Final = 2.0
PROPERTIES: Final = {
    # A dead broker is fenced and a follower that lags is dropped sooner than by default: more
    # happens in a minute.
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000)),
    "leader.imbalance.check.interval.seconds": "60",
}

_FENCED_AFTER = SESSION_SECONDS + 2
"""Seconds after which a broker that was killed or paused shows as gone."""
_LAGS_AFTER = 1.5 * LAG_SECONDS + 0.5
"""Seconds after which followers of a partition with traffic have left its ISR, which is before the
session ends.
"""
_START_SECONDS = 6.0
"""About the time that a start takes; a stop takes a second or two."""
_ELECTED_AFTER = 4.0
"""Seconds after which the other controllers have elected one in the place of the active one."""
_FAILED = (LocalClusterError, AdministrationError)


@dataclass(frozen=True)
class Step:
    """One thing to do, after `wait` seconds."""

    wait: float
    action: str
    """stop | kill | pause | resume | start | isolate | rejoin | reassign | cancel | elect_preferred
    | elect_unclean | delete | create | grow | restore (all controllers that are out).
    """
    brokers: tuple[int, ...] = ()
    """Those that it is done to, all at once."""
    controllers: tuple[int, ...] = ()
    """Those that it is done to by rank: 0 is the active one at that time, then come the others in
    the order of ids.
    """
    topics: tuple[NewTopic, ...] = ()
    moves: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    """Topic, partition and new replicas; for grow the new partition and its replicas."""

    @property
    def what(self) -> str:
        """For people."""
        moved = (
            f"{topic}-{partition} to {list(replicas)}" for topic, partition, replicas in self.moves
        )
        ranked = (
            "the active controller" if rank == 0 else f"other controller {rank}"
            for rank in self.controllers
        )
        of = [*map(str, self.brokers), *ranked, *(topic.name for topic in self.topics), *moved]
        return " ".join([self.action.replace("_", " "), ", ".join(of)]).strip()


@dataclass(frozen=True)
class Entry:
    """A step that was done, from when to when; `error` when it did not go as wanted."""

    action: str
    what: str
    nodes: tuple[int, ...]
    """Those that it was done to; none: it was asked of the cluster."""
    began_at: datetime
    ended_at: datetime
    error: str | None


@dataclass
class _Planner:
    """The state of the cluster as far as the plan knows it."""

    brokers: tuple[int, ...]
    chance: random.Random
    topics: dict[str, NewTopic] = field(default_factory=dict)

    def outage(self) -> Iterator[Step]:
        """One broker stops or dies and comes back; meanwhile something else happens."""
        (broker,) = self.some(1)
        action = self.chance.choice(["stop", "stop", "kill"])
        yield self.after(1, action, broker)
        if self.chance.random() < 0.3:
            yield self.after(
                _FENCED_AFTER if action == "kill" else 2, "start", broker
            )  # a plain restart
            return
        yield from self.meanwhile()
        yield self.after(_FENCED_AFTER if action == "kill" else 3, "start", broker)
        yield from self.perhaps_elect()

    def lag(self) -> Iterator[Step]:
        """A broker hangs, long enough to lag behind and not to lose its session."""
        (broker,) = self.some(1)
        yield self.after(1, "pause", broker)
        yield Step(_LAGS_AFTER + self.chance.uniform(0, 1), "resume", (broker,))

    def hang(self) -> Iterator[Step]:
        """A broker hangs until it is fenced, and goes on."""
        (broker,) = self.some(1)
        yield self.after(1, "pause", broker)
        yield Step(_FENCED_AFTER + self.chance.uniform(0, 2), "resume", (broker,))
        yield from self.perhaps_elect()

    def isolation(self) -> Iterator[Step]:
        """A broker is cut off from the controllers until it is fenced and longer, and answers
        clients on.
        """
        (broker,) = self.some(1)
        yield self.after(1, "isolate", broker)
        yield Step(_FENCED_AFTER + self.chance.uniform(0, 2), "rejoin", (broker,))
        yield from self.perhaps_elect()

    def flap(self) -> Iterator[Step]:
        """The same broker lags twice in a row."""
        (broker,) = self.some(1)
        for _ in range(2):
            yield self.after(1, "pause", broker)
            yield Step(_LAGS_AFTER, "resume", (broker,))

    def two_at_once(self) -> Iterator[Step]:
        """Two brokers go in the same moment."""
        both = self.some(2)
        action = self.chance.choice(["stop", "kill", "pause"])
        yield self.after(1, action, *both)
        back = "resume" if action == "pause" else "start"
        yield Step(
            (3 if action == "stop" else _FENCED_AFTER) + self.chance.uniform(0, 2), back, both
        )
        yield from self.perhaps_elect()

    def lose(self) -> Iterator[Step]:
        """Both replicas of some partition go one after the other, the one that fell behind comes
        back first.
        """
        name = self.chance.choice(
            [topic.name for topic in self.topics.values() if len(topic.replicas[0]) == 2]
        )
        first, last = self.chance.sample(self.chance.choice(self.topics[name].replicas), 2)
        yield self.after(1, "stop", first)
        yield Step(3, "kill", (last,))
        yield Step(_FENCED_AFTER, "start", (first,))
        yield self.after(1, "elect_unclean")
        yield self.after(2, "start", last)

    def stuck(self) -> Iterator[Step]:
        """A reassignment onto a broker that is down cannot end, and is cancelled."""
        (broker,) = self.some(1)
        yield self.after(1, "stop", broker)
        yield Step(1, "reassign", moves=self.moves(onto=broker))
        yield self.after(2, "cancel")
        yield self.after(1, "start", broker)

    def controller_goes(self) -> Iterator[Step]:
        """A controller dies or stops, the active one mostly, and in the same moment a broker
        goes.
        """
        action, rank = self.chance.choice(["kill", "kill", "stop"]), self.chance.choice([0, 0, 1])
        yield Step(self.wait(1), action, controllers=(rank,))
        (broker,) = self.some(1)
        yield Step(self.chance.choice([0, 2]), "kill", (broker,))
        yield from self.meanwhile()
        yield Step(self.wait(_ELECTED_AFTER), "restore")
        yield self.after(_FENCED_AFTER / 2, "start", broker)

    def controller_hangs(self) -> Iterator[Step]:
        """The active controller hangs while a broker lags behind, another one takes over, and the
        old one is back.
        """
        (broker,) = self.some(1)
        yield self.after(1, "pause", broker)
        yield Step(self.chance.uniform(0, _LAGS_AFTER), "pause", controllers=(0,))
        yield Step(self.wait(_ELECTED_AFTER), "resume", (broker,))
        yield from self.meanwhile()
        yield Step(self.wait(1), "restore")

    def controller_parts(self) -> Iterator[Step]:
        """The active controller writes what no other one has, and hangs; the others go on without
        it. When it is back, its log is another one than theirs, until it has cut its end off.
        """
        (broker,) = self.some(1)
        yield self.after(1, "kill", broker)
        yield Step(LAG_SECONDS, "pause", controllers=(1, 2))
        yield Step(self.chance.uniform(1, 2), "pause", controllers=(0,))
        yield Step(0, "resume", controllers=(1, 2))
        yield Step(self.wait(_ELECTED_AFTER), "restore")
        yield self.after(1, "start", broker)
        yield from self.perhaps_elect()

    def controllers_move(self) -> Iterator[Step]:
        """The active controller stops, and then the one that came after it."""
        for _ in range(2):
            yield Step(self.wait(1), "stop", controllers=(0,))
            yield from self.small()
            yield Step(self.wait(2), "restore")

    def no_quorum(self) -> Iterator[Step]:
        """Two of three controllers go, and a broker too; then the quorum is back."""
        out, ranks = self.chance.choice(["kill", "pause"]), self.chance.choice([(0, 1), (1, 2)])
        (broker,) = self.some(1)
        gone = [
            Step(self.wait(0.5), out, controllers=ranks),
            Step(self.wait(0.5), "kill", (broker,)),
        ]
        yield from self.chance.sample(gone, 2)
        yield Step(self.wait(_FENCED_AFTER), "restore")
        yield self.after(_ELECTED_AFTER, "start", broker)
        yield from self.perhaps_elect()

    def small(self) -> Iterator[Step]:
        """Something that an administrator does."""
        action = self.chance.choice(["reassign", "reassign", "elect_preferred", "grow", "recreate"])
        if action == "reassign":
            yield Step(self.wait(1), "reassign", moves=self.moves())
        elif action == "grow":
            yield self.grow()
        elif action == "recreate":
            yield from self.recreate()
        else:
            yield self.after(1, action)

    def meanwhile(self) -> Iterator[Step]:
        """None, one or two small things."""
        for _ in range(self.chance.choice([0, 1, 1, 2])):
            yield from self.small()

    def perhaps_elect(self) -> Iterator[Step]:
        """Leadership goes back, or stays where it is."""
        if self.chance.random() < 0.6:
            yield self.after(1.5, "elect_preferred")

    def recreate(self) -> Iterator[Step]:
        """A topic goes and comes back under its name, at once or later."""
        name = self.chance.choice(sorted(self.topics))
        topic = self.topics[name]
        self.topics[name] = topic.with_replicas(
            [self.some(len(replicas)) for replicas in topic.replicas[: self.chance.randint(2, 6)]]
        )
        yield Step(self.wait(1), "delete", topics=(topic,))
        yield Step(self.chance.choice([0, 0, 2.5]), "create", topics=(self.topics[name],))

    def grow(self) -> Step:
        """One more partition."""
        name = self.chance.choice(sorted(self.topics))
        topic = self.topics[name]
        replicas = self.some(len(topic.replicas[0]))
        self.topics[name] = topic.with_replicas([*topic.replicas, replicas])
        return Step(self.wait(1), "grow", moves=((name, len(topic.replicas), replicas),))

    def moves(self, onto: int | None = None) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """Some partitions with other replicas, or the same in another order; `onto` is one of
        them.
        """
        names = self.chance.sample(sorted(self.topics), self.chance.randint(1, 3))
        moves = []
        for name in names:
            partition = self.chance.randrange(len(self.topics[name].replicas))
            replicas = self.some(len(self.topics[name].replicas[0]))
            if onto is None:
                assigned = list(self.topics[name].replicas)
                assigned[partition] = replicas
                self.topics[name] = self.topics[name].with_replicas(assigned)
            elif onto not in replicas:
                replicas = (*replicas[:-1], onto)
            moves.append((name, partition, replicas))
        return tuple(moves)

    def some(self, count: int) -> tuple[int, ...]:
        """So many brokers, in random order."""
        return tuple(self.chance.sample(self.brokers, count))

    def after(self, seconds: float, action: str, *brokers: int) -> Step:
        """A step after about so many seconds."""
        return Step(self.wait(seconds), action, brokers)

    def wait(self, seconds: float) -> float:
        """About so many seconds."""
        return round(self.chance.uniform(seconds, 1.8 * seconds), 2)


def topics(seed: int, brokers: Sequence[int]) -> tuple[NewTopic, ...]:
    """The topics to begin with, of three and of two replicas, each partition's replicas drawn by
    the seed.
    """
    chance = random.Random(f"topics {seed}")  # noqa: S311 - not a secret

    def topic(name: str, partitions: int, replicas: int, **config: str) -> NewTopic:
        drawn = [tuple(chance.sample(brokers, replicas)) for _ in range(partitions)]
        return NewTopic(name, tuple(drawn), tuple(sorted(config.items())))

    at_least_two = {"min.insync.replicas": "2"}
    return (
        topic("orders", 8, 3),
        topic("payments", 6, 3, **at_least_two),
        topic("carts", 3, 3),
        topic("clicks", 6, 2),
        topic("audit", 4, 2, **at_least_two),
        topic("guesses", 4, 2, **{"unclean.leader.election.enable": "true"}),
    )


def plan(
    seed: int,
    brokers: Sequence[int],
    seconds: float,
    *,
    isolates: bool = True,
    of_controllers: bool = False,
) -> tuple[Step, ...]:
    """The steps to do for about so many seconds; the same for the same arguments.

    `isolates`: brokers can be cut off. `of_controllers`: there are three apart from the brokers,
    which fail too.
    """
    planner = _Planner(tuple(brokers), random.Random(seed))  # noqa: S311 - not a secret
    planner.topics = {topic.name: topic for topic in topics(seed, brokers)}
    scenarios: list[Callable[[], Iterator[Step]]] = [
        planner.outage, planner.outage, planner.lag, planner.hang, planner.flap,
        planner.two_at_once, planner.lose, planner.stuck, planner.isolation, planner.small,
        planner.small, planner.small,
    ]  # fmt: skip
    if not isolates:
        scenarios.remove(planner.isolation)
    first: list[Callable[[], Iterator[Step]]] = []
    if of_controllers:
        first = [
            planner.controller_goes, planner.controller_hangs, planner.controller_parts,
            planner.controllers_move, planner.no_quorum,
        ]  # fmt: skip
        scenarios += first
    steps: list[Step] = []
    deck = planner.chance.sample(first, len(first))
    while _length(steps) < seconds:
        if not deck:
            deck = planner.chance.sample(scenarios, len(scenarios))
        steps += deck.pop()()
    return tuple(steps)


def _length(steps: Sequence[Step]) -> float:
    """About how many seconds the steps take."""
    takes = {"start": _START_SECONDS, "restore": _START_SECONDS / 2, "stop": 1.5}
    return sum(step.wait + takes.get(step.action, 0.2) for step in steps)


def play(
    cluster: LocalCluster,
    administration: Administration,
    steps: Sequence[Step],
    say: Callable[[str], None],
) -> list[Entry]:
    """Do it; the journal of it, in order. However it goes, all nodes run in the end and the cluster
    has settled.

    A step that fails is in the journal with its error; the next one follows. Raises
    AdministrationError when the cluster does not settle.
    """
    journal: list[Entry] = []
    try:
        for step in steps:
            time.sleep(step.wait)
            journal.append(_do(cluster, administration, step))
            error = journal[-1].error
            say(step.what + (f": {error}" if error else ""))
    finally:
        journal += _bring_back(cluster, administration)
    administration.await_settled(
        sorted(node_id for node_id, node in cluster.nodes.items() if node.is_broker)
    )
    return journal


def _do(cluster: LocalCluster, administration: Administration, step: Step) -> Entry:
    began_at = datetime.now(UTC)
    error, nodes = None, _nodes(cluster, step)
    try:
        _act(cluster, administration, step, nodes)
    except _FAILED as failed:
        error = str(failed).splitlines()[0]
    return Entry(step.action, step.what, nodes, began_at, datetime.now(UTC), error)


def _nodes(cluster: LocalCluster, step: Step) -> tuple[int, ...]:
    """The nodes that a step is done to now."""
    controllers = [node_id for node_id, node in cluster.nodes.items() if node.is_controller]
    if step.action == "restore":
        return tuple(node_id for node_id in controllers if cluster.state(node_id) != "running")
    if not step.controllers:
        return step.brokers
    _, active = active_controller(cluster)
    ranked = [active, *(node_id for node_id in controllers if node_id != active)]
    return tuple(ranked[rank] for rank in step.controllers)


def _act(
    cluster: LocalCluster, administration: Administration, step: Step, nodes: tuple[int, ...]
) -> None:
    if step.action == "start":
        cluster.start(*nodes)
    elif step.action == "restore":
        _restore(cluster, nodes)
    elif nodes:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(getattr(cluster, step.action), nodes))
    elif step.action == "create":
        administration.create_topics(step.topics)
    elif step.action == "delete":
        administration.delete_topics([topic.name for topic in step.topics])
    elif step.action == "grow":
        administration.grow(step.moves)
    elif step.action == "reassign":
        administration.reassign(step.moves)
    elif step.action == "cancel":
        administration.cancel_reassignments()
    else:
        administration.elect(unclean=step.action == "elect_unclean")


def _restore(cluster: LocalCluster, nodes: Sequence[int]) -> None:
    down = [node_id for node_id in nodes if not cluster.is_running(node_id)]
    for node_id in {*nodes} - {*down}:
        cluster.resume(node_id)
    if down:
        cluster.start(*down)


def _bring_back(cluster: LocalCluster, administration: Administration) -> list[Entry]:
    """Bring back whatever a step that failed, or the end, left out."""
    entries = []
    for state, action in (("isolated", "rejoin"), ("paused", "resume"), ("down", "start")):
        out = tuple(node_id for node_id in cluster.nodes if cluster.state(node_id) == state)
        if out:
            entries.append(_do(cluster, administration, Step(0, action, out)))
    return entries
