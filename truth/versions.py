"""One script for each version of Kafka, with ZooKeeper and with KRaft.

Each step waits until the one before has come to every broker, and polls had time to see it.
"""

from datetime import timedelta
from typing import Final

from local_cluster.cluster import KAFKA_VERSION
from truth.administration import Moves, NewTopic
from truth.compare import TOLERANCE
from truth.groups.play import PROPERTIES as OF_GROUPS
from truth.groups.script import CONSUMER, RANGE, Deed, Kind, Script
from truth.scenarios import PROPERTIES
from truth.setups import Setup
from truth.steps import Step

STOPPED, KILLED = 2, 3
"""At last both are out at once. One that is stopped hands its leaders over first."""
REBORN: Final = NewTopic("reborn", ((2, 3, 1),))
TOPICS: Final = (
    NewTopic("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2))),
    NewTopic("single", ((2,), (3,))),
    NewTopic("risky", ((2, 3),), (("unclean.leader.election.enable", "true"),)),
    NewTopic("moved", ((1, 2), (1, 2))),
    REBORN,
    NewTopic("grown", ((1, 2, 3), (2, 3, 1))),
)
MOVES: Final[Moves] = (("moved", 0, (1, 3)), ("moved", 1, (3, 2)))
"""A follower is replaced, and a leader."""
GROWN: Final[Moves] = (("grown", 2, (3, 1, 2)),)
_SESSION_SECONDS: Final = 6
_PROPERTIES: Final = {
    **PROPERTIES,
    **OF_GROUPS,
    "zookeeper.session.timeout.ms": str(_SESSION_SECONDS * 1000),
    # Nothing happens that the script has not.
    "replica.lag.time.max.ms": "30000",
}

BEFORE, AFTER = (
    tuple((Deed(action, member),) for action, member in steps)
    for steps in (
        (("join", "member-a"), ("join", "member-b"), ("grow", ""), ("crash", "member-b")),
        (("join", "member-c"), ("leave", "member-c"), ("leave", "member-a")),
    )
)
"""Steps of a group, before and after its coordinator's broker stops."""


def _steps(trails: timedelta) -> tuple[Step, ...]:
    """The script, where answers trail what is written by so much."""
    calm = 6 + 2 * trails.total_seconds()
    gone = calm + _SESSION_SECONDS
    return (
        Step(calm, "stop", (STOPPED,)),
        Step(calm, "kill", (KILLED,)),
        Step(gone, "start", (STOPPED,)),
        Step(calm, "start", (KILLED,)),
        Step(calm, "elect_preferred"),
        # Without topic ids it looks like an answer of a broker that lags; what follows must be seen
        # in spite of it.
        Step(calm, "delete", topics=(REBORN,)),
        Step(trails.total_seconds(), "create", topics=(REBORN,)),
        Step(calm, "reassign", moves=MOVES),
        Step(calm, "grow", moves=GROWN),
    )


def _kraft(kafka_version: str, *kinds: Kind) -> Setup:
    return Setup(
        f"{kafka_version} KRaft",
        kafka_version,
        brokers=3,
        isolates=False,
        properties=_PROPERTIES,
        begun_with=TOPICS,
        steps=_steps(TOLERANCE),
        group_scripts=_scripts(RANGE, *kinds),
    )


def _zookeeper(kafka_version: str, protocol: str | None = None, seconds: float = 3) -> Setup:
    """`protocol`: inter.broker.protocol.version, if not that of the version itself."""
    trails = timedelta(seconds=seconds)
    more = {"inter.broker.protocol.version": protocol} if protocol else {}
    return Setup(
        f"{kafka_version} ZooKeeper" + (f" protocol {protocol}" if protocol else ""),
        kafka_version,
        brokers=3,
        controllers=None,
        isolates=False,
        zookeeper=True,
        properties=_PROPERTIES | more,
        trails=trails,
        begun_with=TOPICS,
        steps=_steps(trails),
        group_scripts=_scripts(RANGE),
    )


def _scripts(*kinds: Kind) -> tuple[Script, ...]:
    return tuple(Script(kind, BEFORE, AFTER) for kind in kinds)


VERSIONS: Final = (
    _kraft(KAFKA_VERSION, CONSUMER),
    _kraft("4.3.1", CONSUMER),
    _kraft("3.9.2"),
    _zookeeper("2.8.2"),
    # No topic ids (KIP-516).
    _zookeeper("2.8.2", "2.7"),
    # Leaders write ISRs to ZooKeeper themselves (before KIP-497): the controller, and the other
    # brokers, learn of it seconds later.
    _zookeeper("2.8.2", "2.6", 10),
    _zookeeper("3.9.2"),
    _kraft("4.0.1", CONSUMER),
    _kraft("3.7.2"),
    _kraft("3.3.2"),
)
