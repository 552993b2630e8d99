"""Bytes to a broker and bytes back: the one file that knows kafka-python's connection layer.

That layer (TCP, TLS, SASL, framing, ApiVersions) is not documented as public: pyproject.toml pins
it to one minor version, and tests/kafka/test_transport.py says when it changed. Everything but the
look-up of a host's name and asking for a token runs on the caller's thread and ends with
`Connection.close`; connections of different threads share nothing.
"""

from __future__ import annotations

import errno
import logging
import re
import socket
import ssl
import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import kafka.errors
from kafka.net.connection import KafkaConnection
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import ApiVersionsRequest

from metadata_source import tokens
from metadata_source.credentials import credentials
from metadata_source.errors import OptionsError, PollError, TokenError
from metadata_source.references import resolve_secret
from metadata_source.text import LONGEST, printable
from metadata_source.waiting import TooLateError, by_deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from metadata_source.options import Cluster
    from metadata_source.tokens import Token

Address: TypeAlias = tuple[str, int]

# At DEBUG the library logs the bytes it sends, passwords among them; at WARNING, with each
# connection, that nothing hides them, which the jobs say once (`Cluster.exposed`); at ERROR it
# repeats what PollError says better.
for _name in ("kafka.net", "kafka.protocol"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_RECEIVE_BYTES: Final = 64 * 1024
_TURN_BYTES: Final = 1024 * 1024
_FIRST_WITH_FEATURES: Final = 3
"""Version of ApiVersions that tells features (KIP-584)."""
_SCRAM_ITERATIONS: Final = range(4_096, 1_000_001)
"""RFC 5802, 5.1, and RFC 7677, 4, name the least, and so does Kafka: fewer make a password easy to
guess for who pretends to be a broker. The most is the library's: a second or so of work.
"""
_UNREAD: Final = "Unable to decode response"
"""The library's words for an answer that is not the message it should be."""
_ELSEWHERE: Final = frozenset({"unreachable", "timeout"})
"""Kinds of error after which another of a host's addresses may do better."""
_NEWER_ERRORS: Final = {
    128: "InvalidRegularExpressionError",
    129: "RebootstrapRequiredError",
    130: "StreamsInvalidTopologyError",
    131: "StreamsInvalidTopologyEpochError",
    132: "StreamsTopologyFencedError",
    133: "ShareSessionLimitReachedError",
    134: "GroupDeletionFailedError",
    135: "StreamsTopologyDescriptionUpdateFailedError",
    136: "ControllerIdNotRegisteredError",
}
"""Codes of Kafka 4.0 to 4.4 that the library does not know."""
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_WRONG_HOST: Final = frozenset({62, 64})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response's body, without its header, and when it came."""

    body: bytes
    received_at: datetime
    latency_ms: float
    """From sending to receiving, by the monotonic clock."""


class Loop:
    """Requests over several connections under way at once. Of one thread at a time, but for
    `wake`.
    """

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
        self._last_asked = "ApiVersionsRequest"
        self._cluster = cluster
        self._reach(context or tls_context(cluster), self._sasl_settings(deadline), deadline)

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
        raw = _RawRequest(api_key, version, body, flexible)
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
        raw = _RawRequest(api_key, version, body, flexible)
        start = partial(self._request, raw, deadline, with_features=False)
        return Pending(self, self._net.call_soon_with_future(start))

    def interrupt(self) -> None:
        """End the request that is under way, from another thread: it fails."""
        if not self._net._closed:  # noqa: SLF001
            self._net.call_soon_threadsafe(lambda: self._connection.close(kafka.errors.Cancelled()))

    def close(self) -> None:
        """Close the socket and the selector, unless that is shared. Does not wait, and can be
        called twice.
        """
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
            raise PollError("timeout", f"{self._where}: no answer in time")
        if future.exception is not None:
            error = self._error(future.exception)
            if error.kind == "authentication":
                tokens.forget(self._cluster)
            if _UNREAD in str(future.exception) and self._connection.broker_version_data is None:
                raise _VersionsUnreadError(error.kind, error.problem)
            raise error from None
        return future.value

    def _reach(self, context: ssl.SSLContext | None, sasl: dict[str, Any], deadline: float) -> None:
        """Connect to the first of the host's addresses that answers, up to authentication; they
        share the time evenly.
        """
        addresses = self._addresses(deadline)
        for left in range(len(addresses), 0, -1):
            until = time.monotonic() + max(0.001, (deadline - time.monotonic()) / left)
            try:
                try:
                    self._try(addresses[-left], context, sasl, until)
                except _VersionsUnreadError:
                    # As after UNSUPPORTED_VERSION (KIP-511): librdkafka's mock cluster says so in a
                    # body of no version.
                    self._try(addresses[-left], context, sasl, until, first_asked=0)
            except PollError as error:
                if left == 1 or error.kind not in _ELSEWHERE:
                    raise
            else:
                return

    def _try(
        self,
        address: str,
        context: ssl.SSLContext | None,
        sasl: dict[str, Any],
        deadline: float,
        first_asked: int = ApiVersionsRequest.max_version,
    ) -> None:
        """Connect to an address. `first_asked`: the version of ApiVersions to begin with. Raises
        PollError.
        """
        try:
            self._net = (self._shared or Loop(self._cluster.client_id)).net
        except OSError as failure:
            raise self._error(failure) from None
        self._connection = _Connection(
            self._net,
            client_id=self._cluster.client_id,
            receive_message_max_bytes=self._cluster.max_response_bytes,
            security_protocol=self._cluster.security_protocol,
            **sasl,
        )
        self._connection._api_versions_idx = first_asked  # noqa: SLF001
        try:
            # Not by the library, which leaves sockets that did not connect to the garbage
            # collector.
            sock = self._open_socket(address, deadline)
            self._drive(lambda: self._connect(sock, context, deadline), deadline)
        except BaseException:
            self.close()
            raise

    def _addresses(self, deadline: float) -> list[str]:
        try:
            return _look_up(self.address[0], deadline)
        except TooLateError:
            problem = f"{self._where}: the look-up of the host's name gave no answer in time"
            raise PollError("timeout", problem) from None
        except OSError as failure:
            raise self._error(failure) from None
        except ValueError:
            raise PollError(
                "unreachable", f"{self._where}: not a host's name (a part is empty or too long)"
            ) from None

    def _open_socket(self, address: str, deadline: float) -> socket.socket:
        try:
            sock = socket.create_connection(
                (address, self.address[1]), max(0.001, deadline - time.monotonic())
            )
        except OSError as failure:
            raise self._error(failure) from None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _sasl_settings(self, deadline: float) -> dict[str, Any]:
        """Return the library's settings for SASL, secrets resolved and a token asked for now.
        Raises PollError.
        """
        mechanism = self._cluster.sent_mechanism
        if mechanism == "GSSAPI" and find_spec("gssapi") is None:
            raise PollError(
                "options",
                (
                    "kafka.sasl.mechanism: GSSAPI needs the Python package gssapi where the "
                    "connection is made"
                ),
            )
        try:
            made = credentials(self._cluster, deadline)
        except OptionsError as error:
            raise PollError("options", error.problem) from None
        except TokenError as error:
            raise PollError(error.kind, error.problem) from None
        return {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": made.username,
            "sasl_plain_password": made.password,
            "sasl_oauth_token_provider": None if made.token is None else _Provided(made.token),
            "sasl_kerberos_service_name": self._cluster.sasl_kerberos_service_name,
        }

    def _renew_credentials(self, deadline: float, within: float = 0.0) -> None:
        """Resolve the secrets again if the session is about to end (KIP-368), in so many seconds.
        Raises PollError.
        """
        if self._must_authenticate(within):
            self._connection.config.update(self._sasl_settings(deadline))

    def _must_authenticate(self, within: float = 0.0) -> bool:
        """Whether a re-authentication is due. The library begins it when its loop is driven next,
        and holds back what is sent after that; a broker closes on anything else that comes after
        the session's end.
        """
        task = self._connection._reauth.task  # noqa: SLF001
        # It has no time any more when the loop is about to run it.
        return task is not None and (
            task.scheduled_at is None or task.scheduled_at <= time.monotonic() + within
        )

    async def _connect(
        self, sock: socket.socket, context: ssl.SSLContext | None, deadline: float
    ) -> None:
        host = self.address[0]
        transport = (
            _Tls(self._net, sock, host=host, ssl_context=context)
            if context
            else _Tcp(self._net, sock, host=host)
        )
        try:
            await transport.handshake()
            self._connection.connection_made(transport)
            await self._connection.initialize(timeout_at=deadline)
            await self._connection
        except BaseException as error:
            transport.abort(error if isinstance(error, Exception) else None)
            raise
        self.api_versions = dict(self._connection.broker_version_data.api_versions)
        # Once more: of the answer to its own question the library keeps only the versions.
        self._note_features(await self._send(self._features_request(), deadline))

    def _features_request(self) -> Any:
        _, highest = self.api_versions.get(ApiVersionsRequest.API_KEY, (0, 0))
        return ApiVersionsRequest(
            version=min(highest, ApiVersionsRequest.max_version),
            client_software_name="kafka-metadata-history",
            client_software_version="0",
        )

    def _note_features(self, response: Any) -> None:
        if response.error_code:
            raise kafka.errors.for_code(response.error_code)
        if response.API_VERSION < _FIRST_WITH_FEATURES:
            return
        self.supported_features = {
            feature.name: feature.max_version for feature in response.supported_features
        }
        if response.finalized_features_epoch >= 0:
            self.features = {
                feature.name: feature.max_version_level for feature in response.finalized_features
            }

    async def _request(
        self, request: _RawRequest, deadline: float, *, with_features: bool
    ) -> Answer:
        """A broker answers the requests of a connection in their order, so features cost no round
        trip of their own.
        """
        await self._take_turn()
        self.sent_at = datetime.now(UTC)
        sent = time.monotonic()
        asked = self._features_request()
        has_features = with_features and asked.API_VERSION >= _FIRST_WITH_FEATURES
        features = self._write(asked, deadline) if has_features else None
        written = self._write(request, deadline)
        if features is not None:
            self._note_features(await features)
        body = await written
        return Answer(
            body=body, received_at=datetime.now(UTC), latency_ms=(time.monotonic() - sent) * 1000
        )

    async def _take_turn(self) -> None:
        """Wait for as long as an answer to one of the library's own requests asked for; sent
        meanwhile, a request fails. Let a re-authentication begin before.
        """
        while "throttle" in self._connection.paused or self._must_authenticate():
            await self._net.sleep(0.01)

    async def _send(self, request: Any, deadline: float) -> Any:
        await self._take_turn()
        return await self._write(request, deadline)

    def _write(self, request: Any, deadline: float) -> Any:
        """Send a request; returns the future of its answer."""
        timeout_ms = max(0.0, deadline - time.monotonic()) * 1000
        self._last_asked = f"{type(request).__name__} v{request.API_VERSION}"
        return self._connection.send_request(request, request_timeout_ms=timeout_ms)

    @property
    def _where(self) -> str:
        return format_address(self.address)

    def _error(self, error: BaseException) -> PollError:
        """Say in our words what the library's error means."""
        kind, problem = self._explain(error)
        return PollError(kind, f"{self._where}: {printable(' '.join(problem.split()))}")

    def _explain(self, error: BaseException) -> tuple[str, str]:
        cause = (
            error.args[0]
            if isinstance(error, kafka.errors.KafkaConnectionError) and error.args
            else error
        )
        text = _begin(str(error.args[0])) if error.args else type(error).__name__
        match cause:
            case ssl.SSLError():
                return "tls", _explain_tls(cause, self._cluster.ssl_certificate_location)
            case kafka.errors.InvalidReceiveError():
                return self._explain_frame(text)
            case kafka.errors.KafkaTimeoutError() | kafka.errors.RequestTimedOutError():
                return "timeout", "no answer in time"
            case (
                kafka.errors.SaslAuthenticationFailedError()
                | kafka.errors.UnsupportedSaslMechanismError()
                | kafka.errors.IllegalSaslStateError()
            ):
                return "authentication", self._explain_refusal(cause, text)
            case kafka.errors.BrokerResponseError():
                return self._explain_error(cause)
            case kafka.errors.KafkaProtocolError():
                unread = (
                    f"the answer to {self._last_asked} cannot be read: its bytes are no such "
                    "message"
                )
                return "protocol", unread if text == _UNREAD else text
            case OSError():
                return _explain_system(cause)
            case kafka.errors.KafkaError() | str():
                return "unreachable", _explain_connection(text)
            case _ if type(cause).__module__.startswith("gssapi"):
                return "authentication", f"Kerberos: {cause}"
            case _:
                # The library's own code stumbled over what the broker sent.
                return "protocol", f"{type(cause).__name__}: {text}"

    def _explain_error(self, error: kafka.errors.BrokerResponseError) -> tuple[str, str]:
        # The library's own, of a server that does not name SaslHandshake among its requests.
        if (
            isinstance(error, kafka.errors.IncompatibleBrokerVersion)
            and self._cluster.sent_mechanism is not None
        ):
            return (
                "authentication",
                "this server has no SASL: set kafka.security.protocol to PLAINTEXT or SSL",
            )
        return "broker_error", f"error {error.errno} ({error_name(error.errno)})"

    def _explain_refusal(self, error: BaseException, text: str) -> str:
        if not isinstance(error, kafka.errors.SaslAuthenticationFailedError):
            return (
                f"this listener has no SASL mechanism {self._cluster.sent_mechanism}: set "
                "kafka.sasl.mechanism"
            )
        check = {
            "OAUTHBEARER": (
                "the broker's log says why: the token's issuer, audience, scope, signature or time"
            ),
            "AWS_MSK_IAM": "check that these AWS credentials may kafka-cluster:Connect",
        }.get(self._cluster.sasl_mechanism or "", "check user and password")
        return f"authentication refused: {text.removeprefix(f'{type(error).__name__}: ')} ({check})"

    def _explain_frame(self, text: str) -> tuple[str, str]:
        size = int(text.rsplit(" ", 1)[-1])
        if size >> 16 in {0x1503, 0x1603}:  # a TLS record where a length should be
            return (
                "tls",
                "the broker speaks TLS here: set kafka.security.protocol to SSL or SASL_SSL",
            )
        begin = size.to_bytes(4, "big", signed=True)
        if size < 0 or begin.isalnum():
            return "protocol", f"not a Kafka broker: the answer begins with {begin!r}"
        return (
            "too_large",
            (
                f"an answer of {size} bytes is larger than maxResponseBytes "
                f"({self._cluster.max_response_bytes})"
            ),
        )


def tls_context(cluster: Cluster) -> ssl.SSLContext | None:
    """Return the TLS settings of a cluster, None if it has no TLS. Raises PollError for files that
    cannot be used.
    """
    try:
        return _ssl_context(cluster) if cluster.tls else None
    except OptionsError as error:
        raise PollError("options", error.problem) from None


def format_address(address: Address) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _look_up(host: str, deadline: float) -> list[str]:
    """Return a host's addresses. Raises OSError, ValueError, TooLateError: the system's look-up
    takes no deadline.
    """

    def look_up() -> list[str]:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]

    return by_deadline(look_up, deadline, "look-up")


def error_name(code: int) -> str:
    """Return the name of a Kafka error code as kafka-python spells it, such as
    `ClusterAuthorizationFailedError`.
    """
    return _NEWER_ERRORS.get(code) or str(kafka.errors.for_code(code).__name__)


def _explain_tls(error: ssl.SSLError, certificate: str | None) -> str:
    """Say what is wrong, with the client's certificate too, which brokers refuse by an alert (RFC
    8446, 6.2).
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_HOST:
            return f"the certificate is for another host: {error.verify_message}"
        return (
            f"the certificate is not trusted: {error.verify_message} (authorities: "
            "kafka.ssl.ca.location)"
        )
    reason = error.reason or error.strerror or ""
    if "_ALERT_" not in reason or not ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return f"no TLS connection: {reason}"
    alert = reason.rpartition("_ALERT_")[2].lower().replace("_", " ")
    if certificate is None:
        return (
            "the broker wants a certificate of the client: give kafka.ssl.certificate.location "
            f"({alert})"
        )
    return (
        f"the broker refused the client's certificate {certificate}: {alert} "
        "(kafka.ssl.certificate.location)"
    )


def _begin(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _explain_system(error: OSError) -> tuple[str, str]:
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return (
            "too_many_files",
            "no more files may be opened here: raise the limit (ulimit -n, LimitNOFILE)",
        )
    return "unreachable", (error.strerror or str(error)).lower()


def _explain_connection(text: str) -> str:
    if text == "socket disconnected":
        return "the broker closed the connection (as a listener with other security does)"
    return text


def _ssl_context(cluster: Cluster) -> ssl.SSLContext:
    """Return the TLS settings of a cluster. Raises OptionsError for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=cluster.ssl_ca_location)
    except OSError as error:  # ssl.SSLError is one
        raise OptionsError(
            f"kafka.ssl.ca.location: {cluster.ssl_ca_location}: {_reason(error)}"
        ) from None
    context.check_hostname = cluster.ssl_check_hostname
    if cluster.ssl_certificate_location is not None:
        # Never None: OpenSSL would ask a terminal for the password of an encrypted key.
        password = (
            resolve_secret("kafka.ssl.key.password", cluster.ssl_key_password)
            if cluster.ssl_key_password
            else ""
        )
        try:
            context.load_cert_chain(
                cluster.ssl_certificate_location, cluster.ssl_key_location, password
            )
        except OSError as error:
            files = " and ".join(
                filter(None, (cluster.ssl_certificate_location, cluster.ssl_key_location))
            )
            # OpenSSL does not say which.
            unread = "no PEM files, or kafka.ssl.key.password is not the key's"
            reason = (
                unread
                if isinstance(error, ssl.SSLError) and error.reason is None
                else _reason(error)
            )
            raise OptionsError(
                f"kafka.ssl.certificate.location, kafka.ssl.key.location: {files}: {reason}"
            ) from None
        except ValueError:  # whose text may hold some of the password
            raise OptionsError(
                "kafka.ssl.key.password: longer than 1,024 bytes, or not UTF-8 text"
            ) from None
    return context


def _reason(error: OSError) -> str:
    return (
        (getattr(error, "reason", None) or error.strerror or type(error).__name__)
        .lower()
        .replace("_", " ")
    )


class _VersionsUnreadError(PollError):
    """The answer to ApiVersions cannot be read."""


class _Scram(SaslMechanismScram):  # type: ignore[misc]
    """Escapes the user's name, and answers a broker that asks for a sensible number of
    iterations.
    """

    def __init__(self, **config: Any) -> None:
        """The name is escaped as RFC 5802, 5.1, says and as Java's ScramFormatter does. Neither
        Kafka nor any of its clients prepares names or passwords further (SASLprep): they are UTF-8
        as they come.
        """
        name = config["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        super().__init__(**config | {"sasl_plain_username": name})

    def receive(self, auth_bytes: bytes) -> bool:
        if self._state == 0:
            told = re.search(rb"(?:^|,)i=([0-9]{1,9})(?:,|\Z)", auth_bytes)
            if told is None or int(told[1]) not in _SCRAM_ITERATIONS:
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


class _Connection(KafkaConnection):  # type: ignore[misc]
    """Says at once when what was received is no answer.

    The library's reading task ends in silence on all but its own protocol errors; then nobody reads
    until time is up.
    """

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except kafka.errors.KafkaProtocolError:
            raise
        except Exception as error:
            raise kafka.errors.KafkaProtocolError(
                f"an answer that cannot be read: {error!r}"
            ) from error


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


class _RawRequest:
    """Request bytes in the shape that the library's connection takes; its answer stays bytes."""

    def __init__(self, api_key: int, version: int, body: bytes, flexible: bool) -> None:
        self.API_KEY = api_key
        self.API_VERSION = version
        self.header: _RawResponse | None = None
        self._body = body
        self._flexible = flexible
        self._header_bytes = b""

    def with_header(self, correlation_id: int, client_id: str) -> None:
        name = client_id.encode()
        self._header_bytes = (
            struct.pack(">hhih", self.API_KEY, self.API_VERSION, correlation_id, len(name)) + name
        )
        if self._flexible:
            self._header_bytes += b"\0"  # no tags (request header v2)
        self.header = _RawResponse(correlation_id, self._flexible)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        if not (framed and header):
            raise NotImplementedError("kafka-python asks for something else than a whole frame")
        return (
            struct.pack(">i", len(self._header_bytes) + len(self._body))
            + self._header_bytes
            + self._body
        )

    def expect_response(self) -> bool:
        return True


class _RawResponse:
    """Takes an answer's frame apart into header and body."""

    def __init__(self, correlation_id: int, flexible: bool) -> None:
        self.correlation_id = correlation_id
        self._flexible = flexible

    def get_response_class(self) -> _RawResponse:
        return self

    def parse_header(self, frame: Any) -> _RawResponse:
        if len(frame) < 4:
            raise kafka.errors.KafkaProtocolError(f"an answer of {len(frame)} bytes has no header")
        (correlation_id,) = struct.unpack(">i", frame.read(4))
        return _RawResponse(correlation_id, self._flexible)

    def decode(self, frame: Any) -> bytes:
        # The header's tags are read here, where the library turns a ValueError or struct.error into
        # its protocol error.
        if self._flexible:
            for _ in range(_read_uvarint(frame)):
                _read_uvarint(frame)
                frame.read(_read_uvarint(frame))
        return bytes(memoryview(frame)[frame.tell() :])


def _read_uvarint(frame: Any) -> int:
    value = 0
    for shift in range(0, 35, 7):
        byte: int = struct.unpack("B", frame.read(1))[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("an unsigned varint of more than five bytes")
