"""Questions beside metadata, asked of one cluster's brokers after a good poll, over connections of
their own.

So a question that hangs is in the way of no poll. Throttling counts for both alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metadata_source.connections import Connections
from metadata_source.enrichment import Answer, answer
from metadata_source.log_dirs import KeptSizes
from metadata_source.open_before import OpenBefore
from metadata_source.outcomes import FAILED, put_off
from metadata_source.stable_offsets import StableOffsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metadata_source.addresses import Address
    from metadata_source.brokers import Brokers
    from metadata_source.enrichment import Subject
    from metadata_source.errors import PollError
    from metadata_source.groups import Coordinated
    from metadata_source.options import Cluster
    from metadata_source.questions import Question
    from metadata_source.transport import Connection


class Requester:
    """Asks brokers of one cluster over connections that it keeps. A thread may ask each at once."""

    def __init__(self, connections: Connections, brokers: Brokers) -> None:
        self._connections, self._brokers = connections, brokers

    def require(self, address: Address, question: Question, deadline: float) -> None:
        """Raise PollError unless a broker has such a request."""
        question.version(self._connections.get(address, deadline))

    def ask(self, address: Address, question: Question, deadline: float) -> Any:
        """Ask a broker, once its throttling allows; the connection to it is kept. Raises PollError,
        and closes the connection if it is of no use then.
        """
        return self._connections.use(
            address, deadline, lambda each: self._ask_over(each, question, deadline)
        )

    def _ask_over(self, connection: Connection, question: Question, deadline: float) -> Any:
        question.version(connection)
        self._brokers.obey_throttle(connection.address, deadline)
        try:
            response = question.ask(connection, deadline)
        except BaseException:
            self._connections.drop(connection.address)
            raise
        # DescribeQuorum has no such field.
        self._brokers.throttle(connection.address, getattr(response, "throttle_time_ms", None))
        return response


class Asking:
    """Asks one cluster what Metadata does not say. For one thread at a time, and to be closed."""

    def __init__(self, cluster: Cluster, brokers: Brokers, timeout_ms: int) -> None:
        """Ask nobody yet. `timeout_ms` bounds the questions of one enrichment."""
        self._timeout_s = timeout_ms / 1000
        self._brokers = brokers
        self._connections = Connections(cluster)
        self.requester = Requester(self._connections, brokers)
        self.kept_sizes = KeptSizes()
        """Of log directories, as of the answers before."""
        self._failed_at: dict[str, float] = {}
        """Kinds that failed when they were asked last, and when that was (of `time.monotonic`)."""
        self.stable = StableOffsets()
        self.open_before = OpenBefore[int]()
        self._led: dict[str, frozenset[tuple[int, int]]] = {}
        """Partitions of a topic of coordinators, with leader epochs, when these were asked last."""

    def close(self) -> None:
        """Close all connections. More can be asked afterwards."""
        self._connections.close()

    def answers(self, about: Subject, address: Address) -> Iterator[Answer]:
        """Ask the broker at an address each enrichment of a subject, and yield the answers as they
        come; never raises.

        Kinds that failed come last, the longest ago first: one that takes its time each time is not
        in the way of the others. An enrichment that would have to wait for longer than it may take
        is put off.
        """
        asker = _Asker(self, address)
        for enrichment in sorted(
            about.enrichments, key=lambda enrichment: self._failed_at.get(enrichment, 0.0)
        ):
            asker.deadline = time.monotonic() + self._timeout_s
            wait = self._brokers.throttled_s(address)
            if wait > self._timeout_s:
                yield Answer(
                    enrichment, put_off(f"throttled by the broker for another {wait:.1f} s")
                )
                continue
            found = answer(enrichment, about, asker)
            self._failed_at.pop(enrichment, None)
            if found.outcome.startswith(FAILED):
                self._failed_at[enrichment] = time.monotonic()
            yield found

    def has_moved(self, topic: str, led: frozenset[tuple[int, int]]) -> bool:
        """Whether one of these, partitions of a topic with leader epochs, was not there the last
        time; they are the next time's last.
        """
        before = self._led.get(topic)
        self._led[topic] = led
        return before is not None and not led <= before


@dataclass(slots=True)
class _Asker:
    """Asks one broker, each enrichment by a deadline of its own, after one poll."""

    asking: Asking
    address: Address
    deadline: float = 0.0
    coordinated: list[Coordinated] | PollError | None = None

    def require(self, question: Question) -> None:
        self.asking.requester.require(self.address, question, self.deadline)

    def ask(self, question: Question) -> Any:
        return self.asking.requester.ask(self.address, question, self.deadline)

    @property
    def stable(self) -> StableOffsets:
        return self.asking.stable

    @property
    def open_before(self) -> OpenBefore[int]:
        return self.asking.open_before

    @property
    def kept_sizes(self) -> KeptSizes:
        return self.asking.kept_sizes

    def visits(self) -> _Visits:
        return _Visits(self.asking, self.deadline)


@dataclass(frozen=True, slots=True)
class _Visits:
    """Asks any broker, by a deadline."""

    asking: Asking
    deadline: float

    def ask(self, address: Address, question: Question, deadline: float) -> Any:
        return self.asking.requester.ask(address, question, deadline)

    def are_new(self, topic: str, led: frozenset[tuple[int, int]]) -> bool:
        return self.asking.has_moved(topic, led)
