"""Any message of the tables, written from values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metadata_source.protocol.encoding import (
    FIXED_BYTES,
    LENGTH_BYTES,
    MAX_STRING,
    NULL,
    array_length,
    check_version,
    primitive_length,
)
from metadata_source.protocol.spec import Array, Field, Length, Message, Primitive, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_message(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """Return the body for `values` (by field name; structs as mappings, arrays as sequences).
    Fields that the version lacks are left out.

    So are tagged fields whose value is their default, or not given.
    """
    check_version(message, version)
    flexible = message.flexible(version)
    out = bytearray()
    _write_struct(out, message.body, version, values, flexible=flexible)
    return bytes(out)


def _write_struct(
    out: bytearray, struct: Struct, version: int, values: Mapping[str, Any], *, flexible: bool
) -> None:
    for each in struct.in_version(version):
        value = _allowed(each, values[each.name], version)
        if isinstance(each.type, Struct) and each.nullable_in(version):
            out += (1 if value is not None else NULL).to_bytes(1, signed=True)
        if not isinstance(each.type, Struct) or value is not None:
            _write_value(out, each.type, version, value, flexible=flexible)
    if flexible and struct.tagged:
        _write_tagged_fields(out, struct, version, values)


def _allowed(each: Field, value: Any, version: int) -> Any:
    if value is None and not each.nullable_in(version):
        raise ValueError(f"{each.name} cannot be null in version {version}")
    return value


def _write_tagged_fields(
    out: bytearray, struct: Struct, version: int, values: Mapping[str, Any]
) -> None:
    given = {
        tag: (each, _allowed(each, values[each.name], version))
        for tag, each in struct.tagged_in(version).items()
        if values.get(each.name, each.default) != each.default
    }
    _write_varint(out, len(given))
    for tag, (each, value) in given.items():
        content = bytearray()
        if isinstance(each.type, Struct) and each.nullable_in(version):
            _write_varint(content, int(value is not None))
        if not isinstance(each.type, Struct) or value is not None:
            _write_value(content, each.type, version, value, flexible=True)
        _write_varint(out, tag)
        _write_varint(out, len(content))
        out += content


def _write_value(
    out: bytearray, type_: Primitive | Array | Struct, version: int, value: Any, *, flexible: bool
) -> None:
    if isinstance(type_, Struct):
        _write_struct(out, type_, version, value, flexible=flexible)
    elif isinstance(type_, Array):
        _write_length(
            out, array_length(type_, flexible=flexible), NULL if value is None else len(value)
        )
        for entry in value or ():
            _write_value(out, type_.of, version, entry, flexible=flexible)
    else:
        _write_primitive(out, type_, value, flexible=flexible)


def _write_primitive(out: bytearray, type_: Primitive, value: Any, *, flexible: bool) -> None:
    if type_ is Primitive.STRING or type_ is Primitive.BYTES:
        content = value.encode() if isinstance(value, str) else value or b""
        if type_ is Primitive.STRING and len(content) > MAX_STRING:
            raise ValueError(
                f"a string of {len(content)} bytes, but {MAX_STRING} is the most: {value[:40]!r}..."
            )
        _write_length(
            out, primitive_length(type_, flexible=flexible), NULL if value is None else len(content)
        )
        out += content
    elif type_ is Primitive.UUID:
        out += value
    elif type_ is Primitive.BOOL:
        out.append(bool(value))
    else:
        out += value.to_bytes(FIXED_BYTES[type_], signed=type_ is not Primitive.UINT16)


def _write_length(out: bytearray, length: Length, value: int) -> None:
    if length is Length.COMPACT:
        _write_varint(out, value + 1)
    else:
        out += value.to_bytes(LENGTH_BYTES[length], signed=True)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
