"""The clusters to which things are done: how each is formatted, and what is done to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from local_cluster.cluster import KAFKA_VERSION
from truth.administration import NewTopic
from truth.compare import tolerance
from truth.compare_answers import KINDS
from truth.groups.script import Script
from truth.scenarios import PROPERTIES, plan, topics
from truth.steps import Step


@dataclass(frozen=True)
class Setup:
    """A cluster as it is formatted, and what is done with it."""

    name: str
    kafka_version: str
    metadata_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: int = 4
    racks: tuple[str, ...] = ("a", "b", "c")
    controllers: int | None = 1
    """Apart from the brokers; three of them fail too. Null: each broker is one."""
    isolates: bool = True
    """Brokers can be cut off from the controllers, which are apart, of 3.9 and later."""
    is_polled: bool = True
    """Else history is made of the controllers' log alone. Of a cluster whose quorum fails that is
    all that can be held against anything: what no majority has yet is in the log with its time, and
    no broker shows it.
    """

    zookeeper: bool = False
    """Metadata are there, and no log of controllers is."""
    properties: Mapping[str, str] = field(default_factory=lambda: PROPERTIES)
    trails: timedelta | None = None
    """By how much answers may trail what is written, where it is more than with KRaft."""
    begun_with: tuple[NewTopic, ...] = ()
    steps: tuple[Step, ...] = ()
    """The same topics, and the same things done, each time. None: the seed decides."""
    group_scripts: tuple[Script, ...] = ()
    """What is done to groups afterwards."""

    @property
    def quorum_fails(self) -> bool:
        """Controllers fail too: they are three, or brokers."""
        return self.controllers != 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """What can be asked beside polls, and is answered by this version."""
        since = tuple(map(int, self.kafka_version.split(".")))
        more = {"transactions": since >= (3, 0), "quorum": not self.zookeeper and since >= (3, 3)}
        return (*KINDS, *(kind for kind, is_answered in more.items() if is_answered))

    def tolerance(self, interval: int) -> timedelta:
        """How far the answers of polls at an interval, in seconds, may trail the log."""
        return self.trails or tolerance(timedelta(seconds=interval))

    def topics(self, seed: int, brokers: Sequence[int]) -> tuple[NewTopic, ...]:
        """The topics to begin with."""
        return self.begun_with or topics(seed, brokers)

    def plan(self, seed: int, brokers: Sequence[int], seconds: float) -> tuple[Step, ...]:
        """The steps to do."""
        of_controllers = self.controllers is not None and self.quorum_fails
        return self.steps or plan(
            seed, brokers, seconds, isolates=self.isolates, of_controllers=of_controllers
        )


NEWEST = Setup(KAFKA_VERSION, KAFKA_VERSION)
WITHOUT_ELR = Setup("4.3.1 without ELR", "4.3.1", features={"eligible.leader.replicas.version": 0})
OLD_EPOCHS = Setup("3.9.2 at 3.5-IV2", "3.9.2", metadata_version="3.5-IV2")
"""Below 3.6-IV0, where a shrink raises the epoch too."""
WITHOUT_NO_OPS = Setup(
    "3.3.2 at 3.3-IV0", "3.3.2", metadata_version="3.3-IV0", isolates=False, is_polled=False
)
"""The lowest that can be formatted: a log that is silent in rest, and older records."""
SETUPS = (
    NEWEST,
    WITHOUT_ELR,
    OLD_EPOCHS,
    Setup("4.3.1, three controllers", "4.3.1", controllers=3, is_polled=False),
    # Of five voters two may be out, so that brokers fail as elsewhere.
    Setup(
        "4.3.1, combined controllers",
        "4.3.1",
        brokers=5,
        controllers=None,
        isolates=False,
        is_polled=False,
    ),
    Setup("4.0.1", "4.0.1", is_polled=False),
    Setup("3.9.2, three controllers", "3.9.2", controllers=3, is_polled=False),
    Setup("3.7.2", "3.7.2", isolates=False, is_polled=False),
    Setup("3.3.2, three controllers", "3.3.2", controllers=3, isolates=False, is_polled=False),
    WITHOUT_NO_OPS,
)
