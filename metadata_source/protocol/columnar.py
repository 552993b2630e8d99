"""Many bodies of one message and version, read side by side: bytes in, one Arrow array of structs
out, one row a body.

The exact reader (`dicts`) takes a step in Python for each field of each body. Here a step is a few
NumPy operations on the same field of all bodies: each has a cursor, and a field moves all cursors
at once. What a field says is made into Arrow afterwards, and only if it is wanted: entries of an
array are found by going past one after the other, then all entries of all bodies are read as bodies
are.

A body is given up as soon as something about it is not usual: a varint of more than three bytes,
tagged fields that do not ascend, more entries than nearly all others have, and whatever is wrong.
The exact reader then reads it, and says what it finds. So the rules of the encoding stand in
`encoding`, and what is read here was read as it would have read it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.errors import ProtocolError
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.encoding import (
    FIXED_BYTES,
    MAX_STRING,
    NULL,
    array_length,
    minimum_size,
    primitive_length,
)
from metadata_source.protocol.spec import Array, Field, Length, Message, Primitive, Struct
from metadata_source.protocol.vectors import clipped, contents, slices, varints, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metadata_source.protocol.vectors import Bytes, Flags, Positions

    Build = Callable[[], pa.Array]
    """Makes what was gone past into Arrow, one row a cursor."""
    Pieces = Sequence[tuple[Positions, pa.Array]]
    """Rows, and what stands there."""

FEWEST: Final = 8
"""Bodies that a step must be for: the exact reader is done sooner with fewer."""

_ARROW: Final = {
    Primitive.BOOL: pa.bool_(),
    Primitive.INT8: pa.int8(),
    Primitive.INT16: pa.int16(),
    Primitive.UINT16: pa.uint16(),
    Primitive.INT32: pa.int32(),
    Primitive.INT64: pa.int64(),
    Primitive.UUID: pa.binary(16),
    Primitive.STRING: pa.string(),
    Primitive.BYTES: pa.binary(),
}


def read_batch(
    bodies: pa.BinaryArray,
    message: Message,
    version: int,
    *,
    start: int = 0,
    may_go_on: bool = False,
) -> tuple[pa.StructArray, dict[int, ProtocolError]]:
    """Return what bodies say, as `read_values` reads each of them; null where bytes are no such
    message, and by row what is wrong.

    Fields are those of all versions, UUIDs are 16 bytes. No body is null.
    Raises ValueError for a version that does not exist.
    """
    usual, found = _side_by_side(bodies, message, version, start, may_go_on=may_go_on)
    if usual.all():
        return found, {}
    errors: dict[int, ProtocolError] = {}
    values: list[dict[str, Any] | None] = []
    rest = np.flatnonzero(~usual)
    for row in rest.tolist():
        try:
            values.append(
                read_values(bodies[row].as_py(), message, version, start=start, may_go_on=may_go_on)
            )
        except ProtocolError as error:
            errors[row] = error
            values.append(None)
    pieces = [
        (np.flatnonzero(usual), found.filter(pa.array(usual))),
        (rest, pa.array(values, found.type)),
    ]
    return scattered(len(bodies), found.type, pieces), errors


def scattered(
    length: int, data_type: pa.DataType, pieces: Pieces, *, elsewhere: Any = None
) -> pa.Array:
    """Return an array with the pieces' values in their rows, ascending, else `elsewhere`."""
    pieces = [(rows, values) for rows, values in pieces if len(rows)]
    if not pieces and elsewhere is None:
        return pa.nulls(length, data_type)
    if len(pieces) == 1 and len(pieces[0][0]) == length:
        return pieces[0][1]
    index = np.zeros(length, dtype=np.int64)
    first = 1
    for rows, values in pieces:
        index[rows] = np.arange(first, first + len(values))
        first += len(values)
    return pa.concat_arrays(
        [pa.array([elsewhere], data_type), *(values for _, values in pieces)]
    ).take(pa.array(index))


@cache
def arrow_type(type_: Primitive | Array | Struct) -> pa.DataType:
    """Return the type that values of this type have in Arrow."""
    if isinstance(type_, Struct):
        return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in type_.fields])
    if isinstance(type_, Array):
        return pa.list_(arrow_type(type_.of))
    return _ARROW[type_]


def _side_by_side(
    bodies: pa.BinaryArray, message: Message, version: int, start: int, *, may_go_on: bool
) -> tuple[Flags, pa.StructArray]:
    """Return which bodies are usual, and what those say; other rows mean nothing."""
    count = len(bodies)
    if count < FEWEST:
        return np.zeros(count, dtype=np.bool_), pa.nulls(count, arrow_type(message.body))
    walk = _Walk(bodies, message, version)
    rows = np.arange(count)
    build, ends = walk.struct(message.body, rows, walk.begins + start)
    if not may_go_on:
        walk.expect(rows, ends == walk.limits)
    found = build()
    return walk.usual, found


class _Walk:
    """Goes through all bodies with cursors: `rows` says of which body each is, `at` where it
    stands.

    A cursor never leaves its body. Where one cannot go on its body is not usual any more: it stays
    and is taken along to the end, but finds no entries there, or it would find the same ones again
    and again.
    """

    def __init__(self, bodies: pa.BinaryArray, message: Message, version: int) -> None:
        self.version = version
        self.flexible = message.flexible(version)
        self.data, self.begins, self.limits = contents(bodies)
        self.usual: Flags = np.ones(len(bodies), dtype=np.bool_)

    def expect(self, rows: Positions, good: Flags) -> None:
        """Give up the bodies of cursors that are not good."""
        if not good.all():
            self.usual[rows[~good]] = False

    def struct(self, struct: Struct, rows: Positions, at: Positions) -> tuple[Build, Positions]:
        """Go past a struct."""
        builds: dict[str, Build] = {}
        for each in struct.in_version(self.version):
            builds[each.name], at = self._value(
                each.type, rows, at, nullable=each.nullable_in(self.version)
            )
        if self.flexible and struct.tagged:
            tagged, at = self._tagged_fields(struct, rows, at)
            builds |= tagged

        def build() -> pa.Array:
            fields = list(arrow_type(struct))
            children = [
                builds[field.name]() if field.name in builds else pa.nulls(len(rows), field.type)
                for field in fields
            ]
            # A struct without fields has a length too.
            return pa.Array.from_buffers(arrow_type(struct), len(rows), [None], children=children)

        return build, at

    def _value(
        self, type_: Primitive | Array | Struct, rows: Positions, at: Positions, *, nullable: bool
    ) -> tuple[Build, Positions]:
        if isinstance(type_, Struct):
            if not nullable:
                return self.struct(type_, rows, at)
            is_null, after = self._fixed(Primitive.INT8, rows, at)
            return self._struct_or_null(
                type_, rows, after, pc.greater_equal(is_null(), 0).to_numpy(zero_copy_only=False)
            )
        if isinstance(type_, Array):
            return self._array(type_, rows, at, nullable=nullable)
        if type_ in FIXED_BYTES:
            return self._fixed(type_, rows, at)
        return self._slice(type_, rows, at, nullable=nullable)

    def _struct_or_null(
        self, struct: Struct, rows: Positions, at: Positions, present: Flags
    ) -> tuple[Build, Positions]:
        there = np.flatnonzero(present)
        build, ends = self.struct(struct, rows[there], at[there])
        after = at.copy()
        after[there] = ends
        return lambda: scattered(len(rows), arrow_type(struct), [(there, build())]), after

    def _fixed(self, type_: Primitive, rows: Positions, at: Positions) -> tuple[Build, Positions]:
        good = at + FIXED_BYTES[type_] <= self.limits[rows]
        self.expect(rows, good)
        return lambda: _numbers(self.data, type_, at), at + FIXED_BYTES[type_] * good

    def _slice(
        self, type_: Primitive, rows: Positions, at: Positions, *, nullable: bool
    ) -> tuple[Build, Positions]:
        """Go past a string, or bytes."""
        lengths, begins = self._lengths(
            primitive_length(type_, flexible=self.flexible), rows, at, nullable=nullable
        )
        sizes = np.maximum(lengths, 0)
        good = begins + sizes <= self.limits[rows]
        if type_ is Primitive.STRING:
            good &= sizes <= MAX_STRING
        self.expect(rows, good)
        ends = begins + sizes * good

        def build() -> pa.Array:
            found = slices(self.data, begins, ends, _ARROW[type_])
            if type_ is Primitive.STRING:
                found = self._utf8(rows, found)
            return pc.if_else(pa.array(lengths >= 0), found, None) if nullable else found

        return build, ends

    def _utf8(self, rows: Positions, texts: pa.StringArray) -> pa.StringArray:
        """Return the strings, without those that are not UTF-8."""
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            good = np.array([_is_utf8(raw) for raw in texts.cast(pa.binary()).to_pylist()])
            self.expect(rows, good)
            return pc.if_else(pa.array(good), texts, "")
        return texts

    def _array(
        self, type_: Array, rows: Positions, at: Positions, *, nullable: bool
    ) -> tuple[Build, Positions]:
        lengths, first = self._lengths(
            array_length(type_, flexible=self.flexible), rows, at, nullable=nullable
        )
        counts = np.maximum(lengths, 0)
        least = minimum_size(type_.of, self.version, flexible=self.flexible)
        good = counts * least <= self.limits[rows] - first
        self.expect(rows, good)
        counts *= self.usual[rows]
        if isinstance(type_.of, Primitive) and type_.of in FIXED_BYTES:
            begins, after = _equally_spaced(first, counts, FIXED_BYTES[type_.of])
        else:
            begins, after = self._entries(type_.of, rows, first, counts)

        def build() -> pa.Array:
            entries, _ = self._value(type_.of, np.repeat(rows, counts), begins, nullable=False)
            offsets = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
            mask = pa.array(lengths < 0) if nullable else None
            return pa.ListArray.from_arrays(offsets, entries(), type=arrow_type(type_), mask=mask)

        return build, after

    def _entries(
        self,
        type_: Primitive | Array | Struct,
        rows: Positions,
        first: Positions,
        counts: Positions,
    ) -> tuple[Positions, Positions]:
        """Go past the entries of arrays, the first of all, the second of all and so on. Return
        where each begins, and the ends.
        """
        at = first.copy()
        indices = np.cumsum(counts) - counts
        begins = np.repeat(first, counts)
        for number, going in self._rounds(rows, counts):
            begins[indices[going] + number] = at[going]
            _, at[going] = self._value(type_, rows[going], at[going], nullable=False)
        return begins, at

    def _rounds(self, rows: Positions, counts: Positions) -> Iterator[tuple[int, Positions]]:
        """Yield numbers from 0 on and the cursors whose count is higher; bodies with more than
        nearly all others are given up.

        What has been given up meanwhile does not go on: a count may be of any size.
        """
        for number in range(int(counts.max(initial=0))):
            going = np.flatnonzero((counts > number) & self.usual[rows])
            if len(going) < FEWEST:
                self.usual[rows[going]] = False
                return
            yield number, going

    def _tagged_fields(
        self, struct: Struct, rows: Positions, at: Positions
    ) -> tuple[dict[str, Build], Positions]:
        counts, at = self._varints(rows, at)
        fields = struct.tagged_in(self.version)
        found: dict[int, list[tuple[Positions, Build]]] = {tag: [] for tag in fields}
        last = np.full(len(rows), -1)
        for _, going in self._rounds(rows, counts):
            tags, after = self._varints(rows[going], at[going])
            sizes, begins = self._varints(rows[going], after)
            good = (tags > last[going]) & (begins + sizes <= self.limits[rows[going]])
            self.expect(rows[going], good)
            ends = begins + sizes * good
            for tag, each in fields.items():
                mine = np.flatnonzero((tags == tag) & good)
                if len(mine):
                    build, reached = self._tagged_value(each, rows[going[mine]], begins[mine])
                    self.expect(rows[going[mine]], reached == ends[mine])
                    found[tag].append((going[mine], build))
            last[going], at[going] = tags, ends
        return {
            each.name: _scattering(len(rows), each, found[tag]) for tag, each in fields.items()
        }, at

    def _tagged_value(self, each: Field, rows: Positions, at: Positions) -> tuple[Build, Positions]:
        nullable = each.nullable_in(self.version)
        if isinstance(each.type, Struct) and nullable:
            present, after = self._varints(rows, at)
            return self._struct_or_null(each.type, rows, after, present != 0)
        return self._value(each.type, rows, at, nullable=nullable)

    def _lengths(
        self, length: Length, rows: Positions, at: Positions, *, nullable: bool
    ) -> tuple[Positions, Positions]:
        """Go past lengths; NULL is one where null is allowed."""
        if length is Length.COMPACT:
            values, after = self._varints(rows, at)
            values = values - 1
        else:
            size = 2 if length is Length.INT16 else 4
            values = clipped(self.data, f">i{size}", at)
            good = at + size <= self.limits[rows]
            self.expect(rows, good)
            after = at + size * good
        good = values >= (NULL if nullable else 0)
        self.expect(rows, good)
        return np.where(good, values, 0), after

    def _varints(self, rows: Positions, at: Positions) -> tuple[Positions, Positions]:
        only = self.data[at]
        if (only < 0x80).all() and (at < self.limits[rows]).all():
            return only.astype(np.int64), at + 1
        values, after, good = varints(self.data, at)
        good &= after <= self.limits[rows]
        self.expect(rows, good)
        return values * good, np.where(good, after, at)


def _numbers(data: Bytes, type_: Primitive, at: Positions) -> pa.Array:
    """Return the values of a fixed size that begin there."""
    if type_ is Primitive.UUID:
        ids = view(data, "V16")[at].tobytes()
        return pa.FixedSizeBinaryArray.from_buffers(
            _ARROW[type_], len(at), [None, pa.py_buffer(ids)]
        )
    if type_ is Primitive.BOOL:
        return pa.array(data[at] != 0)
    sign = "u" if type_ is Primitive.UINT16 else "i"
    size = FIXED_BYTES[type_]
    return pa.array(view(data, f">{sign}{size}")[at].astype(f"{sign}{size}"))


def _equally_spaced(first: Positions, counts: Positions, size: int) -> tuple[Positions, Positions]:
    """Return where entries of a fixed size begin, and where each array ends."""
    indices = np.cumsum(counts) - counts
    begins = np.repeat(first - size * indices, counts)
    begins += np.arange(0, size * len(begins), size)
    return begins, first + size * counts


def _scattering(length: int, field: Field, pieces: Sequence[tuple[Positions, Build]]) -> Build:
    """Return what makes a tagged field's column: its default where it is absent."""
    return lambda: scattered(
        length,
        arrow_type(field.type),
        [(rows, build()) for rows, build in pieces],
        elsewhere=field.default,
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
