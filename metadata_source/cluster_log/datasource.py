"""The Spark data source `kafka_cluster_log`: `__cluster_metadata` of many clusters, by offset, or a controller's files.

The driver says how far a batch goes, executors read it; a Spark partition is what one task reads of some clusters, or
one file. Kafka clients and pyarrow are imported where they are used, since Spark imports this module to look up names.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from metadata_source.cluster_log.places import Log, Place, Span, following, spans
from metadata_source.errors import ClusterLogError, stumbled
from metadata_source.following import LogStreamReader, Looks, check_schema
from metadata_source.options import parse_cluster_log
from metadata_source.tasks import grouped
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from metadata_source.options import Cluster, ClusterLogFiles, ClusterLogOptions

log = logging.getLogger("kafka_metadata_history.cluster_log")


class KafkaClusterLogSource(DataSource):
    """The records that controllers wrote to their log. See `metadata_source.options` for the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka_cluster_log"

    def schema(self) -> StructType:
        """Return the columns of bronze.cluster_log."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        from metadata_source.cluster_log.rows import SCHEMA  # noqa: PLC0415

        schema: StructType = from_arrow_schema(SCHEMA)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of each log from where it is asked to begin to its present end, or of files."""
        options = parse_cluster_log(self.options, "batch")
        check_schema(self, schema)
        return _BatchReader(options) if options.files is None else _FilesReader(options.files)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader that follows the logs."""
        options = parse_cluster_log(self.options, "stream")
        check_schema(self, schema)
        return _StreamReader(options)


@dataclass(frozen=True)
class _Task(InputPartition):
    """Spans by alias, when they were asked for, and how to reach their clusters; without those that nothing names any
    more.
    """

    spans: Mapping[str, Sequence[Span]]
    read_at: datetime
    clusters: Mapping[str, Cluster]
    request_timeout_ms: int
    max_bytes_per_second: int


@dataclass(frozen=True)
class _File(InputPartition):
    """A segment or a snapshot, and whose it is."""

    name: str
    cluster: str
    cluster_id: str | None
    read_at: datetime


def _tasks(between: Iterable[Span], options: ClusterLogOptions) -> list[_Task]:
    clusters = {cluster.alias: cluster for cluster in options.clusters}
    # One clock for all executors: it separates rows that are read after a truncation from those before.
    now = datetime.now(UTC)
    return [
        _Task(
            together,
            now,
            {alias: clusters[alias] for alias in together if alias in clusters},
            options.request_timeout_ms,
            options.max_bytes_per_second,
        )
        for together in grouped(between)
    ]


def _read(task: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, its clusters side by side. Spark asks for None where a batch has no task."""
    if isinstance(task, _Task):
        stopped = threading.Event()
        yield from in_threads(list(task.spans), lambda alias: _read_cluster(task, alias, stopped), stopped)


def _read_cluster(task: _Task, alias: str, stopped: threading.Event) -> Iterator[pa.RecordBatch]:
    from metadata_source.cluster_log import reader, rows  # noqa: PLC0415
    from metadata_source.cluster_log.pace import Pace  # noqa: PLC0415

    cluster = task.clusters.get(alias)
    pace, timeout_ms = Pace(task.max_bytes_per_second, stopped.wait), task.request_timeout_ms
    for span in task.spans[alias]:
        if cluster is None:
            went: Any = "truncated" if span.truncated else "lost"
            yield rows.unread_row(rows.Source(alias, span.cluster_id, task.read_at), went, span.start, span.end)
            continue
        try:
            yield from reader.read_span(cluster, span, read_at=task.read_at, timeout_ms=timeout_ms, pace=pace)
        except ClusterLogError as error:
            raise error.of(alias) from None
        except Exception as error:
            raise ClusterLogError("protocol", stumbled(error)).of(alias) from error


def _looks(options: ClusterLogOptions) -> Looks[Place, Log]:
    from metadata_source.cluster_log.watcher import LogWatcher  # noqa: PLC0415

    watchers = {
        cluster.alias: LogWatcher(
            cluster,
            options.starting,
            options.request_timeout_ms,
            options.brokers.get(cluster.alias),
            options.resume_at.get(cluster.alias, {}).get(0),
        )
        for cluster in options.clusters
    }
    return Looks(watchers, log)


class _BatchReader(DataSourceReader):
    """Everything from where it is asked to begin up to the end that the logs have when the read is planned."""

    def __init__(self, options: ClusterLogOptions) -> None:
        self._options = options

    def partitions(self) -> list[_Task]:
        logs = _looks(self._options).all()
        start = {alias: seen.first for alias, seen in logs.items()}
        end = {alias: following(seen.first, seen) for alias, seen in logs.items()}
        return _tasks(spans(start, end), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _StreamReader(LogStreamReader["Place", "Log"]):
    def __init__(self, options: ClusterLogOptions) -> None:
        super().__init__()
        self._options = options

    def looks(self) -> Looks[Place, Log]:
        return _looks(self._options)

    def place(self, value: dict[str, Any]) -> Place:
        return Place.from_json(value)

    def following(self, place: Place | None, seen: Log) -> Place:
        return seen.first if place is None else following(place, seen)

    def tasks(self, start: Mapping[str, Place], end: Mapping[str, Place]) -> list[InputPartition]:
        return [*_tasks(spans(start, end), self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition)


class _FilesReader(DataSourceReader):
    """Each segment and snapshot whole."""

    def __init__(self, files: ClusterLogFiles) -> None:
        self._files = files

    def partitions(self) -> list[_File]:
        from metadata_source.cluster_log.files import found  # noqa: PLC0415

        now = datetime.now(UTC)
        return [_File(name, self._files.alias, self._files.cluster_id, now) for name in found(self._files.path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from metadata_source.cluster_log.files import read_file  # noqa: PLC0415

        if isinstance(partition, _File):
            yield from read_file(
                partition.name,
                cluster=partition.cluster,
                cluster_id=partition.cluster_id,
                read_at=partition.read_at,
            )
