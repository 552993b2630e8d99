"""Rows of bronze.cluster_log: of records of the log and of snapshots, and of what became of spans of offsets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.protocol.cluster_records import RECORDS, decode_records
from metadata_source.protocol.cluster_specs import COUNTED
from metadata_source.protocol.vectors import times_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from metadata_source.cluster_log.places import SnapshotId

_TIME: Final = pa.timestamp("us", tz="UTC")
_NO_OP: Final = 20
_NO_OP_VALUES: Final = pa.array([b"\x01\x14\x00\x00"], pa.binary())
"""Frame version, type, version and no tagged fields."""
_NO_ROWS: Final = pa.array([_NO_OP, *COUNTED], pa.int32())
_READ_OTHERWISE: Final = ("offset", "leader_epoch", "timestamp_ms", "is_control")

SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("snapshot_offset", pa.int64()),
        pa.field("snapshot_epoch", pa.int32()),
        pa.field("cluster_id", pa.string()),
        pa.field("read_at", _TIME, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("went", pa.string()),
        pa.field("next_offset", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("no_ops", pa.int64()),
        pa.field("counted", pa.int64()),
        pa.field("silence_from", _TIME),
        pa.field("silence_to", _TIME),
        pa.field("timestamp", _TIME),
        pa.field("leader_epoch", pa.int32()),
        pa.field("is_control", pa.bool_()),
        *(each for each in RECORDS if each.name not in _READ_OTHERWISE),
    ]
)


@dataclass(frozen=True, slots=True)
class Source:
    """Whose rows they are: a cluster's alias and id, None if it is not known, and when they were read (one time for
    all of a batch); of a snapshot its id.
    """

    cluster: str
    cluster_id: str | None
    read_at: datetime
    snapshot: SnapshotId | None = None

    def columns(self, count: int) -> dict[str, pa.Array]:
        """Return the columns that say so."""
        offset, epoch = self.snapshot or (None, None)
        values = {
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "read_at": self.read_at,
            "day": self.read_at.astimezone(UTC).date(),
            "snapshot_offset": offset,
            "snapshot_epoch": epoch,
        }
        return {name: pa.repeat(pa.scalar(value, SCHEMA.field(name).type), count) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Silence:
    """The time between two records of which one follows the other, ms since 1970."""

    since: int
    until: int


class Read:
    """Counts what is read of a span of offsets, from `start` on."""

    def __init__(self, start: int) -> None:
        self.start = self.next = start
        self.records = self.no_ops = self.counted = 0
        self.silence: Silence | None = None
        self.last_ms: int | None = None
        self.last_epoch: int | None = None
        """Time and leader epoch of the last record."""

    def hear(self, records: pa.RecordBatch) -> None:
        """Note times of records (schema of `record_batches.RECORDS`), also of those before the span."""
        times = records["timestamp_ms"].to_numpy()
        if self.last_ms is not None:
            times = np.append(self.last_ms, times)
        if len(times) > 1:
            gaps = np.diff(times)
            longest = int(gaps.argmax())
            if self.silence is None or gaps[longest] > self.silence.until - self.silence.since:
                self.silence = Silence(int(times[longest]), int(times[longest + 1]))
        if len(times):
            self.last_ms = int(times[-1])

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Count records of the span and return them decoded, without those that have no rows."""
        self.hear(records)
        decoded = decode_records(records)
        is_record = pc.invert(decoded["is_control"])
        types = decoded["type"]
        is_no_op = pc.and_(is_record, pc.equal(types, _NO_OP)).fill_null(False)
        has_no_row = pc.and_(is_record, pc.is_in(types, _NO_ROWS))
        no_ops, without_rows = (pc.sum(each).as_py() or 0 for each in (is_no_op, has_no_row))
        self.no_ops += no_ops
        self.counted += without_rows - no_ops
        self.records += len(decoded) - without_rows
        if len(decoded):
            self.next = decoded["offset"][-1].as_py() + 1
            self.last_epoch = decoded["leader_epoch"][-1].as_py()
        return decoded.filter(pc.invert(has_no_row))


def record_rows(source: Source, decoded: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of records that were decoded."""
    kind = "record" if source.snapshot is None else "snapshot"
    return _batch(
        source,
        len(decoded),
        {name: decoded[name] for name in decoded.schema.names if name in SCHEMA.names}
        | {"record": pa.repeat(kind, len(decoded)), "timestamp": times_of(decoded["timestamp_ms"])},
    )


def read_rows(source: Source, read: Read) -> Iterator[pa.RecordBatch]:
    """Yield the row that says what was read, if anything was."""
    if read.next == read.start:
        return
    silence = read.silence if source.snapshot is None else None
    yield _row(
        source,
        "read",
        read.start,
        read.next,
        records=read.records,
        no_ops=read.no_ops,
        counted=read.counted,
        silence_from=None if silence is None else silence.since,
        silence_to=None if silence is None else silence.until,
        timestamp=read.last_ms,
        leader_epoch=read.last_epoch,
    )


def unread_row(
    source: Source,
    went: Literal["truncated", "lost", "cut_off"],
    start: int,
    end: int | None,
    error: str | None = None,
) -> pa.RecordBatch:
    """Return the row that says why nothing was read from an offset on, up to another one. `error`: the log has it, and
    it cannot be read.
    """
    return _row(source, went, start, end, error=error)


def are_no_ops(records: pa.RecordBatch) -> bool:
    """Whether all of these (schema of `record_batches.RECORDS`) are NoOpRecords."""
    is_no_op = pc.and_(pc.is_in(records["value"], _NO_OP_VALUES), pc.invert(records["is_control"]))
    return bool(pc.all(is_no_op).as_py())


def _row(source: Source, went: str, start: int, end: int | None, **more: int | str | None) -> pa.RecordBatch:
    values = {"record": "span", "went": went, "offset": start, "next_offset": end}
    columns = {
        name: times_of(pa.array([value], pa.int64())) if SCHEMA.field(name).type == _TIME else pa.array([value])
        for name, value in (values | more).items()
    }
    return _batch(source, 1, columns)


def _batch(source: Source, count: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    columns = source.columns(count) | columns
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
