"""Text for people: what names of a cluster cannot do to a terminal, and tables."""

from __future__ import annotations

import codecs
import difflib
import io
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TextIO

LONGEST: Final = 500
"""So many characters are shown of a text of any length: a broker's error, a cell, a row."""
_PLAIN: Final = {"→": "->", "≥": ">=", "≤": "<=", "─": "-", "…": "..."}
"""What our own tables draw, in ASCII."""


def printable(text: str) -> str:
    r"""Return a text with escapes (`\x1b`, `\n`, `\u202e`) for what is not shown as itself: control
    characters, those that change the direction of writing, line ends, spaces of other kinds. Names
    of groups, clients and racks may hold any.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def escaped(text: str) -> str:
    r"""Return JSON with its own escapes (`\u009b`) for what `printable` escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def let_write_all(*streams: TextIO) -> None:
    r"""Let streams write what their encoding lacks in ASCII: our own marks (`->`), the rest as
    JSON's escapes. A terminal of ISO-8859-1 has no arrow.
    """
    codecs.register_error("kafka_metadata_history", _in_ascii)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="kafka_metadata_history")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each) or json.dumps(each)[1:-1] for each in lacking), error.end


def counted(number: int, noun: str) -> str:
    """Return `1 topic`, `2 topics`, `1,000 topics`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(
    name: str,
    known: Iterable[str],
    otherwise: str = "",
    shown: Callable[[str], str] = str,
    likeness: float = 0.6,
) -> str:
    """Return `did you mean NAME?` of the most like known name, if it is as like as `likeness`."""
    close = difflib.get_close_matches(name, list(known), 1, likeness)
    return f"did you mean {shown(close[0])}?" if close else otherwise


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table's lines, columns aligned: numbers to the right, None blank, all printable."""
    values = [tuple(row) for row in rows]
    cells = [
        tuple(map(printable, header)),
        *(tuple("" if value is None else printable(str(value)) for value in row) for row in values),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [any(isinstance(row[index], int) for row in values) for index in range(len(widths))]
    lines = [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
