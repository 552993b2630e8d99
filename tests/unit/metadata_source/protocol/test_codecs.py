"""Compression of record batches: what was compressed comes back, within a bound."""

import tracemalloc

import pyarrow as pa
import pytest

from metadata_source.protocol.codecs import NAMES, TooLargeError, decompress
from tests.support.for_each import for_each
from tests.support.record_batches import CODECS, SNAPPY_HEADER, compressed

CONTENT = b"".join(bytes([at % 251]) * (at % 7) for at in range(60_000))


def test_the_codecs_are_those_of_the_attributes() -> None:
    assert NAMES == CODECS


@for_each("codec", CODECS)
@for_each("size", [0, 1, 1 << 16, (1 << 16) + 1, len(CONTENT)])
def test_what_was_compressed_comes_back(codec: str, size: int) -> None:
    content = CONTENT[:size]
    assert decompress(compressed(content, codec), codec, size) == content
    assert decompress(compressed(content, codec), codec, size + 1) == content


@pytest.mark.parametrize("codec", CODECS)
def test_no_bytes_are_those_of_no_bytes(codec: str) -> None:
    assert decompress(b"", codec, 0) == b""


@for_each("codec", CODECS[1:])
@for_each("size", [100, 1 << 16, len(CONTENT)])
def test_more_than_may_be_is_an_error(codec: str, size: int) -> None:
    with pytest.raises(TooLargeError):
        decompress(compressed(CONTENT[:size], codec), codec, size - 1)


def snappy(*sizes: int) -> bytes:
    """Blocks of so many bytes each, with the frame of Java."""
    blocks = [pa.compress(bytes(size), "snappy", asbytes=True) for size in sizes]
    return SNAPPY_HEADER + b"".join(len(block).to_bytes(4) + block for block in blocks)


def test_blocks_of_snappy_are_joined_within_what_may_be() -> None:
    assert decompress(snappy(100, 20), "snappy", 120) == bytes(120)
    with pytest.raises(TooLargeError):
        decompress(snappy(100, 20), "snappy", 119)


@pytest.mark.parametrize(
    ("data", "codec", "problem"),
    [
        (b"no frame", "gzip", "not gzip: "),
        (b"no frame", "lz4", "not lz4: "),
        (b"no frame", "zstd", "not zstd: "),
        (b"\x05x", "snappy", "not snappy: "),
        (SNAPPY_HEADER + b"\0\0\0\0", "snappy", "a block without its size"),
        (b"\xff\xff\xff\xff\xff", "snappy", "a block without its size"),
        # No byte of a block makes more than 64.
        (b"\xc1\1x", "snappy", "a block that is to be 193 bytes when decompressed"),
    ],
)
def test_what_the_codec_did_not_make_is_an_error(data: bytes, codec: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        decompress(data, codec, 1_000)
    assert not isinstance(raised.value, TooLargeError)


def test_blocks_of_snappy_take_no_more_memory_than_may_be() -> None:
    block = pa.compress(bytes(1 << 16), "snappy", asbytes=True)
    data = SNAPPY_HEADER + 100 * (len(block).to_bytes(4) + block)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decompress(data, "snappy", 1 << 17)
        assert tracemalloc.get_traced_memory()[1] < (1 << 17) + (1 << 15)
    finally:
        tracemalloc.stop()
