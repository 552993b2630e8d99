"""The controllers' log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.errors import ClusterLogError
from metadata_source.logs.cluster.positions import LogPosition, following
from metadata_source.logs.cluster.reader import read_span
from metadata_source.logs.cluster.rows import unread_row
from metadata_source.logs.cluster.watcher import LogWatcher
from metadata_source.logs.format import LogFormat
from metadata_source.logs.pace import Pace
from metadata_source.logs.rows import same_of
from metadata_source.options import parse_cluster_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from metadata_source.logs.cluster.positions import LogExtent, Span
    from metadata_source.options import Cluster, ClusterLogOptions, Mode


@dataclass(frozen=True)
class ClusterLog(LogFormat):
    """`__cluster_metadata`."""

    error = ClusterLogError
    schema = SCHEMA
    position = LogPosition

    options: ClusterLogOptions

    @classmethod
    def of(cls, source: Any, mode: Mode) -> Self:
        """Return the log of a source."""
        return cls(parse_cluster_log(source.options, mode))

    def watcher(self, cluster: Cluster) -> LogWatcher:
        """Return who asks for the extent of the log of a cluster."""
        options, alias = self.options, cluster.alias
        resume_at = options.resume_at.get(alias, {}).get(0)
        return LogWatcher(
            cluster,
            options.starting,
            options.request_timeout_ms,
            options.brokers.get(alias),
            resume_at,
        )

    def advance(self, position: LogPosition, seen: LogExtent) -> LogPosition:
        """Return the position after all that is committed, or the begin of a log that lost some."""
        return following(position, seen)

    def rows(
        self,
        cluster: Cluster,
        spans: Sequence[Span],
        read_at: datetime,
        wait: Callable[[float], object],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of spans, at one pace. Raises ClusterLogError."""
        pace, timeout_ms = (
            Pace(self.options.max_bytes_per_second, wait),
            self.options.request_timeout_ms,
        )
        for span in spans:
            yield from read_span(cluster, span, read_at=read_at, timeout_ms=timeout_ms, pace=pace)

    def unread(
        self, span: Span, went: Literal["lost", "truncated"], read_at: datetime
    ) -> Iterator[pa.RecordBatch]:
        """Yield the row that says why nothing of a span was read."""
        yield unread_row(
            same_of(span.cluster, span.cluster_id, read_at), went, span.start, span.end
        )
