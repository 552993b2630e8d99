"""From spans of a log's offsets, and from snapshots, to rows of bronze.cluster_log."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from metadata_source.errors import ClusterLogError, ProtocolError
from metadata_source.logs.cluster import rows
from metadata_source.logs.cluster.batches import WholeBatches, between, up_to_bad
from metadata_source.logs.cluster.controllers import Controllers
from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.logs.cluster.watcher import committed_end, epoch_before, fetch
from metadata_source.logs.rows import same_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from datetime import datetime

    import pyarrow as pa

    from metadata_source.logs.cluster.positions import Span
    from metadata_source.logs.pace import Pace
    from metadata_source.options import Cluster

_PAUSE_S: Final = 0.1
_TRIES: Final = 3
"""How many times a batch is fetched before it counts as one that this controller cannot give."""


def read_span(
    cluster: Cluster, span: Span, *, read_at: datetime, timeout_ms: int, pace: Pace
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span of one cluster's log: records, and what became of its offsets.
    Raises ClusterLogError, after `timeout_ms` without progress.
    """
    same = same_of(span.cluster, span.cluster_id, read_at)
    with closing(Controllers(replace(cluster, cluster_id=span.cluster_id), pace)) as controllers:
        controllers.expect(span.epoch)
        reading = _Reading(controllers, same, timeout_ms / 1000)
        try:
            start = span.start
            if span.snapshot is not None and not (yield from reading.snapshot(span.snapshot)):
                start = yield from reading.beginning(span.start)
            yield from reading.records(start, span.end)
        except ProtocolError as error:
            raise ClusterLogError("protocol", str(error)) from None


class _Reading:
    """Reads a log from its active controller."""

    def __init__(self, controllers: Controllers, same: Mapping[str, Any], timeout_s: float) -> None:
        self._controllers = controllers
        self._same = same
        self._timeout_s = timeout_s

    def records(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of offsets from `start` up to `end`."""
        read = rows.Read(start)
        # From the record before on: a silence may begin with it.
        position, deadline, tries = max(start - 1, 0), self._deadline(), 0
        while read.next < end:
            before = position, read.next
            answer = fetch(self._controllers, position, deadline)
            if answer.snapshot is not None:
                # Offset 0 is answered so too, though the log may begin there.
                position = min(max(answer.begin, 1, read.next), end)
                if position > read.next:
                    yield from self._lost(read, position)
                    read = rows.Read(position)
                    if answer.begin == position:
                        yield from self.snapshot(
                            SnapshotId(position, epoch_before(self._controllers, answer, deadline))
                        )
            else:
                found, problem = up_to_bad(answer.records)
                for records in found:
                    read.hear(between(records, position, read.next))
                    yield rows.record_rows(self._same, read.take(between(records, read.next, end)))
                position = read.next
                tries = tries + 1 if problem is not None and (position, read.next) == before else 0
                is_over = tries == _TRIES or (tries > 0 and time.monotonic() >= deadline)
                if problem is not None and is_over:
                    latest = self._beyond(read.next, end, problem)
                    yield from self._lost(read, latest.offset, f"{problem.path}: {problem.problem}")
                    yield from self.snapshot(latest)
                    read, position, tries = rows.Read(latest.offset), latest.offset, 0
            if (position, read.next) != before:
                # Counted from here: whoever takes the rows may have taken long.
                deadline = self._deadline()
            elif time.monotonic() >= deadline:
                if not 0 <= answer.high_watermark < end:
                    raise ClusterLogError("timeout", f"nothing came from offset {position} on")
                # The log has lost its end since that was planned to be read.
                yield from self._lost(read, end)
                return
            else:
                time.sleep(_PAUSE_S)
        yield from rows.read_rows(self._same, read)

    def _beyond(self, bad: int, end: int, problem: ProtocolError) -> SnapshotId:
        """Return the latest snapshot, which has what a bad batch at an offset did. Raises `problem`
        if there is none: without it nothing that follows would tell the cluster's state. There will
        be one, or another controller leads, before the log is read again.
        """
        latest = self._controllers.fetch(0, None, self._deadline()).snapshot
        if latest is None or not bad < latest.offset <= end:
            raise problem
        return latest

    def beginning(self, start: int) -> Generator[pa.RecordBatch, None, int]:
        """Yield the rows of the snapshot with which the log begins, if that is not after `start`,
        whose snapshot is not there: each controller makes its own. Returns the offset to read from.
        """
        last = committed_end(self._controllers, self._deadline())
        if not 0 < last.begin <= start:
            return min(last.begin, start)
        epoch = epoch_before(self._controllers, last, self._deadline())
        yield from self.snapshot(SnapshotId(last.begin, epoch))
        return last.begin

    def snapshot(self, of: SnapshotId) -> Generator[pa.RecordBatch, None, bool]:
        """Yield the rows of a snapshot. Returns whether it is there."""
        same, read = {**self._same, **rows.same_in(of)}, rows.Read(0, of_snapshot=True)
        for records in WholeBatches(self._pieces(of)):
            yield rows.record_rows(same, read.take(records))
        yield from rows.read_rows(same, read)
        return read.next > 0

    def _pieces(self, of: SnapshotId) -> Iterator[bytes]:
        position, size = 0, 1
        while position < size:
            found = self._controllers.snapshot(of, position, self._deadline())
            if found is None and position == 0:
                return
            piece, size = found or (b"", size)
            if not piece:
                raise ClusterLogError(
                    "broker_error", f"snapshot {of.offset}-{of.epoch} ends at byte {position}"
                )
            yield piece
            position += len(piece)

    def _lost(self, read: rows.Read, to: int, error: str | None = None) -> Iterator[pa.RecordBatch]:
        yield from rows.read_rows(self._same, read)
        yield rows.unread_row(self._same, "lost", read.next, to, error)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s
