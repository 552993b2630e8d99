"""An administrator's requests to the cluster, to brokers that run, each with an end."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import admin as confluent
from kafka.errors import NotControllerError, for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.api_message import ApiMessage

from local_cluster import LocalCluster, LocalClusterError, probe
from local_cluster.nodes import PLAINTEXT
from local_cluster.ports import HOST

_SECONDS: Final = 8.0
_SETTLED_SECONDS: Final = 120.0
_ATTEMPTS: Final = 3
_NOT_SENT: Final = "Timed out waiting for controller"
"""librdkafka says so of a request that it has not sent. Brokers name any broker that they list as
the controller, also one that was killed a moment ago.
"""

Moves = Sequence[tuple[str, int, tuple[int, ...]]]
"""Topic, partition, replicas."""


class AdministrationError(RuntimeError):
    """Raised when the cluster does not do what was asked. One line."""


@dataclass(frozen=True)
class NewTopic:
    """A topic with the replicas of each partition."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    config: tuple[tuple[str, str], ...] = ()

    def with_replicas(self, replicas: Iterable[tuple[int, ...]]) -> "NewTopic":
        """The same with other partitions."""
        return replace(self, replicas=tuple(replicas))


class Administration:
    """Asks brokers that run and are not paused; what is asked of the cluster raises
    AdministrationError when it is refused.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        """Create topics with the replicas that they name."""
        asked = [
            confluent.NewTopic(
                topic.name,
                len(topic.replicas),
                replica_assignment=[list(replicas) for replicas in topic.replicas],
                config=dict(topic.config),
            )
            for topic in topics
        ]
        self._confluent(lambda admin: admin.create_topics(asked, request_timeout=_SECONDS))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._confluent(lambda admin: admin.delete_topics(list(names), request_timeout=_SECONDS))

    def grow(self, partitions: Moves) -> None:
        """Add partitions; each is the first that its topic lacks."""
        asked = [
            confluent.NewPartitions(topic, partition + 1, replica_assignment=[list(replicas)])
            for topic, partition, replicas in partitions
        ]
        self._confluent(lambda admin: admin.create_partitions(asked, request_timeout=_SECONDS))

    def elect(self, *, unclean: bool) -> None:
        """Elect preferred leaders everywhere, or unclean ones where there is none."""
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        # Each partition's own answer is mostly "not needed".
        self._confluent(lambda admin: {"": admin.elect_leaders(kind, None)})

    def reassign(self, moves: Moves) -> None:
        """Begin reassignments; they end when they can."""
        self._alter({(topic, partition): replicas for topic, partition, replicas in moves})

    def cancel_reassignments(self) -> None:
        """Cancel all that run."""
        if running := self.reassignments():
            self._alter(dict.fromkeys(running))

    def reassignments(self) -> list[tuple[str, int]]:
        """The topics and partitions that are being reassigned."""
        request = ListPartitionReassignmentsRequest(
            topics=None, timeout_ms=int(_SECONDS * 1000), version=0
        )
        listed = self._ask(request, ListPartitionReassignmentsResponse)
        return sorted(
            (each.name, part.partition_index) for each in listed.topics for part in each.partitions
        )

    def await_settled(self, brokers: Sequence[int]) -> None:
        """Wait until brokers are listed, partitions led and whole, and nothing is reassigned."""
        deadline = time.monotonic() + _SETTLED_SECONDS
        missing = "no answer"
        while time.monotonic() < deadline:
            try:
                missing = self._unsettled(brokers)
            except (KafkaException, AdministrationError) as error:
                missing = str(error)
            if not missing:
                return
            time.sleep(0.5)
        raise AdministrationError(
            f"the cluster has not settled after {_SETTLED_SECONDS:.0f} s: {missing}"
        )

    def _unsettled(self, brokers: Sequence[int]) -> str:
        now = self._client().list_topics(timeout=_SECONDS)
        if sorted(now.brokers) != list(brokers):
            return f"brokers {sorted(now.brokers)}"
        for topic in now.topics.values():
            for number, partition in topic.partitions.items():
                if partition.leader < 0 or set(partition.isrs) != set(partition.replicas):
                    return (
                        f"{topic.topic}-{number} led by {partition.leader}, in sync "
                        f"{partition.isrs} of {partition.replicas}"
                    )
        return " ".join(
            f"{topic}-{number} is being reassigned" for topic, number in self.reassignments()
        )

    def _ports(self) -> list[int]:
        nodes = self._cluster.nodes.values()
        running = [
            node
            for node in nodes
            if node.is_broker and self._cluster.state(node.node_id) == "running"
        ]
        if not running:
            raise LocalClusterError("no broker runs")
        return [node.ports[PLAINTEXT] for node in running]

    def _client(self) -> confluent.AdminClient:
        # A new one each time: an old one would ask a broker that is paused by now.
        servers = ",".join(f"{HOST}:{port}" for port in self._ports())
        return confluent.AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def _confluent(self, ask: Callable[[confluent.AdminClient], dict]) -> None:  # type: ignore[type-arg]
        for left in reversed(range(_ATTEMPTS)):
            client = self._client()
            try:
                for future in ask(client).values():
                    future.result(_SECONDS + 2)
            except (KafkaException, TimeoutError) as error:
                if not left or _NOT_SENT not in str(error):
                    raise AdministrationError(str(error) or "timed out") from error
            else:
                return

    def _alter(self, wanted: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        asked = [
            topic(
                name=name,
                partitions=[topic.ReassignablePartition(partition_index=number, replicas=replicas)],
            )
            for (name, number), replicas in wanted.items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=asked, timeout_ms=int(_SECONDS * 1000), version=0
        )
        answer = self._ask(request, AlterPartitionReassignmentsResponse)
        refused = [
            f"{each.name}-{part.partition_index}: {for_code(part.error_code).__name__}"
            for each in answer.responses
            for part in each.partitions
            if part.error_code
        ]
        if refused:
            raise AdministrationError("; ".join(refused))

    def _ask(self, request: ApiMessage, response: type[ApiMessage]) -> Any:
        """Ask the controller; with KRaft any broker does, which forwards. confluent-kafka has no
        reassignments.
        """
        for port in self._ports():
            try:
                answer = probe.ask(port, request, response, _SECONDS)
            except OSError as error:
                raise AdministrationError(str(error)) from error
            if answer.error_code != NotControllerError.errno:
                break
        if answer.error_code:
            raise AdministrationError(for_code(answer.error_code).__name__)
        return answer
