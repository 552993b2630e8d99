"""The frame of every log: a Spark data source that reads it by offset, of many clusters.

A `LogFormat` says what one log is; nothing here knows any of them. The driver says how far a batch
goes, executors read it; a Spark partition is what one task reads of some clusters. Kafka clients
and pyarrow are imported where they are used, since Spark imports these modules to look up names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from metadata_source.errors import OptionsError
from metadata_source.logs.format import Task
from metadata_source.logs.pace import Begins
from metadata_source.logs.tasks import grouped, spans
from metadata_source.logs.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from metadata_source.logs.format import LogFormat
    from metadata_source.logs.tasks import Span
    from metadata_source.options import Mode


class LogSource(DataSource):
    """The records of a log. See `metadata_source.options` for the options."""

    format: ClassVar[str]
    log: ClassVar[str]
    """The module and the class of its `LogFormat`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.format

    def schema(self) -> StructType:
        """Return the columns of the log's table in bronze."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        schema: StructType = from_arrow_schema(resolve_name(self.log).schema)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of each log from where it is asked to begin to its present end."""
        return _BatchReader(self.log_of("batch", schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader that follows the logs."""
        return _StreamReader(self.log_of("stream", schema))

    def log_of(self, mode: Mode, schema: StructType) -> Any:
        """Return the log with the options of a read. Raises OptionsError, also for another schema
        than the source's own: Spark hands a user's .schema() on unseen, and would take the columns
        by their place in it.
        """
        log = resolve_name(self.log).of(self, mode)
        if schema != self.schema():
            raise OptionsError(
                f"schema: {self.name()} brings its own columns: leave .schema(...) out and select "
                "from them"
            )
        return log


def tasks(between: Iterable[Span]) -> list[Task]:
    """Return the tasks that read spans."""
    # One clock for all executors: it separates rows that are read after a truncation from those
    # before.
    now = datetime.now(UTC)
    return [Task(together, now) for together in grouped(between)]


class _BatchReader(DataSourceReader):
    """Everything from where it is asked to begin up to the logs' ends when the read is planned."""

    def __init__(self, log: LogFormat) -> None:
        self._log = log

    def partitions(self) -> list[Task]:
        logs = Watches(self._log).all()
        start = {alias: seen.first for alias, seen in logs.items()}
        end = {alias: self._log.advance(start[alias], seen) for alias, seen in logs.items()}
        return tasks(spans(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._log.read(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the logs. On the driver it says how far each batch goes; its pickled copies, in
    workers, read.

    An offset maps a cluster's alias to its position. What is wrong with a cluster is logged, and
    its position stays; so does the position of a cluster that is no longer asked for.
    """

    def __init__(self, log: LogFormat) -> None:
        self._log = log
        self._watches: Watches | None = None
        self._begins = Begins(log.options.min_commit_interval_ms / 1000)
        self._available_now = False
        self._available: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_watches": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before any log was found: nothing is asked, so nothing can be wrong."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to where the logs end now."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the end of the next batch as soon as a log has news; once in `commitInterval` what
        is no news is in it, too, or nothing.

        A log that is found is a batch of its own, without rows: a batch's rows follow from its two
        offsets alone, whenever it is run again, so that its beginning has to stand in one.
        """
        if self._watches is None:
            self._watches = Watches(self._log, self._log.options.commit_interval_ms / 1000)
        positions = self._positions(start)
        if not self._available_now:
            logs = self._watches.moved(positions, self._begins.next_at())
        elif self._available is None:
            logs = self._available = self._watches.finished(positions)
        else:
            logs = self._available
        end = dict(positions)
        for alias, seen in logs.items():
            position = (
                seen.first if alias not in positions else self._log.advance(positions[alias], seen)
            )
            if position is not None:
                end[alias] = position
        if end != positions:
            self._begins.note()
        return {alias: position.to_json() for alias, position in end.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        """Return a batch's tasks."""
        return tasks(spans(self._positions(start), self._positions(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._log.read(partition)

    def stop(self) -> None:
        """Let go of the clusters."""
        if self._watches is not None:
            self._watches.close()

    def _positions(self, offset: dict[str, Any]) -> dict[str, Any]:
        return {alias: self._log.position.from_json(value) for alias, value in offset.items()}
