"""The style of each kind of thing: a colour, and a shape or a hatching beside it, so that nobody
needs the colour alone.

Levels are from yellow to black, leaders' reasons brown and green, reasons of rebalances lime to
teal, storms crimson.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLACK: Final = "#000000"
WHITE: Final = "#ffffff"


@dataclass(frozen=True)
class Style:
    """A style. `marker`, `hatch`: as Bokeh names them; without a marker it is a bar alone. `lasts`:
    it has an end. `height`: of the bar in its lane, which is 1 high. `lift`: of its middle above
    that of the lane.
    """

    colour: str
    marker: str = ""
    hatch: str = " "
    lasts: bool = True
    height: float = 0.5
    lift: float = 0.0


def _point(colour: str, marker: str, lift: float = 0.0) -> Style:
    return Style(colour, marker, lasts=False, lift=lift)


LEVELS: Final = {
    "under_replicated": Style("#f2cc0c", height=0.64),
    "at_min_isr": Style("#f28e2b", hatch="dot", height=0.5),
    "under_min_isr": Style("#d1260f", hatch="right_diagonal_line", height=0.36),
    "offline": Style(BLACK, height=0.22),
}
"""A worse level is drawn over a milder one, and is thinner: both can be seen."""

OF_BROKERS: Final = {
    **{kind: Style(style.colour, hatch=style.hatch, height=0.34) for kind, style in LEVELS.items()},
    "broker_gone": _point("#333333", "inverted_triangle", -0.34),
    "broker_listed": _point(WHITE, "triangle", -0.34),
    "broker_stale": _point("#cc79a7", "diamond", -0.34),
    "broker_stale_no_more": _point(WHITE, "diamond", -0.34),
    "broker_controlled_shutdown": _point("#8c510a", "circle", -0.34),
    "broker_fenced": _point("#333333", "square", -0.34),
    "broker_unfenced": _point(WHITE, "square", -0.34),
    "broker_registered": _point(WHITE, "hex", -0.34),
    "broker_unregistered": _point("#333333", "hex", -0.34),
    "broker_rack_changed": _point("#56b4e9", "circle", -0.34),
    "broker_address_changed": _point("#56b4e9", "square", -0.34),
}

REASONS: Final = {
    "unclean": _point("#d1260f", "star"),
    "offline": _point(BLACK, "square"),
    "failover": _point("#8c510a", "inverted_triangle"),
    "recovery": _point("#d8b365", "triangle"),
    "preferred": _point("#009e73", "circle"),
    "reassignment": _point("#b8e0b0", "diamond"),
    "unknown": _point(WHITE, "circle"),
}

REBALANCES: Final = {
    "member_joined": Style("#a6d608", "triangle"),
    "member_left": Style("#006d6f", "inverted_triangle"),
    "static_member_left": Style("#00b3b3", "square"),
    "subscription_changed": Style("#7a7a1f", "diamond"),
    "partitions_changed": Style("#e3ee9a", "circle"),
    "metadata_changed": Style("#c3b091", "triangle_pin"),
    "assignor_changed": Style("#4b5320", "hex"),
    "group_emptied": Style("#9ce6e6", "square_pin"),
    "converted": Style("#5fe0a8", "star"),
    "same_members": Style("#1c3b34", "plus"),
    "unknown": Style(WHITE, "circle"),
    "storm": Style("#b3005a", height=0.12, lift=-0.32),
    "crash_loop": Style("#ff4f8b", hatch="right_diagonal_line", height=0.12, lift=-0.44),
}

LAG: Final = {
    "group_behind": _point("#cc79a7", "inverted_triangle"),
    "group_behind_no_more": _point(WHITE, "triangle"),
}

MOVES: Final = {"coordinator_moved": _point("#56b4e9", "diamond")}

SETTINGS: Final = {
    "controller_elected": _point("#333333", "star"),
    "controller_lost": _point(WHITE, "star"),
    "quorum_voters_changed": _point("#cc79a7", "square"),
    "quorum_observers_changed": _point(WHITE, "square"),
    "quorum_behind": _point(WHITE, "inverted_triangle"),
    "feature_level_changed": _point("#56b4e9", "hex"),
    "config_set": _point("#a9b6f0", "triangle"),
    "config_changed": _point("#a9b6f0", "diamond"),
    "config_removed": _point("#a9b6f0", "inverted_triangle"),
    "acl_added": _point("#f2cc0c", "triangle_pin"),
    "acl_removed": _point("#f2cc0c", "square_pin"),
    "quota_changed": _point(WHITE, "circle"),
    "partitions_added": _point("#b8e0b0", "plus"),
    "replication_factor_changed": _point("#b8e0b0", "circle"),
}

MARKED: Final = {
    "change": _point("#333333", "inverted_triangle"),
    "window": Style("#b8d8f0", hatch="right_diagonal_line"),
}

STYLES: Final = {
    "brokers": OF_BROKERS,
    "isrs": LEVELS,
    "leaders": REASONS,
    "groups": REBALANCES,
    "lag": LAG,
    "coordinators": MOVES,
    "settings": SETTINGS,
    "marked": MARKED,
}
"""Section -> kind -> style. Kinds are drawn in this order."""

OTHER: Final = Style("#c9c9c9", "circle")
"""Of a kind that this version does not know."""


def style_of(section: str, kind: str) -> Style:
    """Return the style of a kind in a section."""
    return STYLES[section].get(kind, OTHER)


def words(kind: str) -> str:
    """Return a kind for people."""
    return kind.replace("_", " ").replace("isr", "ISR")
