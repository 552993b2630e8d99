"""Any message of the tables, read into columns, one field after the other.

This is the exact reader: it knows every rule of the encoding (`encoding`) and says where bytes
break one. `metadata_fast` is faster for topics of the usual shape, and leaves everything else to
this one. `dicts` reads by the same rules into dicts, also what has no columns.

What Kafka's reader lets pass and is an error here, since the bytes are then not what they should
be: varints with more bytes than they need, negative lengths other than -1, strings that are not
UTF-8 (Java puts U+FFFD in their place), and tagged fields of another size than they say.
"""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from metadata_source.errors import ProtocolError, TooSlowError
from metadata_source.protocol.encoding import (
    FIXED_BYTES,
    LENGTH_BYTES,
    MAX_STRING,
    NULL,
    array_length,
    check_version,
    minimum_size,
    primitive_length,
)
from metadata_source.protocol.spec import Array, Field, Length, Message, Primitive, Struct

Columns = dict[str, Any]
"""Columns by the field's path without indices (``topics.partitions.leader_id``).

An array's own column holds its lengths, -1 for null; the entries of an array of primitives are in
the column ``<path>.item``.
"""

OnValue = Callable[[str, int, int, Any], None]
"""Called with path, first byte, byte after the last, and value for each value read.

For an array of structs the value is the range of its indices, for a section of tagged fields how
many there are.
"""

_INT_TYPECODES = {
    Primitive.INT8: "b",
    Primitive.INT16: "h",
    Primitive.UINT16: "H",
    Primitive.INT32: "i",
    Primitive.INT64: "q",
}
_TYPECODES = _INT_TYPECODES | {Primitive.BOOL: "b"}
_SHOWN_BYTES = 16
_ENTRIES_UNTIMED = 256


class Cursor:
    """Goes through one body, which is untrusted: each length is checked against the bytes left
    before anything is made of it.

    It begins at byte `start`; what stands before is not of the message, but offsets count it. At
    `deadline` (of `time.monotonic`) it raises TooSlowError: a megabyte takes half a second and
    more.
    """

    def __init__(
        self,
        body: bytes,
        message: Message,
        version: int,
        start: int = 0,
        deadline: float = math.inf,
    ) -> None:
        check_version(message, version)
        self.body = body
        self.message = message
        self.version = version
        self.flexible = message.flexible(version)
        self.position = start
        self._deadline = deadline
        self._path: list[str | int] = []

    def refuse_rest(self) -> None:
        """Refuse bytes after the end of the message."""
        if left := self._left():
            self._path = ["end of message"]
            raise self._error(self.position, f"{left} bytes are left over", len(self.body))

    def _read_primitive(self, type_: Primitive, *, nullable: bool) -> Any:
        if type_ is Primitive.STRING:
            return self._read_string(nullable=nullable)
        if type_ is Primitive.BYTES:
            return self._read_bytes(nullable=nullable)
        taken = self._take(FIXED_BYTES[type_])
        if type_ is Primitive.UUID:
            return taken
        if type_ is Primitive.BOOL:
            return taken != b"\0"
        return int.from_bytes(taken, signed=type_ is not Primitive.UINT16)

    def _read_primitives(self, type_: Primitive, count: int) -> Sequence[Any]:
        """Read the entries of an array: integers into an array, all else into a list."""
        typecode = _INT_TYPECODES.get(type_)
        if typecode is None:
            return [self._read_primitive(type_, nullable=False) for _ in self._entries(count)]
        values = array(typecode, self._take(FIXED_BYTES[type_] * max(count, 0)))
        if sys.byteorder == "little":
            values.byteswap()
        return values

    def _entries(self, count: int) -> Iterator[int]:
        """Yield the indices of so many entries, for as long as there is time."""
        for index in range(count):
            if not index % _ENTRIES_UNTIMED and time.monotonic() > self._deadline:
                at = f"{self._left()} of {len(self.body)} bytes are left when its time is over"
                raise TooSlowError(
                    at,
                    message=self.message.name,
                    version=self.version,
                    path=path_text(self._path),
                    offset=self.position,
                )
            yield index

    def _read_count(self, type_: Array, *, nullable: bool) -> int:
        start = self.position
        count = self._read_length(array_length(type_, flexible=self.flexible), "an array")
        if count == NULL:
            if not nullable:
                raise self._error(start, "null, where null is not allowed")
        elif (
            count * (least := minimum_size(type_.of, self.version, flexible=self.flexible))
            > self._left()
        ):
            what = f"an array of {count} entries, {least} bytes each at least"
            raise self._error(start, f"{what}, but {self._left()} bytes are left")
        return count

    def _read_string(self, *, nullable: bool) -> str | None:
        start = self.position
        length = self._read_length(
            primitive_length(Primitive.STRING, flexible=self.flexible), "a string"
        )
        if length == NULL:
            if not nullable:
                raise self._error(start, "null, where null is not allowed")
            return None
        if length > MAX_STRING or length > self._left():
            limit = (
                f"{self._left()} bytes are left"
                if length > self._left()
                else f"{MAX_STRING} is the most"
            )
            raise self._error(start, f"a string of {length} bytes, but {limit}")
        content = self.position
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._error(
                content + error.start, "a string that is not UTF-8", content + error.end
            ) from None

    def _read_bytes(self, *, nullable: bool) -> bytes | None:
        start = self.position
        length = self._read_length(
            primitive_length(Primitive.BYTES, flexible=self.flexible), "bytes"
        )
        if length == NULL:
            if not nullable:
                raise self._error(start, "null, where null is not allowed")
            return None
        if length > self._left():
            raise self._error(start, f"{length} bytes wanted, but {self._left()} bytes are left")
        return self._take(length)

    def _read_length(self, length: Length, of: str) -> int:
        start = self.position
        if length is Length.COMPACT:
            return self._read_varint() - 1
        value = int.from_bytes(self._take(LENGTH_BYTES[length]), signed=True)
        if value < NULL:
            raise self._error(start, f"{of} of negative length {value}")
        return value

    def _read_varint(self) -> int:
        start = self.position
        if start < len(self.body) and (only := self.body[start]) < 0x80:
            self.position = start + 1
            return only
        value = shift = 0
        while True:
            byte = self._take(1, start)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 28:
                raise self._error(start, "a varint of more than 5 bytes", self.position + 1)
        if value >> 32 or (byte == 0 and shift > 7):
            wrong = "more than 32 bits" if value >> 32 else "more bytes than it needs"
            raise self._error(start, f"a varint with {wrong}")
        return value

    def _read_tag_count(self) -> int:
        start = self.position
        count = self._read_varint()
        if count * 2 > self._left():
            raise self._error(
                start,
                f"{count} tagged fields, 2 bytes each at least, but {self._left()} bytes are left",
            )
        return count

    def _read_tag(self) -> tuple[int, int]:
        """Read what stands before a tagged field's value: its tag and its size."""
        start = self.position
        tag = self._read_varint()
        size = self._read_varint()
        if size > self._left():
            raise self._error(
                start, f"tagged field {tag} of {size} bytes, but {self._left()} bytes are left"
            )
        return tag, size

    def _take(self, size: int, start: int | None = None) -> bytes:
        begin = self.position
        end = begin + size
        if end > len(self.body):
            at = begin if start is None else start
            what = f"{size} bytes wanted" if size > 1 else "1 byte wanted"
            raise self._error(at, f"{what}, {self._left()} left", len(self.body))
        self.position = end
        return self.body[begin:end]

    def _left(self) -> int:
        return len(self.body) - self.position

    def _error(self, offset: int, problem: str, end: int | None = None) -> ProtocolError:
        """Return the error for what was read from `offset` to `end` (None: the position)."""
        read = self.body[offset : self.position if end is None else end]
        if read:
            more = " ..." if len(read) > _SHOWN_BYTES else ""
            problem += f" (read {read[:_SHOWN_BYTES].hex(' ')}{more})"
        return ProtocolError(
            problem,
            message=self.message.name,
            version=self.version,
            path=path_text(self._path),
            offset=offset,
        )


def path_text(path: Sequence[str | int]) -> str:
    """Return a field's path, such as ``topics[3].partitions[17].isr_nodes``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


class Reader(Cursor):
    """Reads one body into columns: for messages without tagged fields of their own whose structs
    are entries of arrays.
    """

    def __init__(
        self,
        body: bytes,
        message: Message,
        version: int,
        on_value: OnValue | None = None,
        deadline: float = math.inf,
    ) -> None:
        super().__init__(body, message, version, deadline=deadline)
        self.columns: Columns = {}
        self._on_value = on_value

    def read_message(self) -> Columns:
        """Read the whole body, to its last byte."""
        for each in self.message.body.in_version(self.version):
            self.read_field(each)
        self.finish()
        return self.columns

    def read_field(self, top_level: Field) -> None:
        """Read the next field of the message's own struct."""
        self._read_field(top_level, top_level.name)

    def read_count(self, top_level: Field) -> int:
        """Read how many entries the message's next field has; the caller reads the entries."""
        if not isinstance(top_level.type, Array):
            raise TypeError(f"{top_level.name} is no array")
        self._path.append(top_level.name)
        count = self._read_length_of(
            top_level.type, top_level.name, nullable=top_level.nullable_in(self.version)
        )
        self._path.pop()
        return count

    def finish(self) -> None:
        """Read what ends the message, and refuse bytes after it."""
        if self.flexible and self.message.body.tagged:
            self._skip_tagged_fields()
        self.refuse_rest()

    def _read_field(self, each: Field, key: str) -> None:
        self._path.append(each.name)
        nullable = each.nullable_in(self.version)
        if isinstance(each.type, Array):
            self._read_array(each.type, key, nullable=nullable)
        elif isinstance(each.type, Primitive):
            start = self.position
            value = self._read_primitive(each.type, nullable=nullable)
            self._column(key, _TYPECODES.get(each.type)).append(value)
            self._tell(start, value)
        else:
            raise TypeError(
                f"{key} is a struct that is no entry of an array: there are no columns for it"
            )
        self._path.pop()

    def _read_struct(self, struct: Struct, prefix: str) -> None:
        for each, key in _keys(struct, prefix, self.version):
            self._read_field(each, key)
        if self.flexible and struct.tagged:
            self._skip_tagged_fields()

    def _read_array(self, type_: Array, key: str, *, nullable: bool) -> None:
        start = self.position
        count = self._read_length_of(type_, key, nullable=nullable)
        if not isinstance(type_.of, Struct):
            values = self._read_primitives(type_.of, count)
            self._column(key + ".item", _TYPECODES.get(type_.of)).extend(values)
            self._tell(start, values)
            return
        self._tell(start, range(count))
        self._path.append(0)
        for index in self._entries(count):
            self._path[-1] = index
            self._read_struct(type_.of, key)
        self._path.pop()

    def _read_length_of(self, type_: Array, key: str, *, nullable: bool) -> int:
        count = self._read_count(type_, nullable=nullable)
        self._column(key, "i").append(count)
        return count

    def _skip_tagged_fields(self) -> None:
        self._path.append("tagged_fields")
        start = self.position
        count = self._read_tag_count()
        self._tell(start, count)
        for _ in self._entries(count):
            _, size = self._read_tag()
            self.position += size
        self._path.pop()

    def _column(self, key: str, typecode: str | None) -> Any:
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = array(typecode) if typecode else []
        return column

    def _tell(self, start: int, value: Any) -> None:
        if self._on_value is not None:
            self._on_value(path_text(self._path), start, self.position, value)


@lru_cache(maxsize=256)
def _keys(struct: Struct, prefix: str, version: int) -> tuple[tuple[Field, str], ...]:
    return tuple((each, f"{prefix}.{each.name}") for each in struct.in_version(version))
