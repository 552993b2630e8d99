"""Operations that NumPy and Arrow lack and the fast readers share, on values that stand at many
positions of one piece of bytes.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import TIME
from metadata_source.kafka_constants import LAST_MS

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_PADDING = bytes(16)


def view(data: bytes | Bytes, data_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a view of the bytes with the value that begins at each of them, without a copy."""
    dtype = np.dtype(data_type)
    return np.ndarray((max(len(data) - dtype.itemsize + 1, 0),), dtype, buffer=data, strides=(1,))


def clipped(data: Bytes, data_type: str, at: Positions) -> Positions:
    """Return the numbers that begin there; beyond the end the last one, as `take` does (which would
    copy a view like this).
    """
    values = view(data, data_type)
    numbers: Positions = values[np.minimum(at, len(values) - 1)].astype(np.int64)
    return numbers


def varints(data: Bytes, at: Positions, most: int = 3) -> tuple[Positions, Positions, Flags]:
    """Return unsigned varints, the positions after them, and which are well-formed.

    One of more than `most` bytes is not (of lengths nothing usual has more than three). A malformed
    one may begin or end beyond the data.
    """
    after = at.copy()
    values = np.zeros(len(at), dtype=np.int64)
    unfinished = np.ones(len(at), dtype=np.bool_)
    byte = np.zeros(len(at), dtype=np.int64)
    for shift in range(0, 7 * most, 7):
        byte = np.where(unfinished, data.take(after, mode="clip"), byte)
        values |= np.where(unfinished, (byte & 0x7F) << shift, 0)
        after += unfinished
        unfinished &= byte >= 0x80
        if not unfinished.any():
            break
    shortest = (byte != 0) | (after - at == 1)
    return values, after, ~unfinished & shortest


def contents(array: pa.BinaryArray) -> tuple[Bytes, Positions, Positions]:
    """Return an array's bytes and 16 more, and where each of its entries begins and ends."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[
        array.offset : array.offset + len(array) + 1
    ].astype(np.int64)
    return (
        np.frombuffer(bytes(memoryview(data or b"")[: bounds[-1]]) + _PADDING, np.uint8),
        bounds[:-1],
        bounds[1:],
    )


def slices(
    data: bytes | Bytes,
    begins: Positions,
    ends: Positions,
    data_type: pa.DataType,
    nulls: Flags | None = None,
) -> pa.Array:
    """Return what stands between begins and ends, which ascend, as an array of strings or of bytes,
    with nulls where they are said to be; UTF-8 is not looked at.
    """
    # The data as an array of what is between slices, a slice, what is between ...: taking every
    # second copies just the slices.
    bounds = np.zeros(2 * len(begins) + 1, dtype=np.int32)
    bounds[1::2] = begins
    bounds[2::2] = ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    parts = pa.Array.from_buffers(data_type, len(bounds) - 1, buffers)
    return parts.take(pa.array(np.arange(1, len(bounds), 2, dtype=np.int32), mask=nulls))


def times_of(ms: pa.Int64Array) -> pa.TimestampArray:
    """Return ms since 1970 as times, in µs and UTC; null where there is none that Spark has."""
    is_one = pc.and_(pc.greater_equal(ms, 0), pc.less_equal(ms, LAST_MS))
    return pc.multiply(pc.if_else(is_one, ms, None), 1000).cast(TIME)


def uuid_texts(ids: Bytes) -> pa.StringArray:
    """Return 16-byte ids as ``Uuid.toString`` does (unpadded base64), zeros as null."""
    ids = ids.reshape(-1, 16)
    # 18 bytes are 24 characters without padding, so one call encodes them all; the last two are of
    # the two bytes added.
    padded = np.zeros((len(ids), 18), dtype=np.uint8)
    padded[:, :16] = ids
    texts = np.frombuffer(base64.urlsafe_b64encode(padded.tobytes()), dtype="S24").astype("S22")
    offsets = np.arange(0, 22 * len(ids) + 1, 22, dtype=np.int32)
    array = pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(texts))
    return pc.if_else(pa.array(ids.any(axis=1)), array, None)


def leading_int16s(data: pa.BinaryArray) -> tuple[Positions, Flags]:
    """Return the number that the first two bytes of each are, and which have two bytes; where they
    have not it is -1.
    """
    good = pc.greater_equal(pc.binary_length(data), 2).fill_null(False)
    heads = pc.binary_slice(data.filter(good), 0, 2).cast(pa.binary(2))
    flags: Flags = good.to_numpy(zero_copy_only=False)
    numbers = np.full(len(data), -1, dtype=np.int64)
    numbers[flags] = np.frombuffer(heads.buffers()[1], dtype=">i2", count=len(heads))
    return numbers, flags
