"""From spans of a log's offsets to rows of bronze.group_log.

Nearly every record is an offset commit: it costs a look at the first two bytes of its key. The end of a span is an
offset, not a
record: there may be none, where records were compacted away or are markers of transactions.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import closing
from datetime import UTC
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message, TopicPartition

from metadata_source.errors import GroupLogError
from metadata_source.facts import LAST_MS
from metadata_source.group_log.client import consumer
from metadata_source.group_log.places import is_remade
from metadata_source.group_log.watcher import LogWatcher
from metadata_source.protocol.group_records import OFFSET_COMMITS, RECORDS, decode_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from confluent_kafka import Consumer

    from metadata_source.group_log.places import Log, Span
    from metadata_source.options import Cluster
    from metadata_source.pseudonyms import Pseudonyms

BATCH_ROWS: Final = 4_096
BATCH_BYTES: Final = 16 * 2**20

_AT_ONCE: Final = 10_000
"""Messages in Python's hands at once."""
_OFFSET: Final[Any] = Message.offset
_PARTITION: Final[Any] = Message.partition
_WAIT_S: Final = 0.5
_TIME: Final = pa.timestamp("us", tz="UTC")

SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("cluster_id", pa.string()),
        pa.field("read_at", _TIME, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("next_offset", pa.int64()),
        pa.field("commits", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("holes", pa.int64()),
        pa.field("timestamp", _TIME),
        pa.field("leader_epoch", pa.int32()),
        *RECORDS,
    ]
)


def read_spans(
    cluster: Cluster,
    spans: Sequence[Span],
    *,
    read_at: datetime,
    timeout_ms: int,
    pseudonyms: Pseudonyms | None,
    topic: str,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of spans of one cluster's log: records, and what was gone through. Raises GroupLogError, after
    `timeout_ms` without progress.

    All are read at once, by one consumer.
    """
    with closing(LogWatcher(cluster, topic, timeout_ms)) as watcher, closing(consumer(cluster)) as client:
        reading = _Reading(client, watcher, spans, topic)
        for records, ended in reading.steps(timeout_ms / 1000):
            if records:
                yield record_rows(spans[0], read_at, records, pseudonyms)
            if ended:
                yield span_rows(ended, read_at)


class Went(NamedTuple):
    """The fate of the offsets of a span from `offset` up to `next_offset`."""

    span: Span
    record: str
    offset: int
    next_offset: int
    commits: int | None = None
    records: int | None = None
    holes: int | None = None


def span_rows(went: Sequence[Went], read_at: datetime) -> pa.RecordBatch:
    """Return the rows that say what became of offsets."""
    rows = [
        {
            "cluster": each.span.cluster,
            "log_partition": each.span.partition,
            "cluster_id": each.span.cluster_id,
            "read_at": read_at,
            "day": read_at.astimezone(UTC).date(),
            **{name: value for name, value in each._asdict().items() if name != "span"},
        }
        for each in went
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def record_rows(
    span: Span, read_at: datetime, messages: Sequence[Any], pseudonyms: Pseudonyms | None
) -> pa.RecordBatch:
    """Return the rows of some records of one cluster, decoded; `span` is any of it."""
    decoded = decode_records([message.key() for message in messages], [message.value() for message in messages])
    if pseudonyms is not None:
        decoded = pseudonyms.of_records(decoded)
    times = [message.timestamp() for message in messages]
    columns = {
        "cluster": [span.cluster] * len(messages),
        "log_partition": [message.partition() for message in messages],
        "offset": [message.offset() for message in messages],
        "record": ["record"] * len(messages),
        "cluster_id": [span.cluster_id] * len(messages),
        "read_at": [read_at] * len(messages),
        "day": [read_at.astimezone(UTC).date()] * len(messages),
        # None of a record of magic 0, as before Kafka 0.10.
        "timestamp": [
            ms * 1000 if kind != TIMESTAMP_NOT_AVAILABLE and 0 <= ms <= LAST_MS else None for kind, ms in times
        ],
        "leader_epoch": [message.leader_epoch() for message in messages],
    }
    arrays = [
        decoded[field.name]
        if field.name in RECORDS.names
        else pa.array(columns.get(field.name, [None] * len(messages)), field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class _At:
    """How far the reading of a span has come. `since` is where what is counted began."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.position = self.since = span.start
        self.commits = self.records = 0

    def pass_over(self, to: int) -> Iterator[Went]:
        """Count up to the position, and go on at `to`, which is the position unless offsets were lost."""
        position, done = self.position, self.commits + self.records
        if position > self.since:
            holes = position - self.since - done
            yield Went(self.span, "read", self.since, position, self.commits, self.records, holes)
        if to > position:
            yield Went(self.span, "lost", position, to)
        self.position = self.since = to
        self.commits = self.records = 0


class _Reading:
    """Reads spans of a log side by side, each until its end."""

    def __init__(self, client: Consumer, watcher: LogWatcher, spans: Sequence[Span], topic: str) -> None:
        self._client = client
        self._watcher = watcher
        self._topic = topic
        self._ahead = {span.partition: _At(span) for span in spans}
        self._records: list[Any] = []
        self._size = 0
        self._ended: list[Went] = []

    def steps(self, timeout_s: float) -> Iterator[tuple[list[Any], list[Went]]]:
        """Yield records that are no offset commits, some at a time, and what ended with them. Raises GroupLogError."""
        self._assign()
        deadline = time.monotonic() + timeout_s
        while self._ahead:
            moved, errors = self._take(self._next())
            if len(self._records) >= BATCH_ROWS or self._size >= BATCH_BYTES:
                yield self._flush()
            if moved:
                # Counted from here: whoever takes the rows may have taken long.
                deadline = time.monotonic() + timeout_s
            late = time.monotonic() > deadline
            if KafkaError.TOPIC_AUTHORIZATION_FAILED in errors.values():
                raise GroupLogError("not_allowed", f"READ on topic {self._topic} is missing")
            out_of_range = KafkaError._AUTO_OFFSET_RESET in errors.values()  # noqa: SLF001
            if (late or out_of_range) and self._look_into(late=late):
                deadline = time.monotonic() + timeout_s
        yield self._flush()

    def _flush(self) -> tuple[list[Any], list[Went]]:
        flushed = self._records, self._ended
        self._records, self._ended, self._size = [], [], 0
        return flushed

    def _assign(self) -> None:
        self._client.assign(
            [TopicPartition(self._topic, partition, at.position) for partition, at in self._ahead.items()]
        )

    def _next(self) -> list[Any]:
        """Return what has come, or wait for one message: a call for many would wait until it has as many."""
        messages: list[Any] = self._client.consume(_AT_ONCE, 0)
        if not messages and (message := self._client.poll(_WAIT_S)) is not None:
            messages.append(message)
        return messages

    def _take(self, messages: list[Any]) -> tuple[bool, dict[int, int]]:
        """Go past messages. Return whether a partition has moved on, and what is wrong with which of them."""
        moved = False
        errors: dict[int, int] = {}
        over = []
        for partition, group in groupby(messages, _PARTITION):
            at = self._ahead.get(partition)
            if at is None:
                # What had come before its fetching was paused, or an error of all of the topic.
                errors.update((partition, each.error().code()) for each in group if each.error() is not None)
                continue
            before = at.position
            self._take_of(at, list(group), errors)
            moved = moved or at.position > before
            if at.position >= at.span.end:
                self._end(partition)
                over.append(TopicPartition(self._topic, partition))
        if over and self._ahead:
            self._client.pause(over)
        return moved, errors

    def _take_of(self, at: _At, messages: list[Any], errors: dict[int, int]) -> None:
        keys = [message.key() for message in messages]
        others = [
            message for message, key in zip(messages, keys, strict=True) if key is None or key[:2] not in OFFSET_COMMITS
        ]
        # What is not a record has no key: the end of the log, or an error.
        events = [message for message in others if message.error() is not None]
        if events:
            messages = [message for message in messages if message.error() is None]
        end = at.span.end
        count = bisect_left(messages, end, key=_OFFSET)
        records = [message for message in others if message.error() is None and message.offset() < end]
        at.commits += count - len(records)
        at.records += len(records)
        self._records += records
        self._size += sum(len(record.value() or b"") for record in records)
        if count < len(messages):
            at.position = end
        elif messages:
            at.position = messages[-1].offset() + 1
        for event in events:
            if event.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                at.position = min(end, max(at.position, event.offset()))
            else:
                errors[at.span.partition] = event.error().code()

    def _end(self, partition: int) -> None:
        at = self._ahead.pop(partition)
        self._ended += at.pass_over(at.position)

    def _lose(self, partition: int, to: int) -> None:
        at = self._ahead[partition]
        self._ended += at.pass_over(to)
        if to >= at.span.end:
            del self._ahead[partition]

    def _look_into(self, *, late: bool) -> bool:
        """Find out why nothing comes: the log may have lost what is next; return whether it has. Raises GroupLogError
        where it is `late` and not that.

        Not by the consumer's own watermarks, which of a partition without a leader can be those of an empty one.
        """
        resumed: dict[int, int] = {}
        try:
            log = self._watcher.look()
            for partition, at in self._ahead.items():
                to = self._resumption(log, at, late=late)
                if to is not None:
                    resumed[partition] = to
        except GroupLogError:
            if late:
                raise
        for partition, to in resumed.items():
            self._lose(partition, to)
        if not resumed and late:
            at, others = next(iter(self._ahead.values())), len(self._ahead) - 1
            where = f"partition {at.span.partition} of {self._topic}" + (f" and {others} more" if others else "")
            raise GroupLogError("timeout", f"{where}: nothing came from offset {at.position} on")
        if not resumed:
            # Out of range, and yet there: a leader that does not have it yet. The client has given up on it.
            time.sleep(_WAIT_S)
        self._assign()
        return bool(resumed)

    def _resumption(self, log: Log, at: _At, *, late: bool) -> int | None:
        """Return where to go on if the log has lost what is next; None if it has not, or if that is not known."""
        begin, end = log.begins.get(at.span.partition), log.ends.get(at.span.partition)
        if is_remade(at.span.topic_id, log.topic_id) or (late and not log.partitions):
            return at.span.end
        if begin is not None and begin > at.position:
            return min(begin, at.span.end)
        # A new leader does not say where its log ends before it knows (KIP-207): then what it lacks is lost.
        return at.span.end if late and end is not None and end < at.span.end else None
