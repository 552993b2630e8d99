"""A seeded series of things that producers of transactions do: decided beforehand, from the seed
alone.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from truth.transactions.producers import CLIENTS
from truth.transactions.written import Place

ORDERS: Final = "orders"
HELD: Final = "held"
"""Whose committed records are read."""
PAIRS: Final = "pairs"
"""Of two replicas each, which must both be in sync: partition 0 not on broker 1, 1 not on 2, 2 not
on 3.
"""
PARTITIONS: Final = {ORDERS: 6, HELD: 2, PAIRS: 3}
HOLDS: Final = (HELD, 0)
HANGS: Final = (HELD, 1)

_TIMEOUT_MS: Final = 120_000
_ELECTED_SECONDS: Final = 9.0
"""So long after a broker was killed others lead its partitions."""


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    action: str
    """start | begin | begin_elsewhere (on the partition of PAIRS that its coordinator has not) |
    commit | abort | crash | wait | kill_coordinator (of its id) | kill_elsewhere (a broker of that
    partition) | restore (all brokers) | answer (wait for all that was asked).
    """
    producer: str = ""
    """Its name in the track."""
    transactional_id: str = ""
    client: str = ""
    timeout_ms: int = _TIMEOUT_MS
    places: tuple[Place, ...] = ()
    seconds: float = 0.0
    waits: bool = True
    """Until it is answered."""


@dataclass(frozen=True)
class Track:
    """Steps that are done one after the other, beside those of other tracks."""

    name: str
    steps: tuple[Step, ...]


class Draw:
    """Chance, and steps that it decides."""

    def __init__(self, chance: random.Random, name: str, client: str) -> None:
        self.chance = chance
        self.client = client
        self._name = name
        self._ids = 0

    def new_id(self) -> str:
        """A transactional id that nobody else has."""
        self._ids += 1
        return f"truth-{self._name}-{self.client}-{self._ids}"

    def start(
        self, producer: str, of: str, timeout_ms: int = _TIMEOUT_MS, *, waits: bool = True
    ) -> Step:
        """A producer of an id begins."""
        return Step("start", producer, of, self.client, timeout_ms, waits=waits)

    def begin(self, producer: str, *, waits: bool = True) -> Step:
        """A transaction with some partitions."""
        every = [(ORDERS, number) for number in range(PARTITIONS[ORDERS])]
        places = self.chance.sample(every, self.chance.randint(1, len(every)))
        return Step("begin", producer, places=tuple(sorted(places)), waits=waits)

    def wait(self, least: float, most: float) -> Step:
        """Nothing for a while."""
        return Step("wait", seconds=self.chance.uniform(least, most))


_Scenario = Callable[[Draw], Iterator[Step]]


def _calm(draw: Draw) -> Iterator[Step]:
    """Commits and aborts; brokers die meanwhile."""
    yield draw.start("a", draw.new_id())
    for _ in range(40):
        yield draw.begin("a")
        yield draw.wait(0, 0.5)
        yield Step(draw.chance.choices(["commit", "abort"], [3, 1])[0], "a")
        yield draw.wait(0, 2)


def _few(draw: Draw) -> Iterator[Step]:
    """The same, for a moment."""
    yield from [step for number, step in enumerate(_calm(draw)) if number < 41]


def _dies(draw: Draw) -> Iterator[Step]:
    """The process dies in the middle; another one comes, soon or after the time-out."""
    for soon in draw.chance.sample([True, False], 2):
        of = draw.new_id()
        yield draw.start("a", of, 6_000)
        yield draw.begin("a")
        yield Step("commit", "a")
        yield draw.begin("a")
        yield Step("crash", "a")
        yield draw.wait(0, 1) if soon else Step("wait", seconds=18)
        yield draw.start("b", of)
        yield draw.begin("b")
        yield Step("commit", "b")


def _fenced(draw: Draw) -> Iterator[Step]:
    """Another producer of the id begins while a transaction is open."""
    of = draw.new_id()
    yield draw.start("a", of)
    yield draw.begin("a")
    yield draw.start("b", of)
    yield draw.begin("b")
    yield Step("commit", "b")
    yield Step("commit", "a")


def _late(draw: Draw) -> Iterator[Step]:
    """A transaction hangs beyond its time-out, and is committed then."""
    of = draw.new_id()
    timeout_ms = draw.chance.choice([2_000, 4_000])
    yield draw.start("a", of, timeout_ms)
    yield draw.begin("a")
    yield Step("wait", seconds=timeout_ms / 1000 + 13)
    yield Step("commit", "a")
    yield draw.start("b", of)
    yield draw.begin("b")
    yield Step("abort", "b")


def _twins(draw: Draw) -> Iterator[Step]:
    """Two producers of one id at once, again and again."""
    of = draw.new_id()
    for _ in range(3):
        for name in ("a", "b"):
            yield draw.start(name, of, waits=False)
        yield Step("answer")
        for name in ("a", "b"):
            yield draw.begin(name, waits=False)
            yield Step("commit", name, waits=False)
            yield draw.wait(0, 0.2)
        yield Step("answer")
        for name in ("a", "b"):
            yield Step("crash", name)


def _holds(draw: Draw) -> Iterator[Step]:
    """Readers of committed records stand still until the coordinator ends it: for less than a row
    of lag lasts at least, and for longer.
    """
    for timeout_ms, seconds in ((11_000, 24), (75_000, 88)):
        yield draw.start("a", draw.new_id(), timeout_ms)
        yield Step("begin", "a", places=(HOLDS,))
        yield Step("wait", seconds=seconds)
        yield Step("abort", "a")


def _ongoing(draw: Draw) -> Iterator[Step]:
    """The coordinator dies while the transaction is ongoing."""
    yield draw.start("a", draw.new_id())
    yield draw.begin("a")
    yield Step("kill_coordinator", "a")
    yield draw.wait(0, 3)
    yield Step(draw.chance.choice(["commit", "abort"]), "a")
    yield Step("restore")
    yield draw.begin("a")
    yield Step("commit", "a")


def _prepared(draw: Draw) -> Iterator[Step]:
    """Markers cannot be written to a partition for long, as too few replicas are in sync, and the
    coordinator dies meanwhile. It would not wait for a partition without a leader (Kafka 4.4.0).
    """
    yield draw.start("a", draw.new_id())
    yield Step("begin_elsewhere", "a")
    yield Step("kill_elsewhere", "a")
    yield Step("wait", seconds=_ELECTED_SECONDS)
    yield Step(draw.chance.choice(["commit", "abort"]), "a", waits=False)
    yield draw.wait(33, 38)
    yield Step("kill_coordinator", "a")
    yield draw.wait(0, 4)
    yield Step("restore")
    yield Step("answer")
    yield draw.begin("a")
    yield Step("commit", "a")


def _completing(draw: Draw) -> Iterator[Step]:
    """The coordinator dies as it writes markers."""
    yield draw.start("a", draw.new_id())
    for _ in range(2):
        yield draw.begin("a")
        yield Step(draw.chance.choice(["commit", "abort"]), "a", waits=False)
        yield draw.wait(0, 0.03)
        yield Step("kill_coordinator", "a")
        yield Step("answer")
        yield Step("restore")


TRACKS: Final[dict[str, _Scenario]] = {
    "calm": _calm,
    "dies": _dies,
    "fenced": _fenced,
    "late": _late,
    "twins": _twins,
    "holds": _holds,
}
"""Each with every client, but for `holds`."""
KILLS: Final[dict[str, _Scenario]] = {
    "ongoing": _ongoing,
    "prepared": _prepared,
    "completing": _completing,
}
"""One after the other, in one track: brokers die."""
SHORT: Final = ("few", "fenced", "late")
"""Of a test: no broker dies."""


def write(seed: int, names: Sequence[str] | None = None) -> tuple[Track, ...]:
    """The tracks of a seed; of these names alone. The same for one seed."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    every: dict[str, _Scenario] = {**TRACKS, "few": _few}
    wanted = names or (*TRACKS, "kills")
    tracks = []
    for name in wanted:
        if name == "kills":
            continue
        clients = CLIENTS if name != "holds" else (chance.choice(CLIENTS),)
        for client in clients:
            draw = Draw(random.Random(f"{seed} {name} {client}"), name, client)  # noqa: S311
            tracks.append(Track(f"{name} {client}", tuple(every[name](draw))))
    if "kills" in wanted:
        tracks.append(Track("kills", tuple(_kills(seed, chance))))
    return tuple(tracks)


def _kills(seed: int, chance: random.Random) -> Iterator[Step]:
    pairs = [(phase, client) for phase in KILLS for client in CLIENTS]
    for phase, client in chance.sample(pairs, len(pairs)):
        draw = Draw(random.Random(f"{seed} {phase} {client}"), phase, client)  # noqa: S311
        yield from KILLS[phase](draw)
        yield Step("crash", "a")
