"""Requests beside Metadata: what probes and enrichments ask, in kafka-python's own message classes.

These messages are small, or asked for seldom. Whichever broker is asked answers: what only the active controller knows it
forwards (KRaft).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)

from metadata_source.errors import PollError
from metadata_source.transport import format_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metadata_source.transport import Connection

DENIED: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
PAGE_PARTITIONS: Final = 2_000
"""The most partitions that brokers put into one answer (`max.request.partition.size.limit`, unless set lower)."""

_TOPIC: Final = 2
"""ConfigResource.Type.TOPIC."""
_TOPICS_A_REQUEST: Final = 500
_FIRST_WITH_FENCED: Final = 2
_BROKERS: Final = 1
"""DescribeCluster's endpoint type: brokers, not controllers."""
_CONTROLLER_TIMEOUT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Question:
    """A request of kafka-python's class `request`, in the highest version that both sides have between `lowest` and `highest`."""

    request: Any
    fields: Mapping[str, Any]
    lowest: int = 0
    highest: int | None = None


def ask(connection: Connection, question: Question, deadline: float) -> Any:
    """Return the response. Raises PollError, as `version` and `Connection.ask`."""
    return connection.ask(question.request(version=version(connection, question), **question.fields), deadline)


def version(connection: Connection, question: Question) -> int:
    """Return the version to ask in. Raises PollError (`unsupported_version`) if there is none."""
    request = question.request
    first, last = connection.api_versions.get(request.API_KEY, (0, -1))
    highest = min(last, request.max_version if question.highest is None else question.highest)
    if highest < max(first, question.lowest):
        where = format_address(connection.address)
        raise PollError("unsupported_version", f"{where}: this broker's version has no {request.__name__} for it")
    return int(highest)


def topic_configs(topics: Sequence[str], names: Sequence[str]) -> Iterator[Question]:
    """Yield the questions for these configurations of all the topics; effective values, also where a topic sets none."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        resources = [
            resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=list(names))
            for topic in topics[begin : begin + _TOPICS_A_REQUEST]
        ]
        yield Question(DescribeConfigsRequest, {"resources": resources})


def reassignments() -> Question:
    """All reassignments that run. Forwarded to the active controller."""
    return Question(ListPartitionReassignmentsRequest, {"timeout_ms": _CONTROLLER_TIMEOUT_MS, "topics": None})


def quorum() -> Question:
    """The controllers' quorum. Forwarded to the active controller, which alone knows."""
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    return Question(DescribeQuorumRequest, {"topics": [topic(topic_name="__cluster_metadata", partitions=[partition])]})


def brokers_with_fenced() -> Question:
    """All registered brokers and which of them are fenced (Kafka 4.0)."""
    fields = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": _BROKERS,
        "include_fenced_brokers": True,
    }
    return Question(DescribeClusterRequest, fields, lowest=_FIRST_WITH_FENCED)


def topic_partitions(topics: Sequence[str], cursor: tuple[str, int] | None) -> Question:
    """A page of the partitions of these topics, from `cursor` (topic, partition) on. No topic at all would ask for every one."""
    topic, at = DescribeTopicPartitionsRequest.TopicRequest, DescribeTopicPartitionsRequest.Cursor
    fields = {
        "topics": [topic(name=name) for name in topics],
        "response_partition_limit": PAGE_PARTITIONS,
        "cursor": None if cursor is None else at(topic_name=cursor[0], partition_index=cursor[1]),
    }
    return Question(DescribeTopicPartitionsRequest, fields)
