"""A seeded random series of things to do to a cluster: `plan` decides all from the seed alone.

No more than two brokers are out at once, and all are back in the end. Controllers that are apart
from the brokers may fail too: which of them is the active one is seen when a step is done.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from truth.administration import NewTopic
from truth.steps import Draw, Step

_SESSION_SECONDS: Final = 6.0
_LAG_SECONDS: Final = 2.0
PROPERTIES: Final = {
    # A dead broker is fenced and a follower that lags is dropped sooner than by default: more
    # happens in a minute.
    "broker.session.timeout.ms": str(int(_SESSION_SECONDS * 1000)),
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": str(int(_LAG_SECONDS * 1000)),
    "leader.imbalance.check.interval.seconds": "60",
}
"""Of the cluster, so that it does what is planned in time."""

_FENCED_AFTER = _SESSION_SECONDS + 2
"""Seconds after which a broker that was killed or paused shows as gone."""
_LAGS_AFTER = 1.5 * _LAG_SECONDS + 0.5
"""Seconds after which followers with traffic have left the ISR, before the session ends."""
_START_SECONDS = 6.0
"""About the time that a start takes; a stop takes a second or two."""
_ELECTED_AFTER = 4.0
"""Seconds after which the other controllers have elected one in the place of the active one."""


def outage(draw: Draw) -> Iterator[Step]:
    """One broker stops or dies and comes back; meanwhile something else happens."""
    (broker,) = draw.some(1)
    action = draw.chance.choice(["stop", "stop", "kill"])
    yield draw.after(1, action, broker)
    if draw.chance.random() < 0.3:
        # A plain restart.
        yield draw.after(_FENCED_AFTER if action == "kill" else 2, "start", broker)
        return
    yield from draw.meanwhile()
    yield draw.after(_FENCED_AFTER if action == "kill" else 3, "start", broker)
    yield from draw.perhaps_elect()


def lag(draw: Draw) -> Iterator[Step]:
    """A broker hangs, long enough to lag behind and not to lose its session."""
    (broker,) = draw.some(1)
    yield draw.after(1, "pause", broker)
    yield Step(_LAGS_AFTER + draw.chance.uniform(0, 1), "resume", (broker,))


def hang(draw: Draw) -> Iterator[Step]:
    """A broker hangs until it is fenced, and then runs on."""
    (broker,) = draw.some(1)
    yield draw.after(1, "pause", broker)
    yield Step(_FENCED_AFTER + draw.chance.uniform(0, 2), "resume", (broker,))
    yield from draw.perhaps_elect()


def isolation(draw: Draw) -> Iterator[Step]:
    """A broker, cut off from the controllers until after it is fenced, still answers clients."""
    (broker,) = draw.some(1)
    yield draw.after(1, "isolate", broker)
    yield Step(_FENCED_AFTER + draw.chance.uniform(0, 2), "rejoin", (broker,))
    yield from draw.perhaps_elect()


def flap(draw: Draw) -> Iterator[Step]:
    """The same broker lags twice in a row."""
    (broker,) = draw.some(1)
    for _ in range(2):
        yield draw.after(1, "pause", broker)
        yield Step(_LAGS_AFTER, "resume", (broker,))


def two_at_once(draw: Draw) -> Iterator[Step]:
    """Two brokers go in the same moment."""
    both = draw.some(2)
    action = draw.chance.choice(["stop", "kill", "pause"])
    yield draw.after(1, action, *both)
    back = "resume" if action == "pause" else "start"
    yield Step((3 if action == "stop" else _FENCED_AFTER) + draw.chance.uniform(0, 2), back, both)
    yield from draw.perhaps_elect()


def lose(draw: Draw) -> Iterator[Step]:
    """Both replicas of a partition go one after the other; the first to go is first back."""
    name = draw.chance.choice(
        [topic.name for topic in draw.topics.values() if len(topic.replicas[0]) == 2]
    )
    first, last = draw.chance.sample(draw.chance.choice(draw.topics[name].replicas), 2)
    yield draw.after(1, "stop", first)
    yield Step(3, "kill", (last,))
    yield Step(_FENCED_AFTER, "start", (first,))
    yield draw.after(1, "elect_unclean")
    yield draw.after(2, "start", last)


def stuck(draw: Draw) -> Iterator[Step]:
    """A reassignment onto a broker that is down cannot end, and is cancelled."""
    (broker,) = draw.some(1)
    yield draw.after(1, "stop", broker)
    yield Step(1, "reassign", moves=draw.moves(onto=broker))
    yield draw.after(2, "cancel")
    yield draw.after(1, "start", broker)


def controller_goes(draw: Draw) -> Iterator[Step]:
    """A controller, mostly the active one, dies or stops, and at once a broker goes."""
    action, rank = draw.chance.choice(["kill", "kill", "stop"]), draw.chance.choice([0, 0, 1])
    yield Step(draw.wait(1), action, controllers=(rank,))
    (broker,) = draw.some(1)
    yield Step(draw.chance.choice([0, 2]), "kill", (broker,))
    yield from draw.meanwhile()
    yield Step(draw.wait(_ELECTED_AFTER), "restore")
    yield draw.after(_FENCED_AFTER / 2, "start", broker)


def controller_hangs(draw: Draw) -> Iterator[Step]:
    """The active controller hangs while a broker lags, another one takes over, and it is back."""
    (broker,) = draw.some(1)
    yield draw.after(1, "pause", broker)
    yield Step(draw.chance.uniform(0, _LAGS_AFTER), "pause", controllers=(0,))
    yield Step(draw.wait(_ELECTED_AFTER), "resume", (broker,))
    yield from draw.meanwhile()
    yield Step(draw.wait(1), "restore")


def controller_parts(draw: Draw) -> Iterator[Step]:
    """The active controller writes what no other one has, and hangs; the others go on without it.

    When it is back, its log is another one than theirs, until it has cut its end off.
    """
    (broker,) = draw.some(1)
    yield draw.after(1, "kill", broker)
    yield Step(_LAG_SECONDS, "pause", controllers=(1, 2))
    yield Step(draw.chance.uniform(1, 2), "pause", controllers=(0,))
    yield Step(0, "resume", controllers=(1, 2))
    yield Step(draw.wait(_ELECTED_AFTER), "restore")
    yield draw.after(1, "start", broker)
    yield from draw.perhaps_elect()


def controllers_move(draw: Draw) -> Iterator[Step]:
    """The active controller stops, and then the one that came after it."""
    for _ in range(2):
        yield Step(draw.wait(1), "stop", controllers=(0,))
        yield from draw.small()
        yield Step(draw.wait(2), "restore")


def no_quorum(draw: Draw) -> Iterator[Step]:
    """Two of three controllers go, and a broker too; then the quorum is back."""
    out, ranks = draw.chance.choice(["kill", "pause"]), draw.chance.choice([(0, 1), (1, 2)])
    (broker,) = draw.some(1)
    gone = [
        Step(draw.wait(0.5), out, controllers=ranks),
        Step(draw.wait(0.5), "kill", (broker,)),
    ]
    yield from draw.chance.sample(gone, 2)
    yield Step(draw.wait(_FENCED_AFTER), "restore")
    yield draw.after(_ELECTED_AFTER, "start", broker)
    yield from draw.perhaps_elect()


Scenario = Callable[[Draw], Iterator[Step]]

_SCENARIOS: Final[tuple[Scenario, ...]] = (
    outage, outage, lag, hang, flap, two_at_once, lose, stuck, isolation,
    Draw.small, Draw.small, Draw.small,
)  # fmt: skip
_OF_CONTROLLERS: Final[tuple[Scenario, ...]] = (
    controller_goes, controller_hangs, controller_parts, controllers_move, no_quorum,
)  # fmt: skip


def topics(seed: int, brokers: Sequence[int]) -> tuple[NewTopic, ...]:
    """Return the topics to begin with, of three and two replicas drawn by the seed."""
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
    """Return the steps to do for about so many seconds; the same for the same arguments.

    `isolates`: brokers can be cut off. `of_controllers`: there are three apart from the brokers,
    which fail too.
    """
    draw = Draw(tuple(brokers), random.Random(seed))  # noqa: S311 - not a secret
    draw.topics = {topic.name: topic for topic in topics(seed, brokers)}
    scenarios = [each for each in _SCENARIOS if isolates or each is not isolation]
    first = _OF_CONTROLLERS if of_controllers else ()
    scenarios += first
    steps: list[Step] = []
    deck = draw.chance.sample(first, len(first))
    while _length(steps) < seconds:
        if not deck:
            deck = draw.chance.sample(scenarios, len(scenarios))
        steps += deck.pop()(draw)
    return tuple(steps)


def _length(steps: Sequence[Step]) -> float:
    """About how many seconds the steps take."""
    takes = {"start": _START_SECONDS, "restore": _START_SECONDS / 2, "stop": 1.5}
    return sum(step.wait + takes.get(step.action, 0.2) for step in steps)
