"""All clusters of one recorder, and what they share."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.pseudonyms import Pseudonyms
from metadata_source.recorder.beat import begins_after_ms
from metadata_source.recorder.cluster import ClusterRecorder, Shared
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.options import Options
    from metadata_source.recorder.entries import Sink

_LOG: Final = logging.getLogger(__name__)
_DECODERS: Final = 4
"""So many clusters at once hold a large decoded answer, whose tables are several times as large."""
_ENDS_S: Final = 4.0
"""The longest that the end waits for what runs."""


class ThreadsError(KafkaMetadataHistoryError, RuntimeError):
    """The machine has no thread for a cluster. One line, no code: another recorder may find one."""


class Fleet:
    """The clusters that one process records."""

    def __init__(self, options: Options, spool: Sink, *, is_once: bool = False) -> None:
        """Ask nobody yet. Raises OptionsError where this machine lacks the key of pseudonyms."""
        key = options.client_hash_key
        self._is_over = threading.Event()
        pseudonyms = None if key is None else Pseudonyms.of_reference(key)
        shared = Shared(
            options, spool, self._is_over, threading.Semaphore(_DECODERS), pseudonyms, is_once
        )
        begin_s = time.monotonic()
        self.clusters = []
        for index, cluster in enumerate(options.clusters):
            polling = options.polling[cluster.alias]
            due_s = begin_s + begins_after_ms(index) / 1000
            self.clusters.append(ClusterRecorder(cluster, polling, shared, begin_s=due_s))
        self._threads = [
            threading.Thread(target=each.run, name=each.alias, daemon=True)
            for each in self.clusters
        ]

    def begin(self) -> None:
        """Have all clusters polled, each in a thread of its own: one that hangs holds up no other.
        docs/sizing.md says how late the polls of 300 and of 1,000 are. Raises ThreadsError where
        the machine allows no more threads.
        """
        for count, each in enumerate(self._threads):
            try:
                each.start()
            except RuntimeError as error:
                self._is_over.set()
                raise ThreadsError(
                    f"of {counted(len(self._threads), 'cluster')} only {count} can be polled: "
                    f"{error}: raise the limit of processes of this user or container, or name "
                    "fewer clusters"
                ) from None

    def expect(self, facts: Mapping[str, Any]) -> None:
        """From the next polls on believe no answer and no clock that contradicts these facts."""
        doubted = facts.get("doubted_clock")
        for each in self.clusters:
            each.expect(
                facts.get("cluster_ids", {}).get(each.alias),
                None if doubted is None else tuple(doubted),
            )

    @property
    def has_ended(self) -> bool:
        """Whether all that is asked once has been answered."""
        return not any(each.is_alive() for each in self._threads)

    def end(self) -> None:
        """Poll no more, and write what was answered."""
        self._is_over.set()
        until_s = time.monotonic() + _ENDS_S
        given_up = 0
        for each, thread in zip(self.clusters, self._threads, strict=True):
            try:
                thread.join(max(0.0, until_s - time.monotonic()))
                has_answered = each.join(until_s)
                each.finish()
                if thread.is_alive() or not has_answered:
                    given_up += 1
                else:
                    each.close()
            except Exception:  # noqa: BLE001 - the others' entries wait to be written, too
                _LOG.exception("cluster %s: its end failed", each.alias)
        if given_up:
            _LOG.warning("%s: what still ran was given up", counted(given_up, "cluster"))
