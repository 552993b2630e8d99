"""A log that is a topic: whatever its records are, each partition is read from its leader."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.lineage import NO_EPOCH
from metadata_source.logs.format import LogFormat
from metadata_source.logs.rows import columns_of, same_of
from metadata_source.logs.topic.positions import LogPosition, advance, found, no_leader_of
from metadata_source.logs.topic.reader import Reading, Went
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.protocol.vectors import times_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metadata_source.logs.topic.positions import LogExtent, Span
    from metadata_source.logs.topic.reader import Aggregates
    from metadata_source.options import Cluster, Mode

_ABSENT: Final = "is not there: nothing is read of it until it is (Kafka makes it for the first {})"


@dataclass(frozen=True)
class TopicLog(LogFormat):
    """A log that is a topic. `options` has `starting`, too. `limit`: offsets a batch."""

    position = LogPosition
    schema: ClassVar[pa.Schema]
    """Beside what `decoder` and `aggregates` give, it has the columns of `Went`, of the records'
    offsets and times.
    """
    aggregated: ClassVar[str]
    """The column that says how many records are in aggregates."""
    made_for: ClassVar[str]
    """Whose first one Kafka makes the topic for."""

    parse: ClassVar[staticmethod[[Mapping[str, str], Mode], Any]]
    """Checks and types the options of its source. Raises OptionsError."""

    topic: str
    limit: int | None = None

    @classmethod
    def of(cls, source: Any, mode: Mode) -> Self:
        """Return the log of a source; a batch has no limit."""
        options = cls.parse(source.options, mode)
        return cls(options, source.topic, options.max_records if mode == "stream" else None)

    def decoder(self, cluster: Cluster) -> Callable[[pa.Array, pa.Array], pa.RecordBatch]:
        """Return what decodes keys and values of records, one row each."""
        raise NotImplementedError

    def aggregates(self, spans: Sequence[Span]) -> Aggregates:
        """Return what takes the records of spans that have no row each."""
        raise NotImplementedError

    def has_news(self, records: pa.RecordBatch) -> bool:
        """Return whether one of some records (schema `record_batches.RECORDS`) is worth a batch:
        the others wait for it, or until `commitInterval` is over.
        """
        raise NotImplementedError

    def watcher(self, cluster: Cluster) -> Beginning:
        """Return who asks for the extent of the log of a cluster, and where it is to begin."""
        return Beginning(
            self,
            f"cluster {cluster.alias}: topic {self.topic}",
            LogWatcher(cluster, self.topic, self.options.request_timeout_ms, self.has_news),
            self.options.resume_at.get(cluster.alias),
        )

    def advance(self, position: LogPosition, seen: LogExtent) -> LogPosition:
        """Return the position some `limit` offsets on."""
        return advance(position, seen, self.limit)

    def rows(
        self,
        cluster: Cluster,
        spans: Sequence[Span],
        read_at: datetime,
        wait: Callable[[float], object],  # noqa: ARG002 - brokers have quotas of their own
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of spans, all read at once, those of each leader by one request after the
        other: records, what they came to, and what was gone through. Raises LogError, after the
        request timeout without progress.
        """
        decode, same = (
            self.decoder(cluster),
            same_of(spans[0].cluster, spans[0].cluster_id, read_at),
        )
        silent = [span for span in spans if span.start == span.end]
        yield from self.fates([_silent(span) for span in silent], read_at)
        spans = [span for span in spans if span not in silent]
        if not spans:
            return
        with closing(LogWatcher(cluster, self.topic, self.options.request_timeout_ms)) as watcher:
            reading = Reading(watcher, spans, self.topic, self.aggregates(spans))
            for records, aggregated, ended in reading.steps(self.options.request_timeout_ms / 1000):
                if records:
                    yield from self._in_columns(
                        _record_rows(pa.Table.from_batches(records), decode), same
                    )
                yield from self._in_columns(aggregated, same)
                yield from self.fates(ended, read_at)

    def unread(
        self, span: Span, went: Literal["lost", "truncated"], read_at: datetime
    ) -> Iterator[pa.RecordBatch]:
        """Yield the row that says why nothing of a span was read."""
        if went == "truncated" or span.end > span.start:
            yield from self.fates([Went(span, went, span.start, span.end)], read_at)

    def fates(self, went: Sequence[Went], read_at: datetime) -> Iterator[pa.RecordBatch]:
        """Yield the rows that say what became of offsets."""
        if went:
            yield pa.RecordBatch.from_pylist(
                [
                    same_of(each.span.cluster, each.span.cluster_id, read_at)
                    | {"log_partition": each.span.partition, self.aggregated: each.aggregated}
                    | each._asdict()
                    | _caught_up(each)
                    for each in went
                ],
                self.schema,
            )

    def _in_columns(self, found: pa.Table, same: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        columns = dict(zip(found.column_names, found.combine_chunks(), strict=True))
        arrays = columns_of(self.schema, columns, len(found), same)
        yield from pa.Table.from_arrays(arrays, schema=self.schema).to_batches()


def _silent(span: Span) -> Went:
    """Return the fate of a span without offsets."""
    return Went(span, "read", span.start, span.end, aggregated=0, records=0, holes=0)


def _caught_up(went: Went) -> dict[str, Any]:
    """Return when its log was known to end there, and in `error` why it is of its partition alone,
    if it is.
    """
    ms, unanswered = went.span.caught_up_ms, went.span.unanswered
    if ms is None or went.record != "read":
        return {}
    at = {"caught_up_at": datetime.fromtimestamp(ms / 1000, UTC)}
    return at | ({"error": no_leader_of(unanswered)} if unanswered else {})


def _record_rows(
    records: pa.Table, decode: Callable[[pa.Array, pa.Array], pa.RecordBatch]
) -> pa.Table:
    """Return the rows of some records: as `record_batches` has them, and `log_partition`."""
    records = records.combine_chunks()
    keys, values = (records[name].combine_chunks() for name in ("key", "value"))
    decoded, epochs = decode(keys, values), records["leader_epoch"]
    columns = {
        "log_partition": records["log_partition"],
        "offset": records["offset"],
        "record": pa.repeat("record", len(records)),
        "timestamp": times_of(records["timestamp_ms"]),
        "leader_epoch": pc.if_else(pc.equal(epochs, NO_EPOCH), None, epochs),
    }
    return pa.table(columns | {name: decoded[name] for name in decoded.schema.names})


@dataclass(slots=True)
class Beginning:
    """Asks for the extent of a log, and where to begin without a position. `name`: for people."""

    of: TopicLog
    name: str
    watcher: LogWatcher
    resume_at: Mapping[int, int] | None
    is_absent: bool = False

    def ask_extent(self, position: LogPosition | None) -> LogExtent:
        """Return what the log is now; with where it is to begin, if it has no position and is
        whole. Raises LogError.
        """
        seen = self.watcher.ask_extent(position)
        if self.is_absent != (not seen.partitions):
            self.is_absent = not seen.partitions
            says = (
                _ABSENT.format(self.of.made_for) if self.is_absent else "is there now, and is read"
            )
            self.of.logger.warning("%s %s", self.name, says)
        # Not a partition later: one that is new to a position begins with its first record,
        # wherever others were to begin.
        if position is not None or not seen.whole:
            return seen
        first = (
            self.watcher.starting(seen, self.of.options.starting)
            if self.resume_at is None
            else seen.begins
        )
        # A partition that was never read begins with its first record.
        known = self.resume_at or {}
        return replace(
            seen,
            first=found(seen, {each: known.get(each, offset) for each, offset in first.items()}),
        )

    def wait(self, position: LogPosition, seconds: float) -> LogExtent | None:
        """Return the log as it is once it has news, None if it has none. Raises LogError."""
        return self.watcher.wait(position, seconds)

    def interrupt(self) -> None:
        """End `wait`, from another thread."""
        self.watcher.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self.watcher.close()
