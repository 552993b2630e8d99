"""Record batches of version 2 (magic 2), as Fetch and FetchSnapshot answer them and as segments and
snapshots hold them: bytes in, Arrow out.

The format is that of Kafka's ``DefaultRecordBatch`` and ``DefaultRecord``. All batches are read
side by side, then all of their records. Python goes from batch to batch only to find where each
begins and to check its CRC, and from record to record only to find where each begins.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metadata_source.columns import OF_RECORDS
from metadata_source.errors import ProtocolError
from metadata_source.protocol.codecs import NAMES, TooLargeError, decompress
from metadata_source.protocol.encoding import NULL
from metadata_source.protocol.vectors import slices, varints, view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.protocol.vectors import Bytes, Flags, Positions

    Headers = npt.NDArray[np.void]
    """Headers of batches, with the fields of `HEADER`."""

MOST_BYTES: Final = 1 << 26
"""The most bytes that one call reads."""
MOST_RECORDS: Final = 1 << 21
"""The most records that one call reads."""
MOST_DECOMPRESSED: Final = 1 << 27
"""The most bytes that the compressed batches of one call may have when decompressed."""

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("count", ">i4"),
    ]
)
_MAGIC: Final = 2
_CODEC: Final = 0x07
_IS_LOG_APPEND_TIME: Final = 0x08
_IS_TRANSACTIONAL: Final = 0x10
_IS_CONTROL: Final = 0x20
_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")
_COUNTED_FROM: Final = 12
"""Where the bytes of a batch begin that its length counts."""
_CHECKED_FROM: Final = 21
"""Where the bytes begin that the CRC covers."""
_INT32_BYTES: Final = 5
_INT64_BYTES: Final = 10
"""The most bytes that varints have."""
_RECORD_BYTES: Final = 7
"""The fewest that a record has: length, attributes, timestamp, offset, key, value, headers."""

BATCHES: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("base_offset", pa.int64(), nullable=False),
        pa.field("last_offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field("record_count", pa.int32(), nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("is_transactional", pa.bool_(), nullable=False),
    ]
)
RECORDS: Final = pa.schema([*OF_RECORDS, ("key", pa.binary()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class RecordBatches:
    """Batches in their order (schema `BATCHES`; `position` is the byte where one begins,
    `producer_id` is -1 where there is none), and the records of all of them (schema `RECORDS`).

    `size` is how many bytes the batches take. After them begins one that was not read, or nothing.
    """

    batches: pa.RecordBatch
    records: pa.RecordBatch
    size: int


def read_batches(data: bytes) -> RecordBatches:
    """Return the first batches, as many as are whole and within the bounds above.

    The caller continues at `size`. If that is 0, no batch is whole: the caller passes more bytes
    from there, up to `MOST_BYTES`, with which there is a batch or an error. Nobody can tell a wrong
    length from a batch that is cut off until then. Headers of records are passed over. Markers of
    transactions are control records, and records of transactions that were aborted are among the
    others. Raises ProtocolError, whose offset is where the batch begins, for another magic and a
    wrong length (of a batch that is cut off too, if it has 17 bytes), a wrong CRC, records that are
    not as many or not as long as is said, and a batch that alone is beyond a bound.
    """
    begins, ends = _bounds(data)
    headers = view(data, HEADER)[begins]
    _expect(
        _crcs(data, begins + _CHECKED_FROM, ends) == headers["crc"],
        begins,
        "crc",
        "not that of the bytes",
    )
    _expect(headers["attributes"] & _CODEC < len(NAMES), begins, "attributes", "an unknown codec")
    counts = headers["count"]
    _expect(
        (counts >= 0) & (counts <= MOST_RECORDS),
        begins,
        "count",
        f"negative, or more than {MOST_RECORDS}",
    )
    read = int(np.searchsorted(counts.cumsum(dtype=np.int64), MOST_RECORDS, "right"))
    content = _contents(data, headers[:read], begins[:read], ends[:read])
    read = len(content.ends)
    headers, begins, ends = headers[:read], begins[:read], ends[:read]
    return RecordBatches(
        _batches(headers, begins), _records(content, headers, begins), int(ends.max(initial=0))
    )


def _bounds(data: bytes) -> tuple[Positions, Positions]:
    """Return where batches begin and end."""
    bounds = [0]
    at, last = 0, len(data) - _LENGTH_AND_MAGIC.size
    while at <= last:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(data, at)
        size = _COUNTED_FROM + length
        if magic != _MAGIC:
            raise _error(at, "magic", f"{magic}, not {_MAGIC}")
        if size < HEADER.itemsize:
            raise _error(at, "length", f"{size} bytes, a header alone has {HEADER.itemsize}")
        if size > MOST_BYTES:
            raise _error(at, "length", f"{size} bytes, {MOST_BYTES} is the most")
        at += size
        if at > min(len(data), MOST_BYTES):
            break
        bounds.append(at)
    positions = np.array(bounds)
    return positions[:-1], positions[1:]


def _crcs(data: bytes, begins: Positions, ends: Positions) -> npt.NDArray[np.uint32]:
    """Return the CRC-32C of each piece of the data."""
    crcs = [
        google_crc32c.value(data[begin:end])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return np.array(crcs, dtype=np.uint32)


def _batches(headers: Headers, begins: Positions) -> pa.RecordBatch:
    columns = {
        "position": begins,
        "base_offset": headers["base_offset"],
        "last_offset": headers["base_offset"] + headers["last_offset_delta"],
        "leader_epoch": headers["leader_epoch"],
        "record_count": headers["count"],
        "producer_id": headers["producer_id"],
        "is_transactional": headers["attributes"] & _IS_TRANSACTIONAL != 0,
    }
    return _record_batch(columns, BATCHES)


def _records(contents: _Contents, headers: Headers, begins: Positions) -> pa.RecordBatch:
    content, first, after = contents
    counts = headers["count"].astype(np.int64)
    _expect(
        counts * _RECORD_BYTES <= after - first,
        begins,
        "count",
        "more records than the bytes can be",
    )
    at, good = _record_begins(content, first, after, counts)
    _expect(good, begins, "count", "not as many as there are records")
    limits = np.roll(at, -1)
    limits[np.cumsum(counts)[counts > 0] - 1] = after[counts > 0]
    batch = np.repeat(np.arange(len(counts)), counts)

    fields = _Fields(np.frombuffer(content, dtype=np.uint8), at, limits, begins, batch)
    lengths = fields.numbers(_INT32_BYTES, "length")
    fields.expect(lengths == limits - fields.at, "a length that does not end where its record does")
    fields.at += 1  # attributes, of which none is used
    timestamp_deltas = fields.numbers(_INT64_BYTES, "timestamp")
    offset_deltas = fields.numbers(_INT32_BYTES, "offset")
    is_within = (offset_deltas >= 0) & (offset_deltas <= headers["last_offset_delta"][batch])
    fields.expect(is_within, "an offset that is not within the batch")
    key, value = fields.slice("key"), fields.slice("value")
    header_counts = fields.numbers(_INT32_BYTES, "count of headers")
    has_them = np.where(fields.at == limits, header_counts == 0, header_counts > 0)
    fields.expect(has_them, "a count of headers that its record does not have")

    appended = headers["attributes"] & _IS_LOG_APPEND_TIME != 0
    created = headers["base_timestamp"][batch] + timestamp_deltas
    columns = {
        "offset": headers["base_offset"][batch] + offset_deltas,
        "leader_epoch": headers["leader_epoch"][batch],
        "timestamp_ms": np.where(appended[batch], headers["max_timestamp"][batch], created),
        "is_control": (headers["attributes"] & _IS_CONTROL != 0)[batch],
        "key": _binary(content, *key),
        "value": _binary(content, *value),
    }
    return _record_batch(columns, RECORDS)


class _Fields:
    """Goes past the same field of all records at once; raises the error of the first batch whose
    record has another.

    A cursor never passes the end of its record by more than a byte.
    """

    def __init__(
        self, data: Bytes, at: Positions, limits: Positions, begins: Positions, batch: Positions
    ) -> None:
        self._data = data
        self.at = at
        self._limits = limits
        self._begins = begins
        self._batch = batch

    def expect(self, good: Flags, problem: str) -> None:
        """Raise the error of the first record that is not good: a fixed text, none of its bytes."""
        if not good.all():
            raise _error(int(self._begins[self._batch[good.argmin()]]), "records", problem)

    def numbers(self, most: int, what: str) -> Positions:
        """Go past signed varints (``ByteUtils.readVarint``: zigzag)."""
        values, self.at, good = varints(self._data, self.at, most)
        self.expect(good & (self.at <= self._limits), f"a malformed {what}")
        numbers: Positions = (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1)
        return numbers

    def slice(self, what: str) -> tuple[Positions, Positions]:
        """Go past bytes, return where they begin and their lengths."""
        lengths = self.numbers(_INT32_BYTES, f"length of a {what}")
        begins = self.at
        is_there = (lengths >= NULL) & (lengths <= self._limits - begins)
        self.expect(is_there, f"a length of a {what} that its record does not have")
        self.at = begins + np.maximum(lengths, 0)
        return begins, lengths


class _Contents(NamedTuple):
    """Bytes of records of batches, decompressed, and where those of each begin and end."""

    data: bytes
    begins: Positions
    ends: Positions


def _contents(data: bytes, headers: Headers, begins: Positions, ends: Positions) -> _Contents:
    """Return the contents of the first batches, as many as are within `MOST_DECOMPRESSED`."""
    begins = begins + HEADER.itemsize
    codecs = headers["attributes"] & _CODEC
    if not codecs.any():
        return _Contents(data, begins, ends)
    parts: list[bytes] = []
    left = MOST_DECOMPRESSED
    for begin, end, codec in zip(begins.tolist(), ends.tolist(), codecs.tolist(), strict=True):
        try:
            part = decompress(data[begin:end], NAMES[codec], left)
        except TooLargeError:
            if parts:
                break
            problem = f"more than {MOST_DECOMPRESSED} bytes when decompressed"
            raise _error(begin - HEADER.itemsize, "records", problem) from None
        except ValueError as error:
            raise _error(begin - HEADER.itemsize, "records", str(error)) from None
        parts.append(part)
        left -= len(part) if codec else 0
    after = np.cumsum([len(part) for part in parts])
    return _Contents(b"".join(parts), np.append(0, after[:-1]), after)


def _record_begins(
    content: bytes, begins: Positions, ends: Positions, counts: Positions
) -> tuple[Positions, Flags]:
    """Return where records begin by their lengths, which are not looked at any closer, and which
    batches have as many as they should.
    """
    found = array("q")
    good = []
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist(), strict=True):
        at, last = begin, end - _RECORD_BYTES
        for _ in range(count):
            if at > last:
                good.append(False)
                break
            found.append(at)
            low, high = content[at], content[at + 1]
            if low < 0x80:
                at += 1 + (low >> 1)
            elif high < 0x80:
                at += 2 + ((high << 7 | low & 0x7F) >> 1)
            else:
                at = _after_long(content, at)
        else:
            # A last record that ends beyond the batch has a wrong length.
            good.append(at >= end)
    return np.frombuffer(found, dtype=np.int64), np.array(good, dtype=np.bool_)


def _after_long(content: bytes, at: int) -> int:
    """Return where a record ends whose length has more than two bytes."""
    length = 0
    for index, byte in enumerate(content[at : at + _INT32_BYTES]):
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    return at + index + 1 + (length >> 1)


def _binary(content: bytes, begins: Positions, lengths: Positions) -> pa.BinaryArray:
    return slices(content, begins, begins + np.maximum(lengths, 0), pa.binary(), nulls=lengths < 0)


def _record_batch(
    columns: Mapping[str, npt.NDArray[Any] | pa.Array], schema: pa.Schema
) -> pa.RecordBatch:
    """Return columns in the types of a schema; numbers of headers are big-endian."""
    arrays = [
        each if isinstance(each, pa.Array) else pa.array(each.astype(field.type.to_pandas_dtype()))
        for field, each in zip(schema, columns.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _expect(good: Flags, positions: Positions, path: str, problem: str) -> None:
    """Raise the error of the first that is not good."""
    if not good.all():
        raise _error(int(positions[good.argmin()]), path, problem)


def _error(position: int, path: str, problem: str) -> ProtocolError:
    return ProtocolError(problem, message="RecordBatch", version=_MAGIC, path=path, offset=position)
