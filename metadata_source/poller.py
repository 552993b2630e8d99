"""One cluster, polled: which broker to ask, in which version, how long and how often to try.

A poll never raises: whatever is wrong is a failed `Poll`, whose `error_kind` is a word of
`errors.ErrorKind`.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from metadata_source import questions
from metadata_source.answer_lock import answer_lock, is_small
from metadata_source.asking import Asking, Visitor
from metadata_source.brokers import AVOIDED_MAX_S, BEHIND_S, Brokers
from metadata_source.clock import CLOCK
from metadata_source.connections import Connections
from metadata_source.errors import PollError, ProtocolError, Retry
from metadata_source.images import Age, Image, difference, filtered
from metadata_source.kinds import KINDS, LEADER
from metadata_source.options import TopicFilter
from metadata_source.options.readers import METADATA_VERSIONS
from metadata_source.poll import Poll, Witness
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.oddities import oddity
from metadata_source.transport import Address, error_name, format_address
from metadata_source.waiting import read_by
from metadata_source.witnesses import Inquiry, Known

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from metadata_source.options import Cluster
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.questions import Question
    from metadata_source.transport import Connection

NO_TOPIC: Final = TopicFilter(topics=())
"""Asks for brokers and the cluster's id alone."""
_METADATA: Final = 3
_DESCRIBE_TOPIC_PARTITIONS: Final = 75
_FIRST_FLEXIBLE: Final = 9
_FIRST_WITHOUT_CREATION: Final = 4
_AUTHORIZATION: Final = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""

NO_ID: Final = (
    "the answer has no cluster id, by which history is kept: give the cluster a `clusterId`, any "
    "name that no other cluster has"
)
_PATIENCE: Final = 0.25
"""The part of a poll's interval that a broker gets for its answer where another one can be asked
instead.
"""
_LONGEST: Final = 0.5
"""The part of a poll's interval that a broker gets for its answer in any case: the next poll goes
to another one.
"""
_LEAST_S: Final = 0.5
"""Of an attempt, however short the interval is: a connection may have to be made."""
_WITNESS_S: Final = 1.0
"""The most that one broker takes which is asked beside the one that answered."""
_SPREAD_S: Final = 0.25
"""An image spreads among brokers within this time: they fetch the metadata log without a pause."""


class Poller:
    """Polls one cluster, again and again, one broker after the other, over connections that it
    keeps. It remembers brokers and the last answer for as long as it lives.

    A context manager. Of one thread at a time.

    Of the pollers that share `decoders` only as many as it has places hold large decoded answers at
    once: from the first decoding until `let_go`, the next poll or `close`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic_filter: TopicFilter,
        request_timeout_ms: int,
        decoders: threading.Semaphore | None = None,
        *,
        interval_ms: int | None = None,
        needs_id: bool = False,
        doubted_clock: tuple[float, float] | None = None,
    ) -> None:
        """Ask nobody yet. `needs_id`: an answer without a cluster id is a failed poll, unless
        `clusterId` is given.
        """
        self._cluster, self._needs_id, self._doubted_clock = cluster, needs_id, doubted_clock
        self._given_id = cluster.cluster_id
        self._filter = topic_filter
        self._timeout_s = request_timeout_ms / 1000
        interval_s = math.inf if interval_ms is None else interval_ms / 1000
        # A broker that hangs must not take the next poll its time.
        self._patience_s, self._longest_s = (
            interval_s * _PATIENCE,
            max(interval_s * _LONGEST, _LEAST_S),
        )
        self.brokers = Brokers(cluster.bootstrap_servers)
        self._connections = Connections(cluster)
        self._visitor = Visitor(self._connections, self.brokers)
        self._answered: Address | None = None
        self._known: Known | None = None
        """The last good poll."""
        self._decoders = decoders or threading.Semaphore()
        self._place = ExitStack()
        self._holds_place = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.let_go()
        self._connections.close()

    def let_go(self) -> None:
        """Give up the place among the decoders: the answer of the poll before is not looked at any
        more.
        """
        self._place.close()
        self._holds_place = False

    def expect(self, cluster_id: str | None, doubted_clock: tuple[float, float] | None) -> None:
        """From the next poll on believe only this cluster's answers, if its id is known, and no
        clock that says a time between these, s since the epoch. An id that was given counts for
        more.
        """
        self._cluster = replace(self._cluster, cluster_id=self._given_id or cluster_id)
        self._doubted_clock = doubted_clock

    def poll(self) -> Poll:
        """Ask for the metadata once, within the request timeout with all retries.

        If the answer differs from that of the poll before, other brokers are asked, too. While the
        clock is in doubt, no broker is asked.
        """
        self.let_go()
        doubt = CLOCK.doubt(self._doubted_clock)
        poll = self._polled() if doubt is None else Poll()
        # It may have been set meanwhile.
        if (doubt := doubt or CLOCK.doubt(self._doubted_clock)) is not None:
            self.let_go()
            self._known = None
            return Poll(error_kind="clock", error=doubt)
        return poll

    def asking(self, timeout_ms: int) -> Asking:
        """Return what asks this cluster questions beside metadata, those of one kind for so long at
        most.
        """
        return Asking(self._cluster, self.brokers, timeout_ms)

    @property
    def answerer(self) -> Address:
        """Where the last good answer came from. Raises PollError if there was none."""
        if self._answered is None:
            raise PollError("unreachable", "no poll was answered yet")
        return self._answered

    def ask(self, question: Question, deadline: float) -> Any:
        """Ask the broker that answered the poll before. Raises PollError, as `visit`."""
        return self._visitor.ask(self.answerer, question, deadline)

    def visit(self, address: Address, question: Question, deadline: float) -> Any:
        """Ask a broker over the connection that polls have, too. Raises PollError, and closes the
        connection if it is of no use then. Threads may ask different brokers at once.
        """
        return self._visitor.ask(address, question, deadline)

    def _polled(self) -> Poll:
        deadline = time.monotonic() + self._timeout_s
        failures: dict[Address, PollError] = {}
        last = Poll()
        attempts = 0
        for address in self.brokers.to_ask(failures, deadline):
            attempts += 1
            last, error = self._attempt(address, self._attempt_until(address, deadline))
            if error is None:
                try:
                    return replace(self._checked(address, last, deadline), attempts=attempts)
                except PollError as of_another:
                    last, error = replace(last, metadata=None, image=None), of_another
            # An attempt that the end of the poll's time cut off says less than the failure before.
            if not (
                error.kind == "timeout" and address in failures and time.monotonic() >= deadline
            ):
                failures[address] = error
        self.brokers.forget()
        return _failed(last, attempts, failures)

    def _checked(self, address: Address, answer: Poll, deadline: float) -> Poll:
        """Return the answer, or a newer one of another broker, with all that others said. Raises
        PollError.
        """
        brokers, known = self.brokers, self._known
        before, image = brokers.answered, answer.image
        brokers.learn(address, answer)
        place, newest = address, answer
        witnesses: list[Witness] = []
        # Where each broker names leaders of its own, none is behind another.
        is_compared = LEADER not in KINDS[self._cluster.kind].not_meaningful
        if is_compared and (known is None or image is None or image.news(known.image) is not None):
            others = [
                each
                for each in dict.fromkeys([before, *brokers.ring(address)])
                if each and each != address
            ]
            inquiry = Inquiry(
                answer,
                address,
                known,
                lambda other, names: self._ask_witness(other, names, answer, deadline),
                lambda: _let_spread(deadline),
            )
            place, newest, witnesses = inquiry.result(
                [other for other in others if not brokers.is_avoided(other)],
                was_behind=image is not None and brokers.behind.get(address) == image,
            )
        if place != address:
            brokers.learn(place, newest)
            brokers.avoid(address, BEHIND_S)
            if image is not None:
                brokers.behind[address] = image
        brokers.behind.pop(place, None)
        if is_compared:
            witnesses += self._look_at_former(
                newest, place, {told.broker for told in witnesses}, deadline
            )
        brokers.answered = self._answered = place
        if newest.image is not None and (
            known is None or known.image.news(newest.image) is not None
        ):
            self._known = Known(newest.image, newest.received_at)
        return replace(newest, witnesses=tuple(witnesses))

    def _ask_witness(
        self, address: Address, names: Sequence[str] | None, answer: Poll, deadline: float
    ) -> tuple[Poll, PollError | None]:
        """Ask a broker beside the one that gave the answer. Its address may be another cluster's by
        now.
        """
        until = min(deadline, time.monotonic() + min(_WITNESS_S, self._patience_s))
        poll, error = self._attempt(address, until, names)
        if error is None and poll.cluster_id != answer.cluster_id:
            error = PollError(
                "wrong_cluster", f"{format_address(address)}: belongs to cluster {poll.cluster_id}"
            )
        if error is not None:
            poll = replace(poll, broker_id=self.brokers.id_of(address))
        return poll, error

    def _look_at_former(
        self, answer: Poll, place: Address, asked: Collection[str | None], deadline: float
    ) -> list[Witness]:
        """Ask a broker that is listed no more whether it still answers clients, and how far it is
        behind.

        `place`: where the answer came from. `asked`: those that were asked with this poll already.
        """
        brokers, known = self.brokers, self._known
        former = (each for each in brokers.former if format_address(each) not in asked)
        address = next((each for each in former if not brokers.is_avoided(each)), None)
        if address is None:
            return []
        other, error = self._ask_witness(address, None, answer, deadline)
        if error is not None:
            if error.kind == "wrong_cluster" or brokers.avoided[address].wait >= AVOIDED_MAX_S:
                del brokers.former[address]
            return [Witness(other.broker_id, format_address(address), error_kind=error.kind)]
        brokers.avoid(address, BEHIND_S)
        assert answer.metadata is not None  # noqa: S101 - good polls
        assert other.metadata is not None  # noqa: S101
        found = difference(answer.metadata, answer.broker_id, other.metadata, other.broker_id)
        told = Witness.of(other)
        if found.age is Age.NEWER and not found.epochs:
            # Only the list says so. The broker may have come back since that was answered: then it
            # knows more.
            _let_spread(deadline)
            again, error = self._ask_witness(place, (), other, deadline)
            if error is not None:
                return [replace(told, is_behind=None)]
            assert again.metadata is not None  # noqa: S101 - a good poll
            if other.broker_id in again.metadata.brokers["broker_id"].to_pylist():
                return [told]
        if found.age is Age.NEWER:
            return [
                Witness.of(
                    other,
                    found,
                    answer.received_at if known is None else known.since(other, answer),
                )
            ]
        return [replace(told, is_behind=None) if found.age is Age.UNCLEAR else told]

    def _attempt(
        self, address: Address, deadline: float, names: Sequence[str] | None = None
    ) -> tuple[Poll, PollError | None]:
        """Ask one broker, about these topics or all that the filter covers."""
        poll, asked = Poll(), None

        def ask(connection: Connection) -> Poll:
            nonlocal asked
            asked = connection
            return self._ask(connection, deadline, names)

        try:
            self.brokers.obey_throttle(address, deadline)
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
            self.brokers.avoided.pop(address, None)
            return poll, None
        self._connections.drop(address)
        if failure.retry is not Retry.NOBODY:
            self.brokers.failed(address, failure)
        if poll.received_at is None and asked is not None:
            poll = Poll(sent_at=asked.sent_at)
        return replace(poll, metadata=None, image=None), failure

    def _attempt_until(self, address: Address, deadline: float) -> float:
        """Return when a broker's time is over: it gets half of what is left, so that one that hangs
        leaves time for another, and of the interval; less where the connection to who answered last
        is there to fall back on.
        """
        now, answered = time.monotonic(), self.brokers.answered
        half = min((deadline - now) / 2, self._longest_s)
        return now + (
            min(half, self._patience_s)
            if address != answered and answered in self._connections
            else half
        )

    def _ask(self, connection: Connection, deadline: float, names: Sequence[str] | None) -> Poll:
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
        if not self._holds_place and not is_small(len(answer.body)):
            self._place.enter_context(self._decoders)
            self._holds_place = True
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


def _failed(last: Poll, attempts: int, failures: dict[Address, PollError]) -> Poll:
    """Return the failed poll, with every address that was tried in the order of the first tries."""
    errors = list(failures.values())
    # What got farther than the connection says more than what did not.
    kind = next(
        (error.kind for error in reversed(errors) if error.kind != "unreachable"), "unreachable"
    )
    return replace(
        last, attempts=attempts, error_kind=kind, error="; ".join(error.problem for error in errors)
    )


def _let_spread(deadline: float) -> None:
    """Wait until brokers have the newest image, unless the poll's time would be over."""
    time.sleep(max(0.0, min(_SPREAD_S, deadline - time.monotonic())))


def _level(connection: Connection, feature: str, absent: int | None) -> int | None:
    return None if connection.features is None else connection.features.get(feature, absent)


def _broker_id(metadata: ClusterMetadata, address: Address) -> int | None:
    """Return the id of the broker at an address; None when that is not the address that the cluster
    knows it by.
    """
    host, port = address
    for broker in metadata.brokers.to_pylist():
        if (broker["host"], broker["port"]) == (host, port):
            return int(broker["broker_id"])
    return None
