"""What a user may ask of a cluster, found out by asking; nothing is written, and no topic comes into being by it.

Each probe is one request to the broker that answered the poll, whichever broker is responsible: brokers check
permissions before anything else (KafkaApis.scala), so that an answer such as NOT_COORDINATOR says "allowed". These messages
are small and asked for once, so they are kafka-python's own message classes.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import FetchRequest

from metadata_source.errors import PollError
from metadata_source.transport import Address, Connection, error_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metadata_source.options import Cluster

DENIED: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""
ALLOWED: Final = frozenset({0, 1, 3, 5, 6, 14, 15, 16, 69})
"""No error, and those that come after the check of permissions: OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION,
LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
GROUP_ID_NOT_FOUND."""
_TIMEOUT_S: Final = 10.0
_TOPIC: Final = 2
"""ConfigResource.Type.TOPIC."""
_TOPICS_A_REQUEST: Final = 500
_MIN_ISR: Final = "min.insync.replicas"
_NO_GROUP: Final = "kafka-metadata-history-probe"
_LAST_WITH_TOPIC_NAMES: Final = 12
_FIRST_WITH_FENCED: Final = 2
_FAR: Final = 2**62
"""An offset that no log has: a fetch brings no records."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a feature's question was answered. `answer`: `allowed`, or what is missing, or why nobody knows."""

    feature: str
    needs: str
    answer: str


class Prober:
    """Asks one broker, each question over a connection of its own, so that one that fails leaves the others be."""

    def __init__(self, cluster: Cluster, address: Address) -> None:
        self._cluster = cluster
        self._address = address

    def min_isr(self, topics: Sequence[str]) -> dict[str, int]:
        """Return `min.insync.replicas` of those topics that may be asked. Raises PollError."""
        known: dict[str, int] = {}
        for begin in range(0, len(topics), _TOPICS_A_REQUEST):
            resource = DescribeConfigsRequest.DescribeConfigsResource
            resources = [
                resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[_MIN_ISR])
                for topic in topics[begin : begin + _TOPICS_A_REQUEST]
            ]
            response = self._ask(DescribeConfigsRequest, {"resources": resources})
            known |= {
                result.resource_name: int(config.value)
                for result in response.results
                if not result.error_code
                for config in result.configs
                if config.name == _MIN_ISR
            }
        return known

    def permissions(self) -> list[Permission]:
        """Return what cluster and group questions come to, for what is recorded now or will be."""
        cluster, groups, log = "DESCRIBE on the cluster", "DESCRIBE on the groups", "READ on topic __consumer_offsets"
        # DescribeCluster needs a permission only for the authorized operations, which are not asked for.
        fenced = "Kafka 4.0 or newer"
        return [
            Permission("reassignments", cluster, self._try(self._reassignments, cluster)),
            Permission("controller quorum", cluster, self._try(self._quorum, cluster)),
            Permission("fenced brokers", fenced, self._try(self._fenced, fenced)),
            Permission("consumer groups", groups, self._try(self._groups, groups)),
            Permission("rebalance history", log, self._try(self._group_log, log)),
        ]

    def _try(self, probe: Any, needs: str) -> str:
        try:
            code = probe()
        except PollError as error:
            return f"not known: {error.problem}"
        if code in DENIED:
            return f"missing: {needs}"
        if code in ALLOWED:
            return "allowed"
        return f"not known: error {code} ({error_name(code)})"

    def _reassignments(self) -> int:
        return int(self._ask(ListPartitionReassignmentsRequest, {"timeout_ms": 5_000, "topics": None}).error_code)

    def _quorum(self) -> int:
        topic = DescribeQuorumRequest.TopicData
        partition = topic.PartitionData(partition_index=0)
        topics = [topic(topic_name="__cluster_metadata", partitions=[partition])]
        return int(self._ask(DescribeQuorumRequest, {"topics": topics}).error_code)

    def _fenced(self) -> int:
        fields = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
        return int(self._ask(DescribeClusterRequest, fields, lowest=_FIRST_WITH_FENCED).error_code)

    def _groups(self) -> int:
        # Not FindCoordinator, which makes __consumer_offsets where there is none.
        fields = {"groups": [_NO_GROUP], "include_authorized_operations": False}
        (group,) = self._ask(DescribeGroupsRequest, fields).groups
        if group.error_code in DENIED:
            # Not every group; perhaps some: those that this broker knows are listed.
            listed = self._ask(ListGroupsRequest, {"states_filter": [], "types_filter": []})
            return int(group.error_code) if not listed.groups else 0
        return int(group.error_code)

    def _group_log(self) -> int:
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(partition=0, fetch_offset=_FAR, partition_max_bytes=1)
        fields = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1,
            "topics": [topic(topic="__consumer_offsets", partitions=[partition])],
            "forgotten_topics_data": [],
        }
        response = self._ask(FetchRequest, fields, highest=_LAST_WITH_TOPIC_NAMES)
        if response.error_code:
            return int(response.error_code)
        partitions = [partition for answered in response.responses for partition in answered.partitions]
        if not partitions:
            # KIP-219: a broker that throttles answers a fetch at once, with nothing in it.
            raise PollError("broker_error", f"throttled by the broker for {response.throttle_time_ms} ms")
        return int(partitions[0].error_code)

    def _ask(self, request: Any, fields: dict[str, Any], *, lowest: int = 0, highest: int | None = None) -> Any:
        """Send a request in the highest version that both sides have. Raises PollError."""
        deadline = time.monotonic() + _TIMEOUT_S
        with closing(Connection(self._cluster, self._address, deadline)) as connection:
            first, last = connection.api_versions.get(request.API_KEY, (0, -1))
            version = min(last, request.max_version if highest is None else highest)
            if version < max(first, lowest):
                raise PollError("unsupported_version", f"this broker's version has no {request.__name__} for it")
            return connection.ask(request(version=version, **fields), deadline)
