"""Record batches put together: many small ones cost Spark, and the spool, more than their rows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BATCH_ROWS: Final = 4_096
BATCH_BYTES: Final = 10 << 20
"""Some 100,000 partitions."""


def groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield groups of batches, each of BATCH_ROWS and BATCH_BYTES at most, or one batch."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if group and (rows > BATCH_ROWS or size > BATCH_BYTES):
            yield group
            group, rows, size = [], batch.num_rows, batch.nbytes
        group.append(batch)
    if group:
        yield group


def combined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order, in as few batches as `groups` makes of them."""
    return chain.from_iterable(
        group if len(group) == 1 else pa.Table.from_batches(group).combine_chunks().to_batches()
        for group in groups(batches)
    )
