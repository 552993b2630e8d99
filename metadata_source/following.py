"""Logs of many clusters, followed side by side: on the driver looks say how far each log goes, and places follow.

Kafka clients are imported by the watchers, since Spark imports this module to look up names.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from metadata_source.errors import LogError, OptionsError, stumbled

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSource, InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

PATIENCE_S: Final = 1.0
"""So long a cluster that is slow to say where its log ends holds up the others, and so long is waited when nothing is
new.
"""


class Place(Protocol):
    """How far a stream has come with one cluster's log."""

    def to_json(self) -> dict[str, Any]:
        """Return the place as Spark's offset carries it."""


class Seen(Protocol):
    """The outcome of a look at one cluster's log."""

    @property
    def problem(self) -> LogError | None:
        """The error of a log that was looked at and cannot be read."""


_Place = TypeVar("_Place", bound=Place)
_Seen = TypeVar("_Seen", bound=Seen)
_Place_contra = TypeVar("_Place_contra", bound=Place, contravariant=True)
_Seen_co = TypeVar("_Seen_co", bound=Seen, covariant=True)


class Watcher(Protocol[_Place_contra, _Seen_co]):
    """Looks at one cluster's log, again and again."""

    def look(self, place: _Place_contra | None) -> _Seen_co:
        """Return what the log is now, beside the place in it. Raises LogError."""

    def close(self) -> None:
        """Close the connections."""


def check_schema(source: DataSource, schema: StructType) -> None:
    """Raise OptionsError for another schema than the source's own: Spark hands a user's .schema() on unseen, and would
    take the columns by their place in it.
    """
    if schema != source.schema():
        raise OptionsError(
            f"schema: {source.name()} brings its own columns: leave .schema(...) out and select from them"
        )


class Looks(Generic[_Place, _Seen]):
    """Looks at all clusters side by side, each in a thread: one that is slow or down keeps no other waiting for long.

    `failed` says what is wrong with those whose last look was of no use; it is logged when it changes.
    """

    def __init__(self, watchers: Mapping[str, Watcher[_Place, _Seen]], log: logging.Logger) -> None:
        self.failed: dict[str, LogError] = {}
        self._watchers = watchers
        self._log = log
        self._threads = ThreadPoolExecutor(len(watchers), log.name)
        self._under_way: dict[str, Future[_Seen]] = {}

    def ready(self, places: Mapping[str, _Place]) -> dict[str, _Seen]:
        """Return what clusters say that answer soon, or that have answered since the last time."""
        return self._collect(places, PATIENCE_S)

    def finished(self, places: Mapping[str, _Place]) -> dict[str, _Seen]:
        """Return what all clusters say that answer at all."""
        return self._collect(places, None)

    def all(self) -> dict[str, _Seen]:
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

    def _collect(self, places: Mapping[str, _Place], timeout_s: float | None) -> dict[str, _Seen]:
        for alias in self._watchers.keys() - self._under_way.keys():
            self._under_way[alias] = self._threads.submit(self._watchers[alias].look, places.get(alias))
        done, _ = wait(self._under_way.values(), timeout_s)
        seen = {}
        for alias in [alias for alias, look in self._under_way.items() if look in done]:
            try:
                seen[alias] = self._under_way.pop(alias).result()
            except LogError as error:
                self._note(alias, error)
            except Exception as error:  # noqa: BLE001 - raised, it would end the reading of every log
                self._note(alias, LogError("protocol", stumbled(error)))
            else:
                self._note(alias, seen[alias].problem)
        return seen

    def _note(self, alias: str, error: LogError | None) -> None:
        if error is None:
            self.failed.pop(alias, None)
            return
        error = error.of(alias)
        if str(error) != str(self.failed.get(alias)):
            self._log.warning("%s; its place in the log stays", error)
        self.failed[alias] = error


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[_Place, _Seen]):
    """Follows the logs. On the driver it says how far each batch goes; its pickled copies, in workers, read.

    An offset maps a cluster's alias to its place. What is wrong with a cluster is logged, and its place stays; so does
    the place of a cluster that is no longer asked for.
    """

    def __init__(self) -> None:
        self._looks: Looks[_Place, _Seen] | None = None
        self._available_now = False
        self._available: dict[str, _Seen] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_looks": None}

    def looks(self) -> Looks[_Place, _Seen]:
        """Return the looks at all clusters, to be closed."""
        raise NotImplementedError

    def place(self, value: dict[str, Any]) -> _Place:
        """Return the place that `to_json` wrote."""
        raise NotImplementedError

    def following(self, place: _Place | None, seen: _Seen) -> _Place | None:
        """Return the place at the end of the next batch; where there was none, the one to begin at, None if that is not
        known yet.
        """
        raise NotImplementedError

    def tasks(self, start: Mapping[str, _Place], end: Mapping[str, _Place]) -> list[InputPartition]:
        """Return the tasks of a batch."""
        raise NotImplementedError

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before any log was found. Nothing is asked for it, so nothing can be wrong with it."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to where the logs end now."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the end of the next batch; if nothing is new, after a while.

        A log that is found is a batch of its own, without rows: a batch's rows follow from its two offsets alone,
        whenever it is run again, so that its beginning has to stand in one.
        """
        if self._looks is None:
            self._looks = self.looks()
        places = self._places(start)
        if not self._available_now:
            logs = self._looks.ready(places)
        elif self._available is None:
            logs = self._available = self._looks.finished(places)
        else:
            logs = self._available
        end = dict(places)
        for alias, seen in logs.items():
            if (place := self.following(places.get(alias), seen)) is not None:
                end[alias] = place
        if end == places and not self._available_now:
            # Returning at once would make Spark ask again 67 times a second.
            time.sleep(PATIENCE_S)
        return {alias: place.to_json() for alias, place in end.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a batch's tasks."""
        return self.tasks(self._places(start), self._places(end))

    def stop(self) -> None:
        """Let go of the clusters."""
        if self._looks is not None:
            self._looks.close()

    def _places(self, offset: dict[str, Any]) -> dict[str, _Place]:
        return {alias: self.place(value) for alias, value in offset.items()}
