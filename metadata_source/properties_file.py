"""A file of Java's properties as names and texts (java.util.Properties.load): what Kafka's own
tools take by `--command-config`, and in its simplest form, `name=value`, what librdkafka's do.

Errors do not show what the file holds: it may hold a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = re.compile(r"(?:\\.|[^\\=:\s])*", re.DOTALL)
_JOINT: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(u)|(.?))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Return names and values. Raises ValueError, one line without a value, for a name with two
    values (of which Java keeps the last without a word), and for `\u` without four digits.
    """
    found: dict[str, str] = {}
    for number, line in _lines(text):
        end = _end(_NAME, line, 0)
        parts = line[:end], line[_end(_JOINT, line, end) :]
        try:
            name, value = (_ESCAPE.sub(_unescaped, part) for part in parts)
        except ValueError:
            raise ValueError(f"line {number}: \\u without four hexadecimal digits") from None
        if found.setdefault(name, value) != value:
            raise ValueError(f"{name} is given twice (line {number})")
    return found


def _end(pattern: re.Pattern[str], line: str, start: int) -> int:
    match = pattern.match(line, start)
    return start if match is None else match.end()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that holds something, with the number of its first one: one that ends with a
    backslash (with an odd number of them) continues in the next, whose leading blanks are no part
    of it.
    """
    natural = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    for number, begin in natural:
        line = begin.lstrip(" \t\f")
        if line in {"", "\\"} or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(natural, (0, ""))[1].lstrip(" \t\f")
        yield number, line


def _unescaped(match: re.Match[str]) -> str:
    digits, is_broken, other = match.groups()
    if is_broken:
        raise ValueError
    return chr(int(digits, 16)) if digits else _CONTROLS.get(other, other)
