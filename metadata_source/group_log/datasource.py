"""The Spark data source `kafka_group_log`: `__consumer_offsets` of many clusters, by offset.

The driver says how far a batch goes, executors read it; a Spark partition is what one task reads of some clusters.
Kafka clients and pyarrow are imported where they are used, since Spark imports this module to look up names.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from metadata_source.errors import GroupLogError, OptionsError
from metadata_source.facts import OFFSETS_TOPIC
from metadata_source.group_log.places import Place, Span, advance, found, spans
from metadata_source.group_log.tasks import grouped
from metadata_source.options import parse_group_log
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from metadata_source.group_log.places import Log
    from metadata_source.options import Cluster, GroupLogOptions
    from metadata_source.pseudonyms import Pseudonyms

log = logging.getLogger("kafka_metadata_history.group_log")

_PATIENCE_S: Final = 1.0
"""So long a cluster that is slow to say where its log ends holds up the others, and so long is waited when nothing is
new.
"""


class KafkaGroupLogSource(DataSource):
    """The records that group coordinators wrote to their log. See `metadata_source.options` for the options."""

    topic = OFFSETS_TOPIC

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka_group_log"

    def schema(self) -> StructType:
        """Return the columns of bronze.group_log."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        from metadata_source.group_log.reader import SCHEMA  # noqa: PLC0415

        schema: StructType = from_arrow_schema(SCHEMA)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of each log from where it is asked to begin to its present end."""
        options = parse_group_log(self.options, "batch")
        self._check_schema(schema)
        return _BatchReader(options, self.topic)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader that follows the logs."""
        options = parse_group_log(self.options, "stream")
        self._check_schema(schema)
        return _StreamReader(options, self.topic)

    def _check_schema(self, schema: StructType) -> None:
        # Spark hands a user's .schema() on unseen, and would take the columns by their place in it.
        if schema != self.schema():
            raise OptionsError(
                "schema: kafka_group_log brings its own columns: leave .schema(...) out and select from them"
            )


@dataclass(frozen=True)
class _Task(InputPartition):
    """Spans by alias, when they were asked for, and how to reach their clusters; without those that nothing names any
    more.
    """

    spans: Mapping[str, Sequence[Span]]
    read_at: datetime
    clusters: Mapping[str, Cluster]
    topic: str
    request_timeout_ms: int
    client_hash_key: str | None


def _tasks(between: Iterable[Span], options: GroupLogOptions, topic: str) -> list[_Task]:
    clusters = {cluster.alias: cluster for cluster in options.clusters}
    # By one clock for all executors: what is read after a truncation is told from what was before by it.
    now = datetime.now(UTC)
    return [
        _Task(
            together,
            now,
            {alias: clusters[alias] for alias in together if alias in clusters},
            topic,
            options.request_timeout_ms,
            options.client_hash_key,
        )
        for together in grouped(between)
    ]


def _read(task: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, its clusters side by side. Spark asks for None where a batch has no task."""
    from metadata_source.pseudonyms import Pseudonyms  # noqa: PLC0415

    if not isinstance(task, _Task):
        return
    pseudonyms = None if task.client_hash_key is None else Pseudonyms.of_reference(task.client_hash_key)
    yield from in_threads(list(task.spans), lambda alias: _read_cluster(task, alias, pseudonyms), threading.Event())


def _read_cluster(task: _Task, alias: str, pseudonyms: Pseudonyms | None) -> Iterator[pa.RecordBatch]:
    from metadata_source.group_log.reader import Went, read_spans, span_rows  # noqa: PLC0415

    cluster = task.clusters.get(alias)
    there = [span for span in task.spans[alias] if not span.truncated and cluster is not None]
    gone = [
        Went(span, "truncated" if span.truncated else "lost", span.start, span.end)
        for span in task.spans[alias]
        if span not in there
    ]
    if gone:
        yield span_rows(gone, task.read_at)
    if not there or cluster is None:
        return
    try:
        yield from read_spans(
            cluster,
            there,
            read_at=task.read_at,
            timeout_ms=task.request_timeout_ms,
            pseudonyms=pseudonyms,
            topic=task.topic,
        )
    except GroupLogError as error:
        raise _of_cluster(alias, error) from None


def _of_cluster(alias: str, error: GroupLogError) -> GroupLogError:
    return GroupLogError(error.kind, f"cluster {alias}: {error.problem}")


class _BatchReader(DataSourceReader):
    """Everything from where it is asked to begin up to the end that the logs have when the read is planned."""

    def __init__(self, options: GroupLogOptions, topic: str) -> None:
        self._options = options
        self._topic = topic

    def partitions(self) -> list[_Task]:
        looks = _Looks(self._options, self._topic)
        try:
            logs = looks.finished({})
        finally:
            looks.close()
        if looks.failed:
            raise next(iter(looks.failed.values()))
        start: dict[str, Place] = {}
        end: dict[str, Place] = {}
        for alias, seen in logs.items():
            start[alias] = found(seen.log, seen.first)
            end[alias] = advance(start[alias], seen.log)
        return _tasks(spans(start, end), self._options, self._topic)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the logs. On the driver it says how far each batch goes; its pickled copies, in workers, read.

    An offset maps a cluster's alias to its place. What is wrong with a cluster is logged, and its place stays; so does
    the place of a cluster that is no longer asked for.
    """

    def __init__(self, options: GroupLogOptions, topic: str) -> None:
        self._options = options
        self._topic = topic
        self._looks: _Looks | None = None
        self._available_now = False
        self._available: dict[str, _Seen] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_looks": None}

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
        places = {alias: Place.from_json(place) for alias, place in start.items()}
        if not self._available_now:
            logs = self._looking().ready(places)
        elif self._available is None:
            logs = self._available = self._looking().finished(places)
        else:
            logs = self._available
        end = dict(places)
        for alias, seen in logs.items():
            if (place := places.get(alias)) is not None:
                end[alias] = advance(place, seen.log, self._options.max_records)
            elif seen.log.whole:
                # Not a partition later: one that is new to a place begins with its first record, wherever others were
                # to begin.
                end[alias] = found(seen.log, seen.first)
        if end == places and not self._available_now:
            # Returning at once would make Spark ask again 67 times a second.
            time.sleep(_PATIENCE_S)
        return {alias: place.to_json() for alias, place in end.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Task]:
        """Return a batch's tasks."""
        between = spans(
            {alias: Place.from_json(place) for alias, place in start.items()},
            {alias: Place.from_json(place) for alias, place in end.items()},
        )
        return _tasks(between, self._options, self._topic)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)

    def stop(self) -> None:
        """Let go of the clusters."""
        if self._looks is not None:
            self._looks.close()

    def _looking(self) -> _Looks:
        if self._looks is None:
            self._looks = _Looks(self._options, self._topic)
        return self._looks


@dataclass(frozen=True, slots=True)
class _Seen:
    """A log, and where it is to begin, as long as it has no place and is whole."""

    log: Log
    first: Mapping[int, int]


class _Looks:
    """Looks at all clusters side by side, each in a thread: one that is slow or down keeps no other waiting for long.

    `failed` says what is wrong with those whose last look was of no use; it is logged when it changes.
    """

    def __init__(self, options: GroupLogOptions, topic: str) -> None:
        from metadata_source.group_log.watcher import LogWatcher  # noqa: PLC0415

        self.failed: dict[str, GroupLogError] = {}
        self._starting = options.starting
        self._resume_at = options.resume_at
        self._watchers = {
            cluster.alias: LogWatcher(cluster, topic, options.request_timeout_ms) for cluster in options.clusters
        }
        self._threads = ThreadPoolExecutor(len(self._watchers), "kafka_group_log")
        self._under_way: dict[str, Future[_Seen]] = {}

    def ready(self, places: Mapping[str, Place]) -> dict[str, _Seen]:
        """Return what clusters say that answer soon, or that have answered since the last time."""
        return self._collect(places, _PATIENCE_S)

    def finished(self, places: Mapping[str, Place]) -> dict[str, _Seen]:
        """Return what all clusters say that answer at all."""
        return self._collect(places, None)

    def close(self) -> None:
        """Let go of the clusters, and wait for none of them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for alias, watcher in self._watchers.items():
            if alias not in self._under_way:
                watcher.close()

    def _collect(self, places: Mapping[str, Place], timeout_s: float | None) -> dict[str, _Seen]:
        for alias in self._watchers.keys() - self._under_way.keys():
            self._under_way[alias] = self._threads.submit(self._look, alias, places.get(alias))
        done, _ = wait(self._under_way.values(), timeout_s)
        seen = {}
        for alias in [alias for alias, look in self._under_way.items() if look in done]:
            try:
                seen[alias] = self._under_way.pop(alias).result()
            except GroupLogError as error:
                self._note(alias, error)
            else:
                log_seen = seen[alias].log
                self._note(alias, None if log_seen.whole else _of_cluster(alias, _leaderless(log_seen)))
        return seen

    def _note(self, alias: str, error: GroupLogError | None) -> None:
        if error is not None and str(error) != str(self.failed.get(alias)):
            log.warning("%s; its place in the log stays", error)
        if error is None:
            self.failed.pop(alias, None)
        else:
            self.failed[alias] = error

    def _look(self, alias: str, place: Place | None) -> _Seen:
        watcher = self._watchers[alias]
        try:
            seen = watcher.look(place)
            if place is not None or not seen.whole:
                return _Seen(seen, {})
            if (known := self._resume_at.get(alias)) is not None:
                # A partition that was never read begins with its first record.
                return _Seen(seen, {partition: known.get(partition, begin) for partition, begin in seen.begins.items()})
            return _Seen(seen, watcher.starting(seen, self._starting))
        except GroupLogError as error:
            raise _of_cluster(alias, error) from None


def _leaderless(seen: Log) -> GroupLogError:
    """Return what to say of a log where some partition's offsets are not known."""
    missing = ", ".join(map(str, sorted(seen.partitions - (seen.begins.keys() & seen.ends.keys()))))
    return GroupLogError("no_leader", f"no leader answers for partitions {missing}")
