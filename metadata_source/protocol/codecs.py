"""Compression of record batches (Kafka's ``CompressionType``), by Arrow's codecs.

gzip, LZ4 and zstd have frames of their own. Snappy has none, so Kafka writes that of its Java library
(``SnappyOutputStream``): a header of 16 bytes, then blocks, each after its size. Other clients write one block without
a header. Kafka reads both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

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


_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HAS_SIZE, _LZ4_HAS_DICTIONARY = 0x08, 0x01
"""Flags of a frame's header: eight bytes, or four, follow the first two."""


class TooLargeError(ValueError):
    """Raised for more bytes than may be."""


def decompress(data: bytes, codec: str, most: int) -> bytes:
    """Return what was compressed with one of `NAMES`; no bytes are that of no bytes.

    Raises TooLargeError for more than `most` bytes, and ValueError for data that the codec did not make.
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


def with_lz4_checksum(data: bytes) -> bytes:
    """Return an LZ4 frame with the checksum that its header should have.

    With messages of format 0 clients wrote that of other bytes, and Kafka does not look at it (KAFKA-3160;
    ``Lz4BlockInputStream.ignoreFlagDescriptorChecksum``).
    """
    if len(data) <= len(_LZ4_MAGIC) or not data.startswith(_LZ4_MAGIC):
        return data
    begin, flags = len(_LZ4_MAGIC), data[len(_LZ4_MAGIC)]
    end = begin + 2 + 8 * bool(flags & _LZ4_HAS_SIZE) + 4 * bool(flags & _LZ4_HAS_DICTIONARY)
    checksum = _xxh32_of_few(data[begin:end]) >> 8 & 0xFF
    return data[:end] + bytes([checksum]) + data[end + 1 :]


def _xxh32_of_few(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes (xxhash_spec.md of github.com/Cyan4973/xxHash)."""

    def rotated(number: int, bits: int) -> int:
        number &= 0xFFFFFFFF
        return (number << bits | number >> 32 - bits) & 0xFFFFFFFF

    found = 374761393 + len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        found = rotated(found + int.from_bytes(data[at : at + 4], "little") * 3266489917, 17) * 668265263
    for byte in data[whole:]:
        found = rotated(found + byte * 374761393, 11) * 2654435761
    found &= 0xFFFFFFFF
    found = (found ^ found >> 15) * 2246822519 & 0xFFFFFFFF
    found = (found ^ found >> 13) * 3266489917 & 0xFFFFFFFF
    return found ^ found >> 16


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
