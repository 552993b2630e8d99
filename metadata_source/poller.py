"""One cluster, polled: which broker to ask, in which version, how long and how often to try.

A poll never raises: whatever is wrong is a failed `Poll`, whose `error_kind` is a word of `errors.ErrorKind`.
"""

from __future__ import annotations

import math
import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from metadata_source import questions
from metadata_source.clock import CLOCK
from metadata_source.connections import Connections
from metadata_source.enrichment import Answer, answer
from metadata_source.errors import ErrorKind, PollError, ProtocolError, Retry
from metadata_source.images import Age, Image, difference, filtered
from metadata_source.kinds import KINDS, LEADER
from metadata_source.options import TopicFilter
from metadata_source.options.readers import METADATA_VERSIONS
from metadata_source.options.reading import ENRICH_TIMEOUT_MS
from metadata_source.outcomes import FAILED, put_off
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.oddities import oddity
from metadata_source.transport import Address, error_name, format_address
from metadata_source.waiting import read_by
from metadata_source.witnesses import Inquiry, Known, Witness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType

    from metadata_source.enrichment import Subject
    from metadata_source.groups import Coordinated
    from metadata_source.options import Cluster
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.questions import Question
    from metadata_source.schedule import Turn
    from metadata_source.transport import Connection

NO_TOPIC: Final = TopicFilter(topics=())
"""Asks for brokers and the cluster's id alone."""
_METADATA: Final = 3
_DESCRIBE_TOPIC_PARTITIONS: Final = 75
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITHOUT_CREATION: Final = 4
_FIRST_CLIENT_THROTTLE: Final = 6
"""Before, brokers held the answer back themselves (KIP-219)."""
_AUTHORIZATION: Final = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""

NO_ID: Final = (
    "the answer has no cluster id, by which history is kept: give the cluster a `clusterId`, any name that no other "
    "cluster has"
)
_ROUNDS: Final = 3
"""How often a poll goes round the brokers. More would keep the others of its batch waiting for one that is down."""
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 1.0
_JITTER: Final = 0.2
_AVOIDED_S: Final = 1.0
_HUNG_S: Final = 10.0
_AVOIDED_MAX_S: Final = 60.0
"""How long nobody asks a broker that failed at first, one that gave no answer in time at first, and at most."""
_PATIENCE: Final = 0.25
"""The part of a poll's interval that a broker gets for its answer where another one can be asked instead."""
_WITNESS_S: Final = 1.0
"""The most that one broker takes which is asked beside the one that answered."""
_SPREAD_S: Final = 0.25
"""An image spreads among brokers within this time: they fetch the metadata log without a pause."""
_BEHIND_S: Final = 10.0
"""Time between two looks at a broker that was behind, or that is listed no more but answers."""
_SMALL_BYTES: Final = 1 << 18
"""Of an answer that needs no place among the decoders."""
_LEAST_S: Final = 0.02
"""With less time than this, nothing is asked any more."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The outcome of one poll of one cluster. What is not known is None."""

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
    metadata_version_highest: int | None = None
    elr_version_level: int | None = None
    cluster_id: str | None = None
    """As answered; also of a failed poll, when the answer itself was the failure."""
    metadata: ClusterMetadata | None = None
    """The decoded answer of a good poll: the topics that the filter covers."""
    image: Image | None = None
    """The same in short."""
    witnesses: tuple[Witness, ...] = ()


OVERLAPPED: Final = Poll(
    error_kind="overlapped", error="not sent: the poll before was still running when this one was due"
)


@dataclass(frozen=True, slots=True)
class _Avoided:
    """A broker that failed: until when nobody tries, and how long that wait was, s."""

    until: float
    wait: float

    @classmethod
    def after(cls, before: _Avoided | None, error: PollError) -> _Avoided:
        """The next wait, twice as long as the one before."""
        first = _HUNG_S if error.kind == "timeout" else _AVOIDED_S
        wait = min(_AVOIDED_MAX_S, max(first, 2 * before.wait if before else 0.0))
        return cls(time.monotonic() + wait, wait)


@dataclass(slots=True)
class _Memory:
    """A process's memory of a cluster from poll to poll. Never versions: brokers are up- and downgraded."""

    answered: Address | None = None
    learnt: dict[Address, int] = field(default_factory=dict)
    """The brokers, with their ids, in an order of this process's own: polls go round them."""
    known: Known | None = None
    """The last good poll."""
    turn: Turn | None = None
    """The last poll's, if it was a planned one."""
    behind: dict[Address, Image] = field(default_factory=dict)
    """Brokers that were behind when they answered last, and with which image."""
    former: dict[Address, int] = field(default_factory=dict)
    """Brokers that are listed no more, though they may still answer clients."""
    avoided: dict[Address, _Avoided] = field(default_factory=dict)
    throttled_until: dict[Address, float] = field(default_factory=dict)
    owed: set[str] = field(default_factory=set)
    """Kinds of enrichment that were due and that nobody has been asked for since."""
    failed_at: dict[str, float] = field(default_factory=dict)
    """Kinds of enrichment that failed when they were asked last, and when that was (of `time.monotonic`)."""
    led: frozenset[tuple[int, int]] | None = None
    """Partitions of the offsets topic, with leader epochs, when groups were asked for last."""


# One entry a cluster that this worker ever polled, and a filter: with it another image of the cluster is known. Each is
# used by one thread at a time.
_memories: dict[tuple[object, ...], _Memory] = {}


class Poller:
    """Polls one cluster, again and again, one broker after the other, over connections that it keeps.

    A context manager.

    Of the pollers that share `decoders` only as many as it has places hold large decoded answers at once: from the
    first decoding until `let_go`, the next poll or `close`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic_filter: TopicFilter,
        request_timeout_ms: int,
        decoders: threading.Semaphore | None = None,
        *,
        interval_ms: int | None = None,
        enrich_timeout_ms: int = ENRICH_TIMEOUT_MS,
        needs_id: bool = False,
        doubted_clock: tuple[float, float] | None = None,
    ) -> None:
        """Ask nobody yet. `needs_id`: an answer without a cluster id is a failed poll, unless `clusterId` is given."""
        self._cluster, self._needs_id, self._doubted_clock = cluster, needs_id, doubted_clock
        self._filter = topic_filter
        self._timeout_s = request_timeout_ms / 1000
        self._enrich_timeout_s = enrich_timeout_ms / 1000
        # A broker that hangs must not take the next poll its time.
        self._patience_s = math.inf if interval_ms is None else interval_ms / 1000 * _PATIENCE
        self._memory = _memories.setdefault((cluster.alias, cluster.bootstrap_servers, topic_filter), _Memory())
        self._connections = Connections(cluster)
        self._answered: Address | None = None
        """Where the last good answer came from."""
        self._has_polled = False
        self._decoders = decoders or threading.Semaphore()
        self._place = ExitStack()
        self._holds_place = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.let_go()
        self._connections.close()

    def let_go(self) -> None:
        """Give up the place among the decoders: the answer of the poll before is not looked at any more."""
        self._place.close()
        self._holds_place = False

    def poll(self, turn: Turn | None = None, *, until: float = math.inf) -> Poll:
        """Ask for the metadata once, within the request timeout with all retries, and by `until` (of `time.monotonic`).

        `turn`: of a planned poll. What is new since the poll before is checked with other brokers. Nobody is asked
        while the clock is in doubt.
        """
        self.let_go()
        doubt = CLOCK.doubt(self._doubted_clock)
        poll = self._polled(turn, until) if doubt is None else Poll()
        # It may have been set meanwhile.
        if (doubt := doubt or CLOCK.doubt(self._doubted_clock)) is not None:
            self.let_go()
            self._memory.known = None
            return Poll(error_kind="clock", error=doubt)
        return poll

    def _polled(self, turn: Turn | None, until: float) -> Poll:
        deadline = min(until, time.monotonic() + self._timeout_s)
        memory = self._memory
        # Another process may have polled in between.
        is_next = self._has_polled or (turn is not None and turn.follows(memory.turn))
        known = memory.known if is_next else None
        self._has_polled, memory.turn = True, turn
        failures: dict[Address, PollError] = {}
        last = Poll()
        attempts = 0
        for address in self._addresses(failures, deadline):
            attempts += 1
            last, error = self._attempt(address, self._attempt_until(address, deadline))
            if error is None:
                try:
                    return replace(self._checked(address, last, known, deadline), attempts=attempts)
                except PollError as of_another:
                    last, error = replace(last, metadata=None, image=None), of_another
            # An attempt that the end of the poll's time cut off says less than the failure before.
            if not (error.kind == "timeout" and address in failures and time.monotonic() >= deadline):
                failures[address] = error
        self._forget()
        return _failed(last, attempts, failures)

    def _checked(self, address: Address, answer: Poll, known: Known | None, deadline: float) -> Poll:
        """Return the answer, or a newer one of another broker, with all that others said. Raises PollError."""
        memory = self._memory
        before, image = memory.answered, answer.image
        self._learn(address, answer)
        place, newest = address, answer
        witnesses: list[Witness] = []
        # Where each broker names leaders of its own, none is behind another.
        is_compared = LEADER not in KINDS[self._cluster.kind].not_meaningful
        if is_compared and (known is None or image is None or image.news(known.image) is not None):
            others = [each for each in dict.fromkeys([before, *self._ring(address)]) if each and each != address]
            inquiry = Inquiry(
                answer,
                address,
                known,
                lambda other, names: self._ask_witness(other, names, answer, deadline),
                lambda: _let_spread(deadline),
            )
            place, newest, witnesses = inquiry.result(
                [other for other in others if not self._is_avoided(other)],
                was_behind=image is not None and memory.behind.get(address) == image,
            )
        if place != address:
            self._learn(place, newest)
            memory.avoided[address] = _Avoided(time.monotonic() + _BEHIND_S, 0.0)
            if image is not None:
                memory.behind[address] = image
        memory.behind.pop(place, None)
        if is_compared:
            witnesses += self._look_at_former(newest, place, known, {told.broker for told in witnesses}, deadline)
        memory.answered = self._answered = place
        if newest.image is not None and (known is None or known.image.news(newest.image) is not None):
            memory.known = Known(newest.image, newest.received_at)
        return replace(newest, witnesses=tuple(witnesses))

    def _ask_witness(
        self, address: Address, names: Sequence[str] | None, answer: Poll, deadline: float
    ) -> tuple[Poll, PollError | None]:
        """Ask a broker beside the one that gave the answer. Its address may be another cluster's by now."""
        until = min(deadline, time.monotonic() + min(_WITNESS_S, self._patience_s))
        poll, error = self._attempt(address, until, names)
        if error is None and poll.cluster_id != answer.cluster_id:
            error = PollError("wrong_cluster", f"{format_address(address)}: belongs to cluster {poll.cluster_id}")
        if error is not None:
            poll = replace(poll, broker_id=(self._memory.former | self._memory.learnt).get(address))
        return poll, error

    def _look_at_former(
        self, answer: Poll, place: Address, known: Known | None, asked: Collection[str | None], deadline: float
    ) -> list[Witness]:
        """Ask a broker that is listed no more whether it still answers clients, and how far it is behind.

        `place`: where the answer came from. `asked`: those that were asked with this poll already.
        """
        memory = self._memory
        former = (each for each in memory.former if format_address(each) not in asked)
        address = next((each for each in former if not self._is_avoided(each)), None)
        if address is None:
            return []
        other, error = self._ask_witness(address, None, answer, deadline)
        if error is not None:
            if error.kind == "wrong_cluster" or memory.avoided[address].wait >= _AVOIDED_MAX_S:
                del memory.former[address]
            return [Witness(other.broker_id, format_address(address), error_kind=error.kind)]
        memory.avoided[address] = _Avoided(time.monotonic() + _BEHIND_S, 0.0)
        assert answer.metadata is not None  # noqa: S101 - good polls
        assert other.metadata is not None  # noqa: S101
        found = difference(answer.metadata, answer.broker_id, other.metadata, other.broker_id)
        told = Witness.of(other)
        if found.age is Age.NEWER and not found.epochs:
            # Only the list says so. The broker may have come back since that was answered: then it knows more.
            _let_spread(deadline)
            again, error = self._ask_witness(place, (), other, deadline)
            if error is not None:
                return [replace(told, is_behind=None)]
            assert again.metadata is not None  # noqa: S101 - a good poll
            if other.broker_id in again.metadata.brokers["broker_id"].to_pylist():
                return [told]
        if found.age is Age.NEWER:
            return [Witness.of(other, found, answer.received_at if known is None else known.since(other, answer))]
        return [replace(told, is_behind=None) if found.age is Age.UNCLEAR else told]

    def due(self, kinds: Iterable[str], now: Iterable[str]) -> tuple[str, ...]:
        """Return those kinds of enrichment that are to be asked with the poll before: those that are due `now`, and
        those that were due and were not asked, since the poll had failed or no time was left.
        """
        self._memory.owed.update(now)
        return tuple(kind for kind in kinds if kind in self._memory.owed)

    def ask_beside(self, about: Subject, until: float) -> list[Answer]:
        """Ask the broker of the good poll before, whose answer is let go; never raises. Returns the answers in the
        order in which they came.

        It ends by `until` (of `time.monotonic`), and takes no more than `enrich_timeout_ms`. A kind for which no time
        is left stays due. Those that failed come last, the longest ago first: one that takes the time, or the
        connection, each time is not in the way of the others.
        """
        self.let_go()
        deadline = min(until, time.monotonic() + self._enrich_timeout_s)
        answers: list[Answer] = []
        asker, failed_at = _Asker(self, deadline), self._memory.failed_at
        for kind in sorted(about.kinds, key=lambda kind: failed_at.get(kind, 0.0)):
            reason = self._put_off(deadline)
            if reason is not None:
                answers.append(Answer(kind, put_off(reason)))
                continue
            self._memory.owed.discard(kind)
            answers.append(found := answer(kind, about, asker))
            failed_at.pop(kind, None)
            if found.outcome.startswith(FAILED):
                failed_at[kind] = time.monotonic()
        return answers

    def _put_off(self, deadline: float) -> str | None:
        """Return why nothing can be asked now."""
        now = time.monotonic()
        if deadline - now < _LEAST_S:
            return "no time is left before the next poll"
        wait = self._memory.throttled_until.get(self._answerer, 0.0) - now
        if wait > deadline - now:
            return f"throttled by the broker for another {wait:.1f} s"
        return None

    @property
    def _answerer(self) -> Address:
        """Where the last good answer came from. Raises PollError if there was none."""
        if self._answered is None:
            raise PollError("unreachable", "no poll was answered yet")
        return self._answered

    def ask(self, question: Question, deadline: float) -> Any:
        """Ask the broker that answered the poll before: over the same connection, unless that was lost. Raises
        PollError, as `visit`.
        """
        return self._ask_over(self._connections.get(self._answerer, deadline), question, deadline)

    def has_moved(self, led: frozenset[tuple[int, int]]) -> bool:
        """Whether one of these, partitions with leader epochs, was not there the last time; they are the next time's
        last.
        """
        before, self._memory.led = self._memory.led, led
        return before is not None and not led <= before

    def visit(self, address: Address, question: Question, deadline: float) -> Any:
        """Ask a broker, once its throttling allows; the connection to it is kept. Raises PollError, and closes the
        connection if it is of no use then.

        Threads may ask different brokers at once.
        """
        is_kept = address in self._connections
        try:
            return self._ask_over(self._connections.get(address, deadline), question, deadline)
        except PollError as error:
            # Brokers close connections over which nothing came for a while (connections.max.idle.ms).
            if not is_kept or error.kind != "unreachable":
                raise
        return self._ask_over(self._connections.get(address, deadline), question, deadline)

    def _ask_over(self, connection: Connection, question: Question, deadline: float) -> Any:
        question.version(connection)
        self._obey_throttle(connection.address, deadline)
        try:
            response = question.ask(connection, deadline)
        except BaseException:
            self._connections.drop(connection.address)
            raise
        # DescribeQuorum has no such field.
        self._throttle(connection.address, getattr(response, "throttle_time_ms", None))
        return response

    def require(self, question: Question, deadline: float) -> None:
        """Raise PollError unless the broker of the poll before has such a request."""
        question.version(self._connections.get(self._answerer, deadline))

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
                is_final = kind.retry is Retry.REMEMBERED and address in self._cluster.bootstrap_servers
                if is_final or kind.retry is Retry.NOBODY or time.monotonic() >= deadline:
                    return
                # Remembered addresses may be another cluster's by now; or it is REBOOTSTRAP_REQUIRED (KIP-1102).
                if kind.retry is Retry.REMEMBERED or kind is ErrorKind.BROKER_ERROR:
                    self._forget()

    def _candidates(self, failures: dict[Address, PollError]) -> list[Address]:
        """Return the brokers to try: the next of the round, bootstrap servers at random, the others of the round.

        One alone before the bootstrap servers, so that these get their time where the addresses that the brokers
        advertise cannot be reached; none, once that is known. Brokers that are throttling us come last. Who failed for
        good is left out.
        """
        memory = self._memory
        bootstrap = list(self._cluster.bootstrap_servers)
        random.shuffle(bootstrap)
        ring = self._ring(memory.answered)
        first = [address for address in ring if not self._is_avoided(address)][:1]
        addresses = [
            address
            for address in dict.fromkeys(first + bootstrap + ring)
            if address not in failures or failures[address].retry is Retry.AGAIN
        ]
        return sorted(addresses, key=lambda address: memory.throttled_until.get(address, 0.0) > time.monotonic())

    def _attempt(
        self, address: Address, deadline: float, names: Sequence[str] | None = None
    ) -> tuple[Poll, PollError | None]:
        """Ask one broker, about these topics or all that the filter covers."""
        poll = Poll()
        connection = None
        try:
            self._obey_throttle(address, deadline)
            connection = self._connections.get(address, deadline)
            poll = self._ask(connection, deadline, names)
            poll = _good(self._cluster, self._filter, poll, needs_id=self._needs_id)
        except PollError as error:
            # Made again: this one's traceback holds the answer, and this frame would hold the traceback.
            failure = PollError(error.kind, error.problem)
        except Exception as error:  # noqa: BLE001 - raised, it would end the polls of every cluster
            where, what = format_address(address), " ".join(str(error).split())
            failure = PollError("protocol", f"{where}: {type(error).__name__}: {what}")
        else:
            self._memory.avoided.pop(address, None)
            return poll, None
        self._connections.drop(address)
        if failure.retry is not Retry.NOBODY:
            self._memory.avoided[address] = _Avoided.after(self._memory.avoided.get(address), failure)
        if poll.received_at is None and connection is not None:
            poll = Poll(sent_at=connection.sent_at)
        return replace(poll, metadata=None, image=None), failure

    def _attempt_until(self, address: Address, deadline: float) -> float:
        """Return when a broker's time is over: it gets half of what is left, so that one that hangs leaves time for
        another, and less where the connection to who answered last is there to fall back on.
        """
        now, answered = time.monotonic(), self._memory.answered
        half = (deadline - now) / 2
        return now + (min(half, self._patience_s) if address != answered and answered in self._connections else half)

    def _obey_throttle(self, address: Address, deadline: float) -> None:
        wait = self._memory.throttled_until.get(address, 0.0) - time.monotonic()
        if wait > deadline - time.monotonic():
            raise PollError("timeout", f"{format_address(address)}: throttled by the broker for another {wait:.1f} s")
        if wait > 0:
            time.sleep(wait)

    def _ask(self, connection: Connection, deadline: float, names: Sequence[str] | None) -> Poll:
        where = format_address(connection.address)
        version = _version(connection, self._cluster.metadata_version)
        # Before v4 a request by name can create topics: there, ask for all of them. The answer is filtered in any case.
        names = (self._filter.topics if names is None else names) if version >= _FIRST_WITHOUT_CREATION else None
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
            # A broker without DescribeTopicPartitions is older than eligible leader replicas, which all must have.
            elr_version_level=_level(connection, "eligible.leader.replicas.version", 0)
            if _DESCRIBE_TOPIC_PARTITIONS in connection.api_versions
            else 0,
        )
        if not self._holds_place and len(answer.body) > _SMALL_BYTES:
            self._place.enter_context(self._decoders)
            self._holds_place = True
        try:
            metadata = decode_response(answer.body, version, deadline=read_by(deadline))
        except ProtocolError as error:
            return replace(poll, error_kind=questions.kind_of(error), error=f"{where}: {error}")
        return replace(
            poll,
            cluster_id=metadata.cluster_id,
            metadata=metadata,
            throttle_time_ms=metadata.throttle_time_ms,
            broker_id=_broker_id(metadata, connection.address),
        )

    def _learn(self, address: Address, answer: Poll) -> None:
        """Take in the brokers that a good answer lists: those that are new come somewhere into the round."""
        if answer.metadata is None:
            return
        memory, brokers = self._memory, answer.metadata.brokers
        places = zip(brokers["host"].to_pylist(), brokers["port"].to_pylist(), strict=True)
        listed = dict(zip(places, brokers["broker_id"].to_pylist(), strict=True))
        memory.former = {each: n for each, n in (memory.former | memory.learnt).items() if each not in listed}
        round_ = [each for each in memory.learnt if each in listed]
        for new in (each for each in listed if each not in memory.learnt):
            round_.insert(random.randint(0, len(round_)), new)  # noqa: S311
        memory.learnt = {each: listed[each] for each in round_}
        if (answer.api_version or 0) >= _FIRST_CLIENT_THROTTLE:
            self._throttle(address, answer.throttle_time_ms)

    def _ring(self, last: Address | None) -> list[Address]:
        """Return the brokers that were learnt, in their order, `last` as the last one."""
        learnt = list(self._memory.learnt)
        place = learnt.index(last) + 1 if last in self._memory.learnt else 0
        return learnt[place:] + learnt[:place]

    def _is_avoided(self, address: Address) -> bool:
        avoided = self._memory.avoided.get(address)
        return avoided is not None and avoided.until > time.monotonic()

    def _throttle(self, address: Address, throttle_time_ms: int | None) -> None:
        if throttle_time_ms:
            self._memory.throttled_until[address] = time.monotonic() + throttle_time_ms / 1000

    def _forget(self) -> None:
        self._memory.answered, self._memory.learnt = None, {}


@dataclass(slots=True)
class _Asker:
    """Asks for a poller, by a deadline, after one poll."""

    poller: Poller
    deadline: float
    coordinated: list[Coordinated] | PollError | None = None

    def require(self, question: Question) -> None:
        self.poller.require(question, self.deadline)

    def ask(self, question: Question) -> Any:
        return self.poller.ask(question, self.deadline)

    def visits(self) -> _Visits:
        return _Visits(self.poller, self.deadline)


@dataclass(frozen=True, slots=True)
class _Visits:
    """Asks brokers for a poller."""

    poller: Poller
    deadline: float

    def ask(self, address: Address, question: Question, deadline: float) -> Any:
        return self.poller.visit(address, question, deadline)

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        return self.poller.has_moved(led)


def _version(connection: Connection, pinned: int | None) -> int:
    """Return the version to ask in: the pinned one, or the highest that the broker has too."""
    where = format_address(connection.address)
    if _METADATA not in connection.api_versions:
        raise PollError("unsupported_version", f"{where}: this server does not name Metadata among its requests")
    lowest, highest = connection.api_versions[_METADATA]
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


def _good(cluster: Cluster, topic_filter: TopicFilter, poll: Poll, *, needs_id: bool) -> Poll:
    """Return the poll with what its answer says of the topics that the filter covers.

    Raises PollError for an answer that says nothing about the cluster's state.
    """
    if poll.metadata is None:
        raise PollError(poll.error_kind or "protocol", poll.error or "")
    metadata, where = poll.metadata, poll.broker
    if metadata.error_code:
        kind = "authorization" if metadata.error_code in _AUTHORIZATION else "broker_error"
        raise PollError(kind, f"{where}: error {metadata.error_code} ({error_name(metadata.error_code)})")
    # Metadata before v2 has none; other makers' servers leave it null, or empty.
    cluster_id = metadata.cluster_id or cluster.cluster_id
    if cluster_id is None and needs_id:
        raise PollError("no_cluster_id", f"{where}: {NO_ID}")
    if cluster.cluster_id not in {cluster_id, None}:
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
    covered = filtered(metadata, topic_filter)
    return replace(poll, cluster_id=cluster_id, metadata=covered, image=Image.of(covered))


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


def _let_spread(deadline: float) -> None:
    """Wait until brokers have the newest image, unless the poll's time would be over."""
    time.sleep(max(0.0, min(_SPREAD_S, deadline - time.monotonic())))


def _level(connection: Connection, feature: str, absent: int | None) -> int | None:
    return None if connection.features is None else connection.features.get(feature, absent)


def _broker_id(metadata: ClusterMetadata, address: Address) -> int | None:
    """Return the id of the broker at an address; None when that is not the address that the cluster knows it by."""
    host, port = address
    for broker in metadata.brokers.to_pylist():
        if (broker["host"], broker["port"]) == (host, port):
            return int(broker["broker_id"])
    return None
