"""Requests beside Metadata: what probes, enrichments and readers of logs ask, in kafka-python's own
message classes.

These messages are small, or asked for seldom. Whichever broker is asked answers: what only the
active controller knows it forwards (KRaft), or says that it is not the controller (ZooKeeper).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NotRequired, TypedDict, TypeVar

import pyarrow.compute as pc
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    ListPartitionReassignmentsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from metadata_source.addresses import format_address
from metadata_source.broker_errors import error_name
from metadata_source.errors import PollError, ProtocolError, TooSlowError
from metadata_source.lineage import NO_EPOCH
from metadata_source.messages.reading import read_response
from metadata_source.nulls import null_field
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import METADATA_REQUEST
from metadata_source.waiting import read_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.transport import Answer, Connection, Pending

_T = TypeVar("_T")

DENIED: Final = frozenset({29, 30, 31, 53})
"""TOPIC_, GROUP_, CLUSTER_ and TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
NOT_CONTROLLER: Final = 41
LATEST: Final = -1
EARLIEST: Final = -2
"""ListOffsetsRequest.LATEST_TIMESTAMP and EARLIEST_TIMESTAMP."""
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
PAGE_PARTITIONS: Final = 2_000
"""The most partitions of one answer (`max.request.partition.size.limit`, unless set lower)."""

_UNSUPPORTED_VERSION: Final = 35
_FIRST_BY_NAME: Final = 10
"""Metadata's first version of Kafka 2.8."""
_FIRST_WITH_BATCHES: Final = 4
"""Fetch's first version in which brokers leave batches as they are: before, they make messages of
formats 0 and 1 of all records.
"""
LAST_WITH_TOPIC_NAMES: Final = 12
"""Fetch's last version of that kind. Controllers refuse a topic's name."""
_LAST_FOR_CLIENTS: Final = 17
"""Version 18 of Fetch is for followers (KIP-1166)."""
_FIRST_OF_ALL_TOPICS: Final = 2
"""OffsetFetch's first version that can ask for all topics of a group."""
_LAST_COMMITS_BY_NAME: Final = 9
"""Version 10 of OffsetFetch (Kafka 4.1) names topics by id: those that are gone have no name."""
_LAST_LIST_OFFSETS: Final = 11
_FAR: Final = 2**62
"""An offset that no log has: a fetch brings no records."""
_TOPIC: Final = 2
"""ConfigResource.Type.TOPIC."""
_TOPICS_A_REQUEST: Final = 500
_FIRST_WITH_FENCED: Final = 2
_BROKERS: Final = 1
"""DescribeCluster's endpoint type: brokers, not controllers."""
_CLUSTER_AUTHORIZATION_FAILED: Final = 31
_FIRST_WITH_LOG_DIRS_ERROR: Final = 3
"""DescribeLogDirs' first version that says why it is empty."""
_CONTROLLER_TIMEOUT_MS: Final = 5_000
CONSUMER: Final = -1
"""In place of a replica's id."""
FETCH_WAIT_S: Final = 0.5
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_FIRST_WITH_ISOLATION: Final = 2
"""ListOffsets' first version of that kind (Kafka 0.11)."""
_REMOTE_TIMEOUT_MS: Final = 5_000
"""Of looking up times in remote storage, which is not asked for here."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request of kafka-python's class `request`, in the highest version that both sides have
    between `lowest` and `highest`. `is_timed`: the answer comes as `Timed`.
    """

    request: Any
    fields: Mapping[str, Any]
    lowest: int = 0
    highest: int | None = None
    is_timed: bool = False

    @property
    def name(self) -> str:
        """Kafka's name of the request."""
        return str(self.request.__name__)

    @property
    def versions(self) -> tuple[int, int, int]:
        """API key, first and last version."""
        last = self.request.max_version if self.highest is None else self.highest
        return self.request.API_KEY, self.lowest, last

    def version(self, connection: Connection) -> int:
        """Return the version to ask in. Raises PollError (`unsupported_version`) without one."""
        api_key, lowest, highest = self.versions
        first, last = connection.api_versions.get(api_key, (0, -1))
        if min(last, highest) < max(first, lowest):
            where = format_address(connection.address)
            raise PollError(
                "unsupported_version", f"{where}: this broker's version has no {self.name} for it"
            )
        return min(last, highest)

    def ask(self, connection: Connection, deadline: float) -> Any:
        """Return the response, of kafka-python's class. Raises PollError, as `version` and
        `Connection.request`, for bytes that are no such response, and for a null where Kafka's
        definitions allow none.
        """
        version = self.version(connection)
        is_flexible = self.request.flexible_version_q(version)
        body = self.body(version)
        answer = connection.request(
            self.request.API_KEY, version, body, flexible=is_flexible, deadline=deadline
        )
        return self._response(connection, answer, version, deadline)

    def begin(self, connection: Connection, deadline: float) -> Asked:
        """Ask, and wait for no answer. Raises PollError, as `version` and `Connection.begin`."""
        version = self.version(connection)
        is_flexible = self.request.flexible_version_q(version)
        body = self.body(version)
        pending = connection.begin(
            self.request.API_KEY, version, body, flexible=is_flexible, deadline=deadline
        )
        return Asked(
            pending, lambda: self._response(connection, pending.answer(), version, deadline)
        )

    def _response(
        self, connection: Connection, answer: Answer, version: int, deadline: float
    ) -> Any:
        where = format_address(connection.address)
        try:
            response = self.read(answer.body, version, read_by(deadline))
        except ProtocolError as error:
            raise PollError(kind_of(error), f"{where}: {error}") from None
        if (
            isinstance(response, ApiMessage)
            and (field := null_field(response, version)) is not None
        ):
            what = f"{response.name} v{version}: {field}: null, where null is not allowed"
            raise PollError("protocol", f"{where}: {what}")
        if not self.is_timed:
            return response
        # It was sent over this connection.
        return Timed(response, connection.sent_at or answer.received_at, answer.received_at)

    def body(self, version: int) -> bytes:
        """Return the request's body."""
        return bytes(self.request(version=version, **self.fields).encode())

    def read(self, body: bytes, version: int, deadline: float) -> Any:
        """Return what an answer's body says. Raises ProtocolError."""
        return read_response(self.request, version, body, deadline=deadline)


class Asked(NamedTuple):
    """A question under way. `response`: as of `Question.ask`, once `pending` is done."""

    pending: Pending
    response: Callable[[], Any]


class TopicQuestion(Question):
    """Metadata of one topic, with its authorized operations; it never creates the topic. The answer
    is ClusterMetadata without other topics.

    Up to Kafka 2.7 a broker that is asked for an internal topic by name creates it, though the
    request says not to (KafkaApis.createInternalTopic). Such a broker is asked for all topics.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(MetadataRequest, {"topic": topic}, highest=METADATA_REQUEST.last_version)

    def body(self, version: int) -> bytes:
        """Return the request's body."""
        names = [self.fields["topic"]] if version >= _FIRST_BY_NAME else None
        return encode_request(version, names, with_operations=True)

    def read(self, body: bytes, version: int, deadline: float) -> ClusterMetadata:
        """Return what an answer's body says. Raises ProtocolError."""
        metadata = decode_response(body, version, deadline=deadline)
        topics, partitions = (
            table.filter(pc.equal(table["topic"], self.fields["topic"]))
            for table in (metadata.topics, metadata.partitions)
        )
        return replace(metadata, topics=topics, partitions=partitions)


class Timed(NamedTuple):
    """A response, when it was asked for and when it had come, by this machine's clock."""

    response: Any
    sent_at: datetime
    received_at: datetime

    @property
    def throttle_time_ms(self) -> int:
        """Throttling that the broker asked for; 0 where the version does not say."""
        return int(self.response.throttle_time_ms)


def commits(group_ids: Sequence[str]) -> Question:
    """All that these groups have committed; before Kafka 3.0 (version 8) of the first of them
    alone.

    A coordinator answers with the last committed offsets. It does not wait for open transactions.
    """
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [
        group(group_id=each, member_id=None, member_epoch=-1, topics=None) for each in group_ids
    ]
    fields = {"group_id": group_ids[0], "topics": None, "groups": groups, "require_stable": False}
    return Question(
        OffsetFetchRequest, fields, _FIRST_OF_ALL_TOPICS, _LAST_COMMITS_BY_NAME, is_timed=True
    )


def ends(
    topics: Iterable[tuple[str, Iterable[tuple[int, int]]]], when: int, *, committed: bool = False
) -> Question:
    """The offset of each of these partitions of topics, given with their leader epochs (-1: not
    known), at one end, LATEST, which is the high watermark, or EARLIEST, or at a time in ms since
    1970. `committed`: LATEST is the last stable offset, where the first open transaction begins.
    """
    topic = ListOffsetsRequest.ListOffsetsTopic
    at = partial(topic.ListOffsetsPartition, timestamp=when)
    asked = [
        topic(
            name=name,
            partitions=[
                at(partition_index=partition, current_leader_epoch=epoch)
                for partition, epoch in partitions
            ],
        )
        for name, partitions in topics
    ]
    fields = {
        "replica_id": CONSUMER,
        "isolation_level": _READ_COMMITTED if committed else _READ_UNCOMMITTED,
        "topics": asked,
        "timeout_ms": _REMOTE_TIMEOUT_MS,
    }
    # Version 0 answers lists of offsets.
    lowest = _FIRST_WITH_ISOLATION if committed else 1
    return Question(ListOffsetsRequest, fields, lowest, _LAST_LIST_OFFSETS, is_timed=True)


def transactions(
    *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_ms: int = -1
) -> Question:
    """The transactional ids that a broker coordinates, as far as the user may describe them: in one
    of these states, with one of these producer ids (none of either: all). `longer_ms`: whose
    transaction began before that, from Kafka 3.8 on; brokers of before list all.
    """
    fields = {
        "state_filters": list(states),
        "producer_id_filters": list(producer_ids),
        "duration_filter": longer_ms,
        "transactional_id_pattern": None,
    }
    return Question(ListTransactionsRequest, fields)


def described_transactions(transactional_ids: Sequence[str]) -> Question:
    """Transactional ids as their coordinator has them: it alone knows."""
    return Question(DescribeTransactionsRequest, {"transactional_ids": list(transactional_ids)})


def producers(topics: Mapping[str, Iterable[int]]) -> Question:
    """The producers of these partitions, topic -> numbers, as their leader has them: which of them
    have an open transaction there.
    """
    topic = DescribeProducersRequest.TopicRequest
    asked = [topic(name=name, partition_indexes=sorted(each)) for name, each in topics.items()]
    return Question(DescribeProducersRequest, {"topics": asked})


def kind_of(error: ProtocolError) -> str:
    """Return PollError's word for an answer that was not read."""
    return "timeout" if isinstance(error, TooSlowError) else "protocol"


def check(code: int) -> None:
    """Raise PollError for an error code."""
    if code in DENIED:
        raise PollError("authorization", f"error {code}")
    if code == _UNSUPPORTED_VERSION:
        raise PollError("unsupported_version", f"error {code}")
    if code:
        raise PollError("broker_error", f"error {code} ({error_name(code)})")


def the_one(answered: Sequence[_T], what: str) -> _T:
    """Return the one that was asked about. Raises PollError unless the answer has just one."""
    if len(answered) != 1:
        raise PollError(
            "odd_answer", f"asked about one {what}, the broker answered about {len(answered)}"
        )
    return answered[0]


def topic_configs(topics: Sequence[str], names: Sequence[str]) -> Iterator[Question]:
    """Yield the questions for these configurations of all the topics; effective values, also where
    a topic sets none.
    """
    resource = DescribeConfigsRequest.DescribeConfigsResource
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        resources = [
            resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=list(names))
            for topic in topics[begin : begin + _TOPICS_A_REQUEST]
        ]
        yield Question(DescribeConfigsRequest, {"resources": resources})


def reassignments() -> Question:
    """All reassignments that run. KRaft's brokers forward it to the controller, others do not."""
    return Question(
        ListPartitionReassignmentsRequest, {"timeout_ms": _CONTROLLER_TIMEOUT_MS, "topics": None}
    )


def quorum() -> Question:
    """The controllers' quorum. Forwarded to the active controller, which alone knows."""
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    return Question(
        DescribeQuorumRequest,
        {"topics": [topic(topic_name="__cluster_metadata", partitions=[partition])]},
    )


def brokers_with_fenced() -> Question:
    """All registered brokers and which of them are fenced (Kafka 4.0)."""
    fields = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": _BROKERS,
        "include_fenced_brokers": True,
    }
    return Question(DescribeClusterRequest, fields, lowest=_FIRST_WITH_FENCED)


def log_dirs(*, bare: bool = False) -> Question:
    """All log directories of the broker that is asked, and all that is in them (Kafka 2.0); `bare`:
    nothing that is in them.
    """
    return Question(DescribeLogDirsRequest, {"topics": [] if bare else None})


def log_dirs_error(response: Any) -> int:
    """Return the error of the answer to `log_dirs`, 0 for none."""
    if response.version >= _FIRST_WITH_LOG_DIRS_ERROR:
        return int(response.error_code)
    # Each broker has a directory. Who may not describe them is shown none.
    return 0 if response.results else _CLUSTER_AUTHORIZATION_FAILED


def topic_partitions(topics: Sequence[str], cursor: tuple[str, int] | None) -> Question:
    """A page of the partitions of these topics, from `cursor` (topic, partition) on. No topic at
    all would ask for every one.
    """
    topic, at = DescribeTopicPartitionsRequest.TopicRequest, DescribeTopicPartitionsRequest.Cursor
    fields = {
        "topics": [topic(name=name) for name in topics],
        "response_partition_limit": PAGE_PARTITIONS,
        "cursor": None if cursor is None else at(topic_name=cursor[0], partition_index=cursor[1]),
    }
    return Question(DescribeTopicPartitionsRequest, fields)


class FetchFrom(NamedTuple):
    """Where to read a partition on. `leader_epoch`: of its leader, `last_epoch`: of the record
    before; -1 where that is not known.
    """

    partition: int
    offset: int
    leader_epoch: int
    last_epoch: int = NO_EPOCH


def fetch(
    topic: str | UUID,
    partitions: Iterable[FetchFrom],
    *,
    most_bytes: int,
    partition_bytes: int,
    cluster_id: str | None = None,
    wait_s: float = FETCH_WAIT_S,
) -> Question:
    """Records of partitions of a topic, by its name or its id, as a client that is no replica:
    without a session, and with those of open transactions. A broker waits for `wait_s` for one that
    is not there yet.
    """
    name, lowest, highest = (
        ("topic", _FIRST_WITH_BATCHES, LAST_WITH_TOPIC_NAMES)
        if isinstance(topic, str)
        else ("topic_id", LAST_WITH_TOPIC_NAMES + 1, _LAST_FOR_CLIENTS)
    )
    fetched = FetchRequest.FetchTopic
    asked = [
        fetched.FetchPartition(
            partition=each.partition,
            current_leader_epoch=each.leader_epoch,
            fetch_offset=each.offset,
            last_fetched_epoch=each.last_epoch,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes,
        )
        for each in partitions
    ]
    fields = {
        "cluster_id": cluster_id,
        "max_wait_ms": int(wait_s * 1000),
        "min_bytes": 1,
        "max_bytes": most_bytes,
        "isolation_level": _READ_UNCOMMITTED,
        "topics": [fetched(partitions=asked, **{name: topic})],
        "forgotten_topics_data": [],
    }
    return Question(FetchRequest, fields, lowest, highest)


class FetchedPartition(TypedDict):
    """A partition in the answer to a fetch: fields of FetchResponse."""

    partition_index: int
    error_code: int
    high_watermark: int
    log_start_offset: NotRequired[int]
    """Absent before version 5."""
    records: bytes | None


def fetched(response: Any) -> list[FetchedPartition]:
    """Return the partitions of an answer to `fetch`: none while the broker throttles."""
    partitions = (each for topic in response.responses for each in topic.partitions)
    return [each.to_dict(json=False) for each in partitions]


def read_probe(topic: str) -> Question:
    """A fetch of no records. Permissions come first: its error says whether READ is missing."""
    fetched = FetchRequest.FetchTopic
    partition = fetched.FetchPartition(partition=0, fetch_offset=_FAR, partition_max_bytes=1)
    fields = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1,
        "topics": [fetched(topic=topic, partitions=[partition])],
        "forgotten_topics_data": [],
    }
    return Question(FetchRequest, fields, highest=LAST_WITH_TOPIC_NAMES)


def fetch_error(response: Any) -> int:
    """Return the error of the answer to `read_probe`, 0 for none. Raises PollError without one."""
    if response.error_code:
        return int(response.error_code)
    partitions = [partition for answered in response.responses for partition in answered.partitions]
    if not partitions:
        # KIP-219: a broker that throttles answers a fetch at once, with nothing in it.
        raise PollError(
            "broker_error", f"throttled by the broker for {response.throttle_time_ms} ms"
        )
    return int(partitions[0].error_code)
