"""One state of a cluster, as far as it is known: None is not known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobs.rules.gold.isr import effective_min_isr
from jobs.rules.gold.news import Levels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Broker:
    """`is_live`: listed, so alive and not fenced. `is_stopping`: in a controlled shutdown, so it is
    elected no more.
    """

    rack: str | None = None
    is_live: bool = True
    is_stopping: bool = False

    @property
    def can_lead(self) -> bool:
        """Whether the controllers may elect it (``ClusterControlManager.isActive``)."""
        return self.is_live and not self.is_stopping


@dataclass(frozen=True, slots=True)
class Partition:
    """`leader`: -1 none; None: there is one, on a listener that the answering broker lacks.
    `replicas`: in order, those of a running reassignment too. `min_isr`: min.insync.replicas.
    `unclean`: unclean.leader.election.enable. `adding`, `removing`: empty if no reassignment runs.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: Sequence[int] | None
    isr: Sequence[int] | None
    elr: Sequence[int] | None = ()
    adding: Sequence[int] | None = ()
    removing: Sequence[int] | None = ()
    min_isr: int | None = None
    unclean: bool | None = None

    @property
    def name(self) -> str:
        """As Kafka's logs name it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Quorum:
    """`leader`: the active controller, -1 none. `behind`: voters that are not caught up."""

    leader: int | None
    voters: frozenset[int]
    behind: frozenset[int] | None = None

    @property
    def majority(self) -> int:
        """So many voters that are caught up are needed."""
        return len(self.voters) // 2 + 1


@dataclass(frozen=True)
class Cluster:
    """A cluster at one time. `has_elr`: eligible leader replicas (KIP-966) are in force.
    `controller_racks`: of those that somebody has told; no answer of Kafka has them.
    """

    name: str
    brokers: Mapping[int, Broker]
    partitions: Sequence[Partition]
    quorum: Quorum | None = None
    levels: Levels = field(default_factory=Levels)
    has_elr: bool | None = False
    controller_racks: Mapping[int, str] = field(default_factory=dict)

    @property
    def broker_ids(self) -> set[int]:
        """The brokers, and those that only a list of replicas names."""
        return {*self.brokers, *(each for of in self.partitions for each in of.replicas or ())}

    def min_isr(self, of: Partition) -> int | None:
        """How many in-sync replicas acks=all asks for (KAFKA-15583), as history counts it."""
        if of.replicas is None:
            return None
        return effective_min_isr(of.min_isr, len(of.replicas), self.levels)


@dataclass(frozen=True)
class Loss:
    """Who is lost. A combined node is both. `racks`: those that are lost whole."""

    brokers: frozenset[int] = frozenset()
    controllers: frozenset[int] = frozenset()
    racks: frozenset[str] = frozenset()

    def __or__(self, other: Loss) -> Loss:
        """Both losses at once."""
        return Loss(
            self.brokers | other.brokers,
            self.controllers | other.controllers,
            self.racks | other.racks,
        )
