"""How the text of an option becomes its value. Each reader raises ValueError, what is wrong with
the text in one line; whoever reads knows the option's name.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from metadata_source.kinds import KINDS
from metadata_source.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

METADATA_VERSIONS: Final = range(14)
ENRICHMENTS: Final = {
    "configs": "5m",
    "reassignments": "15s",
    "quorum": "1m",
    "elr": "1m",
    "fenced": "1m",
    "groups": "30s",
    "offsets": "1m",
    "transactions": "1m",
    "log_dirs": "10m",
}
"""Questions that can be asked beside metadata, and how often they are unless told. See
`metadata_source.enrichment`.
"""
MIN_INTERVAL_MS: Final = 100
_DAY_MS: Final = 24 * 3_600_000


def choice(choices: tuple[str, ...], text: str) -> str:
    """Read one of these words, in any case."""
    for each in choices:
        if text.lower() == each.lower():
            return each
    raise ValueError(f"{text!r} is none of {', '.join(choices)}")


def integer(minimum: int, text: str, maximum: int = 2**31 - 1) -> int:
    """Read a whole number between bounds."""
    number = whole_number(text)
    if number is None or not minimum <= number <= maximum:
        raise ValueError(f"{text!r} is not a whole number from {minimum} to {maximum}")
    return number


def whole_number(text: str) -> int | None:
    """Return a number in decimal digits, also with `_` between them; None for any other text."""
    return int(text) if re.fullmatch(r"-?(?=.{1,24}\Z)[0-9]+(_[0-9]+)*", text) else None


def duration(minimum: int, text: str) -> int:
    """Read a duration in milliseconds, from `minimum` to a day."""
    milliseconds = duration_ms(text)
    if not minimum <= milliseconds <= _DAY_MS:
        raise ValueError(f"{text!r} is not between {minimum} ms and 24 hours")
    return milliseconds


_DURATION: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[a-z]+)")
_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
}


def duration_ms(text: str) -> int:
    """Return a duration (`500ms`, `2 s`, `1.5 minutes`, `5m`) in ms. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match["unit"] not in _UNITS_MS:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 30s or 5m")
    return round(float(match["number"]) * _UNITS_MS[match["unit"]])


def questions(text: str) -> dict[str, int]:
    """Read what is asked beside metadata -> the least time between two askings, ms."""
    beats: dict[str, int] = {}
    for part in [] if text.lower() == "none" else text.split(","):
        name, with_beat, beat = (text.strip() for text in part.partition("="))
        question = name.lower()
        if question not in ENRICHMENTS:
            hint = did_you_mean(question, ENRICHMENTS, shown=repr)
            raise ValueError(f"{name!r} is none of {', '.join(ENRICHMENTS)}{hint and f': {hint}'}")
        if question in beats:
            raise ValueError(f"{question} is there twice")
        try:
            beats[question] = duration(
                MIN_INTERVAL_MS, beat if with_beat else ENRICHMENTS[question]
            )
        except ValueError as error:
            raise ValueError(f"{question}: {error}") from None
    return beats


def kind(text: str) -> str:
    """Read a kind of cluster (`metadata_source.kinds`)."""
    if text.lower() not in KINDS:
        hint = did_you_mean(text.lower(), KINDS, f"known are {', '.join(KINDS)}")
        raise ValueError(f"{text!r} is no kind of cluster; {hint}")
    return text.lower()


_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topics(text: str) -> tuple[str, ...]:
    """Read names of topics, comma-separated."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if not _TOPIC.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a topic's name; patterns go into topicsPattern")
    return names


def pattern(text: str) -> str:
    """Read a regular expression. The engine that matches (RE2) has the last word on it."""
    # Imported here to keep the module light.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        # Alone first: `a)|(b` is none, but would become one between the brackets of the other.
        for each in (text, whole_name(text)):
            pc.match_substring_regex(pa.array([""]), each)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{text!r} is not a regular expression of RE2: {error}") from None
    return text


def whole_name(pattern: str) -> str:
    r"""Return the expression that matches `pattern` against a whole name (RE2's ``\A``, ``\z``)."""
    return rf"\A(?:{pattern})\z"


_SERVER: Final = re.compile(
    r"\[(?P<ip6>[0-9A-Fa-f:.%]+)\]:(?P<port6>\d+)|(?P<host>[^\s:/@]+):(?P<port>\d+)"
)


def servers(text: str) -> tuple[tuple[str, int], ...]:
    """Read hosts and ports. A comma at the end is taken, as clients of Kafka do."""
    if "@" in text:
        # Not shown: there may be a password in it.
        raise ValueError("not host:port, comma-separated, without a user in it")
    found: dict[tuple[str, int], None] = {}
    for server in (part.strip() for part in text.rstrip().removesuffix(",").split(",")):
        match = _SERVER.fullmatch(server)
        port = int(match["port"] or match["port6"]) if match else 0
        if match is None or not 0 < port < 65_536:
            raise ValueError(f"{server!r} is not host:port")
        found[match["host"] or match["ip6"], port] = None
    return tuple(found)


def url(text: str) -> str:
    """Read the URL of a token endpoint."""
    try:
        parts = urlsplit(text)
        is_one = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        is_one = False
    if not is_one or "@" in parts.netloc:
        # Not shown: there may be a password in it.
        raise ValueError("not a URL such as https://host/path, without a user in it")
    return text


_EXTENSION: Final = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x20-\x7e]+)")


def extensions(text: str) -> tuple[tuple[str, str], ...]:
    """Read SASL extensions; `auth` is where the token is (RFC 7628)."""
    matches = [_EXTENSION.fullmatch(part.strip()) for part in text.split(",")]
    pairs = tuple(
        (match["name"], match["value"]) for match in matches if match and match["name"] != "auth"
    )
    if len(dict(pairs)) != len(matches):
        raise ValueError("not name=value, comma-separated, each name of letters and there once")
    return pairs


def clusters(text: str) -> dict[str, Any]:
    """Read aliases -> what JSON has for each."""

    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for name, value in pairs:
            if name in names:
                raise ValueError(f"{name!r} is there twice")
            names[name] = value
        return names

    try:
        found = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object of aliases")  # noqa: TRY004 - of a text
    if not found:
        raise ValueError("no cluster in it")
    return found


def places(text: str) -> dict[str, dict[int, int]]:
    """Read up to which offset logs were read, by alias and partition."""
    try:
        return {
            alias: {int(partition): int(offset) for partition, offset in offsets.items()}
            for alias, offsets in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError('not JSON such as {"alias": {"0": 42}}') from None


def starting(text: str) -> str | int:
    """Read an end of a log, or a time, in ms since 1970."""
    if text.lower() in {"earliest", "latest"}:
        return text.lower()
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither earliest, latest, a time such as 2026-11-22T09:00:00Z nor "
            "milliseconds since 1970"
        ) from None
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no zone: end it with Z or an offset such as +01:00")
    return int(time.timestamp() * 1000)


_STREAM: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


def stream(text: str) -> str:
    """Read the name of a stream of polls."""
    if not _STREAM.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a stream, such as 20261101T110000Z-0123abcd")
    return text


_TOKEN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def token(text: str) -> str:
    """Read the name of a run."""
    if not _TOKEN.fullmatch(text):
        raise ValueError(f"{text!r} is not 1 to 64 letters, digits or '-'")
    return text


def ids(text: str) -> dict[str, str]:
    """Read cluster ids by alias."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict) and all(isinstance(each, str) for each in found.values()):
            return found
    raise ValueError('not JSON such as {"alias": "id"}')


def two_times(text: str) -> tuple[float, float]:
    """Read from when until when, s since 1970."""
    times: list[datetime] = []
    with suppress(ValueError):
        times = [datetime.fromisoformat(time) for time in text.split("/")]
    if len(times) != 2 or None in (time.tzinfo for time in times):
        raise ValueError(
            f"{text!r} is not two times with a zone, such as 2026-11-02T11:00:00Z, and a / between"
        )
    return times[0].timestamp(), times[1].timestamp()
