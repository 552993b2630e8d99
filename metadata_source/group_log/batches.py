"""Answers of leaders: record batches of many partitions, read side by side."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from metadata_source.protocol.message_sets import read_messages
from metadata_source.protocol.record_batches import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from metadata_source.protocol.vectors import Positions

_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")
_COUNTED_FROM: Final = 12
_BATCHES: Final = 2
"""The format of record batches; messages of older ones begin alike."""
_NO_PRODUCER: Final = -1


class Answered(NamedTuple):
    """Records (schema `record_batches.RECORDS`), the partition of each, and the producer of those in transactions, -1
    of others; by partition, the offset after the last batch.
    """

    records: pa.RecordBatch
    partitions: Positions
    producers: Positions
    after: dict[int, int]


def read_answers(answers: Mapping[int, bytes]) -> Iterator[Answered]:
    """Yield what is in the bytes of partitions, without what is cut off at their ends. Raises ProtocolError."""
    new: list[tuple[int, bytes]] = []
    for partition, data in answers.items():
        for is_old, piece in _of_one_format(data):
            if is_old:
                # The batches before go first, so that records of a partition come in their order.
                yield from _batches(new)
                new = []
                records = read_messages(piece)
                offsets = records["offset"].to_numpy()
                producers = np.full(len(offsets), _NO_PRODUCER)
                after = {partition: int(offsets[-1]) + 1} if len(offsets) else {}
                yield Answered(records, np.full(len(offsets), partition), producers, after)
            else:
                new.append((partition, piece))
    yield from _batches(new)


def _of_one_format(data: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yield bytes of whole batches, or messages, of one format after those of another, and whether it is an old one."""
    begin = at = 0
    is_old: bool | None = None
    while at + _LENGTH_AND_MAGIC.size <= len(data):
        length, magic = _LENGTH_AND_MAGIC.unpack_from(data, at)
        after = at + _COUNTED_FROM + length
        if after > len(data):
            break
        if is_old != (magic < _BATCHES):
            if at > begin:
                yield bool(is_old), data[begin:at]
            begin, is_old = at, magic < _BATCHES
        # One of no length is wrong, as its reader will say.
        at = after if length > 0 else len(data)
    if at > begin:
        yield bool(is_old), data[begin:at]


def _batches(pieces: list[tuple[int, bytes]]) -> Iterator[Answered]:
    data = pieces[0][1] if len(pieces) == 1 else b"".join(piece for _, piece in pieces)
    of_piece = np.array([partition for partition, _ in pieces], dtype=np.int64)
    begins = np.cumsum([0, *(len(piece) for _, piece in pieces)])[:-1]
    position = 0
    while position < len(data):
        found = read_batches(data[position:] if position else data)
        batches = found.batches
        piece = np.searchsorted(begins, batches["position"].to_numpy() + position, "right") - 1
        partitions = of_piece[piece]
        counts = batches["record_count"].to_numpy()
        producers = np.where(
            batches["is_transactional"].to_numpy(zero_copy_only=False),
            batches["producer_id"].to_numpy(),
            _NO_PRODUCER,
        )
        after = dict(zip(partitions.tolist(), (batches["last_offset"].to_numpy() + 1).tolist(), strict=True))
        yield Answered(found.records, np.repeat(partitions, counts), np.repeat(producers, counts), after)
        position += found.size
        if not found.size:
            return
