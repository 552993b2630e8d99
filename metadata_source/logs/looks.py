"""Looks at the logs of many clusters side by side: how far each one goes.

Kafka clients are imported by the watchers, since Spark imports this module to look up names.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.errors import LogError
    from metadata_source.logs.source import LogFormat

PATIENCE_S: Final = 1.0
"""So long a cluster that is slow to say where its log ends holds up the others, and so long is waited when nothing is
new.
"""


class Looks:
    """Looks at all clusters side by side, each in a thread: one that is slow or down keeps no other waiting for long.

    `failed` says what is wrong with those whose last look was of no use; it is logged when it changes.
    """

    def __init__(self, log: LogFormat) -> None:
        self.failed: dict[str, LogError] = {}
        self._log = log
        self._watchers = {cluster.alias: log.watcher(cluster) for cluster in log.options.clusters}
        self._threads = ThreadPoolExecutor(len(self._watchers), log.logger.name)
        self._under_way: dict[str, Future[Any]] = {}

    def ready(self, places: Mapping[str, Any]) -> dict[str, Any]:
        """Return what clusters say that answer soon, or that have answered since the last time."""
        return self._collect(places, PATIENCE_S)

    def finished(self, places: Mapping[str, Any]) -> dict[str, Any]:
        """Return what all clusters say that answer at all."""
        return self._collect(places, None)

    def all(self) -> dict[str, Any]:
        """Return what all clusters say, of which no place is known, and let go of them. Raises LogError if something is
        wrong with one.
        """
        try:
            seen = self.finished({})
        finally:
            self.close()
        if self.failed:
            raise next(iter(self.failed.values()))
        return seen

    def close(self) -> None:
        """Let go of the clusters, and wait for none of them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for alias, watcher in self._watchers.items():
            if alias not in self._under_way:
                watcher.close()

    def _collect(self, places: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
        for alias in self._watchers.keys() - self._under_way.keys():
            self._under_way[alias] = self._threads.submit(self._watchers[alias].look, places.get(alias))
        done, _ = wait(self._under_way.values(), timeout_s)
        seen = {}
        for alias in [alias for alias, look in self._under_way.items() if look in done]:
            try:
                seen[alias] = self._under_way.pop(alias).result()
            except Exception as error:  # noqa: BLE001 - raised, it would end the reading of every log
                self._note(alias, error)
            else:
                self._note(alias, seen[alias].problem)
        return seen

    def _note(self, alias: str, error: Exception | None) -> None:
        before = self.failed.pop(alias, None)
        if error is not None:
            self.failed[alias] = failed = self._log.error.of(alias, error)
            if str(failed) != str(before):
                self._log.logger.warning("%s; its place in the log stays", failed)
