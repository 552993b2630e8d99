"""Bytes to a broker and bytes back: the one file that knows kafka-python's connection layer.

That layer (TCP, TLS, SASL, framing, ApiVersions) is not documented as public: pyproject.toml pins
it to one minor version, and tests/kafka/test_transport.py says when it changed. Everything but the
look-up of a host's name and asking for a token runs on the caller's thread and ends with
`Connection.close`; connections of different threads share nothing.
"""

from __future__ import annotations

import logging
import re
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import kafka.errors
from kafka.net.connection import KafkaConnection
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import ApiVersionsRequest

from metadata_source import tokens
from metadata_source.addresses import format_address
from metadata_source.broker_errors import UNREAD, connection_error, unreached
from metadata_source.credentials import credentials
from metadata_source.errors import OptionsError, PollError, TokenError
from metadata_source.features import (
    features_request,
    finalized_features,
    has_features,
    supported_features,
)
from metadata_source.raw_requests import RawRequest
from metadata_source.sockets import look_up, open_socket
from metadata_source.tls import tls_context

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Coroutine

    from metadata_source.addresses import Address
    from metadata_source.options import Cluster
    from metadata_source.tokens import Token

# At DEBUG the library logs the bytes it sends, passwords among them; at WARNING, with each
# connection, that nothing hides them, which the jobs say once (`Cluster.exposed`); at ERROR it
# repeats what PollError says better.
for _name in ("kafka.net", "kafka.protocol"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_RECEIVE_BYTES: Final = 64 * 1024
_TURN_BYTES: Final = 1024 * 1024
_SCRAM_ITERATIONS: Final = range(4_096, 1_000_001)
"""RFC 5802, 5.1, and RFC 7677, 4, name the least, and so does Kafka: fewer make a password easy to
guess for who pretends to be a broker. The most is the library's: a second or so of work.
"""
_ELSEWHERE: Final = frozenset({"unreachable", "timeout"})
"""Kinds of error after which another of a host's addresses may do better."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response's body, without its header, and when it came."""

    body: bytes
    received_at: datetime
    latency_ms: float
    """From sending to receiving, by the monotonic clock."""


class Loop:
    """Requests over several connections at once. Of one thread at a time, but for `wake`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._net: NetworkSelector | None = None
        self.is_woken = False

    @property
    def net(self) -> NetworkSelector:
        """The library's loop. Raises OSError if no more files may be opened."""
        # No cached_property: before Python 3.12 all loops of a process share its lock, for which
        # all threads wait.
        if self._net is None:
            # Zero: no warning about slow turns, which many threads on few cores always have.
            self._net = NetworkSelector(client_id=self._client_id, slow_task_threshold_secs=0)
        return self._net

    def wait(self, pending: Collection[Pending], seconds: float) -> None:
        """Wait until one of these is done, at most so long; not at all after `wake`."""
        until = time.monotonic() + seconds
        while not (self.is_woken or any(each.is_done for each in pending)):
            if (left := until - time.monotonic()) <= 0:
                return
            self.net.poll(timeout_ms=left * 1000)

    def wake(self) -> None:
        """End `wait`, from another thread, and every one after it."""
        self.is_woken = True
        if self._net is not None:
            self._net.wakeup()

    def close(self) -> None:
        """Close the loop, whose connections are of no use afterwards."""
        if self._net is not None:
            self._net.close()


class Pending:
    """A request that was sent and whose answer is not waited for here."""

    def __init__(self, connection: Connection, future: Any) -> None:
        self._connection, self._future = connection, future

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or none will come."""
        return bool(self._future.is_done)

    def answer(self) -> Answer:
        """Return the answer once it `is_done`. Raises PollError, as `Connection.request`."""
        answer: Answer = self._connection.result(self._future)
        return answer


class Connection:
    """One connection to one broker, authenticated and with its versions known.

    `api_versions` maps an API key to the lowest and highest version that the broker has. `features`
    maps a feature to its finalized level (KIP-584) as the broker last told, None when it does not
    say; `supported_features` to the highest level that its software has. `sent_at` is when the last
    request was sent.
    """

    def __init__(
        self,
        cluster: Cluster,
        address: Address,
        deadline: float,
        context: ssl.SSLContext | None = None,
        loop: Loop | None = None,
    ) -> None:
        """Connect by `deadline` (of `time.monotonic`), resolving secrets. Raises PollError.

        `context`: the TLS settings, if they were made before (`tls_context`). `loop`: one that
        other connections share, which alone can `begin` a request; without it, the connection has
        one of its own.
        """
        self._shared = loop
        self.address = address
        self.api_versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] | None = None
        self.supported_features: dict[str, int] = {}
        self.sent_at: datetime | None = None
        self._cluster = cluster
        self._reach(context or tls_context(cluster), _sasl_settings(cluster, deadline), deadline)

    def request(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        flexible: bool,
        deadline: float,
        with_features: bool = False,
    ) -> Answer:
        """Send a request and return its answer by `deadline`. Raises PollError; the connection is
        of no use after it.

        `flexible` says whether this version's headers have tag sections. `with_features`: ask for
        `features`, too, so that they are as of a moment between `sent_at` and the answer.
        """
        self._renew_credentials(deadline)
        raw = RawRequest(api_key, version, body, flexible)
        answer: Answer = self._drive(
            lambda: self._request(raw, deadline, with_features=with_features), deadline
        )
        return answer

    def begin(
        self, api_key: int, version: int, body: bytes, *, flexible: bool, deadline: float
    ) -> Pending:
        """Send a request whose answer `Loop.wait` waits for. Raises PollError, and so does the
        answer, as of `request`, if it has not come by `deadline`.
        """
        # The session may be about to end before the answer comes.
        self._renew_credentials(deadline, within=deadline - time.monotonic())
        raw = RawRequest(api_key, version, body, flexible)
        start = partial(self._request, raw, deadline, with_features=False)
        return Pending(self, self._net.call_soon_with_future(start))

    def interrupt(self) -> None:
        """End the request that is under way, from another thread: it fails."""
        if not self._net._closed:  # noqa: SLF001
            self._net.call_soon_threadsafe(lambda: self._connection.close(kafka.errors.Cancelled()))

    def close(self) -> None:
        """Close the socket, and the selector unless it is shared. It can be called twice."""
        if not self._connection.closed:
            self._connection.close(kafka.errors.Cancelled())
        if self._shared is None:
            self._net.close()

    def _drive(self, start: Callable[[], Coroutine[Any, Any, Any]], deadline: float) -> Any:
        future = self._net.call_soon_with_future(start)
        self._net.poll(timeout_ms=max(0.0, deadline - time.monotonic()) * 1000, future=future)
        return self.result(future)

    def result(self, future: Any) -> Any:
        """Return what came of a request. Raises PollError."""
        if not future.is_done:
            raise PollError("timeout", f"{format_address(self.address)}: no answer in time")
        if future.exception is not None:
            error = connection_error(
                future.exception, self._cluster, self.address, self._connection.last_sent
            )
            if error.kind == "authentication":
                tokens.forget(self._cluster)
            if UNREAD in str(future.exception) and self._connection.broker_version_data is None:
                raise _VersionsUnreadError(error.kind, error.problem)
            raise error from None
        return future.value

    def _reach(self, context: ssl.SSLContext | None, sasl: dict[str, Any], deadline: float) -> None:
        """Connect to the first IP address that answers, authenticated; they share the time."""
        ips = look_up(self.address, deadline)
        for left in range(len(ips), 0, -1):
            until = time.monotonic() + max(0.001, (deadline - time.monotonic()) / left)
            try:
                try:
                    self._try(ips[-left], context, sasl, until)
                except _VersionsUnreadError:
                    # As after UNSUPPORTED_VERSION (KIP-511): librdkafka's mock cluster says so in a
                    # body of no version.
                    self._try(ips[-left], context, sasl, until, first_version=0)
            except PollError as error:
                if left == 1 or error.kind not in _ELSEWHERE:
                    raise
            else:
                return

    def _try(
        self,
        ip: str,
        context: ssl.SSLContext | None,
        sasl: dict[str, Any],
        deadline: float,
        first_version: int = ApiVersionsRequest.max_version,
    ) -> None:
        """Connect to an IP address; ApiVersions begins with `first_version`. Raises PollError."""
        try:
            self._net = (self._shared or Loop(self._cluster.client_id)).net
        except OSError as failure:
            raise unreached(failure, self.address) from None
        self._connection = _LibraryConnection(self._net, self._cluster, sasl, first_version)
        try:
            # Not by the library, which leaves sockets that did not connect to the garbage
            # collector.
            sock = open_socket(ip, self.address, deadline)
            self._drive(lambda: self._connect(sock, context, deadline), deadline)
        except BaseException:
            self.close()
            raise

    def _renew_credentials(self, deadline: float, within: float = 0.0) -> None:
        """Resolve secrets again if the session ends so soon (KIP-368). Raises PollError."""
        if self._connection.must_authenticate(within):
            self._connection.config.update(_sasl_settings(self._cluster, deadline))

    async def _connect(
        self, sock: socket.socket, context: ssl.SSLContext | None, deadline: float
    ) -> None:
        await self._connection.reach(sock, self.address[0], context, deadline)
        self.api_versions = dict(self._connection.broker_version_data.api_versions)
        # Once more: of the answer to its own question the library keeps only the versions.
        await self._connection.may_send()
        asked = features_request(self.api_versions)
        self._note_features(await self._connection.send(asked, deadline))

    def _note_features(self, response: Any) -> None:
        if (supported := supported_features(response)) is not None:
            self.supported_features = supported
        if (finalized := finalized_features(response)) is not None:
            self.features = finalized

    async def _request(
        self, request: RawRequest, deadline: float, *, with_features: bool
    ) -> Answer:
        """A broker answers requests in their order: features cost no round trip of their own."""
        await self._connection.may_send()
        self.sent_at = datetime.now(UTC)
        sent = time.monotonic()
        asked = features_request(self.api_versions)
        is_asked = with_features and has_features(asked)
        features = self._connection.send(asked, deadline) if is_asked else None
        answer = self._connection.send(request, deadline)
        if features is not None:
            self._note_features(await features)
        body = await answer
        return Answer(
            body=body, received_at=datetime.now(UTC), latency_ms=(time.monotonic() - sent) * 1000
        )


def _sasl_settings(cluster: Cluster, deadline: float) -> dict[str, Any]:
    """Return the library's settings for SASL, with secrets and a token. Raises PollError."""
    mechanism = cluster.sent_mechanism
    if mechanism == "GSSAPI" and find_spec("gssapi") is None:
        raise PollError(
            "options",
            "kafka.sasl.mechanism: GSSAPI needs the Python package gssapi where the "
            "connection is made",
        )
    try:
        made = credentials(cluster, deadline)
    except OptionsError as error:
        raise PollError("options", error.problem) from None
    except TokenError as error:
        raise PollError(error.kind, error.problem) from None
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": made.username,
        "sasl_plain_password": made.password,
        "sasl_oauth_token_provider": None if made.token is None else _Provided(made.token),
        "sasl_kerberos_service_name": cluster.sasl_kerberos_service_name,
    }


class _VersionsUnreadError(PollError):
    """The answer to ApiVersions cannot be read."""


class _Scram(SaslMechanismScram):  # type: ignore[misc]
    """Escapes the user's name, and answers only a sensible number of iterations."""

    def __init__(self, **config: Any) -> None:
        """The name is escaped as RFC 5802, 5.1, says and as Java's ScramFormatter does. Neither
        Kafka nor any of its clients prepares names or passwords further (SASLprep): they are UTF-8
        as they come.
        """
        name = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        super().__init__(**config | {"sasl_plain_username": name})

    def receive(self, auth_bytes: bytes) -> bool:
        if self._state == 0:
            count = re.search(rb"(?:^|,)i=([0-9]{1,9})(?:,|\Z)", auth_bytes)
            if count is None or int(count[1]) not in _SCRAM_ITERATIONS:
                raise kafka.errors.KafkaProtocolError(
                    f"SCRAM wants {_SCRAM_ITERATIONS[0]:,} to {_SCRAM_ITERATIONS[-1]:,} iterations "
                    "(RFC 5802, RFC 7677), and the broker does not say so many"
                )
        done: bool = super().receive(auth_bytes)
        return done


for _name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    register_sasl_mechanism(_name, _Scram, overwrite=True)


class _Provided(AbstractTokenProvider):  # type: ignore[misc]
    """Hands a token to the library."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token.text

    def extensions(self) -> dict[str, str]:
        return dict(self._token.extensions)


class _LibraryConnection(KafkaConnection):  # type: ignore[misc]
    """The library's connection, which says at once when what was received is no answer.

    The library's reading task ends in silence on all but its own protocol errors; then nobody reads
    until time is up.
    """

    def __init__(
        self, net: NetworkSelector, cluster: Cluster, sasl: dict[str, Any], first_version: int
    ) -> None:
        """`first_version`: of ApiVersions, to begin with."""
        super().__init__(
            net,
            client_id=cluster.client_id,
            receive_message_max_bytes=cluster.max_response_bytes,
            security_protocol=cluster.security_protocol,
            **sasl,
        )
        self._api_versions_idx = first_version
        self.last_sent = "ApiVersionsRequest"

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except kafka.errors.KafkaProtocolError:
            raise
        except Exception as error:
            raise kafka.errors.KafkaProtocolError(
                f"an answer that cannot be read: {error!r}"
            ) from error

    async def reach(
        self, sock: socket.socket, host: str, context: ssl.SSLContext | None, deadline: float
    ) -> None:
        """Shake hands over a socket, authenticate, and ask for versions."""
        transport = (
            _Tls(self.net, sock, host=host, ssl_context=context)
            if context
            else _Tcp(self.net, sock, host=host)
        )
        try:
            await transport.handshake()
            self.connection_made(transport)
            await self.initialize(timeout_at=deadline)
            await self
        except BaseException as error:
            transport.abort(error if isinstance(error, Exception) else None)
            raise

    def must_authenticate(self, within: float = 0.0) -> bool:
        """Whether a re-authentication is due. The library begins it when its loop is driven next,
        and holds back what is sent after that; a broker closes on anything else that comes after
        the session's end.
        """
        task = self._reauth.task
        # It has no time any more when the loop is about to run it.
        return task is not None and (
            task.scheduled_at is None or task.scheduled_at <= time.monotonic() + within
        )

    async def may_send(self) -> None:
        """Wait for as long as an answer to one of the library's own requests asked for; sent
        meanwhile, a request fails. Let a re-authentication begin before.
        """
        while "throttle" in self.paused or self.must_authenticate():
            await self.net.sleep(0.01)

    def send(self, request: Any, deadline: float) -> Any:
        """Send a request; returns the future of its answer."""
        timeout_ms = max(0.0, deadline - time.monotonic()) * 1000
        self.last_sent = f"{type(request).__name__} v{request.API_VERSION}"
        return self.send_request(request, request_timeout_ms=timeout_ms)


class _BoundedReads:
    """Reads a bounded piece in a turn of the loop, so that a frame's length is checked before its
    bytes pile up.

    The library's own method reads until the socket is empty, which a fast sender never lets happen.
    """

    _sock: Any

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        pieces: list[bytes] = []
        size = 0
        while size < _TURN_BYTES:
            try:
                # A TLS record holds at most 16 KiB: nothing decrypted stays behind, which the
                # selector would not see.
                piece = self._sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                return b"", kafka.errors.KafkaConnectionError(error)
            if not piece:
                if pieces:
                    break  # hand on what came before the end; the next turn meets the end again
                return b"", kafka.errors.KafkaConnectionError("socket disconnected")
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), None


class _Tcp(_BoundedReads, KafkaTCPTransport):  # type: ignore[misc]
    pass


class _Tls(_BoundedReads, KafkaSSLTransport):  # type: ignore[misc]
    pass
