"""The versions of Kafka that are tried, and what is documented of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """A version as it is run, and what history has to know of it."""

    kafka_version: str
    zookeeper: bool = False
    protocol: str | None = None
    """inter.broker.protocol.version; None: that of the version itself. With ZooKeeper alone."""
    shrinks_raise: bool = False
    """An ISR that shrinks raises the leader epoch though the leader stays: below metadata.version
    3.6-IV0 (KAFKA-15021), and with ZooKeeper where the controller takes the broker out
    (ReplicaStateMachine)."""
    has_topic_ids: bool = True
    """KIP-516: from inter.broker.protocol.version 2.8 on."""
    has_alter_isr: bool = True
    """KIP-497: leaders tell the controller of the ISR, from inter.broker.protocol.version 2.7 on.
    Before, they write it to ZooKeeper, and the controller and the other brokers learn of it seconds
    later."""
    has_elr: bool = False
    """KIP-966: without a leader the ISR is empty. On in clusters that 4.1 and later format."""
    elects_unclean: bool = True
    """A topic's unclean.leader.election.enable counts: with KRaft from 3.9.0 on (KAFKA-12670)."""
    has_consumer_groups: bool = False
    """KIP-848, on without any setting: from 4.0 on."""

    @property
    def name(self) -> str:
        """For people, and for the command line."""
        how = " ZooKeeper" if self.zookeeper else " KRaft"
        return self.kafka_version + how + (f" protocol {self.protocol}" if self.protocol else "")

    @property
    def properties(self) -> dict[str, str]:
        """Broker properties that make it this version."""
        return {"inter.broker.protocol.version": self.protocol} if self.protocol else {}

    @property
    def is_exact(self) -> bool:
        """Whether epochs count changes of leaders exactly."""
        return not self.zookeeper and not self.shrinks_raise

    @property
    def raised_by_reassignment(self) -> tuple[int, int]:
        """By how much a reassignment that replaces a replica raises the epoch, at least and at
        most.

        KRaft: the record that ends it. ZooKeeper: each of its steps
        (KafkaController.onPartitionReassignment).
        """
        return (2, 4) if self.zookeeper else (1, 1)


VERSIONS = (
    Version("4.4.0", has_elr=True, has_consumer_groups=True),
    Version("4.3.1", has_elr=True, has_consumer_groups=True),
    Version("3.9.2"),
    Version("2.8.2", zookeeper=True, shrinks_raise=True),
    Version("2.8.2", zookeeper=True, protocol="2.7", shrinks_raise=True, has_topic_ids=False),
    Version(
        "2.8.2",
        zookeeper=True,
        protocol="2.6",
        shrinks_raise=True,
        has_topic_ids=False,
        has_alter_isr=False,
    ),
    Version("3.9.2", zookeeper=True, shrinks_raise=True),
    Version("4.0.1", has_consumer_groups=True),
    Version("3.7.2", elects_unclean=False),
    Version("3.3.2", shrinks_raise=True, elects_unclean=False),
)
