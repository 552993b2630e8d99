"""One meaning for a colour, in every picture: levels from yellow to black, brokers blue to pink, leaders' reasons brown
and green.

Reasons of rebalances are lime to teal, storms crimson, members pale blue-grey unless they joined. Counts are grey, and
hatching is what nobody knows. Chosen so that those who see red and green alike can tell them apart: within each group
the lightness differs too.
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
    "isr_shrink": "#0b6623",
    "unknown": "#ffffff",
}

UNKNOWN = REASON["unknown"]

REBALANCE = {
    "member_joined": "#a6d608",
    "member_left": "#006d6f",
    "static_member_left": "#00b3b3",
    "subscription_changed": "#7a7a1f",
    "partitions_changed": "#e3ee9a",
    "metadata_changed": "#c3b091",
    "assignor_changed": "#4b5320",
    "group_emptied": "#9ce6e6",
    "converted": "#5fe0a8",
    "same_members": "#1c3b34",
    "unknown": UNKNOWN,
}
"""Why a group rebalanced: the first of its reasons; unknown: nothing is known from before."""

MEMBER = {
    "static_restart": "#e6b8c8",
    "partitions_changed_hands": "#8fa3ad",
    "as_before": "#eceff1",
    "not_known_from_before": UNKNOWN,
}
"""The effect on a member of the rebalance that a stretch began with; who joined has the colour of the reason."""

STORM = {"storm": "#b3005a", "crash_loop": "#ff4f8b"}

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
    """The label of a bar that says who led, or coordinated -> its colour."""
    return {"no leader": NONE, **{f"broker {broker}": style.colour for broker, style in brokers.items()}}
