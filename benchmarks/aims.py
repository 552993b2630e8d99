"""How an aim is printed beside what was measured."""

from __future__ import annotations

from typing import Literal


def aim(
    what: str, value: float, relation: Literal[">=", "<="], wanted: float, unit: str = "x"
) -> str:
    """Return the line of one aim: `aim: >= 15x, measured 51x: met (kafka-python all in sync)`."""
    met = value >= wanted if relation == ">=" else value <= wanted
    return (
        f"aim: {relation} {wanted:g}{unit}, measured {value:.3g}{unit}: "
        f"{'met' if met else 'MISSED'} ({what})"
    )
