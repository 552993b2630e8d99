"""Record batches for tests, written field by field: a second and plainer writing of the format than
the reader's.
"""

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from kafka.record._crc32c import crc as plain_crc32c

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SNAPPY_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


@dataclass(frozen=True)
class Record:
    offset_delta: int
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True)
class Batch:
    base_offset: int = 0
    records: Sequence[Record] = ()
    leader_epoch: int = 1
    base_timestamp: int = 1_700_000_000_000
    max_timestamp: int = 1_700_000_000_000
    codec: str = "none"
    log_append_time: bool = False
    control: bool = False
    producer_id: int = -1
    transactional: bool = False
    last_offset_delta: int | None = None
    written: dict[str, int] = field(default_factory=dict)
    """Fields of the header that are written as they should not be."""

    def rows(self) -> list[dict[str, Any]]:
        """The rows that reading it must give."""
        return [
            {
                "offset": self.base_offset + record.offset_delta,
                "leader_epoch": self.leader_epoch,
                "timestamp_ms": self.max_timestamp
                if self.log_append_time
                else self.base_timestamp + record.timestamp_delta,
                "is_control": self.control,
                "key": record.key,
                "value": record.value,
            }
            for record in self.records
        ]

    def last_delta(self) -> int:
        return max((each.offset_delta for each in self.records), default=0)


def batch_bytes(batch: Batch, content: bytes | None = None) -> bytes:
    """The bytes of a batch; `content` in the place of those of its records."""
    records = b"".join(map(record_bytes, batch.records)) if content is None else content
    told = {
        "magic": 2,
        "attributes": CODECS.index(batch.codec)
        | 8 * batch.log_append_time
        | 16 * batch.transactional
        | 32 * batch.control,
        "last_offset_delta": batch.last_delta()
        if batch.last_offset_delta is None
        else batch.last_offset_delta,
        "count": len(batch.records),
    } | batch.written
    checked = struct.pack(
        ">hiqqqhii",
        *(told["attributes"], told["last_offset_delta"], batch.base_timestamp, batch.max_timestamp),
        *(batch.producer_id, -1, -1, told["count"]),
    ) + compressed(records, batch.codec)
    crc = told.get("crc", plain_crc32c(checked))
    after_length = struct.pack(">ibI", batch.leader_epoch, told["magic"], crc) + checked
    return (
        struct.pack(">qi", batch.base_offset, told.get("length", len(after_length))) + after_length
    )


def record_bytes(record: Record) -> bytes:
    body = b"\0" + varint(record.timestamp_delta) + varint(record.offset_delta)
    body += _bytes(record.key) + _bytes(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += _bytes(name) + _bytes(value)
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """A signed varint, zigzag."""
    return unsigned_varint(number * 2 if number >= 0 else -number * 2 - 1)


def unsigned_varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def compressed(data: bytes, codec: str) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        blocks = [
            pa.compress(data[at : at + 100], "snappy", asbytes=True)
            for at in range(0, len(data), 100)
        ]
        return SNAPPY_HEADER + b"".join(len(block).to_bytes(4) + block for block in blocks)
    return pa.compress(data, codec, asbytes=True)


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
