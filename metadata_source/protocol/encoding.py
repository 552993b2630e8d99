"""Rules of Kafka's encoding that reading and writing share.

Strings, bytes and arrays before flexible versions: a signed length, -1 for null. From them on
(KIP-482): an unsigned varint of length + 1, 0 for null, and after each struct a section of tagged
fields, of which those that the table does not have are skipped. A struct that may be null begins
with a byte, negative for null; among tagged fields with an unsigned varint, 0 for null. A boolean
is true for every byte but 0, as in Kafka's own reader (``Readable.readByte() != 0``).
"""

from __future__ import annotations

from functools import lru_cache

from metadata_source.protocol.spec import Array, Length, Message, Primitive, Struct

NULL = -1
MAX_STRING = 0x7FFF
FIXED_BYTES = {
    Primitive.BOOL: 1,
    Primitive.INT8: 1,
    Primitive.INT16: 2,
    Primitive.UINT16: 2,
    Primitive.INT32: 4,
    Primitive.INT64: 8,
    Primitive.UUID: 16,
}
LENGTH_BYTES = {Length.COMPACT: 1, Length.INT16: 2, Length.INT32: 4}


@lru_cache(maxsize=256)
def minimum_size(type_: Primitive | Array | Struct, version: int, *, flexible: bool) -> int:
    """Return the fewest bytes of a value of this type: counts of values are checked against it."""
    if isinstance(type_, Array):
        return LENGTH_BYTES[array_length(type_, flexible=flexible)]
    if isinstance(type_, Struct):
        fields = sum(
            1
            if isinstance(each.type, Struct) and each.nullable_in(version)
            else minimum_size(each.type, version, flexible=flexible)
            for each in type_.in_version(version)
        )
        return fields + (flexible and type_.tagged)
    if type_ is Primitive.STRING or type_ is Primitive.BYTES:
        return LENGTH_BYTES[primitive_length(type_, flexible=flexible)]
    return FIXED_BYTES[type_]


def array_length(type_: Array, *, flexible: bool) -> Length:
    """Return how the length of this array is written."""
    return type_.length or (Length.COMPACT if flexible else Length.INT32)


def primitive_length(type_: Primitive, *, flexible: bool) -> Length:
    """Return how the length of a string, or of bytes, is written."""
    if flexible:
        return Length.COMPACT
    return Length.INT16 if type_ is Primitive.STRING else Length.INT32


def check_version(message: Message, version: int) -> None:
    """Raise ValueError for a version that the table does not have."""
    if not 0 <= version <= message.last_version:
        raise ValueError(f"{message.name} has versions 0 to {message.last_version}, not {version}")
