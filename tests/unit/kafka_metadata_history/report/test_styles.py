"""How each kind looks: two that are not one thing differ, also without their hue."""

import re
from itertools import combinations, pairwise

from kafka_metadata_history.report import styles
from schemas.gold import LEADER_CHANGES, LEVELS
from schemas.groups import REASONS


def test_every_kind_has_a_look() -> None:
    known = LEADER_CHANGES.constraints["reason_known"]
    reasons = styles.REASONS.keys() - {"unclean"}
    assert tuple(styles.LEVELS) == LEVELS
    assert all(f"'{reason}'" in known for reason in reasons)
    # An epoch that rose under one leader is no change of it, and is not drawn.
    assert set(re.findall(r"'(\w+)'", known)) - reasons == {"isr_shrink"}
    assert tuple(styles.REBALANCES) == (*REASONS, "unknown", "storm", "crash_loop")


def rgb(colour: str) -> list[float]:
    return [part / 255 for part in bytes.fromhex(colour.removeprefix("#"))]


def apart(one: str, other: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(rgb(one), rgb(other), strict=True))


def test_one_colour_has_one_meaning() -> None:
    """Black alone is shared, without a leader, as a level and as a reason; and white, unknown."""
    reasons = {kind: own for kind, own in styles.REASONS.items() if kind != "unclean"}
    storms = {kind: styles.REBALANCES[kind] for kind in ("storm", "crash_loop")}
    rebalances = {kind: own for kind, own in styles.REBALANCES.items() if kind not in storms}
    groups = [
        {own.colour for own in group.values()}
        for group in (styles.LEVELS, reasons, rebalances, storms)
    ]
    assert [len(group) for group in groups] == [4, 6, 11, 2]
    own = [group - {styles.BLACK, styles.WHITE} for group in groups]
    for one, other in combinations(own, 2):
        assert min(apart(x, y) for x in one for y in other) > 0.015
    for group in own[2:]:
        assert min(apart(x, y) for x, y in combinations(group, 2)) > 0.03


def test_levels_darken() -> None:
    """So that they can be told apart without seeing their hue."""
    lightness = [
        sum(w * v for w, v in zip((0.3, 0.59, 0.11), rgb(own.colour), strict=True))
        for own in styles.LEVELS.values()
    ]
    assert all(milder - worse > 0.12 for milder, worse in pairwise(lightness))


def test_no_two_kinds_of_a_figure_differ_by_colour_alone() -> None:
    for kinds in styles.STYLES.values():
        shapes = [
            (own.marker, own.hatch, own.height, own.colour == styles.WHITE)
            for own in kinds.values()
        ]
        if kinds is not styles.OF_BROKERS:
            assert len(set(shapes)) == len(shapes)
