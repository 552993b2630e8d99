"""The kinds of clusters that speak Kafka's protocol, and what of their answers means nothing.

A cluster is of the kind that the options declare. Where a sentence comes from (docs/versions.md
says what is a guess):

- Redpanda: src/v/kafka/server/handlers/metadata.cc. Every replica is in the ISR, none is offline.
  While there is no
  leader the former one is named. A broker that knows no term, or is cut off, names a replica at
  random with error 5.
- WarpStream: "Hacking the Kafka Protocol" (warpstream.com/blog), docs.warpstream.com on service
  discovery. Each client
  sees one Agent as the leader of every partition.
- AutoMQ: ElasticCreatePartitionPolicy, PartitionChangeBuilder.setTargetNode. A partition has one
  replica; a failover
  gives it another one.
- Confluent Platform: docs.confluent.io on Multi-Region Clusters. Observers are replicas that do not
  join the ISR.
- Azure Event Hubs: answers as kcat shows them. One broker, the namespace's address, leads
  everything; replicas and ISRs
  are empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from metadata_source.kafka_constants import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

KAFKA: Final = "kafka"
CONFLUENT: Final = "confluent"
REDPANDA: Final = "redpanda"
WARPSTREAM: Final = "warpstream"
AUTOMQ: Final = "automq"
EVENT_HUBS: Final = "eventhubs"
COLUMNS: Final = ("leader", "leader_epoch", "replicas", "isr", "offline_replicas")
"""The columns of a partition that may mean nothing: history keeps null there."""

ISR, OFFLINE_REPLICAS, LEADER, LEADER_EPOCH, REPLICAS = (
    "isr",
    "offline_replicas",
    "leader",
    "leader_epoch",
    "replicas",
)
OFFLINE, UNDER_REPLICATED, REASON, UNCLEAN = "offline", "under_replicated", "reason", "unclean"
PREFERRED, GROUP_LOG = "preferred_leader", "group_log"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cluster. `not_meaningful`: each fact that means nothing there -> why, a clause."""

    maker: str
    not_meaningful: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str]:
        """Those of COLUMNS that mean nothing."""
        return frozenset(self.not_meaningful.keys() & set(COLUMNS))

    @property
    def reasons(self) -> list[str]:
        """The facts that mean nothing, each with why: `fact: why`."""
        return [f"{fact}: {why}" for fact, why in self.not_meaningful.items()]


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        KAFKA: Kind("Apache Kafka"),
        CONFLUENT: Kind(
            "Confluent",
            {
                UNDER_REPLICATED: (
                    "metadata does not tell observers, which stay out of the ISR, from followers; "
                    "so a replica counts as out only once it has been in the ISR"
                )
            },
        ),
        REDPANDA: Kind(
            "Redpanda",
            {
                ISR: "Redpanda answers every replica as in sync, whatever its state",
                OFFLINE_REPLICAS: "Redpanda answers none, whatever their state",
                OFFLINE: "while a partition has no leader Redpanda names the former one",
                UNDER_REPLICATED: "only the ISR would tell",
                REASON: (
                    "Raft moves leaders, also while the old leader lives: metadata does not tell "
                    "why"
                ),
                UNCLEAN: "only the ISR would tell",
                PREFERRED: "Redpanda spreads leaders by itself: the first replica is not preferred",
            },
        ),
        WARPSTREAM: Kind(
            "WarpStream",
            {
                LEADER: "each client sees an Agent of its own as the leader of every partition",
                LEADER_EPOCH: "no election raises it",
                REPLICAS: "records are in object storage: no Agent has a replica",
                ISR: "records are in object storage: no Agent has a replica",
                OFFLINE_REPLICAS: "records are in object storage: no Agent has a replica",
            },
        ),
        AUTOMQ: Kind(
            "AutoMQ",
            {
                ISR: (
                    "a partition has one replica, which is its ISR; shared storage keeps the copies"
                ),
                UNDER_REPLICATED: "a partition has one replica; shared storage keeps the copies",
                REASON: (
                    "failover and balancing both give the partition another replica: metadata "
                    "does not tell which"
                ),
                UNCLEAN: "shared storage keeps the records, whoever leads",
                PREFERRED: "the one replica of a partition leads it, wherever it is",
            },
        ),
        EVENT_HUBS: Kind(
            "Azure Event Hubs",
            {
                LEADER: "the namespace's one address is the leader of every partition",
                LEADER_EPOCH: "the answers have none",
                REPLICAS: "the answers have none",
                ISR: "the answers have none",
                OFFLINE_REPLICAS: "the answers have none",
                GROUP_LOG: f"there is no topic {OFFSETS_TOPIC}",
            },
        ),
    }
)
