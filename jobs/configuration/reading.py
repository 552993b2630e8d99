"""Readers of the values of the configuration file, which sections share."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from metadata_source.options.cluster import field_of
from metadata_source.options.readers import duration_ms
from metadata_source.text import did_you_mean
from metadata_source.yaml_file import kind_of

DAYS = re.compile(r"(\d+)\s*(?:d|days?)")
URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
"""The beginning of what is no folder of this machine."""


def duration(text: str) -> timedelta:
    """Days (`7d`, `2 days`), or what the data source's options take for a duration. Raises
    ValueError.
    """
    days = DAYS.fullmatch(text.strip().lower())
    try:
        return timedelta(days=int(days[1])) if days else timedelta(milliseconds=duration_ms(text))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than {timedelta.max.days}d") from None


def read(name: str, value: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a mapping, and of those in it, by fields. `name` is empty for the file."""
    given = as_mapping(name or "the file", value)
    within = f"{name}." if name else ""
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known, f"known here: {', '.join(known)}", shown=within.__add__)
            raise ValueError(f"unknown key {within}{key}; {hint}")
    found: dict[str, Any] = {}
    for key, item in given.items():
        match known[key]:
            case reader, _:
                found[field_of(key)] = reader(f"{within}{key}", item)
            case section:
                found[key] = read(f"{within}{key}", item or {}, section)
    return found


def each_of(reader: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    """Of a mapping with keys of any name."""
    return lambda name, value: {
        key: reader(f"{name}.{key}", item) for key, item in as_mapping(name, value).items()
    }


def as_mapping(name: str, value: Any) -> Mapping[str, Any]:
    """A mapping with names as keys."""
    if isinstance(value, Mapping) and None in value:
        raise ValueError(f"{name}: a name in it is nothing (null): quote it")
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is not a mapping of names to values")
    return value


def as_text(name: str, value: Any) -> str:
    """A text as it is written, or a list of them; empty where there is nothing."""
    if isinstance(value, list):
        return ",".join("" if item is None else str(item) for item in value)
    if value is None or isinstance(value, str):
        return value or ""
    # Not shown: it may be a secret that was meant to be a reference.
    raise ValueError(f"{name}: {kind_of(value)} is not text or a whole number")


def as_duration(name: str, value: Any) -> timedelta:
    """A duration."""
    try:
        return duration(str(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
