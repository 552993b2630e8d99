"""Any message of the tables, read into dicts and lists, as `write_message` takes them.

For messages that are small or have structs within structs; large ones of one shape go into columns
(`exact.Reader`).
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

from metadata_source.protocol.encoding import NULL
from metadata_source.protocol.exact import Cursor
from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct


def read_values(
    body: bytes,
    message: Message,
    version: int,
    *,
    start: int = 0,
    may_go_on: bool = False,
) -> dict[str, Any]:
    """Return what a body says, as `write_message` takes it: values by field name, structs as
    mappings, arrays as lists.

    Fields that the version lacks are None, tagged fields that are absent their default; none of it
    is to be changed. UUIDs are 16 bytes. The message begins at byte `start`; bytes after it are
    refused unless it `may_go_on`. Raises ProtocolError for bytes that are not such a message,
    ValueError for a version that does not exist.
    """
    reader = _ValueReader(body, message, version, start)
    values = reader.read_struct(message.body)
    if not may_go_on:
        reader.refuse_rest()
    return values


@lru_cache(maxsize=4096)
def uuid_text(raw: bytes) -> str | None:
    """Return an id as ``Uuid.toString`` does (URL-safe base64, no padding), None for zeros."""
    return base64.urlsafe_b64encode(raw)[:22].decode() if any(raw) else None


class _ValueReader(Cursor):
    """Reads one body into values."""

    def read_struct(self, struct: Struct) -> dict[str, Any]:
        absent, fields = _plan(struct, self.version)
        values = absent.copy()
        path = self._path
        for name, type_, nullable in fields:
            path.append(name)
            values[name] = self._read_value(type_, nullable=nullable)
            path.pop()
        if self.flexible and struct.tagged:
            self._read_tagged_fields(struct, values)
        return values

    def _read_value(self, type_: Primitive | Array | Struct, *, nullable: bool) -> Any:
        if isinstance(type_, Primitive):
            return self._read_primitive(type_, nullable=nullable)
        if isinstance(type_, Array):
            return self._read_array(type_, nullable=nullable)
        if nullable and self._read_primitive(Primitive.INT8, nullable=False) < 0:
            return None
        return self.read_struct(type_)

    def _read_array(self, type_: Array, *, nullable: bool) -> list[Any] | None:
        count = self._read_count(type_, nullable=nullable)
        if count == NULL:
            return None
        if not isinstance(type_.of, Struct):
            return list(self._read_primitives(type_.of, count))
        entries = []
        self._path.append(0)
        for index in self._entries(count):
            self._path[-1] = index
            entries.append(self.read_struct(type_.of))
        self._path.pop()
        return entries

    def _read_tagged_fields(self, struct: Struct, values: dict[str, Any]) -> None:
        self._path.append("tagged_fields")
        for _ in self._entries(self._read_tag_count()):
            start = self.position
            tag, size = self._read_tag()
            end = self.position + size
            each = struct.tagged_in(self.version).get(tag)
            if each is None:
                self.position = end
                continue
            self._path[-1] = each.name
            values[each.name] = self._read_tagged_value(each)
            if self.position != end:
                raise self._error(
                    start,
                    (
                        f"tagged field {tag} of {size} bytes, but its value takes "
                        f"{self.position - end + size}"
                    ),
                )
            self._path[-1] = "tagged_fields"
        self._path.pop()

    def _read_tagged_value(self, each: Field) -> Any:
        nullable = each.nullable_in(self.version)
        if isinstance(each.type, Struct) and nullable:
            return self.read_struct(each.type) if self._read_varint() else None
        return self._read_value(each.type, nullable=nullable)


@lru_cache(maxsize=256)
def _plan(
    struct: Struct, version: int
) -> tuple[dict[str, Any], tuple[tuple[str, Primitive | Array | Struct, bool], ...]]:
    """Return what a struct's fields are where they are absent, and its fields without a tag: name,
    type, whether they may be null.
    """
    tagged = struct.tagged_in(version).values()
    absent = dict.fromkeys(each.name for each in struct.fields) | {
        each.name: each.default for each in tagged
    }
    fields = tuple(
        (each.name, each.type, each.nullable_in(version)) for each in struct.in_version(version)
    )
    return absent, fields
