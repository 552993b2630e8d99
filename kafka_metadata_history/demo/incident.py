"""What happens to the cluster: topics, and the administration that the script needs."""

import time
from collections.abc import Callable, Iterable
from typing import Final

from confluent_kafka import ElectionType, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from metadata_source.errors import KafkaMetadataHistoryError

_SECONDS: Final = 30.0

THREE_REPLICAS: Final = (
    "accounts", "carts", "catalog", "clicks", "coupons", "deliveries", "emails", "fraud-scores",
    "inventory", "invoices", "logins", "orders", "payments", "prices", "refunds", "returns",
    "searches",
)  # fmt: skip
TWO_REPLICAS: Final = ("audit-log", "metrics")
ONE_REPLICA: Final = ("scratch",)
TOPICS: Final = THREE_REPLICAS + TWO_REPLICAS + ONE_REPLICA
PARTITIONS: Final = 3
MOVED: Final = TopicPartition("audit-log", 0)
RECREATED: Final = "coupons"


class IncidentError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when the cluster does not get into the state that a step leads to."""


def new_topic(name: str) -> NewTopic:
    """A topic as the demo has it: three partitions; those of three replicas need two in sync."""
    replicas = 3 if name in THREE_REPLICAS else 2 if name in TWO_REPLICAS else 1
    return NewTopic(
        name, PARTITIONS, replicas, config={"min.insync.replicas": str(min(replicas, 2))}
    )


class Administration:
    """Asks the cluster for changes and waits until it shows them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create_topics(self, names: Iterable[str]) -> None:
        """Create topics, and wait until all brokers answered with leaders for them."""
        names = list(names)
        for future in self._admin.create_topics([new_topic(name) for name in names]).values():
            future.result(_SECONDS)
        await_state(f"{names[0]} and others have leaders", lambda: self._led(names))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self._admin.delete_topics([name])[name].result(_SECONDS)
        await_state(f"{name} is gone", lambda: name not in self._topics())

    def await_brokers(self, brokers: Iterable[int]) -> None:
        """Wait until the cluster lists exactly these brokers."""
        wanted = set(brokers)
        await_state(
            f"brokers {wanted} are listed",
            lambda: set(self._admin.list_topics(timeout=_SECONDS).brokers) == wanted,
        )

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group."""
        described = self._admin.describe_consumer_groups([group])[group].result(_SECONDS)
        return int(described.coordinator.id)

    def await_in_sync(self) -> None:
        """Wait until every replica is in sync again."""
        await_state("every replica is in sync", self._in_sync)

    def reassign(self, partition: TopicPartition) -> tuple[list[int], list[int]]:
        """Move a partition of two replicas to the brokers that follow (1 -> 2 -> 3 -> 1); return
        replicas before and after.
        """
        described = self._admin.describe_topics(TopicCollection([partition.topic]))[
            partition.topic
        ].result(_SECONDS)
        before = [node.id for node in described.partitions[partition.partition].replicas]
        after = [broker % 3 + 1 for broker in before]
        # confluent-kafka has no reassignments.
        admin = KafkaAdminClient(bootstrap_servers=self._servers)
        try:
            errors = admin.alter_partition_reassignments({partition: after})
            if any(errors.values()):
                raise IncidentError(
                    f"{partition.topic}-{partition.partition} cannot be reassigned: {errors}"
                )
            await_state(
                "the reassignment is done", lambda: not admin.list_partition_reassignments()
            )
        finally:
            admin.close()
        return before, after

    def elect_preferred_leaders(self) -> None:
        """Give each partition back to its preferred replica, where that is in sync."""
        self._admin.elect_leaders(ElectionType.PREFERRED, None).result(_SECONDS)

    def _topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=_SECONDS).topics)

    def _led(self, names: list[str]) -> bool:
        topics = self._admin.list_topics(timeout=_SECONDS).topics
        return all(
            name in topics
            and len(topics[name].partitions) == PARTITIONS
            and all(partition.leader >= 0 for partition in topics[name].partitions.values())
            for name in names
        )

    def _in_sync(self) -> bool:
        topics = self._admin.list_topics(timeout=_SECONDS).topics.values()
        return all(
            set(p.isrs) == set(p.replicas) for topic in topics for p in topic.partitions.values()
        )


def await_state(what: str, reached: Callable[[], bool]) -> None:
    """Wait until something is so. Raises IncidentError when it takes too long."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            if reached():
                return
        except KafkaException:  # as while the broker asked goes away
            pass
        if time.monotonic() > deadline:
            raise IncidentError(
                f"the local cluster is not where the demo wants it after {_SECONDS:.0f} s: {what}"
            )
        time.sleep(0.3)
