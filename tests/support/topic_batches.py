"""Record batches of a topic's log: good ones, bad ones, and messages of old formats."""

from typing import Any

from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tests.support.record_batches import Batch, Record, batch_bytes

KEY, VALUE = b"\0\2\0\1g", b"\0\3"


def batch(offset: int, count: int = 1, **more: Any) -> bytes:
    return batch_bytes(Batch(offset, [Record(n, 0, KEY, VALUE) for n in range(count)], **more))


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0x55
    return bytes(changed)


def old(offset: int, count: int = 1, magic: int = 1, codec: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for n in range(count):
        builder.append(offset + n, 1_763_802_000_000, KEY, VALUE)
    data = bytes(builder.build())
    # As a broker writes it: a compressed message has the offset of the last one in it.
    return (offset + count - 1).to_bytes(8) + data[8:] if codec else data
