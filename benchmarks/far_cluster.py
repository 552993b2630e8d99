"""Brokers that are far away: they speak Kafka's protocol over sockets, and each byte takes half of
a round trip.

All listeners of a `FarCluster` run in one thread; `far_process` puts them into a process of their
own. The kernel connects sockets of one machine at once. The round trip that this takes from afar is
added to the first bytes of a connection: what is asked over it waits for as many round trips as it
would in truth, those of TLS and SASL too.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import struct
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from benchmarks.process import in_process
from local_cluster.certificates import Authority
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.questions import LATEST

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from multiprocessing.connection import Connection
    from types import TracebackType

HOST: Final = "127.0.0.1"
USER: Final = "far"
PASSWORD: Final = "far away"  # noqa: S105 - of brokers that last as long as a benchmark
_MECHANISM: Final = "SCRAM-SHA-512"
_ITERATIONS: Final = 4096
"""Kafka's least."""
_SALT: Final = secrets.token_bytes(16)
_SALTED: Final = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), _SALT, _ITERATIONS)
_CLIENT_KEY: Final = hmac.digest(_SALTED, b"Client Key", "sha512")
_SERVER_KEY: Final = hmac.digest(_SALTED, b"Server Key", "sha512")
_EPOCH: Final = 5
TOPIC: Final = "far"
COMMITTED: Final = 90
LOG_END: Final = 100

_LIBRARYS: Final = {
    each.API_KEY: (each, answer)
    for each, answer in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (SaslHandshakeRequest, SaslHandshakeResponse),
        (SaslAuthenticateRequest, SaslAuthenticateResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
    )
}
_VERSIONS: Final = {
    METADATA_REQUEST.api_key: 12,
    ListGroupsRequest.API_KEY: 5,
    DescribeGroupsRequest.API_KEY: 5,
    OffsetFetchRequest.API_KEY: 9,
    ListOffsetsRequest.API_KEY: 8,
    ApiVersionsRequest.API_KEY: 3,
    SaslHandshakeRequest.API_KEY: 1,
    SaslAuthenticateRequest.API_KEY: 2,
}
"""API key -> the highest version, from 0 on."""


@dataclass(slots=True)
class FarBroker:
    """One broker: how it behaves, which may be set at any time, and what was asked of it."""

    broker_id: int
    groups: list[str]
    port: int = 0
    hangs_on: str | None = None
    """The name of the request, such as `ListGroupsRequest`, that gets no answer."""
    says: bytes | None = None
    """If it is set, brokers send these bytes to whoever connects, and answer nothing."""
    connections: int = 0
    """How many were made."""
    asked: list[str] = field(default_factory=list)
    """Names of the requests that came."""


class FarCluster:
    """Brokers 0 to `brokers` - 1. Each coordinates `groups` groups without members, and leads some
    `partitions` of __consumer_offsets, and `consumed` of the topic TOPIC. Of that, each group has
    committed all offsets.

    A context manager. `is_secured`: its listeners are SASL_SSL with SCRAM-SHA-512, or PLAINTEXT.
    """

    def __init__(
        self,
        brokers: int = 50,
        *,
        round_trip_s: float = 0.04,
        partitions: int = 50,
        groups: int = 4,
        consumed: int = 100,
        is_secured: bool = False,
    ) -> None:
        self.brokers = [
            FarBroker(n, [f"group-{n}-{each}" for each in range(groups)]) for n in range(brokers)
        ]
        self.partitions, self.consumed = partitions, consumed
        self.round_trip_s = round_trip_s
        self._is_secured = is_secured
        self._stack = ExitStack()
        self._listeners: dict[int, asyncio.Server] = {}
        self._open: dict[int, set[_Far]] = {broker.broker_id: set() for broker in self.brokers}

    def __enter__(self) -> Self:
        self._folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="far-cluster-"))
        )
        self._tls = self._secure() if self._is_secured else None
        self._loop = asyncio.new_event_loop()
        self._stack.callback(self._loop.close)
        thread = threading.Thread(target=self._loop.run_forever, name="far cluster", daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
        for broker in self.brokers:
            self.start(broker.broker_id)
            self._stack.callback(self.stop, broker.broker_id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def options(self) -> dict[str, str]:
        """The options of `kafka_metadata` that reach it."""
        servers = {
            "kafka.bootstrap.servers": ",".join(
                f"{HOST}:{broker.port}" for broker in self.brokers[:3]
            )
        }
        if not self._is_secured:
            return servers
        return servers | {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": _MECHANISM,
            "kafka.sasl.username": USER,
            "kafka.sasl.password": f"file:{self._folder / 'password'}",
            "kafka.ssl.ca.location": str(self._folder / "ca.pem"),
            "kafka.ssl.endpoint.identification.algorithm": "none",
        }

    def start(self, broker_id: int) -> None:
        """Let a broker listen, at another port if it did before: then its connections end."""
        self.stop(broker_id)
        self._run(self._listen(self.brokers[broker_id]))

    def stop(self, broker_id: int) -> None:
        """Let a broker refuse connections, and end those that it has. It is listed as before."""
        listener = self._listeners.pop(broker_id, None)
        if listener is not None:
            self._loop.call_soon_threadsafe(listener.close)
        self.hang_up(broker_id)

    def hang_up(self, broker_id: int) -> None:
        """End a broker's connections, as brokers do over which nothing came for a while."""

        async def abort() -> None:
            for each in list(self._open[broker_id]):
                each.transport.abort()

        self._run(abort())

    def connected(self, broker_id: int) -> int:
        """Return how many connections a broker has now."""
        return len(self._open[broker_id])

    def _secure(self) -> ssl.SSLContext:
        authority = Authority.create("far")
        authority.write_certificate(self._folder / "ca.pem")
        authority.write_server_keystore("far.example", self._folder / "server.pem")
        (self._folder / "password").write_text(PASSWORD)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._folder / "server.pem")
        return context

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, broker: FarBroker) -> None:
        def connected() -> _Far:
            broker.connections += 1
            return _Far(
                self._loop,
                self.round_trip_s,
                _Session(self, broker, self._tls),
                self._open[broker.broker_id],
            )

        listener = await self._loop.create_server(connected, HOST, 0, backlog=512)
        self._listeners[broker.broker_id] = listener
        broker.port = listener.sockets[0].getsockname()[1]


class _Far(asyncio.Protocol):
    """A connection whose bytes take their time, both ways."""

    transport: asyncio.Transport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        round_trip_s: float,
        session: _Session,
        open_: set[_Far],
    ) -> None:
        self._loop, self._session, self._open = loop, session, open_
        self._one_way_s = round_trip_s / 2
        self._last = loop.time() + round_trip_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it in."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self.transport = transport
        self._open.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        """Let it go."""
        self._open.discard(self)

    def data_received(self, data: bytes) -> None:
        """Hand on what the client sent, when it has come so far, in order."""
        self._last = max(self._loop.time(), self._last + 1e-6)
        self._loop.call_at(self._last + self._one_way_s, self._arrived, data)

    def _arrived(self, data: bytes) -> None:
        answer = self._session.receive(data)
        self._loop.call_later(self._one_way_s, self._send, answer)

    def _send(self, answer: bytes | None) -> None:
        if answer is None:
            self.transport.close()
        elif answer:
            self.transport.write(answer)


class _Session:
    """The broker's side of one connection: bytes in, bytes out."""

    def __init__(self, cluster: FarCluster, broker: FarBroker, tls: ssl.SSLContext | None) -> None:
        self._cluster, self._broker = cluster, broker
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = (
            tls.wrap_bio(self._coming, self._going, server_side=True) if tls is not None else None
        )
        self._scram = _Scram()
        self._unread = b""

    def receive(self, data: bytes) -> bytes | None:
        """Return what to send, None to hang up."""
        if self._broker.says is not None:
            return self._broker.says
        if self._tls is None:
            return self._answers(data)
        self._coming.write(data)
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            while plain := self._tls.read(1 << 16):
                self._tls.write(self._answers(plain))
        return self._going.read()

    def _answers(self, data: bytes) -> bytes:
        self._unread += data
        answers = b""
        while len(self._unread) >= 4 and len(self._unread) >= 4 + (
            size := struct.unpack_from(">i", self._unread)[0]
        ):
            frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
            answers += self._answer(frame)
        return answers

    def _answer(self, frame: bytes) -> bytes:
        api_key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        at = 10 + max(0, client)
        if api_key == METADATA_REQUEST.api_key:
            name, is_flexible = METADATA_REQUEST.name, METADATA_REQUEST.flexible(version)
        else:
            request, response = _LIBRARYS[api_key]
            name, is_flexible = request.__name__, request.flexible_version_q(version)
        self._broker.asked.append(name)
        if name == self._broker.hangs_on:
            return b""
        if api_key == METADATA_REQUEST.api_key:
            out = write_message(METADATA_RESPONSE, version, self._metadata())
        else:
            fields = self._fields(name, request.decode(frame[at + is_flexible :], version=version))
            fields = {"throttle_time_ms": 0, "error_code": 0} | fields
            out = response._struct.encode(  # noqa: SLF001
                fields, version=version, compact=is_flexible, tagged=is_flexible
            )
            is_flexible &= api_key != ApiVersionsRequest.API_KEY
        head = struct.pack(">i", correlation_id) + b"\0" * is_flexible
        return struct.pack(">i", len(head) + len(out)) + head + out

    def _fields(self, name: str, asked: Any) -> dict[str, Any]:
        match name:
            case "ApiVersionsRequest":
                keys = [
                    {"api_key": each, "min_version": 0, "max_version": last}
                    for each, last in _VERSIONS.items()
                ]
                return {"api_keys": keys}
            case "SaslHandshakeRequest":
                return {"mechanisms": [_MECHANISM]}
            case "SaslAuthenticateRequest":
                return {
                    "error_message": None,
                    "auth_bytes": self._scram.answer(asked.auth_bytes),
                    "session_lifetime_ms": 0,
                }
            case "ListGroupsRequest":
                return {"groups": [_listed(each) for each in self._broker.groups]}
            case "OffsetFetchRequest":
                return {"groups": [self._committed(each.group_id) for each in asked.groups]}
            case "ListOffsetsRequest":
                return {"topics": [_end(each) for each in asked.topics]}
            case _:
                return {"groups": [_described(each) for each in asked.groups]}

    def _metadata(self) -> dict[str, Any]:
        brokers = self._cluster.brokers
        topics = [
            self._topic("__consumer_offsets", self._cluster.partitions),
            self._topic(TOPIC, self._cluster.consumed),
        ]
        return {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": b.broker_id, "host": HOST, "port": b.port, "rack": None}
                for b in brokers
            ],
            "cluster_id": "far",
            "controller_id": 0,
            "topics": topics,
        }

    def _topic(self, name: str, count: int) -> dict[str, Any]:
        brokers = len(self._cluster.brokers)
        partitions = [
            {
                "error_code": 0,
                "partition_index": n,
                "leader_id": n % brokers,
                "leader_epoch": _EPOCH,
                "replica_nodes": [n % brokers],
                "isr_nodes": [n % brokers],
                "offline_replicas": [],
            }
            for n in range(count)
        ]
        topic = {"error_code": 0, "name": name, "topic_id": NO_UUID, "is_internal": name != TOPIC}
        return topic | {"partitions": partitions, "topic_authorized_operations": 0}

    def _committed(self, group: str) -> dict[str, Any]:
        offset = {
            "committed_offset": COMMITTED,
            "committed_leader_epoch": _EPOCH,
            "metadata": "",
            "error_code": 0,
        }
        partitions = [{"partition_index": n, **offset} for n in range(self._cluster.consumed)]
        return {
            "group_id": group,
            "topics": [{"name": TOPIC, "partitions": partitions}],
            "error_code": 0,
        }


def _end(topic: Any) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": each.partition_index,
            "error_code": 0,
            "timestamp": -1,
            "offset": LOG_END if each.timestamp == LATEST else 0,
            "leader_epoch": _EPOCH,
        }
        for each in topic.partitions
    ]
    return {"name": topic.name, "partitions": partitions}


def _listed(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "protocol_type": "consumer",
        "group_state": "Empty",
        "group_type": "classic",
    }


def _described(group: str) -> dict[str, Any]:
    told = {"error_code": 0, "group_id": group, "group_state": "Empty", "protocol_type": "consumer"}
    return told | {"protocol_data": "", "members": [], "authorized_operations": None}


class _Scram:
    """The server's side of SCRAM-SHA-512 (RFC 5802): what it says next.

    Like a broker it does not hash the password.
    """

    def __init__(self) -> None:
        self._first = b""

    def answer(self, said: bytes) -> bytes:
        """Return the answer to a client's message. Raises ValueError for a wrong password."""
        if not self._first:
            bare = said.removeprefix(b"n,,")
            nonce = (
                dict(part.split(b"=", 1) for part in bare.split(b","))[b"r"]
                + secrets.token_hex(8).encode()
            )
            answer = b"r=%b,s=%b,i=%d" % (nonce, base64.b64encode(_SALT), _ITERATIONS)
            self._first = bare + b"," + answer
            return answer
        without_proof, _, proof = said.rpartition(b",p=")
        message = self._first + b"," + without_proof
        signature = hmac.digest(hashlib.sha512(_CLIENT_KEY).digest(), message, "sha512")
        if (
            bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
            != _CLIENT_KEY
        ):
            raise ValueError("wrong password")
        return b"v=" + base64.b64encode(hmac.digest(_SERVER_KEY, message, "sha512"))


@contextmanager
def far_process(
    brokers: int, *, round_trip_s: float, is_secured: bool, consumed: int = 100
) -> Iterator[dict[str, str]]:
    """Give the options that reach such a cluster, with brokers in another process, and end it."""
    with in_process(_serve, brokers, round_trip_s, is_secured, consumed) as options:
        yield options


def _serve(
    parent: Connection, brokers: int, round_trip_s: float, is_secured: bool, consumed: int
) -> None:
    far = FarCluster(brokers, round_trip_s=round_trip_s, is_secured=is_secured, consumed=consumed)
    with far as cluster, suppress(EOFError):
        parent.send(cluster.options)
        parent.recv()
