"""From a span of one partition's offsets to rows of bronze.group_log.

Nearly every record is an offset commit: it costs a look at the first two bytes of its key. The end of a span is an
offset, not a
record: there may be none, where records were compacted away or are markers of transactions.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message, TopicPartition

from metadata_source.errors import GroupLogError
from metadata_source.group_log.client import LogWatcher, consumer
from metadata_source.protocol.group_records import LAST_MS, OFFSET_COMMITS, RECORDS, decode_records

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


def read_span(
    cluster: Cluster, span: Span, *, read_at: datetime, timeout_ms: int, pseudonyms: Pseudonyms | None, topic: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span: its records, and what was gone through. Raises GroupLogError, after `timeout_ms`
    without progress.
    """
    watcher = LogWatcher(cluster, topic, timeout_ms)
    with closing(consumer(cluster)) as client:
        at = span.start
        while at < span.end:
            run = _Run(client, watcher, span, topic, at)
            for kept in run.messages(timeout_ms / 1000):
                yield record_rows(span, read_at, kept, pseudonyms)
            if run.position > at:
                yield span_row(
                    span,
                    read_at,
                    "read",
                    at,
                    run.position,
                    commits=run.commits,
                    records=run.records,
                    holes=run.position - at - run.commits - run.records,
                )
            at = run.position
            if run.resumes_at is not None:
                yield span_row(span, read_at, "lost", at, run.resumes_at)
                at = run.resumes_at


def span_row(
    span: Span, read_at: datetime, record: str, offset: int, next_offset: int, **counts: int
) -> pa.RecordBatch:
    """Return the row that says what became of the offsets from `offset` up to `next_offset`."""
    row = {
        "cluster": span.cluster,
        "log_partition": span.partition,
        "offset": offset,
        "record": record,
        "cluster_id": span.cluster_id,
        "read_at": read_at,
        "day": read_at.astimezone(UTC).date(),
        "next_offset": next_offset,
        **counts,
    }
    return pa.RecordBatch.from_pylist([row], SCHEMA)


def record_rows(
    span: Span, read_at: datetime, messages: Sequence[Any], pseudonyms: Pseudonyms | None
) -> pa.RecordBatch:
    """Return the rows of some records, decoded."""
    decoded = decode_records([message.key() for message in messages], [message.value() for message in messages])
    if pseudonyms is not None:
        decoded = pseudonyms.of_records(decoded)
    times = [message.timestamp() for message in messages]
    columns = {
        "cluster": [span.cluster] * len(messages),
        "log_partition": [span.partition] * len(messages),
        "offset": [message.offset() for message in messages],
        "record": ["record"] * len(messages),
        "cluster_id": [span.cluster_id] * len(messages),
        "read_at": [read_at] * len(messages),
        "day": [read_at.astimezone(UTC).date()] * len(messages),
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


class _Run:
    """Reads a span from an offset on, until its end or until the log no longer has what would be next.

    `resumes_at`, then, is where it goes on. `position` is the next offset; `commits` and `records` were counted so far.
    """

    def __init__(self, client: Consumer, watcher: LogWatcher, span: Span, topic: str, start: int) -> None:
        self.position = start
        self.commits = self.records = 0
        self.resumes_at: int | None = None
        self._client = client
        self._watcher = watcher
        self._span = span
        self._topic = topic

    def messages(self, timeout_s: float) -> Iterator[list[Any]]:
        """Yield the records that are no offset commits, some at a time. Raises GroupLogError."""
        self._assign()
        kept: list[Any] = []
        size = 0
        deadline = time.monotonic() + timeout_s
        while self.position < self._span.end and self.resumes_at is None:
            before = self.position
            records, error = self._take(self._next())
            kept += records
            size += sum(len(record.value() or b"") for record in records)
            if len(kept) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield kept
                kept, size = [], 0
            if self.position > before:
                # Counted from here: whoever takes the rows may have taken long.
                deadline = time.monotonic() + timeout_s
            late = time.monotonic() > deadline
            if error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise GroupLogError("not_allowed", f"READ on topic {self._topic} is missing")
            if late or error == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                self._look_into(late=late)
        if kept:
            yield kept

    def _assign(self) -> None:
        self._client.assign([TopicPartition(self._topic, self._span.partition, self.position)])

    def _next(self) -> list[Any]:
        """Return what has come, or wait for one message: a call for many would wait until it has as many."""
        messages: list[Any] = self._client.consume(_AT_ONCE, 0)
        if not messages and (message := self._client.poll(_WAIT_S)) is not None:
            messages.append(message)
        return messages

    def _take(self, messages: list[Any]) -> tuple[list[Any], int | None]:
        """Go past messages. Return those that are no offset commits, and the code of what is wrong."""
        keys = [message.key() for message in messages]
        others = [
            message for message, key in zip(messages, keys, strict=True) if key is None or key[:2] not in OFFSET_COMMITS
        ]
        # What is not a record has no key: the end of the log, or an error.
        events = [message for message in others if message.error() is not None]
        if events:
            messages = [message for message in messages if message.error() is None]
        count = bisect_left(messages, self._span.end, key=_OFFSET)
        records = [message for message in others if message.error() is None and message.offset() < self._span.end]
        self.commits += count - len(records)
        self.records += len(records)
        if count < len(messages):
            self.position = self._span.end
        elif messages:
            self.position = messages[-1].offset() + 1
        error = None
        for event in events:
            if event.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self.position = min(self._span.end, max(self.position, event.offset()))
            else:
                error = event.error().code()
        return records, error

    def _look_into(self, *, late: bool) -> None:
        """Find out why nothing comes: the log may have lost what is next. Raises GroupLogError where it is `late` and
        not that.

        Not by the consumer's own watermarks, which of a partition without a leader can be those of an empty one.
        """
        try:
            self.resumes_at = self._resumption(self._watcher.look(), late=late)
        except GroupLogError:
            if late:
                raise
        if self.resumes_at is None and late:
            where = f"partition {self._span.partition} of {self._topic}"
            raise GroupLogError("timeout", f"{where}: nothing came from offset {self.position} on")
        if self.resumes_at is None:
            # Out of range, and yet there: a leader that does not have it yet. The client has given up on it.
            time.sleep(_WAIT_S)
            self._assign()

    def _resumption(self, log: Log, *, late: bool) -> int | None:
        """Return where to go on if the log has lost what is next; None if it has not, or if that is not known."""
        begin, end = log.begins.get(self._span.partition), log.ends.get(self._span.partition)
        if log.topic_id != self._span.topic_id:
            return self._span.end
        if begin is not None and begin > self.position:
            return min(begin, self._span.end)
        # A new leader does not say where its log ends before it knows (KIP-207): then what it lacks is lost.
        return self._span.end if late and end is not None and end < self._span.end else None
