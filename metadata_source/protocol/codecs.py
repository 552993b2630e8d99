"""Compression of record batches (Kafka's ``CompressionType``), by Arrow's codecs.

gzip, LZ4 and zstd have frames of their own. Snappy has none, so Kafka writes that of its Java
library (``SnappyOutputStream``): a header of 16 bytes, then blocks, each after its size. Other
clients write one block without a header. Kafka reads both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number in a batch's attributes."""

_PIECE: Final = 1 << 16
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_SNAPPY_HEADER: Final = 16
_SNAPPY_SIZE: Final = 4
_SNAPPY_EXPANSION: Final = 64
"""No byte of a block makes more: copies are that long at most."""


class TooLargeError(KafkaMetadataHistoryError, ValueError):
    """Raised for more bytes than may be."""


def decompress(data: bytes, codec: str, most: int) -> bytes:
    """Return what was compressed with one of `NAMES`; no bytes are that of no bytes.

    Raises TooLargeError for more than `most` bytes, and ValueError for data that the codec did not
    make.
    """
    if codec == "none" or not data:
        return data
    pieces = []
    left = most
    try:
        for piece in _snappy(data, most) if codec == "snappy" else _streamed(data, codec):
            left -= len(piece)
            if left < 0:
                raise TooLargeError
            pieces.append(piece)
    except OSError as error:
        raise ValueError(f"not {codec}: {error}") from None
    return b"".join(pieces)


def _streamed(data: bytes, codec: str) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _snappy(data: bytes, most: int) -> Iterator[bytes]:
    for block in _blocks(data):
        size = _decompressed_size(block)
        if size > _SNAPPY_EXPANSION * len(block):
            raise ValueError(f"a block that is to be {size} bytes when decompressed")
        if size > most:
            raise TooLargeError
        most -= size
        yield pa.decompress(block, size, "snappy", asbytes=True)


def _blocks(data: bytes) -> Iterator[bytes]:
    if not data.startswith(_SNAPPY_MAGIC):
        yield data
        return
    at = _SNAPPY_HEADER
    while at < len(data):
        begin = at + _SNAPPY_SIZE
        at = begin + int.from_bytes(data[at:begin])
        yield data[begin:at]


def _decompressed_size(block: bytes) -> int:
    """Return the varint that a block begins with."""
    size = 0
    for shift, byte in zip(range(0, 35, 7), block, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
    raise ValueError("a block without its size")
