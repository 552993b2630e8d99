"""Records of controllers for tests: random fields by the tables, and what decoding must give,
written as renamings.
"""

import base64
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from metadata_source.protocol import record_batches
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import (
    CONTROL_TYPES,
    COUNTED,
    RECORD_TYPES,
    WITHOUT_FIELDS,
)
from metadata_source.protocol.kept_configs import KEPT_CONFIGS
from metadata_source.protocol.spec import Array, Message, Primitive, Struct
from metadata_source.protocol.writing import write_message
from tests.support.group_messages import camel_case, structs, without_nulls

Values = dict[str, Any]

#: Every type with every version.
RECORDS = [
    (number, version)
    for number, each in RECORD_TYPES.items()
    for version in range(each.last_version + 1)
]
CONTROLS = [
    (number, version)
    for number, each in CONTROL_TYPES.items()
    for version in range(each.last_version + 1)
]

COLUMNS_OF_TYPES = {
    "broker": (0,),
    "broker_change": (1, 7, 8, 17),
    "topic": (2, 9, 28),
    "partition": (3,),
    "config": (4,),
    "partition_change": (5,),
    "feature": (12,),
    "producer_ids": (15,),
    "zk_migration_state": (21,),
    "transaction": (23, 25),
    "controller": (27, 29),
}
COLUMN_OF = {number: column for column, numbers in COLUMNS_OF_TYPES.items() for number in numbers}
CONTROL_COLUMN_OF = {
    2: "leader_change",
    3: "last_contained_log_timestamp_ms",
    5: "kraft_version",
    6: "voters",
}
SCALARS = {"zk_migration_state", "last_contained_log_timestamp", "kraft_version"}
COLUMNS = {*COLUMN_OF.values(), *CONTROL_COLUMN_OF.values()}

#: A column's name for a field, where it is not Kafka's in snake case; some by type.
RENAMED = {
    "partition_id": "partition",
    "eligible_leader_replicas": "elr",
    "feature_level": "level",
    "topic_name": "topic",
    "leader_id": "leader",
    "voter_directory_id": "directory_id",
    "id": "broker_id",
    "epoch": "broker_epoch",
}
UNCHANGED = {
    (5, "leader"): -2,
    (5, "leader_recovery_state"): -1,
    (17, "fenced"): 0,
    (17, "in_controlled_shutdown"): 0,
    (17, "log_dirs"): [],
}
FENCED = {7: 1, 8: -1}


def values_of(message: Message, version: int) -> st.SearchStrategy[Values]:
    """Fields of a record, by Kafka's names in snake case. Half of the configurations are ones whose
    values are kept.
    """
    values = structs(message.body, version).map(lambda values: values | {"version": version})
    if message is not RECORD_TYPES[4]:
        return values
    settings = [
        {"resource_type": kind, "name": name}
        for kind, names in KEPT_CONFIGS.items()
        for name in names
    ]
    return st.builds(
        lambda values, setting: values | setting, values, st.just({}) | st.sampled_from(settings)
    )


def frame(number: int, version: int, values: Values) -> bytes:
    return bytes([1, number, version]) + write_message(RECORD_TYPES[number], version, values)


def control_value(number: int, version: int, values: Values) -> bytes:
    return write_message(CONTROL_TYPES[number], version, values)


def control_key(number: int) -> bytes:
    return b"\0\0" + number.to_bytes(2, signed=True)


def log(
    values: Sequence[bytes | None], control_keys: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    """Records as they are read from batches, one a second; control records where there are keys."""
    count = len(values)
    columns: dict[str, Sequence[Any]] = {
        "offset": range(count),
        "leader_epoch": [3] * count,
        "timestamp_ms": range(0, 1000 * count, 1000),
        "is_control": [control_keys is not None] * count,
        "key": [None] * count if control_keys is None else control_keys,
        "value": values,
    }
    return pa.RecordBatch.from_pydict(columns, schema=record_batches.RECORDS)


def decoded(
    values: Sequence[bytes | None], control_keys: Sequence[bytes | None] | None = None
) -> list[Values]:
    """Decode records; the rows are without nulls, and without the columns that only `log` tells."""
    batch = decode_records(log(values, control_keys))
    batch.validate(full=True)
    assert batch.schema.names[:4] == ["offset", "leader_epoch", "timestamp_ms", "is_control"]
    return [without_nulls(row) for row in batch.drop_columns(batch.schema.names[:4]).to_pylist()]


SECRET = "correct-horse-battery-staple"  # noqa: S105 - planted, and searched for


def kept(batch: pa.RecordBatch) -> bytes:
    """All bytes that a batch holds on to."""
    return b"".join(
        buffer.to_pybytes()
        for column in batch.columns
        for buffer in column.buffers()
        if buffer is not None
    )


def expected(number: int, version: int, values: Values) -> Values:
    """The row of a record, without nulls."""
    row = {"type": number, "version": version, "name": RECORD_TYPES[number].name}
    row["size"] = len(frame(number, version, values))
    column = COLUMN_OF.get(number)
    return row if column is None else row | {column: _told(number, values)}


def expected_control(number: int, version: int, values: Values) -> Values:
    """The row of a control record, without nulls."""
    row = {"type": number, "version": version, "name": CONTROL_TYPES[number].name}
    row["size"] = len(control_value(number, version, values))
    column = CONTROL_COLUMN_OF.get(number)
    told = _told(None, values)
    return row if column is None else row | {column: told["voters"] if column == "voters" else told}


def _told(number: int | None, values: Values) -> Any:
    for name in SCALARS & set(values):
        return values[name]
    told: Values = {"fenced": FENCED[number]} if number in FENCED else {}
    for name, value in values.items():
        if name == "kraft_version_feature":
            told |= value
        elif (
            name != "version" and value is not None and value != UNCHANGED.get((number, name), ...)
        ):
            told[_name(number, name)] = _shown(value)
    if number == 4:
        told["is_removed"] = values["value"] is None
        if values["name"] not in KEPT_CONFIGS.get(values["resource_type"], ()):
            told.pop("value", None)
    return {name: value for name, value in told.items() if value is not None}


def _name(number: int | None, name: str) -> str:
    return "topic" if (number, name) == (2, "name") else RENAMED.get(name, name)


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode().rstrip("=") if any(value) else None
    if isinstance(value, list):
        return [_told(None, each) if isinstance(each, dict) else _shown(each) for each in value]
    return value


# --- as DumpLogSegments prints them ---


def number_of(type_name: str) -> int:
    """The type of a record by the name of Kafka's enum (``PARTITION_CHANGE_RECORD``)."""
    names = {number: each.name for number, each in RECORD_TYPES.items()}
    names |= COUNTED | WITHOUT_FIELDS
    (number,) = (number for number, name in names.items() if _constant(name) == type_name)
    return number


def from_json(message: Message, version: int, data: Values) -> Values:
    """The fields of a record that was printed as JSON, where those that are absent have their
    default.
    """
    return _fields_from_json(message.body, version, data) | {"version": version}


def _fields_from_json(struct: Struct, version: int, data: Values) -> Values:
    values = {each.name: each.default for each in struct.tagged_in(version).values()}
    for each in (*struct.in_version(version), *struct.tagged_in(version).values()):
        if (name := camel_case(each.name)) in data:
            values[each.name] = _value_from_json(each.type, version, data[name])
    return values


def _value_from_json(kind: Primitive | Array | Struct, version: int, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_value_from_json(kind.of, version, each) for each in value]
    if isinstance(kind, Struct):
        return _fields_from_json(kind, version, value)
    return base64.urlsafe_b64decode(value + "==") if kind is Primitive.UUID else value


def _constant(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
