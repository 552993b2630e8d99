"""Rows of bronze.cluster_log as steps of a replay: a record with its time, a whole snapshot, or a
break in the log.

All that the fold knows of how that table says these things is here. A row's `record` is 'record'
(of the log), 'snapshot' (of one, between its header and its footer) or 'span' (of what was read, or
could not be).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Record = Mapping[str, Any]

TOPIC, BROKER = 2, 4
"""``ConfigResource.Type``."""
UNREGISTER_BROKER, REMOVE_TOPIC = 1, 9
_EPOCH = datetime.fromtimestamp(0, UTC)
_BEGIN, _END, _ABORT = 23, 24, 25
_FOOTER = 4
_SPAN, _SNAPSHOT = "span", "snapshot"
_READ, _LOST, _TRUNCATED = "read", "lost", "truncated"
_BREAKS = (_LOST, _TRUNCATED)
FIRST_OFFSETS = (0, 1)
"""Where a log begins that has lost nothing. A fetch at 0 gets a snapshot once there is one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record of the log, in effect `at`. A time that no calendar has is that of the epoch."""

    record: Record
    at: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was logged before `offset`, the last of it `at`; `leader_epoch`: of the last."""

    records: Sequence[Record]
    offset: int
    leader_epoch: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Break:
    """The log is not as it was read, or cannot be read any more.

    `truncated_at`: it was truncated at `offset`, and when that was found, by our clock. None: it
    was lost up to there.
    """

    offset: int
    truncated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Open:
    """The end of a transaction, or of a snapshot, is not there. All its rows have to come again."""


Step = Change | Snapshot | Break | Open


def steps(rows: Sequence[Record], *, is_cut: bool = False) -> Iterator[Step]:
    """The steps that rows of one cluster make, in their order. `is_cut`: the last step before was a
    truncation.

    The records of a transaction (KIP-866, ``MetadataBatchLoader``) are in effect at its end, those
    of an aborted one never. A transaction, or a snapshot, whose end is not among the rows is the
    last step, `Open`; but where a break or a snapshot follows, its end will never come, and the
    steps are those from there on.
    """
    place = (yield from _begun_again(rows, 0)) if is_cut else 0
    while place < len(rows):
        row = rows[place]
        if row["record"] == _SPAN:
            place = yield from _span(rows, place)
        elif row["record"] == _SNAPSHOT:
            until = _end_of_snapshot(rows, place)
            if _is_footer(rows[until - 1]):
                yield _snapshot(rows[place:until])
            elif until == len(rows):
                yield Open()
            place = until
        elif row["type"] == _BEGIN:
            end = _end_of_transaction(rows, place)
            if end < len(rows) and rows[end]["type"] in (_END, _ABORT):
                is_whole, at = rows[end]["type"] == _END, rows[end]["timestamp"] or _EPOCH
                inside = range(place + 1, end) if is_whole else ()
                yield from (
                    Change(rows[each], at)
                    for each in (place, *inside, end)
                    if _is_record(rows[each])
                )
                end += 1
            elif end == len(rows):
                yield Open()
            place = end
        else:
            yield Change(row, row["timestamp"] or _EPOCH)
            place += 1


def in_order(rows: pa.Table) -> pa.Table:
    """Rows of bronze.cluster_log of one cluster in the order in which they were read.

    In a batch a snapshot comes before the record at its offset, and what was lost up to there
    before the snapshot.
    """
    is_span, is_snapshot = pc.equal(rows["record"], _SPAN), pc.is_valid(rows["snapshot_offset"])
    is_break = pc.is_in(rows["went"], pa.array(_BREAKS))
    place = pc.if_else(is_span, rows["next_offset"], rows["offset"])
    order = {
        "read_at": rows["read_at"],
        "place": pc.if_else(is_snapshot, rows["snapshot_offset"], place),
        # At one offset: the span that ends there, a break, the snapshot (its span last), the
        # record.
        "rank": pc.if_else(
            is_snapshot,
            pc.if_else(is_span, 3, 2),
            pc.if_else(is_span, pc.if_else(is_break, 1, 0), 4),
        ),
        "offset": rows["offset"],
    }
    keys = [(name, "ascending") for name in order]
    return rows.take(pc.sort_indices(pa.table(order), sort_keys=keys))


def _span(rows: Sequence[Record], place: int) -> Generator[Step, None, int]:
    """The step of a span, and of a truncation the one after it. Returns the place after them."""
    went = rows[place]["went"]
    if went in _BREAKS:
        yield _break(rows[place])
    return (yield from _begun_again(rows, place + 1)) if went == _TRUNCATED else place + 1


def _begun_again(rows: Sequence[Record], begin: int) -> Generator[Step, None, int]:
    """The step of a log that is read from its beginning on after a truncation: a snapshot of its
    end. The log before may have begun in the same way, so its records are no changes. Returns the
    place after them.
    """
    while (
        begin < len(rows)
        and rows[begin]["went"] == _LOST
        and rows[begin]["next_offset"] in FIRST_OFFSETS
    ):
        begin += 1
    end = next(
        (place for place in range(begin, len(rows)) if not _is_record(rows[place])), len(rows)
    )
    if end == len(rows):
        if begin < end:
            yield Open()
        return end
    if rows[end]["went"] != _READ or rows[end]["offset"] not in FIRST_OFFSETS:
        return begin
    inside = [*steps(rows[begin:end])]
    if inside and isinstance(inside[-1], Open):
        end = max(place for place in range(begin, end) if rows[place]["type"] == _BEGIN)
    until = rows[end]
    offset = until["offset"] if _is_record(until) else until["next_offset"]
    records = [step.record for step in inside if isinstance(step, Change)]
    yield Snapshot(records, offset, until["leader_epoch"], until["timestamp"] or _EPOCH)
    return end


def since_truncation(rows: Sequence[Record], found_at: datetime) -> Sequence[Record]:
    """Rows from a truncation on that was taken: those of the log before come again with it."""
    known = (
        place
        for place, row in enumerate(rows)
        if row["went"] == _TRUNCATED and row["read_at"] <= found_at
    )
    return rows[max(known, default=0) :]


def _is_record(row: Record) -> bool:
    return row["record"] not in (_SPAN, _SNAPSHOT)


def _end_of_transaction(rows: Sequence[Record], begin: int) -> int:
    """The place of its end; else of what ends the log as it was, or that after the last row."""
    for place in range(begin + 1, len(rows)):
        row = rows[place]
        is_cut = row["record"] == _SNAPSHOT or (row["record"] == _SPAN and row["went"] in _BREAKS)
        if is_cut or (_is_record(row) and row["type"] in (_END, _ABORT)):
            return place
    return len(rows)


def _end_of_snapshot(rows: Sequence[Record], begin: int) -> int:
    """The place after its last row."""
    own = (_SNAPSHOT, rows[begin]["snapshot_offset"], rows[begin]["snapshot_epoch"])
    for place in range(begin + 1, len(rows)):
        row = rows[place]
        if (row["record"], row["snapshot_offset"], row["snapshot_epoch"]) != own or _is_footer(
            rows[place - 1]
        ):
            return place
    return len(rows)


def _is_footer(row: Record) -> bool:
    """Whether it is a SnapshotFooterRecord."""
    return bool(row["is_control"] and row["type"] == _FOOTER)


def _snapshot(rows: Sequence[Record]) -> Snapshot:
    """Its header says when the last record was written that it has; bootstrap ones say nothing."""
    header = rows[0]
    written_ms = header["last_contained_log_timestamp_ms"] or 0
    at = (
        _EPOCH + timedelta(milliseconds=written_ms)
        if written_ms > 0
        else header["timestamp"] or _EPOCH
    )
    return Snapshot(rows, header["snapshot_offset"], header["snapshot_epoch"], at)


def _break(span: Record) -> Break:
    return Break(span["next_offset"], span["read_at"] if span["went"] == _TRUNCATED else None)
