"""Questions beside the polls of one cluster: which are due, and the thread that asks them."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from metadata_source.enrichment import subject
from metadata_source.recorder.beat import QuestionBeats

if TYPE_CHECKING:
    from metadata_source.addresses import Address
    from metadata_source.asking import Asking
    from metadata_source.enrichment import Subject
    from metadata_source.options import Options, Polling
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.recorder.entries import Entries

_LOG: Final = logging.getLogger(__name__)
_OF_CHANGES: Final = ("reassignments", "configs")
"""The kinds that tell causes of what a poll shows: they are asked at once if a poll is news."""


class QuestionThread:
    """Asks the questions of one cluster, in a thread that lives as long as any are pending.

    So a question that hangs delays no poll. Answers go to the cluster's entries.
    """

    def __init__(
        self, alias: str, polling: Polling, options: Options, asking: Asking, entries: Entries
    ) -> None:
        """Ask nobody yet."""
        self._alias, self._options = alias, options
        self._asking, self._entries = asking, entries
        self._beats = QuestionBeats(polling.enrich)
        self._pending: tuple[Subject, Address] | None = None
        self._thread: threading.Thread | None = None

    def take_due(
        self, after_ms: int, metadata: ClusterMetadata, *, has_news: bool
    ) -> Subject | None:
        """Return what is to be asked after a good poll, None for nothing; it is due no more.

        `after_ms`: since the first tick. `has_news`: of the poll.
        """
        kinds = () if self._pending is None else self._pending[0].enrichments
        kinds += self._beats.due(after_ms)
        if has_news:
            kinds += self._beats.among(_OF_CHANGES)
        if not kinds:
            return None
        self._beats.asked(kinds, after_ms)
        return subject(kinds, metadata, self._options.topic_filter, self._options.groups_pattern)

    def ask(self, about: Subject, address: Address) -> None:
        """Have these kinds asked: at once, or when those that are being asked are answered."""
        self._pending = about, address
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name=f"{self._alias}: questions", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: the kinds stay pending to the next poll
            _LOG.error("cluster %s: nothing is asked beside the poll: %s", self._alias, error)
            self._entries.await_kinds(())
        else:
            self._thread = thread

    def join(self, until_s: float) -> bool:
        """Wait for the questions that run, so long at most; return whether they have ended."""
        thread = self._thread
        if thread is not None:
            thread.join(max(0.0, until_s - time.monotonic()))
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Close all connections, once nothing is asked any more."""
        self._asking.close()

    def _run(self) -> None:
        """Ask what is pending, until nothing is."""
        while True:
            with self._entries.changed:
                if self._pending is None:
                    self._thread = None
                    return
                (about, address), self._pending = self._pending, None
            try:
                for answer in self._asking.answers(about, address):
                    self._entries.add(answer)
            except Exception:  # noqa: BLE001 - a bug in a question must not end the others
                _LOG.exception("cluster %s: the questions beside the poll failed", self._alias)
                self._entries.await_kinds(())
