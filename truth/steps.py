"""One thing to do to a cluster, and what of it is drawn by chance."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from truth.administration import NewTopic


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
    """Those that it is done to by rank: 0 the active one then, others in the order of ids."""
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


@dataclass
class Draw:
    """What is drawn by chance: the state of the cluster as far as the plan knows it, and steps."""

    brokers: tuple[int, ...]
    chance: random.Random
    topics: dict[str, NewTopic] = field(default_factory=dict)

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
        """Some partitions with other replicas, or in another order; `onto` is one of them."""
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
