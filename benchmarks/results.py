"""Measurements: values, the runs behind them, how both are shown, and the page that keeps them."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.aims import AIMS, BY_NAME
from metadata_source.text import text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE: Final = Path(__file__).parent / "RESULTS.md"
BEGIN: Final = "<!-- results: python -m benchmarks --keep -->\n\n"
END: Final = "\n\n<!-- /results -->"
HEADINGS: Final = ("name", "value", "aim", "", "runs", "least", "most", "of")


@dataclass(frozen=True)
class Measured:
    """A value, and the runs that it was taken from, in their order."""

    value: float
    runs: tuple[float, ...]


Results = dict[str, Measured]
"""By name."""
Say = Callable[[str], None]
"""Tells whoever waits what was found on the way."""


def median(runs: Sequence[float]) -> Measured:
    """Return the median of runs."""
    return Measured(statistics.median(runs), tuple(runs))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of `values` do not exceed, between two in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


def as_json(results: Mapping[str, Measured]) -> dict[str, Any]:
    """Return name -> value, unit, aim and runs, in the order of the aims."""
    return {
        aim.name: {
            "value": rounded(results[aim.name].value),
            "unit": aim.unit,
            "aim": aim.wanted,
            "runs": [rounded(run) for run in results[aim.name].runs],
        }
        for aim in AIMS
        if aim.name in results
    }


def table(results: Mapping[str, Measured]) -> list[str]:
    """Return the lines of a table of what was measured beside the aims, in their order."""
    return text_table(HEADINGS, _rows(results))


def _rows(results: Mapping[str, Measured]) -> Iterator[tuple[object, ...]]:
    for name in (aim.name for aim in AIMS if aim.name in results):
        aim, measured = BY_NAME[name], results[name]
        yield (
            name,
            f"{rounded(measured.value):g}",
            aim if aim.wanted is not None else aim.unit,
            aim.verdict(measured.value),
            len(measured.runs),
            f"{rounded(min(measured.runs)):g}",
            f"{rounded(max(measured.runs)):g}",
            aim.says,
        )


def kept(page: str, results: Mapping[str, Measured]) -> str:
    """Return the page with a row for each result, in the order of the aims; others stay."""
    (before, rest), of = page.split(BEGIN), machine()
    table, after = rest.split(END)
    heading, rule, *lines = table.splitlines()
    rows = {line.split("`")[1]: line for line in lines}
    for name, measured in results.items():
        aim, value = BY_NAME[name], f"{rounded(measured.value):g} {BY_NAME[name].unit}".strip()
        cells = (f"`{name}`", value, str(aim), aim.verdict(measured.value), of, aim.says)
        rows[name] = f"| {' | '.join(cells)} |"
    ordered = [rows[aim.name] for aim in AIMS if aim.name in rows]
    return "".join([before, BEGIN, "\n".join([heading, rule, *ordered]), END, after])


def machine() -> str:
    """Return what a result is of: the machine, and the commit."""
    command = ["git", "describe", "--always", "--dirty=, changed"]
    commit = subprocess.run(
        command, cwd=PAGE.parent, capture_output=True, text=True, check=True
    ).stdout.strip()
    return f"{os.cpu_count()} cores, {commit}"


def rounded(value: float) -> float:
    """Return the value to four digits, whole numbers whole."""
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))
