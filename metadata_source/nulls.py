"""Nulls where Kafka's definitions allow none, in answers that kafka-python decoded: it takes them for values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


def null_field(response: Any, version: int) -> str | None:
    """Return the path of the first field that is null and may not be, such as `results[0].configs`; None if all are
    as they should be.

    `response`: of a message class of kafka-python, whose fields know Kafka's definitions (`nullableVersions`).
    """
    return next(_nulls(response, version, ""), None)


_TEXTS: Final = frozenset({"string", "bytes", "records"})


def _can_be_null(field: Any) -> bool:
    """Whether the wire has a null of the field's type. kafka-python also shows some values as None: a UUID of zeros,
    authorized operations that were not asked for.
    """
    return field.is_struct() or field.is_array() or field.type_str in _TEXTS


def _nulls(values: Any, version: int, prefix: str) -> Iterator[str]:
    for name, field in values.fields.items():
        # A tagged field may be left out.
        if not field.for_version_q(version) or field.tag is not None or not _can_be_null(field):
            continue
        value = getattr(values, name)
        if value is None:
            if not field.nullable_for_version_q(version):
                yield f"{prefix}{name}"
        elif field.is_struct():
            yield from _nulls(value, version, f"{prefix}{name}.")
        elif field.is_struct_array():
            for at, each in enumerate(value):
                yield from _nulls(each, version, f"{prefix}{name}[{at}].")
        elif field.is_array():
            yield from (f"{prefix}{name}[{at}]" for at, each in enumerate(value) if each is None)
