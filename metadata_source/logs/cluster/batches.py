"""Record batches that come in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from metadata_source.errors import ProtocolError
from metadata_source.protocol.record_batches import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


class WholeBatches:
    """Records of batches that are cut into pieces anywhere, as `record_batches.RECORDS`; an
    iterable, for once.

    `left` is how many bytes of a batch that is not whole are left at the end. Iterating raises
    ProtocolError.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.left = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rest = b""
        for piece in self._pieces:
            rest += piece
            while (found := read_batches(rest)).size:
                yield found.records
                rest = rest[found.size :]
        self.left = len(rest)


def up_to_bad(data: bytes) -> tuple[list[pa.RecordBatch], ProtocolError | None]:
    """Return the records of whole batches up to the first bad one, and what is wrong with that."""
    records: list[pa.RecordBatch] = []
    problem, at = None, 0
    while True:
        try:
            found = read_batches(data[at:])
        except ProtocolError as error:
            problem, data = error, data[: at + error.offset]
            continue
        if not found.size:
            return records, problem
        records.append(found.records)
        at += found.size


def between(records: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Return the records from offset `start` up to `end`."""
    offsets = records["offset"]
    return records.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))
