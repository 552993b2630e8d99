"""Arrow arrays of one nested type made into those of another, by the names of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.protocol.vectors import uuid_texts

Fields = dict[str, pa.Array]
"""The fields of structs of which none is null, by name, one row a struct."""


def fields_of(structs: pa.StructArray) -> Fields:
    """Return the fields of structs; what they are in a struct that is null means nothing."""
    return {field.name: structs.field(field.name) for field in structs.type}


def cast_nested(found: pa.Array | Mapping[str, pa.Array], data_type: pa.DataType) -> pa.Array:
    """Return values in another type: structs by the names of fields, where they lack one it is
    null, and 16 bytes as UUID's text.

    Raises ArrowInvalid for a number that does not fit.
    """
    if isinstance(found, Mapping):
        return _struct(found, data_type, None)
    if found.type.equals(data_type):
        return found
    if pa.types.is_struct(data_type):
        return _struct(fields_of(found), data_type, found.is_null())
    if pa.types.is_list(data_type):
        return each_entry(found, data_type, lambda entries: entries)
    if pa.types.is_fixed_size_binary(found.type):
        _, ids = found.buffers()
        return uuid_texts(
            np.frombuffer(ids, dtype=np.uint8, count=16 * len(found), offset=16 * found.offset)
        )
    return found.cast(data_type)


def each_entry(
    lists: pa.ListArray,
    data_type: pa.ListType,
    change: Callable[[pa.Array], pa.Array | Mapping[str, pa.Array]],
) -> pa.ListArray:
    """Return lists of another type: `change` makes their entries of those of all lists."""
    entries = cast_nested(change(lists.values), data_type.value_type)
    return pa.ListArray.from_arrays(lists.offsets, entries, type=data_type, mask=lists.is_null())


def without(number: int, numbers: pa.Array) -> pa.Array:
    """Return numbers, null in place of one."""
    return pc.if_else(pc.equal(numbers, number), None, numbers)


def filled(values: pa.Array) -> pa.Array:
    """Return strings, bytes or lists, null for what is empty."""
    length = pc.list_value_length if pa.types.is_list(values.type) else pc.binary_length
    return pc.if_else(pc.greater(length(values), 0), values, None)


def _struct(
    fields: Mapping[str, pa.Array], data_type: pa.StructType, is_null: pa.BooleanArray | None
) -> pa.StructArray:
    length = len(next(iter(fields.values())))
    children = [
        cast_nested(fields[field.name], field.type)
        if field.name in fields
        else pa.nulls(length, field.type)
        for field in data_type
    ]
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=is_null)
