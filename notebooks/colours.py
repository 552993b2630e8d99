"""One meaning for a colour, in every picture: levels from yellow to black, brokers blue to pink, reasons brown and green.

Counts are grey, and hatching is what nobody knows. Chosen so that those who see red and green alike can tell them apart:
within each group the lightness differs too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, product, repeat

from schemas.gold import LEVELS

NONE = "#000000"
"""No leader."""

LEVEL = dict(zip(LEVELS, ("#f2cc0c", "#f28e2b", "#d1260f", NONE), strict=True))

REASON = {
    "failover": "#8c510a",
    "offline": NONE,
    "recovery": "#d8b365",
    "preferred": "#009e73",
    "reassignment": "#b8e0b0",
    "unknown": "#ffffff",
}

COUNT = "#6e6e6e"
LIGHT_COUNT = "#c9c9c9"
FRAME = "#555555"

LEFT = {"none in sync": NONE, "one": "#4f4f4f", "two": "#9a9a9a", "three or more": "#d5d5d5"}
"""Replicas that are left in sync: a count."""

_BROKER = ("#0072b2", "#cc79a7", "#56b4e9", "#332288", "#aa4499", "#a9b6f0")
_LINE = ("-", "--", ":")


@dataclass(frozen=True)
class Style:
    """How a broker looks. `line` tells brokers of one colour apart, where lines are drawn."""

    colour: str
    line: str


OTHER = Style(LIGHT_COUNT, "-")
"""Brokers beyond those that can be told apart."""


def of_brokers(brokers: Iterable[int]) -> dict[int, Style]:
    """Broker id -> its style, by the order of ids among all `brokers` of a cluster: the same in each picture of it."""
    styles = [Style(colour, line) for line, colour in product(_LINE, _BROKER)]
    return dict(zip(sorted(set(brokers)), chain(styles, repeat(OTHER)), strict=False))


def leaders(brokers: Mapping[int, Style]) -> dict[str, str]:
    """What a bar that says who led is called -> its colour."""
    return {"no leader": NONE, **{f"broker {broker}": style.colour for broker, style in brokers.items()}}
