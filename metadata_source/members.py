"""Replicas and ISRs compared as sets: members, and not sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt


def lack_replica(partitions: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether each partition's ISR lacks a replica. `partitions`: columns replicas, isr: lists."""
    (row, replica), (row_in_sync, in_sync) = (
        _pairs(partitions[name]) for name in ("replicas", "isr")
    )
    is_out = ~np.isin((row << 32) + replica, (row_in_sync << 32) + in_sync)
    lacks = np.zeros(partitions.num_rows, np.bool_)
    lacks[row[is_out]] = True
    return lacks


def _pairs(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The row and the broker of each value of a column of lists; null lists have none."""
    lists = column.combine_chunks()
    row, broker = (
        pc.cast(each, pa.int64()).to_numpy()
        for each in (pc.list_parent_indices(lists), lists.flatten())
    )
    return row, broker
