"""Measurements: values, the runs behind them, and how both are shown."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.rounds.aims import AIMS, BY_NAME
from metadata_source.text import text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HEADINGS = ("name", "value", "aim", "", "runs", "least", "most", "of")


@dataclass(frozen=True)
class Measured:
    """A value, and the runs that it was taken from, in their order."""

    value: float
    runs: tuple[float, ...]


Results = dict[str, Measured]
"""By name."""


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
            f"{aim.relation} {aim.wanted:g} {aim.unit}".rstrip(),
            "met" if aim.is_met(measured.value) else "MISSED",
            len(measured.runs),
            f"{rounded(min(measured.runs)):g}",
            f"{rounded(max(measured.runs)):g}",
            aim.says,
        )


def rounded(value: float) -> float:
    """Return the value to four digits, whole numbers whole."""
    return float(f"{value:.4g}") if abs(value) < 10_000 else float(round(value))
