"""Metadata, asked of one broker: in which version, about which topics, and if the answer counts."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from metadata_source import questions
from metadata_source.addresses import format_address
from metadata_source.answer_lock import answer_lock, is_small
from metadata_source.broker_errors import error_name
from metadata_source.errors import PollError, ProtocolError, Retry
from metadata_source.images import Image, filtered
from metadata_source.options.readers import METADATA_VERSIONS
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.oddities import oddity
from metadata_source.waiting import read_by

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from metadata_source.addresses import Address
    from metadata_source.brokers import Brokers
    from metadata_source.connections import Connections
    from metadata_source.options import Cluster, TopicFilter
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.transport import Connection

_METADATA: Final = 3
_DESCRIBE_TOPIC_PARTITIONS: Final = 75
_UPDATE_METADATA: Final = 6
"""A request of controllers that brokers have with ZooKeeper alone."""
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITHOUT_CREATION: Final = 4
_AUTHORIZATION: Final = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""
NO_ID: Final = (
    "the answer has no cluster id, by which history is kept: give the cluster a `clusterId`, any "
    "name that no other cluster has"
)


class Attempts:
    """Asks single brokers of one cluster for metadata. Of one thread at a time.

    Of those that share `decoders` only as many as it has slots hold large decoded answers at once:
    from the first decoding until `let_go`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic_filter: TopicFilter,
        brokers: Brokers,
        connections: Connections,
        decoders: threading.Semaphore,
        *,
        needs_id: bool,
    ) -> None:
        """Ask nobody yet. `needs_id`: without a cluster id, answered or given, an attempt fails."""
        self._cluster, self._filter, self._needs_id = cluster, topic_filter, needs_id
        self._given_id = cluster.cluster_id
        self._brokers, self._connections = brokers, connections
        self._decoders = decoders
        self._slot = ExitStack()
        self._holds_slot = False

    def expect(self, cluster_id: str | None) -> None:
        """Believe only this cluster's answers, if its id is known; an id that was given wins."""
        self._cluster = replace(self._cluster, cluster_id=self._given_id or cluster_id)

    def let_go(self) -> None:
        """Give up the slot: nobody reads the last answer any more."""
        self._slot.close()
        self._holds_slot = False

    def ask(
        self, address: Address, deadline: float, names: Sequence[str] | None = None
    ) -> tuple[Poll, PollError | None]:
        """Ask one broker, about these topics or all that the filter covers.

        Return the poll, and None or why it failed. Never raises.
        """
        poll, asked = Poll(), None

        def ask(connection: Connection) -> Poll:
            nonlocal asked
            asked = connection
            return self._request(connection, deadline, names)

        try:
            self._brokers.obey_throttle(address, deadline)
            poll = self._connections.use(address, deadline, ask)
            with answer_lock(poll.response_bytes):
                poll = _good(self._cluster, self._filter, poll, needs_id=self._needs_id)
        except PollError as error:
            # Made again: this one's traceback holds the answer, and this frame would hold the
            # traceback.
            failure = PollError(error.kind, error.problem)
        except Exception as error:  # noqa: BLE001 - raised, it would end the polls of every cluster
            where, what = format_address(address), " ".join(str(error).split())
            failure = PollError("protocol", f"{where}: {type(error).__name__}: {what}")
        else:
            self._brokers.avoided.pop(address, None)
            return poll, None
        self._connections.drop(address)
        if failure.retry is not Retry.NOBODY:
            self._brokers.failed(address, failure)
        if poll.received_at is None and asked is not None:
            poll = Poll(sent_at=asked.sent_at)
        return replace(poll, metadata=None, image=None), failure

    def _request(
        self, connection: Connection, deadline: float, names: Sequence[str] | None
    ) -> Poll:
        where = format_address(connection.address)
        version = _version(connection, self._cluster.metadata_version)
        # Before v4 a request by name can create topics: there, ask for all of them. The answer is
        # filtered in any case.
        names = (
            (self._filter.topics if names is None else names)
            if version >= _FIRST_WITHOUT_CREATION
            else None
        )
        answer = connection.request(
            _METADATA,
            version,
            encode_request(version, names),
            flexible=version >= _FIRST_FLEXIBLE,
            deadline=deadline,
            with_features=True,
        )
        poll = Poll(
            sent_at=connection.sent_at,
            received_at=answer.received_at,
            latency_ms=answer.latency_ms,
            broker=where,
            api_version=version,
            response_bytes=len(answer.body),
            metadata_version_level=_level(connection, "metadata.version", None),
            metadata_version_highest=connection.supported_features.get("metadata.version"),
            # A broker without DescribeTopicPartitions is older than eligible leader replicas, which
            # all must have.
            elr_version_level=_level(connection, "eligible.leader.replicas.version", 0)
            if _DESCRIBE_TOPIC_PARTITIONS in connection.api_versions
            else 0,
        )
        if not self._holds_slot and not is_small(len(answer.body)):
            self._slot.enter_context(self._decoders)
            self._holds_slot = True
        try:
            with answer_lock(len(answer.body)):
                metadata = decode_response(answer.body, version, deadline=read_by(deadline))
        except ProtocolError as error:
            return replace(poll, error_kind=questions.kind_of(error), error=f"{where}: {error}")
        return replace(
            poll,
            cluster_id=metadata.cluster_id,
            metadata=metadata,
            throttle_time_ms=metadata.throttle_time_ms,
            active_controller_id=metadata.controller_id
            if _UPDATE_METADATA in connection.api_versions
            else None,
            broker_id=_broker_id(metadata, connection.address),
        )


def _version(connection: Connection, pinned: int | None) -> int:
    """Return the version to ask in: the pinned one, or the highest that the broker has too."""
    where = format_address(connection.address)
    if _METADATA not in connection.api_versions:
        raise PollError(
            "unsupported_version", f"{where}: this server does not name Metadata among its requests"
        )
    lowest, highest = connection.api_versions[_METADATA]
    if pinned is not None:
        if not lowest <= pinned <= highest:
            raise PollError(
                "unsupported_version",
                f"{where}: has Metadata v{lowest} to v{highest}, metadataVersion pins v{pinned}",
            )
        return pinned
    version = min(highest, METADATA_VERSIONS[-1])
    if version < lowest:
        raise PollError(
            "unsupported_version",
            f"{where}: has Metadata v{lowest} to v{highest}, none of v0 to v13",
        )
    return version


def _good(cluster: Cluster, topic_filter: TopicFilter, poll: Poll, *, needs_id: bool) -> Poll:
    """Return the poll with what its answer says of the topics that the filter covers.

    Raises PollError for an answer that says nothing about the cluster's state.
    """
    if poll.metadata is None:
        raise PollError(poll.error_kind or "protocol", poll.error or "")
    metadata, where = poll.metadata, poll.broker
    if metadata.error_code:
        kind = "authorization" if metadata.error_code in _AUTHORIZATION else "broker_error"
        raise PollError(
            kind, f"{where}: error {metadata.error_code} ({error_name(metadata.error_code)})"
        )
    # Metadata before v2 has none; other makers' servers leave it null, or empty.
    cluster_id = metadata.cluster_id or cluster.cluster_id
    if cluster_id is None and needs_id:
        raise PollError("no_cluster_id", f"{where}: {NO_ID}")
    if cluster.cluster_id not in {cluster_id, None}:
        raise PollError(
            "wrong_cluster",
            f"{where}: belongs to cluster {metadata.cluster_id}, clusterId is {cluster.cluster_id} "
            "(a rebuilt cluster gets a new alias)",
        )
    if metadata.brokers.num_rows == 0:
        raise PollError("no_brokers", f"{where}: its broker list is empty, as while it starts")
    if (problem := oddity(metadata)) is not None:
        raise PollError("odd_answer", f"{where}: {problem}")
    covered = filtered(metadata, topic_filter)
    return replace(poll, cluster_id=cluster_id, metadata=covered, image=Image.of(covered))


def _level(connection: Connection, feature: str, absent: int | None) -> int | None:
    return None if connection.features is None else connection.features.get(feature, absent)


def _broker_id(metadata: ClusterMetadata, address: Address) -> int | None:
    """Return the id of the broker at an address; None where the cluster knows no such address."""
    host, port = address
    for broker in metadata.brokers.to_pylist():
        if (broker["host"], broker["port"]) == (host, port):
            return int(broker["broker_id"])
    return None
