"""Offset commits, nearly all records of ``__consumer_offsets``: bytes in, NumPy out, without an
object for each.

Their metadata, up to 32,767 bytes of anything, is gone past. What is wrong with one is said by
`group_records`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from metadata_source.protocol.columnar import read_batch
from metadata_source.protocol.group_specs import COMMIT_TYPES, OFFSET_COMMIT
from metadata_source.protocol.vectors import leading_int16s

if TYPE_CHECKING:
    import numpy.typing as npt

    from metadata_source.protocol.vectors import Bytes, Flags, Positions


class Values(NamedTuple):
    """Values of commits: which are removals, which are wrong, the committed offsets, and the 16
    bytes of topic ids. A value without a topic id has zeros.
    """

    is_removal: Flags
    is_wrong: Flags
    offsets: Positions
    topic_ids: Bytes


def are_commits(keys: pa.BinaryArray) -> Flags:
    """Return which keys are those of offset commits, by their type alone."""
    types, _ = leading_int16s(keys)
    return np.isin(types, COMMIT_TYPES)


def read_keys(keys: pa.BinaryArray) -> list[tuple[str, str, int] | None]:
    """Return group, topic and partition of each key, None of one that is not as it should be."""
    found, errors = read_batch(keys, OFFSET_COMMIT.key, 0, start=2)
    fields = (found.field(name).to_pylist() for name in ("group", "topic", "partition"))
    return [None if row in errors else each for row, each in enumerate(zip(*fields, strict=True))]


def read_values(values: pa.BinaryArray) -> Values:
    """Return the fields of values."""
    count = len(values)
    is_removal: Flags = values.is_null().to_numpy(zero_copy_only=False)
    is_wrong: Flags = ~is_removal
    offsets = np.full(count, -1, dtype=np.int64)
    topic_ids = np.zeros((count, 16), dtype=np.uint8)
    versions, _ = leading_int16s(values)
    for version in range(OFFSET_COMMIT.value.last_version + 1):
        rows = np.flatnonzero(versions == version)
        if not len(rows):
            continue
        of_version = values if len(rows) == count else values.take(pa.array(rows))
        found, errors = read_batch(of_version, OFFSET_COMMIT.value, version, start=2)
        # A row that is wrong is null, and so are its fields.
        committed: npt.NDArray[np.int64] = found.field("offset").fill_null(-1).to_numpy().copy()
        committed[list(errors)] = -1
        offsets[rows], is_wrong[rows] = committed, committed < 0
        if version >= _FIRST_WITH_TOPIC_ID:
            ids = found.field("topic_id").fill_null(bytes(16))
            _, data = ids.buffers()
            topic_ids[rows] = np.frombuffer(data, np.uint8, 16 * len(ids), 16 * ids.offset).reshape(
                -1, 16
            )
    return Values(is_removal, is_wrong, offsets, topic_ids)


_FIRST_WITH_TOPIC_ID = 4
