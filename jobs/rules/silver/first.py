"""The first answer of a large cluster, with which each partition begins: rows of bronze -> rows of silver, in Arrow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.silver.answers import TOPIC_AUTHORIZATION_FAILED, TRUSTED_EPOCHS_VERSION, UNKNOWN_TOPIC_OR_PARTITION
from jobs.rules.silver.compare import partitions_told
from jobs.rules.silver.state import Place

_UNTOLD = pa.array([UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED], pa.int32())


def first_rows(
    place: Place, api_version: int | None, said: pa.RecordBatch, constants: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    """The rows of silver.partition_snapshots that `fold` makes of a first answer, where no topic was known before.

    `said`: rows of bronze about topics: topic, present, topic_id, error_code, partitions. `constants`: the columns that
    say which cluster it is. `schema`: of what is returned; columns that no first row has are null.
    """
    is_there = pc.and_not(said["present"], pc.is_in(said["error_code"], _UNTOLD))
    rows = pa.Table.from_batches([said]).filter(is_there)
    is_trusted = np.full(len(rows), (api_version or 0) >= TRUSTED_EPOCHS_VERSION)
    row, told = partitions_told(rows, is_trusted)
    told = told.append_column("topic", rows["topic"].take(pa.array(row)))
    values = {**constants, **place.began}
    columns = [
        told[field.name].combine_chunks().cast(field.type)
        if field.name in told.column_names
        else pa.repeat(pa.scalar(values.get(field.name), field.type), len(told))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
