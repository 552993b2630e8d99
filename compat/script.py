"""The script for every cluster, and for two groups on it: the same steps in the same order."""

from dataclasses import dataclass
from typing import Final

from truth.administration import Moves, NewTopic

BROKERS: Final = (1, 2, 3)
STOPPED: Final = 2
KILLED: Final = 3
"""It leads partitions 0 and 3 of __consumer_offsets, and so coordinates both groups."""

GROUP_TOPIC: Final = "events"
REBORN: Final = NewTopic("reborn", ((2, 3, 1),))
TOPICS: Final = (
    # Made before anybody asks for it, so that everybody knows who leads what.
    NewTopic(
        "__consumer_offsets",
        ((3, 1, 2), (1, 2, 3), (2, 3, 1), (3, 1, 2)),
        (("cleanup.policy", "compact"),),
    ),
    NewTopic("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2))),
    NewTopic("single", ((2,), (3,))),
    NewTopic("risky", ((2, 3),), (("unclean.leader.election.enable", "true"),)),
    NewTopic("moved", ((1, 2), (1, 2))),
    REBORN,
    NewTopic(GROUP_TOPIC, ((1, 2, 3), (2, 3, 1))),
)
MOVES: Final[Moves] = (("moved", 0, (1, 3)), ("moved", 1, (3, 2)))
"""A follower is replaced, and a leader."""
GROWN: Final[Moves] = ((GROUP_TOPIC, 2, (3, 1, 2)),)

CLASSIC_GROUP: Final = "compat-classic-1"
CONSUMER_GROUP: Final = "compat-consumer-0"
LOG_PARTITIONS: Final = {CLASSIC_GROUP: 3, CONSUMER_GROUP: 0}
"""Of __consumer_offsets, by the groups' ids."""
FIRST, SECOND, THIRD = "member-a", "member-b", "member-c"


@dataclass(frozen=True)
class Step:
    """One thing to do; the next comes once every broker showed its end, and polls could see it."""

    action: str
    """join | leave | crash (of the member of each group) | stop | kill | start (of the broker) |
    elect | reassign | recreate | grow.
    """
    broker: int = 0
    member: str = ""

    def __str__(self) -> str:
        return f"{self.action} {self.broker or self.member}".strip()


BEFORE: Final = Step("join", member=FIRST)
"""Polling begins after it; the log tells it."""
SCRIPT: Final = (
    Step("join", member=SECOND),
    Step("stop", STOPPED),
    Step("kill", KILLED),
    Step("start", STOPPED),
    Step("start", KILLED),
    Step("elect"),
    Step("leave", member=SECOND),
    Step("join", member=THIRD),
    Step("crash", member=THIRD),
    # Without topic ids it looks like an answer of a broker that lags; what follows must be seen in
    # spite of it.
    Step("recreate"),
    Step("reassign"),
    Step("grow"),
    Step("leave", member=FIRST),
)
