"""Entries of `states`: episodes that a history needs one by one, as Arrow structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from metadata_source.columns.transaction_log import PARTITIONS, STATE
from metadata_source.logs.transaction.episodes import BY_CLIENT, BY_COORDINATOR, NONE
from metadata_source.protocol.nested_casts import each_entry
from metadata_source.protocol.transaction_specs import STATES
from metadata_source.protocol.vectors import times_of

if TYPE_CHECKING:
    from metadata_source.logs.transaction.episodes import Episodes, Fates
    from metadata_source.protocol.nested_casts import Fields
    from metadata_source.protocol.vectors import Positions

MOST_PARTITIONS: Final = 200
"""Partitions of an entry that are named."""
_ABORTED_BY: Final = {NONE: None, BY_CLIENT: "client", BY_COORDINATOR: "coordinator"}
_NUMBERS: Final = {
    "offset": "offset",
    "leader_epoch": "leader_epoch",
    "from_offset": "from_offset",
    "from_leader_epoch": "from_leader_epoch",
    "producer_id": "producer_id",
    "previous_producer_id": "previous_producer_id",
    "next_producer_id": "next_producer_id",
    "producer_epoch": "producer_epoch",
    "next_producer_epoch": "next_producer_epoch",
    "client_transaction_version": "client_transaction_version",
    "ongoing_epoch": "ongoing_epoch",
    "ongoing_client_version": "ongoing_version",
    "timeout_ms": "timeout_ms",
    "prepared_offset": "prepared_offset",
    "completed_offset": "completed_offset",
    "initialized_offset": "initialized_offset",
    "partition_count": "partition_count",
}
_TIMES: Final = {
    "timestamp": "ms",
    "from_timestamp": "from_ms",
    "started_at": "started_ms",
    "updated_at": "updated_ms",
    "prepared_at": "prepared_ms",
    "completed_at": "completed_ms",
    "initialized_at": "initialized_ms",
}


def entries_of(
    episodes: Episodes, fates: Fates, ids: pa.StringArray, partitions: pa.ListArray
) -> pa.StructArray:
    """Return episodes as entries (type `STATE`). `ids`: of each; `partitions`: what `partitions_at`
    is a row of, each with `MOST_PARTITIONS` at most.
    """
    columns = {name: _numbers(episodes[of]) for name, of in _NUMBERS.items()}
    columns |= {name: times_of(pa.array(episodes[of])) for name, of in _TIMES.items()}
    columns |= {"followed_at": times_of(pa.array(fates.followed_ms))}
    was_open = pa.array(fates.was_open, mask=fates.may_have_been_open)
    named = np.where(fates.is_unusual, episodes["partitions_at"], NONE)
    columns |= {
        "transactional_id": ids,
        "state": pa.array([STATES[each] for each in episodes["state"].tolist()], pa.string()),
        "was_open": was_open,
        "aborted_by": pa.array(
            [_ABORTED_BY[each] for each in fates.aborted_by.tolist()], pa.string()
        ),
        "partitions": each_entry(partitions.take(_numbers(named)), PARTITIONS, _named),
    }
    arrays = [columns[field.name].cast(field.type) for field in STATE]
    return pa.StructArray.from_arrays(arrays, fields=list(STATE))


def _named(topics: pa.StructArray) -> Fields:
    return {"topic": topics.field("topic"), "partitions": topics.field("partition_ids")}


def _numbers(numbers: Positions) -> pa.Int64Array:
    return pa.array(numbers, mask=numbers < 0)


def bounded(partitions: pa.ListArray, counts: Positions) -> pa.ListArray:
    """Return lists of partitions by topic with `MOST_PARTITIONS` at most, the first ones; `counts`:
    how many each has.
    """
    if not (counts > MOST_PARTITIONS).any():
        return partitions
    return pa.array(
        [
            row if row is None or count <= MOST_PARTITIONS else _first(row)
            for row, count in zip(partitions.to_pylist(), counts.tolist(), strict=True)
        ],
        partitions.type,
    )


def _first(topics: list[dict[str, object]]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    left = MOST_PARTITIONS
    for each in topics:
        ids = each["partition_ids"]
        if left <= 0 or not isinstance(ids, list):
            break
        found.append(each | {"partition_ids": ids[:left]})
        left -= len(ids[:left])
    return found
