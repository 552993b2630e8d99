"""Records of groups for tests: random fields by the tables, and what decoding them must give,
written as renamings.
"""

import base64
import datetime as dt
import uuid
from typing import Any

from hypothesis import strategies as st

from metadata_source.protocol.group_records import decode_records
from metadata_source.protocol.group_specs import ASSIGNMENT, RECORD_TYPES, SUBSCRIPTION
from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct
from metadata_source.protocol.writing import write_message

#: Every record type with every version of its value.
RECORDS = [
    (number, version)
    for number, each in RECORD_TYPES.items()
    for version in range(each.value.last_version + 1)
]

COLUMNS = {
    "classic": (2,),
    "group_epoch": (3, 11, 17),
    "partition_metadata": (4,),
    "member": (5, 10, 19),
    "target_epoch": (6, 12, 20),
    "target": (7, 13, 21),
    "current": (8, 14, 22),
    "share_state": (15,),
    "regular_expression": (16,),
    "topology": (23,),
}
COLUMN_OF = {number: column for column, numbers in COLUMNS.items() for number in numbers}

#: Bronze's name for a field, where it is not Kafka's in snake case.
RENAMED = {
    "group_instance_id": "instance_id",
    "current_state_timestamp": "state_timestamp",
    "rebalance_timeout": "rebalance_timeout_ms",
    "session_timeout": "session_timeout_ms",
    "topic_name": "topic",
    "num_partitions": "partitions",
    "partition_metadata": "racks",
    "rack_id": "rack",
    "subscribed_topic_names": "topics",
    "subscribed_topic_regex": "regex",
    "server_assignor": "assignor",
    "supported_protocols": "protocols",
    "assignment_epoch": "epoch",
    "assignment_timestamp": "assigned_at",
    "member_epoch": "epoch",
    "previous_member_epoch": "prev_epoch",
    "topic_partitions": "partitions",
    "assigned_partitions": "assigned",
    "partitions_pending_revocation": "pending_revocation",
    "regular_expression": "regex",
    "version": "metadata_version",
    "timestamp": "resolved_at",
    "initializing_topics": "initializing",
    "initialized_topics": "initialized",
    "deleting_topics": "deleting",
    "topic_configs": "configs",
    "generation_id": "generation",
}
TIMES = {"current_state_timestamp", "assignment_timestamp", "timestamp"}
NONE_IS_MINUS_ONE = {
    "rebalance_timeout",
    "rebalance_timeout_ms",
    "generation_id",
    "validated_topology_epoch",
    "stored_description_topology_epoch",
    "failed_description_topology_epoch",
}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NONE_IS_EMPTY = {"subscribed_topic_regex", "assignment_epochs", "last_assignment_configs"}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
primitives = {
    Primitive.BOOL: st.booleans(),
    Primitive.STRING: texts,
    Primitive.BYTES: st.binary(max_size=8),
    Primitive.UUID: st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    Primitive.INT8: st.integers(-(2**7), 2**7 - 1),
    Primitive.INT16: st.integers(-(2**15), 2**15 - 1),
    Primitive.UINT16: st.integers(0, 2**16 - 1),
    Primitive.INT32: st.sampled_from([-1, 0, 1]) | st.integers(-(2**31), 2**31 - 1),
    Primitive.INT64: st.sampled_from([-1, 0, 1]) | st.integers(-(2**63), 2**63 - 1),
}
times = st.sampled_from([-1, 0, 1_700_000_000_000]) | st.integers(1, 253_402_300_799_999)


def records(number: int, version: int) -> st.SearchStrategy[tuple[dict[str, Any], dict[str, Any]]]:
    """Fields of keys and values of one type, by Kafka's names in snake case."""
    record_type = RECORD_TYPES[number]
    return st.tuples(structs(record_type.key.body, 0), structs(record_type.value.body, version))


def structs(struct: Struct, version: int) -> st.SearchStrategy[dict[str, Any]]:
    fields = (*struct.in_version(version), *struct.tagged_in(version).values())
    return st.fixed_dictionaries({each.name: _field(each, version) for each in fields})


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    match field.name:
        case "subscription" | "metadata" if field.type is Primitive.BYTES:
            strategy = _embedded(SUBSCRIPTION)
        case "assignment" if field.type is Primitive.BYTES:
            strategy = _embedded(ASSIGNMENT)
        case "protocol_type":
            return st.sampled_from(["consumer", "consumer", "connect", ""])
        case name if name in TIMES:
            return times
        case _:
            strategy = _value(field.type, version)
    if field.nullable_in(version):
        strategy |= st.none()
    return strategy | st.just(field.default) if field.tag is not None else strategy


def _value(kind: Primitive | Array | Struct, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, Struct):
        return structs(kind, version)
    if isinstance(kind, Array):
        return st.lists(_value(kind.of, version), max_size=3)
    return primitives[kind]


class Embedded(bytes):
    """Bytes of a subscription or assignment, and what they say; None where they are not the
    consumer protocol's.
    """

    said: dict[str, Any] | None = None

    @classmethod
    def saying(cls, data: bytes, said: dict[str, Any]) -> "Embedded":
        made = cls(data)
        made.said = said
        return made


def _embedded(message: Message) -> st.SearchStrategy[Embedded]:
    """Bytes of the consumer protocol, of a version of the future too, and bytes that are none of
    it.
    """
    known = [
        structs(message.body, version).map(
            lambda values, version=version: embedded(message, version, values)
        )
        for version in range(message.last_version + 1)
    ]
    future = known[-1].map(
        lambda made: Embedded.saying(b"\0\x09" + made[2:] + b"more", {**made.said, "version": 9})
    )
    others = st.sampled_from([b"", b"\0", b"\xff\xff", b"\0\0\0\1", b"connect"]).map(Embedded)
    return st.one_of(*known, future, others)


def embedded(message: Message, version: int, values: dict[str, Any]) -> Embedded:
    data = version.to_bytes(2) + write_message(message, version, values)
    return Embedded.saying(data, {"version": version} | said(values))


def said(values: dict[str, Any]) -> dict[str, Any]:
    """What a subscription or an assignment with these fields says, in bronze's names."""
    names = RENAMED | {"assigned_partitions": "partitions"}
    return {
        names.get(name, name): value
        for name, value in values.items()
        if value is not None and (name, value) != ("generation_id", -1)
    }


def camel_case(name: str) -> str:
    """A field's name in Kafka's JSON."""
    first, *rest = name.replace("kraft", "kRaft").split("_")
    return first + "".join(word.capitalize() for word in rest)


def key_bytes(number: int, key: dict[str, Any]) -> bytes:
    return number.to_bytes(2) + write_message(RECORD_TYPES[number].key, 0, key)


def value_bytes(number: int, version: int, value: dict[str, Any]) -> bytes:
    return version.to_bytes(2) + write_message(RECORD_TYPES[number].value, version, value)


def redpanda_member(member_id: str, subscription: bytes) -> bytes:
    """A member as Redpanda writes it (``member_state::encode``), field by field."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2) + value.encode()

    named = text(member_id) + b"\xff\xff" + text("c-1") + text("/10.0.0.9")
    return (
        b"\0\3"
        + named
        + (60_000).to_bytes(4)
        + (10_000).to_bytes(4)
        + len(subscription).to_bytes(4)
        + subscription
    )


def decoded(keys: list[bytes | None], values: list[bytes | None]) -> list[dict[str, Any]]:
    """What is decoded, row by row, without nulls."""
    batch = decode_records(keys, values)
    batch.validate(full=True)
    return [without_nulls(row) for row in batch.to_pylist()]


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def group_of(key: dict[str, Any]) -> str:
    return key["group"] if "group" in key else key["group_id"]


def expected(
    number: int, version: int, key: dict[str, Any], value: dict[str, Any] | None
) -> dict[str, Any]:
    """The row of a record, without nulls."""
    row: dict[str, Any] = {"type": number, "group_id": group_of(key), "is_tombstone": value is None}
    if "member_id" in key:
        row["member_id"] = key["member_id"]
    if value is None:
        return row | (
            {"regular_expression": {"regex": key["regular_expression"]}} if number == 16 else {}
        )
    told = _renamed(
        value,
        consumers=value.get("protocol_type") != "connect" and value.get("protocol_type") != "",
    )
    if number == 16:
        told["regex"] = key["regular_expression"]
    row["version"] = version
    if number not in COLUMN_OF:
        return row
    return row | {COLUMN_OF[number]: told["topics"] if number == 4 else told}


def _renamed(value: Any, *, consumers: bool) -> Any:
    if isinstance(value, list):
        return [_renamed(each, consumers=consumers) for each in value]
    if not isinstance(value, dict):
        return value
    told = {}
    for name, each in value.items():
        if name == "classic_member_metadata":
            told |= _renamed(each, consumers=True) if each and each["supported_protocols"] else {}
        elif isinstance(each, Embedded):
            told |= _spoken(name, each, consumers=consumers)
        elif not _is_none(name, each):
            told[RENAMED.get(name, name)] = _converted(name, each, consumers=consumers)
    return told


def _spoken(name: str, data: Embedded, *, consumers: bool) -> dict[str, Any]:
    if consumers and data.said is not None:
        return {"assignment" if name == "assignment" else "subscription": data.said}
    return {f"{name}_bytes": bytes(data)} if data else {}


def _is_none(name: str, value: Any) -> bool:
    return (
        value is None
        or (name in NONE_IS_MINUS_ONE and value == -1)
        or (name in NONE_IS_EMPTY and not value)
        or (name in TIMES and value in (-1, 0))
        or (name == "topic_id" and not any(value))
    )


def _converted(name: str, value: Any, *, consumers: bool) -> Any:
    if name in TIMES:
        return EPOCH + dt.timedelta(milliseconds=value)
    if name == "topic_id":
        return base64.urlsafe_b64encode(uuid.UUID(bytes=value).bytes).decode().rstrip("=")
    return _renamed(value, consumers=consumers)
