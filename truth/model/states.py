"""States with times: of partitions and brokers, and all else that a log says."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NO_LEADER = -1
MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
"""``DirectoryId.MIGRATING``: a replica whose directory no record has told."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition from one record to the next."""

    offset: int
    at: datetime
    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    """Sorted."""
    replicas: tuple[int, ...]
    """In order."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[str, ...]
    """Of each replica the id of its log directory; MIGRATING before 3.7-IV2, which knows none."""
    recovering: bool
    """leaderRecoveryState 1: the leader was elected unclean."""
    names_leader: bool
    """Whether the record set a leader, the same one or another: that alone raises the epoch."""
    is_shown_gone: bool = False
    """No record, and no other epoch: brokers may show that nobody leads, since the leader is gone.
    """


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker's registration from one record to the next."""

    offset: int
    at: datetime
    broker_id: int
    rack: str | None
    registered: bool
    fenced: bool
    in_controlled_shutdown: bool

    @property
    def is_alive(self) -> bool:
        """Whether Metadata answers list it."""
        return self.registered and not self.fenced


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A topic from its making to its removal."""

    topic: str
    topic_id: str
    created_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A configuration set, or unset (value null)."""

    at: datetime
    resource_type: int
    """2 topic, 4 broker."""
    resource: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A feature's finalized level."""

    offset: int
    at: datetime
    name: str
    level: int


@dataclass(frozen=True, slots=True)
class Term:
    """A controller that became the active one, as the log's control record says."""

    offset: int
    at: datetime
    epoch: int
    controller_id: int | None
    """Null: neither the log nor any controller says."""


State = TypeVar("State", PartitionState, BrokerState)

PartitionKey = tuple[str, int]
"""Topic id and partition number."""


@dataclass
class Truth:
    """All that a log says, each list in order of time."""

    partitions: dict[PartitionKey, list[PartitionState]] = field(
        default_factory=lambda: defaultdict(list)
    )
    topics: dict[str, TopicLife] = field(default_factory=dict)
    """By topic id."""
    brokers: dict[int, list[BrokerState]] = field(default_factory=lambda: defaultdict(list))
    configs: list[ConfigChange] = field(default_factory=list)
    features: list[FeatureLevel] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Records by type."""
    ended_at: datetime = EPOCH
    """The last record of all; what was said up to then is known."""

    @property
    def shows_stopping_offline(self) -> bool:
        """With ZooKeeper replicas of a broker that stops may be offline while it is still listed.

        With KRaft each log has features.
        """
        return not self.features

    def level(self, feature: str) -> int:
        """The last finalized level of a feature; 0 when the log names none."""
        return next((one.level for one in reversed(self.features) if one.name == feature), 0)

    def id_of(self, topic: str, at: datetime) -> str:
        """The id of the topic that had this name then, or that has had it first."""
        lives = [life for life in self.topics.values() if life.topic == topic]
        begun = [life for life in lives if life.created_at <= at]
        return max(begun or lives[:1], key=lambda life: life.created_at).topic_id

    def ends_at(self, key: PartitionKey) -> datetime | None:
        """When the partition's topic was removed; None while it lives."""
        return self.topics[key[0]].deleted_at


def at_time(states: Sequence[State], moment: datetime) -> State | None:
    """The state that held at a moment; None before the first."""
    index = bisect_right(states, moment, key=lambda state: state.at)
    return states[index - 1] if index else None


def during(states: Sequence[State], since: datetime, until: datetime) -> Sequence[State]:
    """The states that held at some time from `since` to `until`, both included."""
    first = bisect_right(states, since, key=lambda state: state.at)
    last = bisect_right(states, until, key=lambda state: state.at)
    return states[max(0, first - 1) : last]
