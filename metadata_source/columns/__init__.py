"""Columns of the rows that data sources make. Who needs them alone loads only pyarrow."""

import pyarrow as pa

FLAG, INT, LONG, TEXT, BYTES = pa.bool_(), pa.int32(), pa.int64(), pa.string(), pa.binary()
TIME = pa.timestamp("us", tz="UTC")
INTS, TEXTS = pa.list_(INT), pa.list_(TEXT)
OF_RECORDS = pa.schema(
    [
        pa.field("offset", LONG, nullable=False),
        pa.field("leader_epoch", INT, nullable=False),
        pa.field("timestamp_ms", LONG, nullable=False),
        pa.field("is_control", FLAG, nullable=False),
    ]
)
"""What each record of a log has beside its key and value."""


def struct(**fields: pa.DataType) -> pa.StructType:
    """Return the type of structs with these fields."""
    return pa.struct(list(fields.items()))
