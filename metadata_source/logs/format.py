"""A log, as the frame of all logs (source.py) asks for it: what one log brings, and a task of its
reading.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pyspark.sql.datasource import InputPartition

from metadata_source.errors import LogError, OptionsError
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from metadata_source.logs.tasks import Span
    from metadata_source.options import Cluster, Mode


@dataclass(frozen=True)
class Task(InputPartition):
    """Spans by alias, and when they were asked for."""

    spans: Mapping[str, Sequence[Any]]
    read_at: datetime


@dataclass(frozen=True)
class LogFormat:
    """What one log brings to the frame, and the options of a read."""

    error: ClassVar[type[LogError]]
    schema: ClassVar[pa.Schema]
    """The columns of its table in bronze."""
    position: ClassVar[Any]
    """A class, whose objects say how far a stream has come with a cluster's log: `to_json` and
    `from_json` are what Spark's offset carries, `since` yields the spans between two of a cluster.
    """

    options: Any
    """With `clusters`, `request_timeout_ms`, `commit_interval_ms` and `min_commit_interval_ms`."""

    @classmethod
    def of(cls, source: Any, mode: Mode) -> Self:
        """Return the log with the options of its source, checked. Raises OptionsError."""
        raise NotImplementedError

    def watcher(self, cluster: Cluster) -> Any:
        """Return who watches a cluster's log, in one thread at a time. `ask_extent(position)` says
        what it is now, with `first`, the position to begin at (None: not known yet), and `problem`,
        the error of a log that cannot be read. `wait(position, seconds)`, after that, says what it
        is as soon as news comes after a position (a long fetch), None once something else came or
        the time is over; it raises where the log is to be asked for again. `interrupt`, from
        another thread, ends a wait. `close` closes the connections.
        """
        raise NotImplementedError

    def advance(self, position: Any, seen: Any) -> Any:
        """Return the position at the end of the batch that begins at one, in a log as seen."""
        raise NotImplementedError

    def rows(
        self,
        cluster: Cluster,
        spans: Sequence[Any],
        read_at: datetime,
        wait: Callable[[float], object],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a cluster's spans, none of which is truncated. Raises LogError. `wait`:
        lets seconds pass, or fewer if nobody takes any more.
        """
        raise NotImplementedError

    def unread(
        self, span: Any, went: Literal["lost", "truncated"], read_at: datetime
    ) -> Iterator[pa.RecordBatch]:
        """Yield the row that says why nothing of a span was read."""
        raise NotImplementedError

    @property
    def logger(self) -> logging.Logger:
        """The logger that says what is wrong with a cluster."""
        return logging.getLogger(f"kafka_metadata_history.{self.error.name.lower()}")

    def of_spans(
        self, alias: str, spans: Sequence[Span], read_at: datetime, wait: Callable[[float], object]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a cluster's spans: what was truncated is not read, nor what nothing
        names any more. Raises LogError.
        """
        cluster = next((each for each in self.options.clusters if each.alias == alias), None)
        there = []
        for span in spans:
            if cluster is None or span.truncated:
                yield from self.unread(span, "truncated" if span.truncated else "lost", read_at)
            else:
                there.append(span)
        if cluster is not None and there:
            yield from self.rows(cluster, there, read_at, wait)

    def read(self, task: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, its clusters side by side. Spark asks for None where a batch
        has no task. Raises the log's error.
        """
        if not isinstance(task, Task):
            return
        stopped, spans, read_at = threading.Event(), task.spans, task.read_at

        def of_cluster(alias: str) -> Iterator[pa.RecordBatch]:
            try:
                yield from self.of_spans(alias, spans[alias], read_at, stopped.wait)
            except OptionsError:
                raise
            except Exception as error:  # noqa: BLE001 - raised as one that names the cluster
                raise self.error.of(alias, error) from (
                    None if isinstance(error, LogError) else error
                )

        yield from in_threads(list(spans), of_cluster, stopped)
