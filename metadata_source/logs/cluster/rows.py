"""Rows of bronze.cluster_log: of records of the log and of snapshots, and of spans of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import TIME
from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.logs.rows import columns_of
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import COUNTED, WITHOUT_FIELDS
from metadata_source.protocol.vectors import times_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metadata_source.logs.cluster.positions import SnapshotId

_NO_OP: Final = 20
_NO_OP_VALUES: Final = pa.array([b"\x01\x14\x00\x00"], pa.binary())
"""Frame version, type, version and no tagged fields."""
_NO_ROWS: Final = pa.array([_NO_OP, *COUNTED], pa.int32())
_NO_ROWS_OF_SNAPSHOT: Final = pa.array([_NO_OP, *COUNTED, *WITHOUT_FIELDS], pa.int32())
"""That there are ACLs is no event."""


class Read:
    """Counts what is read of a span of offsets, of the log or of a snapshot, from `start` on."""

    def __init__(self, start: int, *, of_snapshot: bool = False) -> None:
        self._no_rows = _NO_ROWS_OF_SNAPSHOT if of_snapshot else _NO_ROWS
        self.start = self.next = start
        self.records = self.no_ops = self.counted = 0
        self.silence: tuple[int, int] | None = None
        """The longest time between two records of which one follows the other: ms since 1970."""
        self.last_ms: int | None = None
        self.last_epoch: int | None = None
        """Time and leader epoch of the last record."""

    def hear(self, records: pa.RecordBatch) -> None:
        """Note times of records (`record_batches.RECORDS`), also of those before the span."""
        times = records["timestamp_ms"].to_numpy()
        if self.last_ms is not None:
            times = np.append(self.last_ms, times)
        if len(times) > 1:
            gaps = np.diff(times)
            longest = int(gaps.argmax())
            if self.silence is None or gaps[longest] > self.silence[1] - self.silence[0]:
                self.silence = int(times[longest]), int(times[longest + 1])
        if len(times):
            self.last_ms = int(times[-1])

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Count records of the span and return them decoded, without those that have no rows."""
        self.hear(records)
        decoded = decode_records(records)
        is_record = pc.invert(decoded["is_control"])
        types = decoded["type"]
        is_no_op = pc.and_(is_record, pc.equal(types, _NO_OP)).fill_null(False)
        has_no_row = pc.and_(is_record, pc.is_in(types, self._no_rows))
        no_ops, without_rows = (pc.sum(each).as_py() or 0 for each in (is_no_op, has_no_row))
        self.no_ops += no_ops
        self.counted += without_rows - no_ops
        self.records += len(decoded) - without_rows
        if len(decoded):
            self.next = decoded["offset"][-1].as_py() + 1
            self.last_epoch = decoded["leader_epoch"][-1].as_py()
        return decoded.filter(pc.invert(has_no_row))


def same_in(snapshot: SnapshotId) -> dict[str, int]:
    """Return what rows of a snapshot have in common."""
    return {"snapshot_offset": snapshot.offset, "snapshot_epoch": snapshot.epoch}


def record_rows(same: Mapping[str, Any], decoded: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of decoded records. `same`: of `same_of`, and `same_in`, here and below."""
    kind = "snapshot" if "snapshot_offset" in same else "record"
    columns = dict(zip(decoded.schema.names, decoded, strict=True))
    columns |= {
        "record": pa.repeat(kind, len(decoded)),
        "timestamp": times_of(decoded["timestamp_ms"]),
    }
    return pa.RecordBatch.from_arrays(
        columns_of(SCHEMA, columns, len(decoded), same), schema=SCHEMA
    )


def read_rows(same: Mapping[str, Any], read: Read) -> Iterator[pa.RecordBatch]:
    """Yield the row that says what was read, if anything was."""
    if read.next == read.start:
        return
    since, until = (
        (None, None) if read.silence is None or "snapshot_offset" in same else read.silence
    )
    yield _row(
        same,
        "read",
        read.start,
        read.next,
        records=read.records,
        no_ops=read.no_ops,
        counted=read.counted,
        silence_from=since,
        silence_to=until,
        timestamp=read.last_ms,
        leader_epoch=read.last_epoch,
    )


def unread_row(
    same: Mapping[str, Any],
    went: Literal["truncated", "lost", "cut_off"],
    start: int,
    end: int | None,
    error: str | None = None,
) -> pa.RecordBatch:
    """Return the row that says why nothing was read from an offset on, up to another one. `error`:
    the log has it, and it cannot be read.
    """
    return _row(same, went, start, end, error=error)


def are_no_ops(records: pa.RecordBatch) -> bool:
    """Whether all of these (schema of `record_batches.RECORDS`) are NoOpRecords."""
    is_no_op = pc.and_(pc.is_in(records["value"], _NO_OP_VALUES), pc.invert(records["is_control"]))
    return bool(pc.all(is_no_op).as_py())


def _row(
    same: Mapping[str, Any], went: str, start: int, end: int | None, **more: int | str | None
) -> pa.RecordBatch:
    values = {"record": "span", "went": went, "offset": start, "next_offset": end}
    columns = {
        name: times_of(pa.array([value], pa.int64()))
        if SCHEMA.field(name).type == TIME
        else pa.array([value])
        for name, value in (values | more).items()
    }
    return pa.RecordBatch.from_arrays(columns_of(SCHEMA, columns, 1, same), schema=SCHEMA)
