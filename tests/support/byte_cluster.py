"""Brokers of one cluster that speak Kafka's protocol over sockets, each with an image of its own.

All listeners run in one thread. What a broker says and does may be set at any time.
"""

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid5

import pyarrow as pa
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.described_quorum import described_quorum

HOST = "127.0.0.1"
OFFSETS = "__consumer_offsets"
METADATA = "MetadataRequest"
_LIBRARYS = {
    each.API_KEY: (each, answer)
    for each, answer in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (DescribeQuorumRequest, DescribeQuorumResponse),
    )
}
_VERSIONS = {
    ListGroupsRequest.API_KEY: 5,
    DescribeGroupsRequest.API_KEY: 5,
    OffsetFetchRequest.API_KEY: 9,
    ListOffsetsRequest.API_KEY: 8,
    ListPartitionReassignmentsRequest.API_KEY: 0,
    DescribeConfigsRequest.API_KEY: 4,
    ApiVersionsRequest.API_KEY: 3,
}
_UNKNOWN_TOPIC = 3
_NAMES = UUID(int=39)


class Asked(NamedTuple):
    """A request that came: of which broker, the name of the request, its version, and topics that
    it names.
    """

    broker: int
    request: str
    version: int
    topics: tuple[str, ...] | None


@dataclass
class ByteBroker:
    """One broker, and how it behaves."""

    broker_id: int
    image: ClusterMetadata
    port: int = 0
    groups: tuple[str, ...] = ()
    """The groups that it coordinates, classic ones without members."""
    versions: tuple[int, int] | None = (0, 12)
    """Of Metadata; None: it names none."""
    hangs_on: frozenset[str] = frozenset()
    """Requests that get no answer."""
    late_s: float = 0.0
    """How long each answer to Metadata takes."""
    throttle_ms: int = 0
    """With each answer."""
    error_code: int = 0
    """Of its answers to groups and to reassignments."""
    voters: dict[int, int] | None = None
    """As `described_quorum` takes them; None: it knows no such request."""
    odd: bytes | None = None
    """The body of its answers to Metadata, whatever is asked."""
    connections: int = 0
    open: set[asyncio.Transport] = field(default_factory=set)


class ByteCluster:
    """Brokers 0 to `brokers` - 1. A context manager."""

    def __init__(self, brokers: int = 3, **topics: list[tuple[int, tuple[int, ...]]]) -> None:
        """`topics`: of each the leader epoch and the ISR of each partition, whose first is the
        leader.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="byte cluster", daemon=True
        )
        self._listeners: dict[int, asyncio.Server] = {}
        self._topics = topics
        self._count = brokers
        self.brokers: list[ByteBroker] = []
        self.asked: list[Asked] = []
        self._changes: list[tuple[int, Callable[[], object]]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        blank = made([(HOST, 0)] * self._count)
        self.brokers = [ByteBroker(number, blank) for number in range(self._count)]
        for broker in self.brokers:
            self.start(broker.broker_id)
        self.set(self.made(**self._topics))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers:
            self.stop(broker.broker_id)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- what it says ---

    @property
    def places(self) -> list[tuple[str, int]]:
        """Addresses, by broker."""
        return [(HOST, broker.port) for broker in self.brokers]

    def servers(self, *brokers: int) -> str:
        """Bootstrap servers: these brokers, or all."""
        return ",".join(
            f"{HOST}:{self.brokers[each].port}" for each in brokers or range(self._count)
        )

    def made(
        self, listed: tuple[int, ...] | None = None, **topics: list[tuple[int, tuple[int, ...]]]
    ) -> ClusterMetadata:
        """An image of this cluster."""
        return made(self.places, listed, **topics)

    def set(self, image: ClusterMetadata, *brokers: int) -> None:
        """Let these brokers, or all, have an image."""
        for each in brokers or range(self._count):
            self.brokers[each].image = image

    def then(self, answers: int, change: Callable[[], object]) -> None:
        """Make a change right after so many more requests for Metadata came."""
        self._changes.append((len(self.polled) + answers, change))

    @property
    def polled(self) -> list[tuple[int, tuple[str, ...] | None]]:
        """Of each request for Metadata whom it asked, and about which topics."""
        return [(each.broker, each.topics) for each in self.asked if each.request == METADATA]

    # --- how it behaves ---

    def start(self, broker_id: int) -> None:
        """Let a broker listen, at the port that it had before if it had one."""
        self._run(self._listen(self.brokers[broker_id]))

    def stop(self, broker_id: int) -> None:
        """Let a broker refuse connections, and end those that it has."""
        listener = self._listeners.pop(broker_id, None)
        if listener is not None:
            self._loop.call_soon_threadsafe(listener.close)
        self.hang_up(broker_id)

    def hang_up(self, broker_id: int) -> None:
        """End a broker's connections, as brokers do over which nothing came for a while."""

        async def abort() -> None:
            ending = self.brokers[broker_id].open
            for each in list(ending):
                each.abort()
            while ending:  # noqa: ASYNC110 - each has a turn of the loop to end
                await asyncio.sleep(0)

        self._run(abort())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, broker: ByteBroker) -> None:
        server = await self._loop.create_server(
            lambda: _Session(self, broker), HOST, broker.port, reuse_address=True, backlog=512
        )
        self._listeners[broker.broker_id] = server
        broker.port = server.sockets[0].getsockname()[1]

    def answer(self, broker: ByteBroker, frame: bytes) -> bytes | None:
        """Return the answer to a request, None for none."""
        api_key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        at = 10 + max(0, client)
        request, response = _LIBRARYS.get(api_key, (MetadataRequest, None))
        is_flexible = request.flexible_version_q(version)
        asked = request.decode(frame[at + is_flexible :], version=version)
        topics = None
        if request is MetadataRequest and asked.topics is not None and (version or asked.topics):
            topics = tuple(each.name for each in asked.topics)
        self.asked.append(Asked(broker.broker_id, request.__name__, version, topics))
        is_hung = request.__name__ in broker.hangs_on
        if response is None:
            body = (
                broker.odd
                if broker.odd is not None
                else encoded(broker.image, version, topics, broker.throttle_ms)
            )
            for each in [each for each in self._changes if each[0] <= len(self.polled)]:
                self._changes.remove(each)
                each[1]()
        else:
            fields = {
                "throttle_time_ms": broker.throttle_ms,
                "error_code": 0,
                "error_message": None,
            }
            fields |= _fields(broker, request.__name__, asked)
            body = response._struct.encode(
                fields, version=version, compact=is_flexible, tagged=is_flexible
            )
            is_flexible &= api_key != ApiVersionsRequest.API_KEY
        if is_hung:
            return None
        head = struct.pack(">i", correlation_id) + b"\0" * is_flexible
        return struct.pack(">i", len(head) + len(body)) + head + body


class _Session(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, cluster: ByteCluster, broker: ByteBroker) -> None:
        self._cluster, self._broker = cluster, broker
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._broker.open.add(transport)
        self._broker.connections += 1

    def connection_lost(self, _: Exception | None) -> None:
        self._broker.open.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while len(self._unread) >= 4 and len(self._unread) >= 4 + (
            size := struct.unpack_from(">i", self._unread)[0]
        ):
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            answer = self._cluster.answer(self._broker, frame)
            if answer is None:
                continue
            is_late = (
                self._broker.late_s
                and struct.unpack_from(">h", frame)[0] == METADATA_REQUEST.api_key
            )
            loop = asyncio.get_running_loop()
            loop.call_later(self._broker.late_s, self._send, answer) if is_late else self._send(
                answer
            )

    def _send(self, answer: bytes) -> None:
        with suppress(OSError):
            if not self.transport.is_closing():
                self.transport.write(answer)


def _fields(broker: ByteBroker, name: str, asked: Any) -> dict[str, Any]:
    """What a broker answers to other requests than Metadata."""
    match name:
        case "ApiVersionsRequest":
            versions = {each: (0, most) for each, most in _VERSIONS.items()}
            if broker.versions is not None:
                versions[METADATA_REQUEST.api_key] = broker.versions
            if broker.voters is not None:
                versions[DescribeQuorumRequest.API_KEY] = 0, 1
            keys = [
                {"api_key": each, "min_version": low, "max_version": high}
                for each, (low, high) in versions.items()
            ]
            return {"api_keys": keys, "throttle_time_ms": 0}
        case "DescribeQuorumRequest":
            return described_quorum(broker.voters or {}, broker.error_code)
        case "ListGroupsRequest":
            listed = [
                {
                    "group_id": each,
                    "protocol_type": "consumer",
                    "group_state": "Empty",
                    "group_type": "classic",
                }
                for each in broker.groups
            ]
            return {"groups": listed, "error_code": broker.error_code}
        case "DescribeGroupsRequest":
            empty = {
                "error_code": 0,
                "group_state": "Empty",
                "protocol_type": "consumer",
                "protocol_data": "",
            }
            empty |= {"members": [], "authorized_operations": None}
            return {"groups": [empty | {"group_id": each} for each in asked.groups]}
        case "OffsetFetchRequest":
            commit = {
                "partition_index": 0,
                "committed_offset": 90,
                "committed_leader_epoch": 5,
                "metadata": "",
            }
            topics = [
                {"name": each, "partitions": [commit | {"error_code": 0}]}
                for each in ("orders", "payments")
            ]
            return {
                "groups": [
                    {"group_id": each.group_id, "topics": topics, "error_code": 0}
                    for each in asked.groups
                ]
            }
        case "ListOffsetsRequest":
            end = {"error_code": 0, "timestamp": -1, "leader_epoch": 5}
            topics = [
                {
                    "name": topic.name,
                    "partitions": [
                        end
                        | {
                            "partition_index": each.partition_index,
                            "offset": 100 if each.timestamp == -1 else 0,
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in asked.topics
            ]
            return {"topics": topics}
        case "DescribeConfigsRequest":
            config = {
                "name": "min.insync.replicas",
                "value": "2",
                "read_only": False,
                "config_source": 5,
            }
            config |= {
                "is_sensitive": False,
                "synonyms": [],
                "config_type": 3,
                "documentation": None,
            }
            results = [
                {
                    "error_code": 0,
                    "error_message": None,
                    "resource_type": 2,
                    "resource_name": each.resource_name,
                }
                | {"configs": [config]}
                for each in asked.resources
            ]
            return {"results": results}
        case _:
            return {"topics": [], "error_code": broker.error_code}


def made(
    places: list[tuple[str, int]],
    listed: tuple[int, ...] | None = None,
    /,
    **topics: list[tuple[int, tuple[int, ...]]],
) -> ClusterMetadata:
    """An image of a cluster with brokers at these places: those that are listed, or all; of each
    topic the leader epoch and the ISR of each partition.
    """
    ids = {name: str(uuid5(_NAMES, name)) for name in topics}
    partitions = [
        {
            "topic": name,
            "topic_id": ids[name],
            "partition": number,
            "error_code": 0,
            "leader": isr[0],
            "leader_epoch": epoch,
            "replicas": list(range(len(places))),
            "isr": list(isr),
            "offline_replicas": [],
        }
        for name, states in topics.items()
        for number, (epoch, isr) in enumerate(states)
    ]
    found = [
        {
            "topic": name,
            "topic_id": ids[name],
            "error_code": 0,
            "is_internal": False,
            "partition_count": len(states),
        }
        for name, states in topics.items()
    ]
    brokers = [
        {"broker_id": n, "host": host, "port": port}
        for n, (host, port) in enumerate(places)
        if listed is None or n in listed
    ]
    return ClusterMetadata(
        cluster_id="the-cluster",
        controller_id=0,
        throttle_time_ms=0,
        error_code=0,
        cluster_authorized_operations=None,
        brokers=pa.Table.from_pylist(
            [each for each in brokers if listed is None or each["broker_id"] in listed], BROKERS
        ),
        topics=pa.Table.from_pylist(found, TOPICS),
        partitions=pa.Table.from_pylist(partitions, PARTITIONS),
    )


def encoded(
    image: ClusterMetadata, version: int, names: tuple[str, ...] | None, throttle_ms: int = 0
) -> bytes:
    """The body of an answer about these topics, or all."""
    states: dict[str, list[dict[str, Any]]] = {}
    for row in image.partitions.to_pylist():
        states.setdefault(row["topic"], []).append(
            {
                "error_code": row["error_code"],
                "partition_index": row["partition"],
                "leader_id": row["leader"],
                "leader_epoch": row["leader_epoch"],
                "replica_nodes": row["replicas"],
                "isr_nodes": row["isr"],
                "offline_replicas": row["offline_replicas"],
            }
        )
    rows = {row["topic"]: row for row in image.topics.to_pylist()}
    topics = [
        {
            "error_code": rows[name]["error_code"] if name in rows else _UNKNOWN_TOPIC,
            "name": name,
            "topic_id": UUID(rows[name]["topic_id"]).bytes
            if name in rows and rows[name]["topic_id"]
            else bytes(16),
            "is_internal": name == OFFSETS,
            "partitions": states.get(name, []),
            "topic_authorized_operations": -(2**31),
        }
        for name in (rows if names is None else names)
    ]
    brokers = [
        {"node_id": row["broker_id"], "host": row["host"], "port": row["port"], "rack": row["rack"]}
        for row in image.brokers.to_pylist()
    ]
    fields = {
        "throttle_time_ms": throttle_ms,
        "brokers": brokers,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id,
        "topics": topics,
        "cluster_authorized_operations": -(2**31),
        "error_code": image.error_code,
    }
    return write_message(METADATA_RESPONSE, version, fields)


def without_ids(image: ClusterMetadata) -> ClusterMetadata:
    """An image as brokers before topic ids have it."""
    return replace(
        image,
        topics=image.topics.set_column(1, "topic_id", pa.nulls(len(image.topics), pa.string())),
    )
