"""Messages of formats 0 and 1, from before Kafka 0.11: bytes in, Arrow out, in the columns of record batches.

A compacted log may hold some for as long as nobody writes their keys again. The format is that of Kafka's
``LegacyRecord`` and ``AbstractLegacyRecordBatch``. They are few, so Python goes from message to message.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from metadata_source.errors import ProtocolError
from metadata_source.protocol.codecs import NAMES, TooLargeError, decompress, with_lz4_checksum
from metadata_source.protocol.record_batches import MOST_DECOMPRESSED, RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER: Final = struct.Struct(">qiIbb")
_COUNTED_FROM: Final = 12
"""Where the bytes of a message begin that its size counts."""
_CHECKED_FROM: Final = 16
"""Where the bytes begin that the CRC covers."""
_CODEC: Final = 0x07
_IS_LOG_APPEND_TIME: Final = 0x08
_NO_EPOCH: Final = -1
_NO_TIME: Final = -1
_NOT_COMPRESSED: Final = 0


class _Message(NamedTuple):
    offset: int
    timestamp: int
    attributes: int
    magic: int
    key: bytes | None
    value: bytes | None


def read_messages(data: bytes) -> pa.RecordBatch:
    """Return messages, which are whole, and those that are compressed in them (schema `record_batches.RECORDS`; a
    leader epoch is -1, and so is a time of format 0).

    Raises ProtocolError, whose offset is where the message begins, for whatever is wrong.
    """
    rows: list[dict[str, Any]] = []
    for at, message in _messages(data):
        codec = message.attributes & _CODEC
        rows += map(_row, [message] if codec == _NOT_COMPRESSED else _inner(at, message, codec))
    return pa.RecordBatch.from_pylist(rows, RECORDS)


def _row(message: _Message) -> dict[str, Any]:
    return {
        "offset": message.offset,
        "leader_epoch": _NO_EPOCH,
        "timestamp_ms": message.timestamp,
        "is_control": False,
        "key": message.key,
        "value": message.value,
    }


def _messages(data: bytes) -> Iterator[tuple[int, _Message]]:
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise _error(at, "cut off")
        offset, size, crc, magic, attributes = _HEADER.unpack_from(data, at)
        end = at + _COUNTED_FROM + size
        if not at + _HEADER.size <= end <= len(data):
            raise _error(at, f"a size of {size} bytes")
        if magic not in {0, 1}:
            raise _error(at, f"format {magic} among messages of formats 0 and 1")
        if zlib.crc32(memoryview(data)[at + _CHECKED_FROM : end]) != crc:
            raise _error(at, "a CRC that is not that of its bytes")
        position, timestamp = at + _HEADER.size, _NO_TIME
        if magic == 1:
            timestamp, position = int.from_bytes(data[position : position + 8], signed=True), position + 8
        key, position = _bytes(data, position, end, at)
        value, position = _bytes(data, position, end, at)
        if position != end:
            raise _error(at, f"{end - position} bytes too many")
        yield at, _Message(offset, timestamp, attributes, magic, key, value)
        at = end


def _inner(at: int, wrapper: _Message, codec: int) -> Iterator[_Message]:
    """Yield the messages in a compressed one: its offset is that of the last. In format 1 theirs count from 0, and
    where the broker's time counts it is in the outer one alone.
    """
    if codec >= len(NAMES):
        raise _error(at, "an unknown codec")
    try:
        value = wrapper.value or b""
        if wrapper.magic == 0 and NAMES[codec] == "lz4":
            value = with_lz4_checksum(value)
        content = decompress(value, NAMES[codec], MOST_DECOMPRESSED)
    except TooLargeError:
        raise _error(at, f"more than {MOST_DECOMPRESSED} bytes when decompressed") from None
    except ValueError as error:
        raise _error(at, str(error)) from None
    try:
        inner = [message for _, message in _messages(content)]
    except ProtocolError as error:
        raise _error(at, f"compressed in it: {error.problem}") from None
    base = wrapper.offset - inner[-1].offset if inner and wrapper.magic == 1 else 0
    is_append_time = wrapper.magic == 1 and wrapper.attributes & _IS_LOG_APPEND_TIME
    for message in inner:
        if message.attributes & _CODEC:
            raise _error(at, "compressed twice")
        timestamp = wrapper.timestamp if is_append_time else message.timestamp
        yield message._replace(offset=base + message.offset, timestamp=timestamp)


def _bytes(data: bytes, position: int, end: int, at: int) -> tuple[bytes | None, int]:
    begin = position + 4
    length = int.from_bytes(data[position:begin], signed=True)
    if begin > end or not -1 <= length <= end - begin:
        raise _error(at, f"a key or value of {length} bytes")
    return (None, begin) if length < 0 else (data[begin : begin + length], begin + length)


def _error(at: int, problem: str) -> ProtocolError:
    return ProtocolError(problem, message="MessageSet", version=1, path="message", offset=at)
