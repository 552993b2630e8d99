"""Watches over the logs of many clusters, side by side: how far each one goes, and when it has
news.

Kafka clients are imported by the watchers, since Spark imports this module to look up names.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from metadata_source.parent import Parent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metadata_source.errors import LogError
    from metadata_source.logs.format import LogFormat

PATIENCE_S: Final = 1.0
"""So long one that is slow to say where its log ends holds up those that have answered."""
WAIT_S: Final = 5.0
"""So long a broker holds a fetch without news. One that vanishes is noticed that much later."""
_QUIET_S: Final = 1.0
"""The least time between two answers without news."""
_AGAIN_S: Final = 1.0
"""The time after which a cluster that could not be asked is asked again."""
_ASKS_AGAIN_S: Final = (0.05, 5.0)
"""The time before a log is asked for again that was not as it seemed: at first, and at most, twice
as long each time.
"""
_CHECKED_EVERY_S: Final = 1.0
"""How often whoever waits looks whether the driver is still there."""


class Watches:
    """Watches all clusters, each in a thread: one that is slow or down keeps no other waiting for
    long.

    `failed` says what is wrong with those whose last answer was of no use; it is logged when it
    changes.
    """

    def __init__(self, log: LogFormat, note_every_s: float = 0.0) -> None:
        """Ask nobody yet. `note_every_s`: so often `moved` returns what is no news, too."""
        self.failed: dict[str, LogError] = {}
        self._log, self._note_every_s = log, note_every_s
        self._watchers = {cluster.alias: log.watcher(cluster) for cluster in log.options.clusters}
        self._under_way: dict[str, tuple[Any, Future[Any]]] = {}
        """By alias, the position that a log is watched from, and what comes of it."""
        self._seen: dict[str, Any] = {}
        self._note_at = time.monotonic()
        self._stopped, self._lock, self._parent = threading.Event(), threading.Lock(), Parent()

    def moved(self, positions: Mapping[str, Any], not_before: float) -> dict[str, Any]:
        """Return the logs, by alias, of clusters with news after their positions, as soon as there
        are some; but not before a time (of `time.monotonic`). Once in `note_every_s` those of all
        clusters that answer, news or not. Raises RuntimeError if the driver is gone.
        """
        for alias in self._watchers.keys() - self._under_way.keys():
            position = positions.get(alias)
            self._under_way[alias] = (
                position,
                _in_thread(self._log.logger.name, self._watch, alias, position, self._note_at),
            )
        while True:
            self._parent.check()
            now = time.monotonic()
            ahead = [each for _, each in self._under_way.values() if not each.done()]
            is_noted = now >= self._note_at and (not ahead or now >= self._note_at + PATIENCE_S)
            has_news = now < self._note_at and len(ahead) < len(self._under_way)
            if now >= not_before and (is_noted or has_news):
                break
            if has_news or not ahead:
                time.sleep(min(_CHECKED_EVERY_S, max(0.0, not_before - now)))
            elif now < self._note_at:
                wait(ahead, min(_CHECKED_EVERY_S, self._note_at - now), FIRST_COMPLETED)
            else:
                wait(
                    ahead, min(_CHECKED_EVERY_S, max(not_before, self._note_at + PATIENCE_S) - now)
                )
        if is_noted:
            self._note_at = now + self._note_every_s
        return self._done(positions)

    def finished(self, positions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the logs, by alias, of all clusters that answer at all. Raises RuntimeError if the
        driver is gone.
        """
        asked = {
            alias: _in_thread(self._log.logger.name, self._extent, alias, positions.get(alias))
            for alias in self._watchers
        }
        while wait(asked.values(), _CHECKED_EVERY_S).not_done:
            self._parent.check()
        return {alias: seen for alias, each in asked.items() if (seen := each.result()) is not None}

    def all(self) -> dict[str, Any]:
        """Return the logs of all clusters, of which no position is known, and let go of them.
        Raises LogError if something is wrong with one.
        """
        try:
            seen = self.finished({})
        finally:
            self.close()
        if self.failed:
            raise next(iter(self.failed.values()))
        return seen

    def close(self) -> None:
        """Let go of the clusters, and wait for none of them: what waits ends soon."""
        self._stopped.set()
        for alias, watcher in self._watchers.items():
            _, watch = self._under_way.get(alias, (None, None))
            if watch is None or watch.done():
                watcher.close()
            else:
                watch.add_done_callback(partial(_close, watcher))
                watcher.interrupt()

    def _done(self, positions: Mapping[str, Any]) -> dict[str, Any]:
        seen = {}
        for alias in [alias for alias, (_, each) in self._under_way.items() if each.done()]:
            position, watch = self._under_way.pop(alias)
            found = watch.result()
            # Of another position it says nothing.
            if found is not None and position == positions.get(alias):
                seen[alias] = found
        self._seen |= seen
        return seen

    def _watch(self, alias: str, position: Any, note_at: float) -> Any:
        """Return a cluster's log once it has news after a position, or as it is at `note_at`, or
        later if it cannot be asked then; None if nobody waits any more.
        """
        seen = self._seen.get(alias)
        if self._moves(position, seen):
            return seen  # A batch does not take more than so much at once.
        must_ask, pause_s = (
            seen is None or position is None or seen.problem is not None,
            _ASKS_AGAIN_S[0],
        )
        while not self._stopped.is_set():
            began = time.monotonic()
            if must_ask or began >= note_at:
                seen = self._extent(alias, position)
                if seen is not None and (began >= note_at or self._moves(position, seen)):
                    return seen
                must_ask = seen is None or position is None
                self._stopped.wait(_AGAIN_S if seen is None else pause_s)
                pause_s = min(2 * pause_s, _ASKS_AGAIN_S[1])
            else:
                try:
                    news = self._watchers[alias].wait(position, min(WAIT_S, note_at - began))
                except Exception:  # noqa: BLE001 - asking says what is wrong
                    must_ask = True
                    continue
                if self._moves(position, news):
                    return news
                must_ask = news is not None or (seen is not None and seen.problem is not None)
                if news is None:
                    pause_s = _ASKS_AGAIN_S[0]
                    self._stopped.wait(began + _QUIET_S - time.monotonic())
        return None

    def _extent(self, alias: str, position: Any) -> Any:
        """Return the extent of a cluster's log, None if it cannot be asked; `failed` says why."""
        try:
            seen = self._watchers[alias].ask_extent(position)
        except Exception as error:  # noqa: BLE001 - raised, it would end the reading of every log
            if not self._stopped.is_set():
                self._note(alias, error)
            return None
        self._note(alias, seen.problem)
        return seen

    def _moves(self, position: Any, seen: Any) -> bool:
        """Whether a batch would move a position on, or find one."""
        if seen is None:
            return False
        following = seen.first if position is None else self._log.advance(position, seen)
        return following is not None and following != position

    def _note(self, alias: str, error: Exception | None) -> None:
        with self._lock:
            before = self.failed.pop(alias, None)
            if error is not None:
                self.failed[alias] = failed = self._log.error.of(alias, error)
                if str(failed) != str(before):
                    self._log.logger.warning("%s; its place in the log stays", failed)


def _close(watcher: Any, _: Future[Any]) -> None:
    watcher.close()


def _in_thread(name: str, call: Callable[..., Any], *args: Any) -> Future[Any]:
    """Return what comes of a call in a thread that this process does not wait for at its end."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            found.set_result(call(*args))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            found.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return found
