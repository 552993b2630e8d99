"""Tables as text, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table with aligned columns: numbers to the right, None blank."""
    values = [tuple(row) for row in rows]
    cells = [tuple(header), *(tuple("" if value is None else str(value) for value in row) for row in values)]
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
