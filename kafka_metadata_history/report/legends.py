"""Legends beside the figures, so that none hides a mark: HTML with a picture of each style."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.report.styles import LEVELS, OTHER, STYLES, Style, words

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
    styles = {kind: own for kind, own in STYLES[section].items() if kind in kinds}
    styles |= dict.fromkeys(sorted(set(kinds) - styles.keys()), OTHER)
    keys = [_key(_picture(own), words(kind)) for kind, own in styles.items()]
    if any(own.lasts for own in styles.values()):
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


def _picture(style: Style) -> str:
    if style.marker:
        shape = _SHAPES[style.marker]
        return f'<g transform="translate(4 0)" fill="{style.colour}" {_EDGE}>{shape}</g>'
    height = (
        max(5, round(22 * style.height))
        if style in LEVELS.values()
        else 10
        if style.lift == 0
        else 5
    )
    top = (18 - height) / 2
    bar = f'<rect x="1" y="{top}" width="24" height="{height}" fill="{style.colour}" {_EDGE}/>'
    return bar + _HATCHES.get(style.hatch, "")
