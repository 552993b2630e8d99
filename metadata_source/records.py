"""Polls as Arrow record batches: the bronze rows of a poll, and what one poll says as plain rows.

Nothing here runs Python code for a partition or a topic: rows are cut from the decoder's columns by
offsets. Enrichments alone, which are asked for seldom, come as Python values.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import TIME
from metadata_source.columns.polls import BROKER, PARTITION, POLLS
from metadata_source.combined import BATCH_ROWS, groups
from metadata_source.images import with_topics
from metadata_source.protocol.digest import DIGEST_VERSION, answer_digest, rows_digest
from metadata_source.schedule import poll_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metadata_source.enrichment import Answer
    from metadata_source.images import Image
    from metadata_source.options import TopicFilter
    from metadata_source.poll import Poll
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.pseudonyms import Pseudonyms

CHUNK_PARTITIONS: Final = 1_000
"""Partitions in one row: rows of whole polls end readers, which take 4,096 rows at a time."""
BATCH_PARTITIONS: Final = 100_000
"""Some 10 MB of Arrow."""


_WITHOUT_DIGEST: Final = frozenset({"offsets"})
"""Enrichments whose answers are others each time."""
_OF_POLL: Final = (
    *("poll_id", "stream", "n", "cluster", "chunk", "day", "cluster_id"),
    *("interval_ms", "scheduled_at", "topic_filter", "groups_pattern"),
)
"""The columns of a poll's header that the headers of answers beside it repeat."""


_ENTITY_KEY: Final = (
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("cluster_id", pa.string()),
    pa.field("sent_at", TIME, nullable=False),
    pa.field("received_at", TIME, nullable=False),
)
_TOPIC_NAMES: Final = (pa.field("topic", pa.string()), pa.field("topic_id", pa.string()))
SCHEMAS: Final = {
    "polls": POLLS,
    "brokers": pa.schema([*_ENTITY_KEY, *BROKER]),
    "topics": pa.schema(
        [
            *_ENTITY_KEY,
            *_TOPIC_NAMES,
            pa.field("error_code", pa.int32(), nullable=False),
            pa.field("is_internal", pa.bool_()),
            pa.field("authorized_operations", pa.int32()),
            pa.field("partition_count", pa.int32(), nullable=False),
        ]
    ),
    "partitions": pa.schema([*_ENTITY_KEY, *_TOPIC_NAMES, *PARTITION]),
}
"""The columns of each entity."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A poll's place in its stream. A batch read has no schedule: no interval and no time that it
    was due at.

    `day` is that of its batch: see `schedule.day_of`.
    """

    stream: str
    n: int
    cluster: str
    day: date
    interval_ms: int | None = None
    scheduled_ms: int | None = None


class BatchRecords:
    """The bronze rows of one cluster's polls, in their order, for as long as they go to one place.

    A good poll is a key frame with a row for every topic if it is the first, if another cluster
    answered, and if the caller says so. Else a topic has rows only where its digest is another one
    than with the last poll that was `kept`, and one with `present` = false where it is gone.
    Members of groups come under `pseudonyms`, if there are any.
    """

    def __init__(
        self,
        topic_filter: TopicFilter,
        pseudonyms: Pseudonyms | None = None,
        groups_pattern: str | None = None,
    ) -> None:
        self._filter = topic_filter
        self._groups_pattern = groups_pattern
        self._pseudonyms = pseudonyms
        self._before: tuple[str | None, Image] | None = None
        """Of the last good poll that was kept: the cluster's id, and its image."""
        self._made: tuple[str | None, Image] | None = None
        self._planned: Planned | None = None
        self.header: dict[str, Any] = {}
        """The header of the poll whose rows were made last."""

    def rows(
        self,
        planned: Planned,
        poll: Poll,
        answers: Iterable[Answer] = (),
        *,
        is_key_frame: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a poll in the schema `POLLS`: topics as answered, those gone, the
        header, then those of the answers beside it (`beside`).
        """
        self._planned, self._made = planned, None
        self.header = _header_row(planned, poll, self._filter) | {
            "groups_pattern": self._groups_pattern
        }
        if poll.metadata is not None and poll.image is not None:
            self._made = poll.metadata.cluster_id, poll.image
            is_other = self._before is None or self._before[0] != self._made[0]
            before = None if is_key_frame or is_other or self._before is None else self._before[1]
            yield from _rows_of_topics(planned, poll, poll.metadata, poll.image, before)
            self.header |= _of_answer(
                poll, poll.metadata, poll.image, self._filter, is_key_frame=before is None
            )
        yield _header(self.header)
        del poll
        yield from self.beside(answers)

    def beside(self, answers: Iterable[Answer]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of what was answered beside metadata, in this order, each after a header
        of its own: with the poll whose rows were made last.
        """
        for answer in answers:
            yield from self._answer_rows(answer)

    def kept(self) -> None:
        """Note that the rows made last are kept: the next ones are what differs from them."""
        self._before = self._made or self._before

    def _answer_rows(self, answer: Answer) -> Iterator[pa.RecordBatch]:
        """Yield the header of an answer beside metadata, and what it tells.

        The digest is of what is stored: with pseudonyms, if there are any.
        """
        planned, header = self._planned, self.header
        if planned is None:
            raise ValueError("an answer beside metadata goes with a poll")
        enrichment, rows, values, digest = answer.enrichment, answer.rows, None, None
        if rows is not None:
            values = (
                rows.values
                if isinstance(rows.values, pa.Array)
                else pa.array(rows.values, POLLS.field(enrichment).type)
            )
            if self._pseudonyms is not None:
                values = self._pseudonyms.of_column(enrichment, values)
            lasting = values if rows.lasting is None else pa.array(rows.lasting, values.type)
            digest = (
                None
                if enrichment in _WITHOUT_DIGEST
                else rows_digest([rows.topics, lasting.to_pylist(), *rows.stands_out])
            )
        given = {name: header[name] for name in _OF_POLL} | {
            "record": "answer",
            "kind": enrichment,
            "digest": digest,
        }
        times = {"asked_at": answer.asked_at, "answered_at": answer.answered_at}
        yield _header(given | times | {"outcome": answer.outcome})
        if rows is None or values is None:
            return
        columns = {"record": enrichment, "cluster_id": header["cluster_id"], enrichment: values}
        columns |= {
            name: each if isinstance(each, pa.Array) else pa.array(each, POLLS.field(name).type)
            for name, each in rows.beside.items()
        }
        if rows.topics is None:
            columns["chunk"] = pa.array(np.arange(len(values)), pa.int32())
        else:
            columns |= {"chunk": 0, "topic": pa.array(rows.topics, pa.string())}
        sizes = np.zeros(len(values), np.int64)
        for each in (values, *map(columns.__getitem__, rows.beside)):
            if pa.types.is_list(each.type):
                lengths = pc.list_value_length(each).fill_null(0).to_numpy().astype(np.int64)
                sizes = np.maximum(sizes, lengths)
        yield from _slices(_batch(planned, columns, len(values)), sizes)


def digests_of(batches: Iterable[pa.RecordBatch]) -> dict[str, tuple[str, bytes | None]]:
    """Return enrichment -> outcome and digest of the answers beside metadata among rows."""
    found: dict[str, tuple[str, bytes | None]] = {}
    for batch in batches:
        # A header is a batch of its own.
        if batch.num_rows == 1 and batch["record"][0].as_py() == "answer":
            found[batch["kind"][0].as_py()] = (
                batch["outcome"][0].as_py(),
                batch["digest"][0].as_py(),
            )
    return found


def _rows_of_topics(
    planned: Planned, poll: Poll, metadata: ClusterMetadata, image: Image, before: Image | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a good poll's topics that differ from an image before, or are gone."""
    gone = image.gone(before)
    yield from _topic_rows(planned, poll, metadata, image.digests, image.changed(before))
    if len(gone):
        columns = _of_topics(poll) | {"topic": gone, "chunk": 0, "present": False}
        yield from _slices(_batch(planned, columns, len(gone)), np.zeros(len(gone), np.int64))


def _of_answer(
    poll: Poll,
    metadata: ClusterMetadata,
    image: Image,
    topic_filter: TopicFilter,
    *,
    is_key_frame: bool,
) -> dict[str, Any]:
    """Return what the header of a good poll has of the answer."""
    # Beside the answer: what it would mean something else with.
    asked = {
        "api_version": poll.api_version,
        "topic_filter": topic_filter.to_json(),
        "metadata_version_level": poll.metadata_version_level,
        "elr_version_level": poll.elr_version_level,
    }
    return {
        "controller_id": metadata.controller_id,
        "is_key_frame": is_key_frame,
        "topic_count": metadata.topics.num_rows,
        "brokers": metadata.brokers.to_pylist(),
        "partition_count": metadata.partitions.num_rows,
        "digest": answer_digest(metadata, image.digests, asked),
        "digest_version": DIGEST_VERSION,
    }


def entity_rows(entity: str, cluster: str, poll: Poll) -> Iterator[pa.RecordBatch]:
    """Yield what a good poll says as plain rows in the schema `SCHEMAS[entity]`, for the entities
    other than polls.
    """
    if poll.metadata is None:
        raise ValueError("a poll without an answer has no rows")
    table: pa.Table = getattr(poll.metadata, entity)
    constants = {
        "cluster": cluster,
        "cluster_id": poll.metadata.cluster_id,
        "sent_at": poll.sent_at,
        "received_at": poll.received_at,
    }
    schema = SCHEMAS[entity]
    columns = [
        pa.repeat(pa.scalar(constants[column.name], column.type), table.num_rows)
        if column.name in constants
        else _cast(table[column.name].combine_chunks(), column.type)
        for column in schema
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    yield from _slices(rows, np.zeros(rows.num_rows, np.int64))


def _header_row(planned: Planned, poll: Poll, topic_filter: TopicFilter) -> dict[str, Any]:
    """Return the row `record = 'poll'` without what an answer says: a failed poll has none."""
    return _key_of(planned) | {
        # Also of a failed poll, if something answered: it may be another cluster's.
        "cluster_id": poll.cluster_id,
        "received_at": poll.received_at,
        "sent_at": poll.sent_at,
        "latency_ms": poll.latency_ms,
        "outcome": "ok" if poll.error_kind is None else "failed",
        "error_kind": poll.error_kind,
        "error": poll.error,
        "attempts": poll.attempts,
        "broker_id": poll.broker_id,
        "broker": poll.broker,
        "api_version": poll.api_version,
        "response_bytes": poll.response_bytes,
        "throttle_time_ms": poll.throttle_time_ms,
        "metadata_version_level": poll.metadata_version_level,
        "metadata_version_highest": poll.metadata_version_highest,
        "elr_version_level": poll.elr_version_level,
        "active_controller_id": poll.active_controller_id,
        "topic_filter": topic_filter.to_json(),
        "witnesses": [asdict(witness) for witness in poll.witnesses] or None,
    }


def _key_of(planned: Planned) -> dict[str, Any]:
    """Return which poll a row `record = 'poll'` is of, and when it was due."""
    scheduled = planned.scheduled_ms
    return {
        "poll_id": poll_id(planned.stream, planned.n),
        "stream": planned.stream,
        "n": planned.n,
        "cluster": planned.cluster,
        "record": "poll",
        "chunk": 0,
        "day": planned.day,
        "interval_ms": planned.interval_ms,
        "scheduled_at": None
        if scheduled is None
        else datetime.fromtimestamp(scheduled / 1000, UTC),
    }


def gap_rows(planned: Planned, error_kind: str, error: str) -> list[pa.RecordBatch]:
    """Return the row of polls that nobody has, in the schema `POLLS`: the header of one failed
    poll, the last of them.

    `error_kind`: a word of `errors.ErrorKind`. `error`: one line, how many polls they are and why
    nobody has them.
    """
    return [
        _header(_key_of(planned) | {"outcome": "failed", "error_kind": error_kind, "error": error})
    ]


def numbered(
    stream: str, polls: Iterable[tuple[int, Iterable[pa.RecordBatch]]]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of polls in the schema `POLLS` with the stream and their numbers, in as few
    batches as hold them.

    `polls`: the number of each poll, and its rows, in which stream, number and id may be anything.
    """
    numbers: list[tuple[int, int]] = []
    batches = (_noted(n, batch, numbers) for n, rows in polls for batch in rows)
    for group in groups(batches):
        table = pa.Table.from_batches(group)
        ns, counts = np.array(numbers[: len(group)], np.int64).reshape(-1, 2).T
        del numbers[: len(group)]
        ids = pa.array([poll_id(stream, int(n)) for n in ns], pa.string())
        own = {
            "poll_id": ids.take(pa.array(np.repeat(np.arange(len(ns)), counts))),
            "stream": pa.repeat(pa.scalar(stream, pa.string()), table.num_rows),
            "n": pa.array(np.repeat(ns, counts)),
        }
        for name, column in own.items():
            table = table.set_column(POLLS.get_field_index(name), POLLS.field(name), column)
        yield from table.combine_chunks().to_batches()


def _noted(n: int, batch: pa.RecordBatch, numbers: list[tuple[int, int]]) -> pa.RecordBatch:
    numbers.append((n, batch.num_rows))
    return batch


_NULLS: Final = {column.name: pa.nulls(1, column.type) for column in POLLS}


def _header(row: dict[str, Any]) -> pa.RecordBatch:
    # Not by `from_pylist`: most columns are null, and converting each of them is a good part of
    # what a poll takes.
    arrays = [
        _NULLS[column.name]
        if (value := row.get(column.name)) is None
        else pa.array([value], column.type)
        for column in POLLS
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=POLLS)


def _topic_rows(
    planned: Planned,
    poll: Poll,
    metadata: ClusterMetadata,
    digests: pa.Array,
    changed: npt.NDArray[np.bool_],
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each chunk of each changed topic."""
    if not changed.any():
        return
    if not changed.all():
        digests = digests.filter(pa.array(changed))
        metadata = with_topics(metadata, pa.array(changed))
    counts = metadata.topics["partition_count"].to_numpy().astype(np.int64)
    chunks = np.maximum(1, -(-counts // CHUNK_PARTITIONS))
    topic_of_row = np.repeat(np.arange(len(counts)), chunks)
    chunk_of_row = np.arange(len(topic_of_row)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    lengths = np.minimum(counts[topic_of_row] - chunk_of_row * CHUNK_PARTITIONS, CHUNK_PARTITIONS)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    topics = metadata.topics.combine_chunks().take(pa.array(topic_of_row))
    columns = _of_topics(poll) | {
        "topic": topics["topic"],
        "chunk": pa.array(chunk_of_row, pa.int32()),
        "present": True,
        "partition_count": topics["partition_count"],
        "topic_id": topics["topic_id"],
        "error_code": topics["error_code"],
        "is_internal": topics["is_internal"],
        "digest": digests.take(pa.array(topic_of_row)),
        "digest_version": DIGEST_VERSION,
        "partitions": _partition_lists(metadata.partitions, offsets),
    }
    yield from _slices(_batch(planned, columns, len(lengths)), lengths)


def _partition_lists(partitions: pa.Table, offsets: npt.NDArray[np.int32]) -> pa.ListArray:
    """Return the partitions as lists of structs, cut at the offsets."""
    columns = [_cast(partitions[column.name].combine_chunks(), column.type) for column in PARTITION]
    structs = pa.StructArray.from_arrays(columns, fields=list(PARTITION))
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=POLLS.field("partitions").type)


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast a column. A list only gets the name that Spark gives its elements."""
    if pa.types.is_list(target) and pa.types.is_list(column.type):
        return pa.ListArray.from_buffers(
            target,
            len(column),
            column.buffers()[:2],
            null_count=column.null_count,
            offset=column.offset,
            children=[column.values],
        )
    return column.cast(target)


def _of_topics(poll: Poll) -> dict[str, Any]:
    """The columns that all rows of topics of a good poll share."""
    return {"record": "topic", "cluster_id": poll.cluster_id, "received_at": poll.received_at}


def _batch(planned: Planned, columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    """Return rows of a good poll: its key, these columns (arrays, or one value), else nulls."""
    given = {
        "poll_id": poll_id(planned.stream, planned.n),
        "stream": planned.stream,
        "n": planned.n,
        "cluster": planned.cluster,
        "day": planned.day,
    } | columns
    arrays = []
    for column in POLLS:
        value = given.get(column.name)
        if isinstance(value, pa.ChunkedArray):
            arrays.append(value.combine_chunks())
        elif isinstance(value, pa.Array):
            arrays.append(value)
        else:
            arrays.append(pa.repeat(pa.scalar(value, column.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=POLLS)


def _slices(batch: pa.RecordBatch, partitions: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that none has more than BATCH_ROWS rows or, but for a single row,
    BATCH_PARTITIONS partitions.
    """
    ends = np.cumsum(partitions)
    begin = 0
    while begin < batch.num_rows:
        done = ends[begin - 1] if begin else 0
        end = int(np.searchsorted(ends, done + BATCH_PARTITIONS, side="right"))
        end = min(max(end, begin + 1), begin + BATCH_ROWS)
        yield batch.slice(begin, end - begin)
        begin = end
