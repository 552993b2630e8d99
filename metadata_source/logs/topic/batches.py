"""Answers of leaders: record batches of many partitions, read side by side."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from metadata_source.errors import ProtocolError
from metadata_source.protocol.record_batches import HEADER, MOST_DECOMPRESSED, read_batches

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    import pyarrow as pa

    from metadata_source.protocol.record_batches import RecordBatches
    from metadata_source.protocol.vectors import Positions

_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")
_OFFSET_BYTES: Final = 8
_COUNTED_FROM: Final = 12
_BATCHES: Final = 2
"""The format of record batches. Older messages begin alike, with the last message's offset."""
_CHECKED_FROM: Final = 16
"""Where the bytes of an old message begin that its CRC covers, which is the four bytes before."""
_LEAST_OLD: Final = 14
"""Bytes of the smallest message of format 0 after its length: one without key and value."""
_NO_PRODUCER: Final = -1


class Answered(NamedTuple):
    """Records (schema `record_batches.RECORDS`), the partition of each, and the producer of those
    in transactions, -1 of others; by partition, the offset after the last batch.
    """

    records: pa.RecordBatch
    partitions: Positions
    producers: Positions
    after: dict[int, int]


class Unreadable(NamedTuple):
    """A batch of a partition that cannot be read, or messages of an old format, and why. `after`:
    the offset to continue at, None if its bytes do not tell.
    """

    partition: int
    after: int | None
    problem: str
    is_old: bool = False


def read_answers(
    answers: Mapping[int, bytes], skipping: Container[int] = ()
) -> Iterator[Answered | Unreadable]:
    """Yield what is in the bytes of partitions, without what is cut off at their ends: those of
    each in their order.

    A partition ends with a batch that cannot be read, unless it is one of `skipping`: then reading
    continues after that batch. Messages of formats 0 and 1, from before Kafka 0.11, which Kafka 4
    does not read either (KIP-896), end nothing. All ends where records have more than
    `MOST_DECOMPRESSED` bytes. What is not reached has to be fetched again.
    """
    left = MOST_DECOMPRESSED
    for found in _read(
        [(partition, _whole(data)) for partition, data in answers.items()], skipping
    ):
        yield found
        left -= found.records.nbytes if isinstance(found, Answered) else 0
        if left < 0:
            return


def _read(
    pieces: list[tuple[int, bytes]], skipping: Container[int]
) -> Iterator[Answered | Unreadable]:
    """Yield what is in bytes of partitions, whole batches of each."""
    data = pieces[0][1] if len(pieces) == 1 else b"".join(piece for _, piece in pieces)
    of_piece = np.array([partition for partition, _ in pieces], dtype=np.int64)
    ends = np.cumsum([len(piece) for _, piece in pieces])
    # After a batch that cannot be read few bytes are read at once, then more: the next one may be
    # as bad.
    position, together = 0, len(data)
    while position < len(data):
        try:
            found = read_batches(data[position : position + together])
        except ProtocolError as error:
            if error.offset:
                together = error.offset
                continue
            number = int(np.searchsorted(ends, position, "right"))
            partition, end = int(of_piece[number]), int(ends[number])
            bad = memoryview(data)[position:end]
            size, lost = _old(partition, bad) or _wrong(partition, bad, error)
            yield lost
            if size is not None and (lost.is_old or partition in skipping):
                position, together = position + size, size
            else:
                position, together = end, len(data)
            continue
        if found.size:
            positions = found.batches["position"].to_numpy() + position
            yield _answered(found, of_piece[np.searchsorted(ends, positions, "right")])
        elif position + together >= len(data):
            return
        position, together = position + found.size, 2 * together


def _whole(data: bytes) -> bytes:
    """Return bytes of batches without one that is cut off at the end."""
    at = 0
    while at + _LENGTH_AND_MAGIC.size <= len(data):
        length, _ = _LENGTH_AND_MAGIC.unpack_from(data, at)
        if length < _LEAST_OLD:
            return data  # It is shorter than any, as its reader will say.
        if at + _COUNTED_FROM + length > len(data):
            break
        at += _COUNTED_FROM + length
    return data[:at]


def _old(partition: int, data: memoryview) -> tuple[int, Unreadable] | None:
    """Return the size of the messages of old formats that bytes of a partition begin with, and the
    row of them; None if there is none. A batch whose format is what is wrong with it has another
    CRC.
    """
    found, at = None, 0
    while at + _LENGTH_AND_MAGIC.size <= len(data):
        length, magic = _LENGTH_AND_MAGIC.unpack_from(data, at)
        message = data[at : at + _COUNTED_FROM + length]
        crc = int.from_bytes(message[_COUNTED_FROM:_CHECKED_FROM])
        if (
            length < _LEAST_OLD
            or not 0 <= magic < _BATCHES
            or crc != zlib.crc32(message[_CHECKED_FROM:])
        ):
            break
        at += len(message)
        after = int.from_bytes(message[:_OFFSET_BYTES], signed=True) + 1
        problem = f"messages of format {magic}, from before Kafka 0.11, are not read"
        found = at, Unreadable(partition, after, problem, is_old=True)
    return found


def _wrong(partition: int, data: memoryview, error: ProtocolError) -> tuple[int | None, Unreadable]:
    """Return the size of the bad batch that bytes of a partition begin with, and the row of it. The
    size and the offset after it are None where the bytes do not tell: its length, its offsets or
    its format may be what is wrong with it.
    """
    problem = f"{error.path}: {error.problem}"
    base, (length, magic) = (
        int.from_bytes(data[:_OFFSET_BYTES], signed=True),
        _LENGTH_AND_MAGIC.unpack_from(data),
    )
    size = _COUNTED_FROM + length
    if not HEADER.itemsize <= size <= len(data):
        return None, Unreadable(partition, None, problem)
    following = data[size : size + _OFFSET_BYTES]
    after = [int.from_bytes(following, signed=True)] if following else []
    if magic == _BATCHES:
        after.append(base + int(np.frombuffer(data, HEADER, 1)["last_offset_delta"][0]) + 1)
    return size, Unreadable(
        partition, min((each for each in after if each > base), default=None), problem
    )


def _answered(found: RecordBatches, partitions: Positions) -> Answered:
    batches = found.batches
    counts = batches["record_count"].to_numpy()
    producers = np.where(
        batches["is_transactional"].to_numpy(zero_copy_only=False),
        batches["producer_id"].to_numpy(),
        _NO_PRODUCER,
    )
    after = dict(
        zip(partitions.tolist(), (batches["last_offset"].to_numpy() + 1).tolist(), strict=True)
    )
    return Answered(
        found.records, np.repeat(partitions, counts), np.repeat(producers, counts), after
    )
