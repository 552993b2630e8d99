"""One cluster, recorded: polled on its beat and asked beside, for as long as the process lives.

An entry waits a moment for the answers beside its poll, and is written before the next poll of the
cluster in any case; answers that come later go with the next good poll.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source.errors import stumbled
from metadata_source.poll import OVERLAPPED, Poll
from metadata_source.poller import Poller
from metadata_source.recorder.beat import Beat
from metadata_source.recorder.entries import Entries
from metadata_source.recorder.questions import QuestionThread

if TYPE_CHECKING:
    import threading

    from metadata_source.options import Cluster, Options, Polling
    from metadata_source.pseudonyms import Pseudonyms
    from metadata_source.recorder.entries import Sink

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """The options, and the objects that all clusters of one process use."""

    options: Options
    spool: Sink
    is_over: threading.Event
    """Set when no more polls are to be made."""
    decoders: threading.Semaphore
    pseudonyms: Pseudonyms | None = None
    is_once: bool = False
    """One poll of each cluster, with all that is asked beside it."""


class ClusterRecorder:
    """Records one cluster in a thread of its own (`run`), and asks questions in another one."""

    def __init__(
        self, cluster: Cluster, polling: Polling, shared: Shared, *, begin_s: float
    ) -> None:
        """Ask nobody yet. `begin_s`: when the first poll is due, on the monotonic clock."""
        options = shared.options
        self.alias = cluster.alias
        self._polling, self._shared = polling, shared
        self._beat = Beat(begin_s, polling.interval_ms)
        self._poller = Poller(
            cluster,
            options.topic_filter,
            options.request_timeout_ms,
            shared.decoders,
            interval_ms=polling.interval_ms,
            needs_id=True,
        )
        self._entries = Entries(
            cluster.alias, polling.interval_ms, options, shared.spool, shared.pseudonyms
        )
        asking = self._poller.asking(polling.enrich_timeout_ms)
        self._questions = QuestionThread(cluster.alias, polling, options, asking, self._entries)

    def expect(self, cluster_id: str | None, doubted_clock: tuple[float, float] | None) -> None:
        """From the next poll on: see `Poller.expect`."""
        self._poller.expect(cluster_id, doubted_clock)

    def run(self) -> None:
        """Poll when it is due, until the end. In a thread of its own."""
        tick = 0
        while not self._shared.is_over.wait(max(0.0, self._beat.at(tick) - time.monotonic())):
            try:
                tick = self._tick(tick)
            except Exception:  # noqa: BLE001 - the next tick is another try
                _LOG.exception("cluster %s: a poll could not be noted", self.alias)
                tick = max(tick + 1, self._beat.missed(tick, time.monotonic()).stop)
            if self._shared.is_once:
                return

    def join(self, until_s: float) -> bool:
        """Wait for the questions that run, so long at most; return whether they have ended."""
        return self._questions.join(until_s)

    def finish(self) -> None:
        """Write what waits for answers, and nothing after it."""
        self._entries.finish()

    def close(self) -> None:
        """Close all connections, once nothing is polled or asked any more."""
        self._poller.close()
        self._questions.close()

    def _tick(self, tick: int) -> int:
        """Poll, record the ticks that passed meanwhile as missed, and return the next tick."""
        try:
            self._record(tick)
        except Exception as error:  # noqa: BLE001 - a bug in what one cluster brings must not end its polls
            _LOG.exception("cluster %s: the poll failed", self.alias)
            self._record_alone(tick, Poll(error_kind="protocol", error=stumbled(error)))
        if self._shared.is_once:
            return tick + 1
        missed = self._beat.missed(tick, time.monotonic())
        for each in missed:
            self._record_alone(each, OVERLAPPED)
        return max(tick + 1, missed.stop)

    def _record_alone(self, tick: int, poll: Poll) -> None:
        """Record a poll beside which nothing is asked."""
        with self._entries.changed:
            self._entries.make(self._beat.at(tick), poll)
            self._entries.write()

    def _record(self, tick: int) -> None:
        """Poll, and record the poll with what is asked beside it."""
        poll = self._poller.poll()
        with self._entries.changed:
            self._entries.make(self._beat.at(tick), poll)
            about = None
            if poll.metadata is not None:
                after_ms = tick * self._polling.interval_ms
                has_news = self._entries.has_news
                about = self._questions.take_due(after_ms, poll.metadata, has_news=has_news)
            del poll  # its tables would be held while the entry waits
            self._poller.let_go()
            if about is not None:
                self._entries.await_kinds(about.enrichments)
                self._questions.ask(about, self._poller.answerer)
                now = time.monotonic()
                self._entries.wait(
                    None if self._shared.is_once else self._beat.answers_until(tick, now) - now
                )
            self._entries.write()
