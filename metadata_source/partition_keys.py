"""Partitions of topics as numbers, so that NumPy finds them."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.int64]

_BITS: Final = 32
"""Of a key, for the partition; the topic's number is above them."""


def key_of(topic: Numbers, partition: Numbers) -> Numbers:
    """Return a number for each partition of a topic with a number."""
    return (topic.astype(np.int64) << _BITS) | partition


def keys_of(rows: pa.Table, topics: pa.StringArray) -> Numbers:
    """Return the keys of rows with `topic` and `partition`; -1 where `topics` lack the topic."""
    topic = pc.index_in(rows["topic"].cast(pa.string()), value_set=topics).fill_null(-1).to_numpy()
    return np.where(topic < 0, -1, key_of(topic, rows["partition"].fill_null(0).to_numpy()))


def places(keys: Numbers, wanted: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return where in `keys` each wanted one is (anywhere, if it is not), and whether it is."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    order = np.argsort(keys)
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return place, keys[place] == wanted


def parts_of(keys: Numbers) -> tuple[Numbers, npt.NDArray[np.int32]]:
    """Return the topic's number and the partition of each key."""
    return keys >> _BITS, (keys & (1 << _BITS) - 1).astype(np.int32)
