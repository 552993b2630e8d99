"""Legends beside the figures: HTML with a small picture of each look, so that no legend hides a
mark.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.report.looks import LEVELS, LOOKS, OTHER, Look, words

if TYPE_CHECKING:
    from collections.abc import Collection

_EDGE: Final = 'stroke="#333" stroke-width="1"'
_SHAPES: Final = {
    "circle": '<circle cx="9" cy="9" r="5.5"/>',
    "square": '<rect x="4" y="4" width="10" height="10"/>',
    "square_pin": '<path d="M3 3Q9 6 15 3Q12 9 15 15Q9 12 3 15Q6 9 3 3Z"/>',
    "triangle": '<path d="M9 3L15 14H3Z"/>',
    "triangle_pin": '<path d="M9 2Q11 9 16 15Q9 12 2 15Q7 9 9 2Z"/>',
    "inverted_triangle": '<path d="M9 15L15 4H3Z"/>',
    "diamond": '<path d="M9 2L14 9L9 16L4 9Z"/>',
    "hex": '<path d="M5 3H13L16 9L13 15H5L2 9Z"/>',
    "star": '<path d="M9 1L11 6.5H17L12.3 10L14 16L9 12.5L4 16L5.7 10L1 6.5H7Z"/>',
    "plus": '<path d="M7 3H11V7H15V11H11V15H7V11H3V7H7Z"/>',
}
_HATCHES: Final = {
    "dot": (
        '<g fill="#fff" stroke="none"><circle cx="4" cy="9" r="1.2"/><circle cx="10" cy="9" '
        'r="1.2"/><circle cx="16" cy="9" r="1.2"/><circle cx="22" cy="9" r="1.2"/></g>'
    ),
    "right_diagonal_line": (
        '<path d="M2 13L8 5M8 13L14 5M14 13L20 5M20 13L26 5" stroke="#fff" fill="none"/>'
    ),
}


def legend(section: str, kinds: Collection[str]) -> str:
    """Return the legend of a section: of the kinds that are drawn, and of thick and thin."""
    if section == "levels":
        keys = [
            _key(
                '<rect x="1" y="3" width="24" height="12" fill="#6e6e6e"/>', "full: surely so many"
            ),
            _key(
                '<rect x="1" y="3" width="24" height="12" fill="#6e6e6e" fill-opacity="0.3"/>',
                "light: at most",
            ),
        ]
        return _list(keys)
    looks = {kind: own for kind, own in LOOKS[section].items() if kind in kinds}
    looks |= dict.fromkeys(sorted(set(kinds) - looks.keys()), OTHER)
    keys = [_key(_picture(own), words(kind)) for kind, own in looks.items()]
    if any(own.lasts for own in looks.values()):
        keys.append(_key(_THICK, "thick: surely then; thin: may have been"))
    else:
        keys.append(_key(_LINE, "line: at some time in it; a number: so many at once"))
    return _list(keys)


_THICK: Final = (
    '<rect x="1" y="7" width="24" height="4" fill="#9aa0a6"/><rect x="7" y="3" width="12" '
    'height="12" fill="#6e6e6e"/>'
)
_LINE: Final = (
    '<path d="M1 9H20" stroke="#333" stroke-width="2"/><circle cx="20" cy="9" r="5" '
    'fill="#6e6e6e"/>'
)


def _list(keys: list[str]) -> str:
    return f'<ul class="legend">{"".join(keys)}</ul>'


def _key(picture: str, text: str) -> str:
    return f'<li><svg width="26" height="18" aria-hidden="true">{picture}</svg>{escape(text)}</li>'


def _picture(look: Look) -> str:
    if look.marker:
        return (
            f'<g transform="translate(4 0)" fill="{look.colour}" {_EDGE}>{_SHAPES[look.marker]}</g>'
        )
    height = (
        max(5, round(22 * look.height)) if look in LEVELS.values() else 10 if look.lift == 0 else 5
    )
    top = (18 - height) / 2
    bar = f'<rect x="1" y="{top}" width="24" height="{height}" fill="{look.colour}" {_EDGE}/>'
    return bar + _HATCHES.get(look.hatch, "")
