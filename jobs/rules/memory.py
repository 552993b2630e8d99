"""The memory of folds from round to round, as JSON: dataclasses, by the types of their fields.

A dataclass says the version of its JSON as `VERSION`; the first one need not be said, and is not
written. Another version is refused: a step of an upgrade of the lake writes it again.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from metadata_source.errors import KafkaMetadataHistoryError

_VERSION = "memory_version"


class MemoryVersionError(KafkaMetadataHistoryError, ValueError):
    """Raised where a memory was written by another version of the program. One line."""


def dumps(value: Any) -> str:
    """`value` as the text that tables keep."""
    return json.dumps(to_json(value), separators=(",", ":"))


def loads(kind: Any, text: str) -> Any:
    """The value of type `kind` that `dumps` was called with."""
    return from_json(kind, json.loads(text))


def to_json(value: Any) -> Any:
    """A dataclass, or a value of one, as JSON can carry it. A dict whose keys are no text becomes
    pairs, in order.

    Fields that have their default are left out.
    """
    if is_dataclass(value):
        kind: Any = type(value)
        told = (
            (name, getattr(value, name), default) for name, (_, default) in _fields(kind).items()
        )
        of_version = {} if _version(kind) == 1 else {_VERSION: _version(kind)}
        return of_version | {name: to_json(item) for name, item, default in told if item != default}
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case tuple() | list():
            return [to_json(each) for each in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: to_json(of_key) for key, of_key in value.items()}
        case Mapping():
            return [[to_json(key), to_json(value[key])] for key in sorted(value)]
    return value


def from_json(kind: Any, value: Any) -> Any:
    """The value of type `kind` that `to_json` was called with. Raises MemoryVersionError."""
    if value is None:
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        types, written, known = _fields(kind), value.get(_VERSION, 1), _version(kind)
        items = {name: item for name, item in value.items() if name != _VERSION}
        if written != known or not items.keys() <= types.keys():
            raise MemoryVersionError(
                f"the lake has a {kind.__module__}.{kind.__qualname__} in version {written} of "
                f"{', '.join(items)}; this program knows version {known} of {', '.join(types)}: "
                "run the program that has written it, or a newer one"
            )
        return kind(**{name: from_json(types[name][0], item) for name, item in items.items()})
    if kind is bytes:
        return bytes.fromhex(value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    if kind is timedelta:
        return timedelta(seconds=value)
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        return kind(*value)
    origin, of = get_origin(kind), get_args(kind)
    if origin is tuple:
        return tuple(value)
    if origin in (dict, Mapping):
        pairs = value.items() if isinstance(value, Mapping) else value
        return {from_json(of[0], key): from_json(of[1], of_key) for key, of_key in pairs}
    # Of `X | None`: X.
    return from_json(of[0], value) if type(None) in of else value


def _version(kind: Any) -> int:
    version: int = getattr(kind, "VERSION", 1)
    return version


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, Any]]:
    """The type of each field of a dataclass, and its default."""
    types = get_type_hints(kind)
    return {
        each.name: (
            types[each.name],
            each.default if each.default_factory is MISSING else each.default_factory(),
        )
        for each in fields(kind)
    }
