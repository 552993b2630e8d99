"""Kafka's own Java classes: messages made of values, what they write, and their schemas."""

import base64
import json
import re
from typing import Any

from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct
from tests.support.group_messages import camel_case

METADATA = "org.apache.kafka.common.metadata"
MESSAGES = "org.apache.kafka.common.message"


def named(jvm: Any, name: str) -> Any:
    """Return a class by its name, of an inner class `Outer$Inner`."""
    return getattr(jvm, name)


def serialized(jvm: Any, record: Any, version: int) -> bytes:
    """Return what `MetadataRecordSerde` writes."""
    serde = named(jvm, "org.apache.kafka.metadata.MetadataRecordSerde")()
    written = named(jvm, "org.apache.kafka.server.common.ApiMessageAndVersion")(record, version)
    cache = jvm.org.apache.kafka.common.protocol.ObjectSerializationCache()
    buffer = jvm.java.nio.ByteBuffer.allocate(serde.recordSize(written, cache))
    serde.write(written, cache, jvm.org.apache.kafka.common.protocol.ByteBufferAccessor(buffer))
    return bytes(buffer.array())


def java_message(
    jvm: Any, package: str, message: Message, version: int, values: dict[str, Any]
) -> Any:
    """Return the message of Kafka's classes, read from JSON."""
    return read_json(jvm, f"{package}.{message.name}", as_json(message.body, values), version)


def read_json(jvm: Any, name: str, values: dict[str, Any], version: int) -> Any:
    """Return an object of a class of Kafka's, by its own reader of JSON."""
    node = jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(values))
    return named(jvm, f"{name}JsonConverter").read(node, version)


def bytes_of(jvm: Any, message: Any, version: int) -> bytes:
    """Return what Kafka's classes write of a message."""
    written = jvm.org.apache.kafka.common.protocol.MessageUtil.toByteBufferAccessor(
        message, version
    )
    return bytes(written.buffer().array())


def as_json(struct: Struct, values: dict[str, Any], version: int | None = None) -> dict[str, Any]:
    """Return values as the JSON converters of Kafka's classes want them; with a version, only its
    fields.
    """
    fields = struct.fields if version is None else struct.in_version(version)
    return {
        camel_case(each.name): _json_value(each.type, values[each.name], version)
        for each in fields
        if each.name in values
    }


def _json_value(kind: Primitive | Array | Struct, value: Any, version: int | None) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_json_value(kind.of, entry, version) for entry in value]
    if isinstance(kind, Struct):
        return as_json(kind, value, version)
    if kind is Primitive.UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if kind is Primitive.BYTES else value


def check_schemas(jvm: Any, package: str, message: Message) -> None:
    """The fields of each version are those of Kafka's class."""
    schemas = list(jvm.Class.forName(f"{package}.{message.name}").getField("SCHEMAS").get(None))
    assert len(schemas) == message.last_version + 1
    for version, schema in enumerate(schemas):
        told = re.sub(r" -> [^,)]+", "", schema.toString())
        assert told == described(message.body, version, flexible=message.flexible(version))


def described(struct: Struct, version: int, *, flexible: bool) -> str:
    """Return a table as Kafka's classes print a schema; of tagged fields they tell the tags
    only.
    """
    fields = [
        f"{each.name}:{_type(each, version, flexible=flexible)}"
        for each in struct.in_version(version)
    ]
    if flexible:
        tags = [str(tag) for tag in struct.tagged_in(version)]
        fields.append(f"_tagged_fields:TAGGED_FIELDS_TYPE_NAME({', '.join(tags)})")
    return f"{{{','.join(fields)}}}"


def _type(field: Field, version: int, *, flexible: bool) -> str:
    return _type_name(field.type, version, flexible=flexible, nullable=field.nullable_in(version))


def _type_name(
    kind: Primitive | Array | Struct, version: int, *, flexible: bool, nullable: bool = False
) -> str:
    if isinstance(kind, Struct):
        return described(kind, version, flexible=flexible)
    if isinstance(kind, Array):
        name = f"{'COMPACT_' * flexible}{'NULLABLE_' * nullable}ARRAY"
        return f"{name}({_type_name(kind.of, version, flexible=flexible)})"
    if kind in (Primitive.STRING, Primitive.BYTES):
        return "COMPACT_" * flexible + "NULLABLE_" * nullable + kind.name
    return "BOOLEAN" if kind is Primitive.BOOL else kind.name
