"""The Spark data source `kafka_group_log`: `__consumer_offsets` of many clusters, by offset.

The driver says how far a batch goes, executors read it; a Spark partition is what one task reads of some clusters.
Kafka clients and pyarrow are imported where they are used, since Spark imports this module to look up names.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from metadata_source.errors import GroupLogError, stumbled
from metadata_source.facts import OFFSETS_TOPIC
from metadata_source.following import LogStreamReader, Looks, check_schema
from metadata_source.group_log.places import Place, Span, advance, found, spans
from metadata_source.options import parse_group_log
from metadata_source.tasks import grouped
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Literal

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from metadata_source.group_log.places import Log
    from metadata_source.group_log.watcher import LogWatcher
    from metadata_source.options import Cluster, GroupLogOptions
    from metadata_source.pseudonyms import Pseudonyms

log = logging.getLogger("kafka_metadata_history.group_log")

_ABSENT: Final = "is not there: nothing is read of it until it is (Kafka makes it for the first group)"


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
        check_schema(self, schema)
        return _BatchReader(options, self.topic)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader that follows the logs."""
        options = parse_group_log(self.options, "stream")
        check_schema(self, schema)
        return _StreamReader(options, self.topic)


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
    groups_pattern: str | None


def _tasks(between: Iterable[Span], options: GroupLogOptions, topic: str) -> list[_Task]:
    clusters = {cluster.alias: cluster for cluster in options.clusters}
    # One clock for all executors: it separates rows that are read after a truncation from those before.
    now = datetime.now(UTC)
    return [
        _Task(
            together,
            now,
            {alias: clusters[alias] for alias in together if alias in clusters},
            topic,
            options.request_timeout_ms,
            options.client_hash_key,
            options.groups_pattern,
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
            groups_pattern=task.groups_pattern,
        )
    except GroupLogError as error:
        raise error.of(alias) from None
    except Exception as error:
        raise GroupLogError("protocol", stumbled(error)).of(alias) from error


class _BatchReader(DataSourceReader):
    """Everything from where it is asked to begin up to the end that the logs have when the read is planned."""

    def __init__(self, options: GroupLogOptions, topic: str) -> None:
        self._options = options
        self._topic = topic

    def partitions(self) -> list[_Task]:
        start: dict[str, Place] = {}
        end: dict[str, Place] = {}
        for alias, seen in _looks(self._options, self._topic).all().items():
            start[alias] = found(seen.log, seen.first)
            end[alias] = advance(start[alias], seen.log)
        return _tasks(spans(start, end), self._options, self._topic)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _StreamReader(LogStreamReader["Place", "_Seen"]):
    def __init__(self, options: GroupLogOptions, topic: str) -> None:
        super().__init__()
        self._options = options
        self._topic = topic

    def looks(self) -> Looks[Place, _Seen]:
        return _looks(self._options, self._topic)

    def place(self, value: dict[str, Any]) -> Place:
        return Place.from_json(value)

    def following(self, place: Place | None, seen: _Seen) -> Place | None:
        if place is not None:
            return advance(place, seen.log, self._options.max_records)
        # Not a partition later: one that is new to a place begins with its first record, wherever others were to begin.
        return found(seen.log, seen.first) if seen.log.whole else None

    def tasks(self, start: Mapping[str, Place], end: Mapping[str, Place]) -> list[InputPartition]:
        return [*_tasks(spans(start, end), self._options, self._topic)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A log, and where it is to begin, as long as it has no place and is whole."""

    log: Log
    first: Mapping[int, int]

    @property
    def problem(self) -> GroupLogError | None:
        """The error if some partition's offsets are not known."""
        if self.log.whole:
            return None
        missing = sorted(self.log.partitions - (self.log.begins.keys() & self.log.ends.keys()))
        return GroupLogError("no_leader", f"no leader answers for partitions {', '.join(map(str, missing))}")


def _looks(options: GroupLogOptions, topic: str) -> Looks[Place, _Seen]:
    from metadata_source.group_log.watcher import LogWatcher  # noqa: PLC0415

    def watcher(cluster: Cluster) -> _Watcher:
        return _Watcher(
            f"cluster {cluster.alias}: topic {topic}",
            LogWatcher(cluster, topic, options.request_timeout_ms),
            options.starting,
            options.resume_at.get(cluster.alias),
        )

    return Looks({cluster.alias: watcher(cluster) for cluster in options.clusters}, log)


@dataclass(slots=True)
class _Watcher:
    """Looks at a log, and finds where one without a place is to begin. `name`: of the log, for people."""

    name: str
    log: LogWatcher
    starting: Literal["earliest", "latest"] | int
    resume_at: Mapping[int, int] | None
    is_absent: bool = False

    def look(self, place: Place | None) -> _Seen:
        seen = self.log.look(place)
        if self.is_absent != (not seen.partitions):
            self.is_absent = not seen.partitions
            log.warning("%s %s", self.name, _ABSENT if self.is_absent else "is there now, and is read")
        if place is not None or not seen.whole:
            return _Seen(seen, {})
        if (known := self.resume_at) is not None:
            # A partition that was never read begins with its first record.
            return _Seen(seen, {partition: known.get(partition, begin) for partition, begin in seen.begins.items()})
        return _Seen(seen, self.log.starting(seen, self.starting))

    def close(self) -> None:
        self.log.close()
