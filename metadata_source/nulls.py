"""Nulls where Kafka's definitions allow none, in answers that kafka-python decoded: it takes them
for values.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def null_field(response: Any, version: int) -> str | None:
    """Return the path of the first field that is null and may not be, such as `results[0].configs`;
    None if all are as they should be.

    `response`: of a message class of kafka-python, whose fields know Kafka's definitions
    (`nullableVersions`).
    """
    message: Any = type(response)
    return next(_nulls(response, _of_message(message, version), ""), None)


_TEXTS: Final = frozenset({"string", "bytes", "records"})


class _Field(NamedTuple):
    """A field that has something to look at. `has_texts`: its entries are strings, or bytes.
    `inner`: the fields of its struct, or of the structs that are its entries (`has_structs`).
    """

    name: str
    may_be_null: bool
    has_texts: bool
    has_structs: bool
    inner: tuple[_Field, ...]


@cache
def _of_message(response: Any, version: int) -> tuple[_Field, ...]:
    return tuple(_of_struct(response.fields, version))


def _of_struct(fields: Mapping[str, Any], version: int) -> Iterator[_Field]:
    for name, field in fields.items():
        # A tagged field may be left out.
        if not field.for_version_q(version) or field.tag is not None or not _can_be_null(field):
            continue
        inner = tuple(_of_struct(field.fields, version)) if field.fields else ()
        may_be_null, has_structs = field.nullable_for_version_q(version), field.is_struct_array()
        has_texts = field.is_array() and not has_structs and _can_be_null(field.array_of)
        if inner or has_texts or not may_be_null:
            yield _Field(name, may_be_null, has_texts, has_structs, inner)


def _can_be_null(field: Any) -> bool:
    """Whether the wire has a null of the field's type. kafka-python also shows some values as None:
    a UUID of zeros, authorized operations that were not asked for.
    """
    return field.is_struct() or field.is_array() or field.type_str in _TEXTS


def _nulls(values: Any, fields: tuple[_Field, ...], prefix: str) -> Iterator[str]:
    for name, may_be_null, has_texts, has_structs, inner in fields:
        value = getattr(values, name)
        if value is None:
            if not may_be_null:
                yield f"{prefix}{name}"
        elif has_texts and None in value:
            yield f"{prefix}{name}[{value.index(None)}]"
        elif inner:
            for at, each in enumerate(value) if has_structs else ((None, value),):
                yield from _nulls(
                    each, inner, f"{prefix}{name}." if at is None else f"{prefix}{name}[{at}]."
                )
