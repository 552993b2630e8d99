"""One cluster, polled: which broker to ask, how long and how often to try.

A poll never raises: whatever is wrong is a failed `Poll`, whose `error_kind` is a word of
`errors.ErrorKind`.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from metadata_source.asking import Asking, Requester
from metadata_source.attempts import Attempts
from metadata_source.brokers import Brokers
from metadata_source.clock import CLOCK
from metadata_source.connections import Connections
from metadata_source.errors import PollError
from metadata_source.options import TopicFilter
from metadata_source.poll import Poll
from metadata_source.witnesses import Witnesses

if TYPE_CHECKING:
    from types import TracebackType

    from metadata_source.addresses import Address
    from metadata_source.options import Cluster
    from metadata_source.questions import Question

NO_TOPIC: Final = TopicFilter(topics=())
"""Asks for brokers and the cluster's id alone."""
_PATIENCE: Final = 0.25
"""The part of a poll's interval that a broker gets where another one can be asked instead."""
_LONGEST: Final = 0.5
"""The part of a poll's interval that a broker gets at most: the next poll goes to another."""
_LEAST_S: Final = 0.5
"""Of an attempt, however short the interval is: a connection may have to be made."""


class Poller:
    """Polls one cluster, again and again, one broker after the other, over connections that it
    keeps. It remembers brokers and the last answer for as long as it lives.

    A context manager. Of one thread at a time.

    Of the pollers that share `decoders` only as many as it has slots hold large decoded answers at
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
        """Ask nobody yet. `needs_id`: without a cluster id, answered or given, a poll fails."""
        self._cluster, self._doubted_clock = cluster, doubted_clock
        self._timeout_s = request_timeout_ms / 1000
        interval_s = math.inf if interval_ms is None else interval_ms / 1000
        # A broker that hangs must not take the next poll its time.
        self._patience_s = interval_s * _PATIENCE
        self._longest_s = max(interval_s * _LONGEST, _LEAST_S)
        self.brokers = Brokers(cluster.bootstrap_servers)
        self._connections = Connections(cluster)
        self._requester = Requester(self._connections, self.brokers)
        self._attempts = Attempts(
            cluster,
            topic_filter,
            self.brokers,
            self._connections,
            decoders or threading.Semaphore(),
            needs_id=needs_id,
        )
        self._witnesses = Witnesses(cluster.kind, self.brokers, self._attempts, self._patience_s)
        self._answered: Address | None = None

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
        """Give up the slot among the decoders: nobody reads the answer of the poll before."""
        self._attempts.let_go()

    def expect(self, cluster_id: str | None, doubted_clock: tuple[float, float] | None) -> None:
        """From the next poll on believe only this cluster's answers, if its id is known, and no
        clock that says a time between these, s since the epoch. An id that was given counts for
        more.
        """
        self._attempts.expect(cluster_id)
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
            self._witnesses.forget()
            return Poll(error_kind="clock", error=doubt)
        return poll

    def asking(self, timeout_ms: int) -> Asking:
        """Return what asks this cluster beside metadata, for so long at most for each kind."""
        return Asking(self._cluster, self.brokers, timeout_ms)

    @property
    def answerer(self) -> Address:
        """Where the last good answer came from. Raises PollError if there was none."""
        if self._answered is None:
            raise PollError("unreachable", "no poll was answered yet")
        return self._answered

    def ask(self, question: Question, deadline: float) -> Any:
        """Ask the broker that answered the poll before. Raises PollError, as `ask_broker`."""
        return self._requester.ask(self.answerer, question, deadline)

    def ask_broker(self, address: Address, question: Question, deadline: float) -> Any:
        """Ask a broker over the connection that polls have, too. Raises PollError, and closes the
        connection if it is of no use then. Threads may ask different brokers at once.
        """
        return self._requester.ask(address, question, deadline)

    def _polled(self) -> Poll:
        deadline = time.monotonic() + self._timeout_s
        failures: dict[Address, PollError] = {}
        last = Poll()
        attempts = 0
        for address in self.brokers.to_ask(failures, deadline):
            attempts += 1
            asked, error = self._attempts.ask(address, self._attempt_until(address, deadline))
            if error is None:
                try:
                    answered, checked = self._witnesses.check(address, asked, deadline)
                except PollError as of_another:
                    asked, error = replace(asked, metadata=None, image=None), of_another
                else:
                    self.brokers.answered = self._answered = answered
                    return replace(checked, attempts=attempts)
            # An attempt that the end of the poll's time cut off says less than the failure before.
            if not (
                error.kind == "timeout" and address in failures and time.monotonic() >= deadline
            ):
                failures[address] = error
            # An attempt that sent nothing says nothing of a request that was sent before.
            last = last if asked.sent_at is None else asked
        self.brokers.forget()
        return _failed(last, attempts, failures)

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
