"""One cluster, polled: which broker to ask, in which version, how long and how often to try.

A poll never raises: whatever is wrong is a failed `Poll` whose `error_kind` is one of

- `unreachable`, `timeout`, `no_brokers` (an empty broker list: a broker that is starting), `broker_error`: tried again,
  with another broker first;
- `tls`, `protocol` (bytes that are no answer, or over which the code stumbled), `odd_answer` (it lists something twice,
  or without a
  name: see `protocol.oddities`), `unsupported_version`: tried once with each broker;
- `authentication`, `authorization`, `too_large`, `wrong_cluster`: final when a bootstrap server's; an address that was
  only
  remembered may be another cluster's by now, then the bootstrap servers are asked;
- `options`: not tried again;
- `overlapped`: not sent, since the poll before was still running.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from metadata_source import questions
from metadata_source.enrichment import Enrichment, answer
from metadata_source.errors import PollError, ProtocolError
from metadata_source.options import METADATA_VERSIONS
from metadata_source.outcomes import failed
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.oddities import oddity
from metadata_source.transport import Address, Connection, error_name, format_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from types import TracebackType

    from metadata_source.enrichment import Subject
    from metadata_source.options import Cluster, TopicFilter
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.questions import AnyQuestion, Question

_METADATA: Final = 3
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITHOUT_CREATION: Final = 4
_FIRST_CLIENT_THROTTLE: Final = 6
"""Before, brokers held the answer back themselves (KIP-219)."""
_AUTHORIZATION: Final = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""

_AGAIN: Final = frozenset({"unreachable", "timeout", "no_brokers", "broker_error"})
_FINAL: Final = frozenset({"authentication", "authorization", "too_large", "wrong_cluster"})
_REBOOTSTRAP: Final = _FINAL | {"broker_error"}
"""What was remembered may be wrong: addresses of another cluster by now, or REBOOTSTRAP_REQUIRED (KIP-1102)."""
_ROUNDS: Final = 3
"""How often a poll goes round the brokers. More would keep the others of its batch waiting for one that is down."""
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 1.0
_JITTER: Final = 0.2
_ENRICHMENT_S: Final = 5.0
"""The most that the enrichments of one poll take together: rows of other clusters wait for the same commit."""
_LEAST_S: Final = 0.02
"""With less time than this, nothing is asked any more."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll of one cluster came to. What is not known is None."""

    error_kind: str | None = None
    error: str | None = None
    attempts: int = 0
    sent_at: datetime | None = None
    received_at: datetime | None = None
    latency_ms: float | None = None
    broker_id: int | None = None
    broker: str | None = None
    api_version: int | None = None
    response_bytes: int | None = None
    throttle_time_ms: int | None = None
    metadata_version_level: int | None = None
    elr_version_level: int | None = None
    cluster_id: str | None = None
    """As answered; also of a failed poll, when the answer itself was the failure."""
    metadata: ClusterMetadata | None = None
    """The decoded answer of a good poll."""


OVERLAPPED: Final = Poll(
    error_kind="overlapped", error="not sent: the poll before was still running when this one was due"
)


@dataclass(slots=True)
class _Memory:
    """What a process remembers of a cluster from poll to poll. Never versions: brokers are up- and downgraded."""

    answered: Address | None = None
    learnt: tuple[Address, ...] = ()
    throttled_until: dict[Address, float] = field(default_factory=dict)
    asked_at: dict[str, int] = field(default_factory=dict)
    led: frozenset[tuple[int, int]] | None = None
    """Partitions of the offsets topic, with leader epochs, when groups were asked for last."""
    """Kind of enrichment -> when the poll was due that it was last asked with, ms."""


# One entry a cluster that this worker ever polled; each is used by one thread at a time.
_memories: dict[tuple[object, ...], _Memory] = {}


class Poller:
    """Polls one cluster, again and again, over one connection as long as it holds. A context manager.

    Of the pollers that share `decoders` only as many as it has places hold a decoded answer at once: from its decoding
    until `let_go`, the next poll or `close`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic_filter: TopicFilter,
        request_timeout_ms: int,
        decoders: threading.Semaphore | None = None,
    ) -> None:
        self._cluster = cluster
        self._filter = topic_filter
        self._timeout_s = request_timeout_ms / 1000
        self._memory = _memories.setdefault((cluster.alias, cluster.bootstrap_servers), _Memory())
        self._connection: Connection | None = None
        self._decoders = decoders or threading.Semaphore()
        self._place = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        self.let_go()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def let_go(self) -> None:
        """Give up the place among the decoders: the answer of the poll before is not looked at any more."""
        self._place.close()

    def poll(self) -> Poll:
        """Ask for the metadata once, within the request timeout with all retries."""
        self.let_go()
        deadline = time.monotonic() + self._timeout_s
        failures: dict[Address, PollError] = {}
        last = Poll()
        attempts = 0
        for address in self._addresses(failures, deadline):
            attempts += 1
            last, error = self._attempt(address, deadline)
            if error is None:
                self._remember(address, last, failures)
                return replace(last, attempts=attempts)
            self.close()
            # An attempt that the end of the poll's time cut off says less than the failure before.
            if not (error.kind == "timeout" and address in failures and time.monotonic() >= deadline):
                failures[address] = error
        self._forget()
        return _failed(last, attempts, failures)

    def due(self, beats: Mapping[str, int], at_ms: int) -> tuple[str, ...]:
        """Return the kinds of enrichment that are to be asked with the poll that was due at `at_ms`.

        A poll that is done again asks again, and so does the first one after the clock was set back.
        """
        asked = self._memory.asked_at
        return tuple(kind for kind, beat in beats.items() if not 0 < at_ms - asked.get(kind, at_ms) < beat)

    def enrich(self, about: Subject, at_ms: int, until: float) -> Enrichment:
        """Ask over the connection of the good poll before, which is let go; never raises.

        It ends by `until` (of `time.monotonic`). A kind for which no time is left stays due.
        """
        self.let_go()
        deadline = min(until, time.monotonic() + min(_ENRICHMENT_S, self._timeout_s))
        enrichment = Enrichment()
        asker = _Asker(self, deadline)
        for kind in about.kinds:
            reason = self._put_off(deadline)
            if reason is not None:
                enrichment.outcomes[kind] = failed(f"put off: {reason}")
                continue
            self._memory.asked_at[kind] = at_ms
            enrichment.outcomes[kind], rows = answer(kind, about, asker)
            if rows is not None:
                enrichment.rows[kind] = rows
        return enrichment

    def _put_off(self, deadline: float) -> str | None:
        """Return why nothing can be asked now."""
        if self._connection is None:
            return "the connection was lost"
        now = time.monotonic()
        if deadline - now < _LEAST_S:
            return "no time is left before the next poll"
        wait = self._memory.throttled_until.get(self._connection.address, 0.0) - now
        if wait > deadline - now:
            return f"throttled by the broker for another {wait:.1f} s"
        return None

    def ask(self, question: AnyQuestion, deadline: float) -> Any:
        """Ask over the connection of the poll before. Raises PollError; then the connection is closed, if it is of no
        use.
        """
        if self._connection is None:
            raise PollError("unreachable", "the connection was lost")
        return self.ask_over(self._connection, question, deadline, self.close)

    def has_moved(self, led: frozenset[tuple[int, int]]) -> bool:
        """Whether one of these, partitions with leader epochs, was not there the last time; they are the next time's
        last.
        """
        before, self._memory.led = self._memory.led, led
        return before is not None and not led <= before

    def visit(self, address: Address, deadline: float) -> Connection:
        """Return a connection to a broker, which whoever calls closes. Raises PollError."""
        return Connection(self._cluster, address, deadline)

    def ask_over(
        self, connection: Connection, question: AnyQuestion, deadline: float, close: Callable[[], None]
    ) -> Any:
        """Ask over a connection, once the broker's throttling allows. Raises PollError, after `close` if it is of no
        use then.
        """
        questions.version(connection, question)
        self._obey_throttle(connection.address, deadline)
        try:
            response = questions.ask(connection, question, deadline)
        except BaseException:
            close()
            raise
        self._throttle(connection.address, _throttle_time_ms(response))
        return response

    def require(self, question: Question) -> None:
        """Raise PollError unless the broker of the poll before has such a request."""
        if self._connection is not None:
            questions.version(self._connection, question)

    def _addresses(self, failures: dict[Address, PollError], deadline: float) -> Iterator[Address]:
        """Yield the brokers to ask, one after the other for as long as there is a point, each round after a pause.

        The caller says in `failures` what came of each.
        """
        for round_ in range(_ROUNDS):
            if round_ and not (self._candidates(failures) and _back_off(round_, deadline)):
                return
            asked: set[Address] = set()
            while candidates := [address for address in self._candidates(failures) if address not in asked]:
                address = candidates[0]
                asked.add(address)
                yield address
                kind = failures[address].kind
                is_final = kind in _FINAL and address in self._cluster.bootstrap_servers
                if is_final or kind == "options" or time.monotonic() >= deadline:
                    return
                if kind in _REBOOTSTRAP:
                    self._forget()

    def _candidates(self, failures: dict[Address, PollError]) -> list[Address]:
        """Return the brokers to try: who answered last, one that was learnt, bootstrap servers, the others that were
        learnt.

        All at random. One alone before the bootstrap servers, so that these get their time where the addresses that the
        brokers advertise cannot be reached. Brokers that are throttling us come last. Who failed for good is left out.
        """
        memory = self._memory
        bootstrap = list(self._cluster.bootstrap_servers)
        random.shuffle(bootstrap)
        # Those that were learnt were shuffled then: shuffled here, another would come first after each attempt.
        learnt = list(memory.learnt)
        first = learnt[:1] if memory.answered is None else [memory.answered, *learnt[:1]]
        addresses = [
            address
            for address in dict.fromkeys(first + bootstrap + learnt)
            if address not in failures or failures[address].kind in _AGAIN
        ]
        return sorted(addresses, key=lambda address: memory.throttled_until.get(address, 0.0) > time.monotonic())

    def _attempt(self, address: Address, deadline: float) -> tuple[Poll, PollError | None]:
        """Ask one broker. It gets half of what is left, so that one that hangs leaves time for another."""
        poll = Poll()
        connection = None
        try:
            self._obey_throttle(address, deadline)
            attempt_deadline = time.monotonic() + (deadline - time.monotonic()) / 2
            connection = self._connect(address, attempt_deadline)
            poll = self._ask(connection, attempt_deadline)
            _check(self._cluster, poll)
        except PollError as error:
            # Anew: this one's traceback holds the answer, and this frame would hold the traceback.
            failure = PollError(error.kind, error.problem)
        except Exception as error:  # noqa: BLE001 - raised, it would end the polls of every cluster
            where, what = format_address(address), " ".join(str(error).split())
            failure = PollError("protocol", f"{where}: {type(error).__name__}: {what}")
        else:
            return poll, None
        if poll.received_at is None and connection is not None:
            poll = Poll(sent_at=connection.sent_at)
        return replace(poll, metadata=None), failure

    def _obey_throttle(self, address: Address, deadline: float) -> None:
        wait = self._memory.throttled_until.get(address, 0.0) - time.monotonic()
        if wait > deadline - time.monotonic():
            raise PollError("timeout", f"{format_address(address)}: throttled by the broker for another {wait:.1f} s")
        if wait > 0:
            time.sleep(wait)

    def _connect(self, address: Address, deadline: float) -> Connection:
        if self._connection is None or self._connection.address != address:
            self.close()
            self._connection = Connection(self._cluster, address, deadline)
        return self._connection

    def _ask(self, connection: Connection, deadline: float) -> Poll:
        where = format_address(connection.address)
        version = _version(connection, self._cluster.metadata_version)
        # Before v4 a request by name can create topics: there, ask for all of them. The rows are filtered in any case.
        names = self._filter.topics if version >= _FIRST_WITHOUT_CREATION else None
        answer = connection.request(
            _METADATA, version, encode_request(version, names), flexible=version >= _FIRST_FLEXIBLE, deadline=deadline
        )
        poll = Poll(
            sent_at=connection.sent_at,
            received_at=answer.received_at,
            latency_ms=answer.latency_ms,
            broker=where,
            api_version=version,
            response_bytes=len(answer.body),
            metadata_version_level=_level(connection, "metadata.version", None),
            elr_version_level=_level(connection, "eligible.leader.replicas.version", 0),
        )
        self._place.enter_context(self._decoders)
        try:
            metadata = decode_response(answer.body, version)
        except ProtocolError as error:
            return replace(poll, error_kind="protocol", error=f"{where}: {error}")
        return replace(
            poll,
            cluster_id=metadata.cluster_id,
            metadata=metadata,
            throttle_time_ms=metadata.throttle_time_ms,
            broker_id=_broker_id(metadata, connection.address),
        )

    def _remember(self, address: Address, poll: Poll, failures: dict[Address, PollError]) -> None:
        if poll.metadata is None:
            return
        brokers = poll.metadata.brokers
        learnt = list(zip(brokers["host"].to_pylist(), brokers["port"].to_pylist(), strict=True))
        random.shuffle(learnt)
        # Behind an address of several brokers (a service's name) nobody knows who answered: the next poll asks one of
        # those that were learnt, unless it is seen here that they cannot be reached.
        self._memory.answered = address if address in learnt or failures.keys() & set(learnt) else None
        self._memory.learnt = tuple(learnt)
        if (poll.api_version or 0) >= _FIRST_CLIENT_THROTTLE:
            self._throttle(address, poll.throttle_time_ms)

    def _throttle(self, address: Address, throttle_time_ms: int | None) -> None:
        if throttle_time_ms:
            self._memory.throttled_until[address] = time.monotonic() + throttle_time_ms / 1000

    def _forget(self) -> None:
        self._memory.answered, self._memory.learnt = None, ()


@dataclass(frozen=True, slots=True)
class _Asker:
    """Asks for a poller, by a deadline."""

    poller: Poller
    deadline: float

    def require(self, question: Question) -> None:
        self.poller.require(question)

    def ask(self, question: Question) -> Any:
        return self.poller.ask(question, self.deadline)

    @contextmanager
    def visits(self) -> Iterator[_Visits]:
        visits = _Visits(self.poller, self.deadline)
        try:
            yield visits
        finally:
            for connection in visits.connections.values():
                connection.close()


@dataclass(frozen=True, slots=True)
class _Visits:
    """Asks brokers for a poller, keeping a connection to each."""

    poller: Poller
    deadline: float
    connections: dict[Address, Connection] = field(default_factory=dict)

    def ask(self, address: Address, question: AnyQuestion, deadline: float) -> Any:
        if address not in self.connections:
            self.connections[address] = self.poller.visit(address, deadline)
        return self.poller.ask_over(
            self.connections[address], question, deadline, lambda: self.connections.pop(address).close()
        )

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        return self.poller.has_moved(led)


def _throttle_time_ms(response: Any) -> int | None:
    """Return what a response says of throttling. DescribeQuorum has no such field, nor have the first versions of
    others.
    """
    told: int | None = (
        response["throttle_time_ms"] if isinstance(response, dict) else getattr(response, "throttle_time_ms", None)
    )
    return told


def _version(connection: Connection, pinned: int | None) -> int:
    """Return the version to ask in: the pinned one, or the highest that the broker has too."""
    where = format_address(connection.address)
    lowest, highest = connection.api_versions.get(_METADATA, (0, -1))
    if pinned is not None:
        if not lowest <= pinned <= highest:
            raise PollError(
                "unsupported_version", f"{where}: has Metadata v{lowest} to v{highest}, metadataVersion pins v{pinned}"
            )
        return pinned
    version = min(highest, METADATA_VERSIONS[-1])
    if version < lowest:
        raise PollError("unsupported_version", f"{where}: has Metadata v{lowest} to v{highest}, none of v0 to v13")
    return version


def _check(cluster: Cluster, poll: Poll) -> None:
    """Raise PollError for an answer that says nothing about the cluster's state."""
    if poll.metadata is None:
        raise PollError("protocol", poll.error or "")
    metadata, where = poll.metadata, poll.broker
    if metadata.error_code:
        kind = "authorization" if metadata.error_code in _AUTHORIZATION else "broker_error"
        raise PollError(kind, f"{where}: error {metadata.error_code} ({error_name(metadata.error_code)})")
    if cluster.cluster_id is not None and metadata.cluster_id not in {cluster.cluster_id, None}:
        raise PollError(
            "wrong_cluster",
            f"{where}: belongs to cluster {metadata.cluster_id}, clusterId is {cluster.cluster_id} (a rebuilt "
            f"cluster gets a "
            "new alias)",
        )
    if metadata.brokers.num_rows == 0:
        raise PollError("no_brokers", f"{where}: its broker list is empty, as while it starts")
    if (problem := oddity(metadata)) is not None:
        raise PollError("odd_answer", f"{where}: {problem}")


def _failed(last: Poll, attempts: int, failures: dict[Address, PollError]) -> Poll:
    """Return the failed poll, with every address that was tried in the order of the first tries."""
    errors = list(failures.values())
    # What got farther than the connection says more than what did not.
    kind = next((error.kind for error in reversed(errors) if error.kind != "unreachable"), "unreachable")
    return replace(last, attempts=attempts, error_kind=kind, error="; ".join(error.problem for error in errors))


def _back_off(round_: int, deadline: float) -> bool:
    """Wait before another round; False when the poll's time would be over by then."""
    wait = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** (round_ - 1)) * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
    if time.monotonic() + wait >= deadline:
        return False
    time.sleep(wait)
    return True


def _level(connection: Connection, feature: str, absent: int | None) -> int | None:
    return None if connection.features is None else connection.features.get(feature, absent)


def _broker_id(metadata: ClusterMetadata, address: Address) -> int | None:
    """Return the id of the broker at an address; None when that is not the address that the cluster knows it by."""
    host, port = address
    for broker in metadata.brokers.to_pylist():
        if (broker["host"], broker["port"]) == (host, port):
            return int(broker["broker_id"])
    return None
