"""kafka-python's message classes as a broker has them: requests read, and answers written of plain
values.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kafka.protocol import admin, consumer
from kafka.protocol.api_message import ApiMessage

from metadata_source import messages

REQUESTS = {
    each.API_KEY: each
    for module in (admin, consumer, messages)
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, ApiMessage)
    and each is not ApiMessage
    and each.is_request()
}
"""By API key."""


def read_request(request: Any, version: int, body: bytes) -> dict[str, Any]:
    """The fields of a request; None those that the version lacks."""
    return dict.fromkeys(request.fields) | request.decode(body, version=version).to_dict(json=False)


def written(message: Any, version: int, values: Mapping[str, Any]) -> bytes:
    """The body for values by field name, as `write_message` takes them: structs are mappings, UUIDs
    16 bytes.
    """
    is_flexible = message.flexible_version_q(version)
    given = _given(message.fields, values)
    return message._struct.encode(given, version=version, compact=is_flexible, tagged=is_flexible)


def _given(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(field, values[name]) for name, field in fields.items() if name in values}


def _value(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct_array():
        return [_given(field.fields, each) for each in value]
    if field.is_struct():
        return _given(field.fields, value)
    if field.type_str == "uuid":
        return UUID(bytes=value)
    # Operations are a set of bits there.
    return None if field.type_str == "bitfield" else value


def some_values(fields: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Values for the fields of a version: two entries in each array."""
    return {
        name: _some_value(each, version)
        for name, each in fields.items()
        if each.for_version_q(version)
    }


def _some_value(field: Any, version: int) -> Any:
    if field.is_struct_array():
        return [some_values(field.fields, version)] * 2
    if field.is_struct():
        return some_values(field.fields, version)
    if field.is_array():
        return [_some_value(field.array_of, version)] * 2
    texts = {"string": "ab", "bytes": b"cd", "records": b"ef"}
    return (texts | {"bool": True, "uuid": bytes(15) + b"\1"}).get(field.type_str, 7)
