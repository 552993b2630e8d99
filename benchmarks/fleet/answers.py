"""Processes that answer for the brokers of many clusters, each cluster in its own way.

One thread of a process answers for a hundred clusters. A cluster has three brokers, or one if it
asks for throttling, each a port of this machine.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, get_args

from kafka.protocol.admin import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from benchmarks.bodies import metadata_response
from benchmarks.process import in_process
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

Manner = Literal[
    "good", "slow", "closed", "silent", "garbage", "throttling", "huge", "falling", "moving"
]
MANNERS: Final[tuple[Manner, ...]] = get_args(Manner)
"""How a cluster of 1,000 partitions behaves: it answers at once, after `SLOW_S`, refuses
connections, takes them and says nothing, answers with bytes that are wrong near their end, asks for
a throttling of `THROTTLE_MS`, has 100,000 partitions, answers with leader epochs that fall, has a
partition that gets another leader with every second answer.
"""
ERRORS: Final[dict[Manner, set[str]]] = {
    "closed": {"unreachable"},
    "silent": {"timeout"},
    "garbage": {"protocol", "timeout"},
    "throttling": {"timeout"},
}
"""The words for their failed polls. The exact reader, which finds what is wrong, may have no time
left for it.
"""
SLOW_S: Final = 1.0
THROTTLE_MS: Final = 300_000
HUGE: Final = (1_000, 100)
"""Topics, and partitions of each."""
_HOST: Final = "127.0.0.1"
_BROKERS: Final = 3
_USUAL: Final = (20, 50)
"""1,000 partitions."""
_EPOCH: Final = 1_000_000
VERSION: Final = 12
_APIS: Final = {METADATA_REQUEST.api_key: VERSION, ListPartitionReassignmentsRequest.API_KEY: 0}
_CHANGING: Final[frozenset[Manner]] = frozenset({"falling", "moving"})
"""Of these no answer is as the one before."""
_CLUSTERS_A_PROCESS: Final = 100
_WRONG: Final = b"\xff" * 40


@contextmanager
def answering(manners: Sequence[Manner]) -> Iterator[list[str]]:
    """Give the bootstrap servers of a cluster for each of `manners`; in the end, end them."""
    with ExitStack() as stack:
        yield [
            servers
            for begin in range(0, len(manners), _CLUSTERS_A_PROCESS)
            for servers in stack.enter_context(
                in_process(_serve, begin, manners[begin : begin + _CLUSTERS_A_PROCESS])
            )
        ]


def _serve(parent: Connection, first: int, manners: Sequence[Manner]) -> None:
    # A hundred clusters are three hundred listeners, and connections to most of them.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_answer_until_closed(parent, first, manners))


async def _answer_until_closed(parent: Connection, first: int, manners: Sequence[Manner]) -> None:
    loop = asyncio.get_running_loop()
    clusters = [
        _Cluster(f"made-up-{first + place}", manner) for place, manner in enumerate(manners)
    ]
    listeners = [
        await loop.create_server(cluster.connected, sock=each)
        for cluster in clusters
        if cluster.manner != "closed"
        for each in cluster.sockets
    ]
    for cluster in clusters:
        if cluster.manner not in _CHANGING:
            cluster.metadata()  # made before the first one asks: a broker has its answer ready, too
    parent.send([cluster.servers for cluster in clusters])
    with suppress(EOFError):
        await loop.run_in_executor(None, parent.recv)
    for listener in listeners:
        listener.close()


@dataclass(slots=True)
class _Cluster:
    """One cluster and its ports, which are taken also where nobody listens."""

    cluster_id: str
    manner: Manner
    sockets: list[socket.socket] = field(init=False)
    answers: int = 0
    _body: bytes | None = None

    def __post_init__(self) -> None:
        # One that asks for throttling leaves no broker to ask instead.
        self.sockets = [
            socket.socket() for _ in range(1 if self.manner == "throttling" else _BROKERS)
        ]
        for each in self.sockets:
            each.bind((_HOST, 0))

    @property
    def ports(self) -> list[int]:
        return [each.getsockname()[1] for each in self.sockets]

    @property
    def servers(self) -> str:
        return ",".join(f"{_HOST}:{port}" for port in self.ports)

    def connected(self) -> _Session:
        return _Session(self)

    def metadata(self) -> bytes:
        """Return the body of an answer."""
        if self.manner == "falling":
            self.answers += 1
            return self._whole(*_USUAL, _EPOCH - self.answers)
        if self.manner == "moving":
            self.answers += 1
            return self._whole(*_USUAL, _EPOCH, moved=self.answers // 2)
        if self._body is None:
            match self.manner:
                case "huge":
                    topics, partitions = HUGE
                    places = [(_HOST, port) for port in self.ports]
                    self._body = metadata_response(VERSION, topics, partitions, addresses=places)
                case "garbage":
                    self._body = metadata_response(VERSION, 100, 100)[: -len(_WRONG)] + _WRONG
                case _:
                    self._body = self._whole(*_USUAL, _EPOCH)
        return self._body

    def _whole(self, topics: int, partitions: int, epoch: int, moved: int = 0) -> bytes:
        """Return the body of so many topics; `moved` partitions of the first have new leaders."""
        brokers = [
            {"node_id": n, "host": _HOST, "port": port, "rack": None}
            for n, port in enumerate(self.ports)
        ]
        numbers = range(partitions)
        moves = [(moved + partitions - 1 - each) // partitions for each in numbers]
        described = [
            {
                "error_code": 0,
                "name": f"topic-{topic}",
                "topic_id": struct.pack(">QQ", 1, topic + 1),
                "is_internal": False,
                "partitions": [
                    _partition(number, epoch, 0 if topic else moves[number])
                    for number in range(partitions)
                ],
                "topic_authorized_operations": -(2**31),
            }
            for topic in range(topics)
        ]
        fields = {
            "throttle_time_ms": THROTTLE_MS if self.manner == "throttling" else 0,
            "brokers": brokers,
            "cluster_id": self.cluster_id,
            "controller_id": 0,
            "topics": described,
        }
        return write_message(METADATA_RESPONSE, VERSION, fields)


def _partition(number: int, epoch: int, moves: int) -> dict[str, object]:
    replicas = [(number + place) % _BROKERS for place in range(_BROKERS)]
    return {
        "error_code": 0,
        "partition_index": number,
        "leader_id": replicas[moves % _BROKERS],
        "leader_epoch": epoch + moves,
        "replica_nodes": replicas,
        "isr_nodes": replicas,
        "offline_replicas": [],
    }


class _Session(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request whole, in turn."""
        if self._cluster.manner == "silent":
            return
        self._unread += data
        while len(self._unread) >= 4 and len(self._unread) >= 4 + (
            size := struct.unpack_from(">i", self._unread)[0]
        ):
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            head, body = self._answer(api_key, version)
            answer = struct.pack(">ii", 4 + len(head) + len(body), correlation_id) + head + body
            is_late = self._cluster.manner == "slow" and api_key == METADATA_REQUEST.api_key
            asyncio.get_running_loop().call_later(SLOW_S if is_late else 0.0, self._send, answer)

    def _send(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)

    def _answer(self, api_key: int, version: int) -> tuple[bytes, bytes]:
        """Return the rest of the response's header, and its body."""
        if api_key == ApiVersionsRequest.API_KEY:
            key = ApiVersionsResponse.ApiVersion
            keys = [
                key(api_key=each, min_version=last, max_version=last)
                for each, last in _APIS.items()
            ]
            keys.append(key(api_key=api_key, min_version=0, max_version=4))
            response = ApiVersionsResponse(
                version=version, error_code=0, api_keys=keys, throttle_time_ms=0
            )
            # Its header has no tags in any version.
            return b"", bytes(response.encode(version=version))
        if api_key == METADATA_REQUEST.api_key:
            return b"\0", self._cluster.metadata()
        fields = {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "topics": []}
        return b"\0", bytes(
            ListPartitionReassignmentsResponse(version=version, **fields).encode(version=version)
        )
