"""Transactional ids as rows have them: cut if they are long, and their patterns."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

LONGEST: Final = 255
"""Characters of an id, or of a pattern, that is kept whole. Kafka takes 32,767 bytes."""
CUT: Final = "…"
"""In an id that was cut."""
_KEPT: Final = 200
_RANDOM: Final = re.compile(
    r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|(?<![0-9A-Za-z])[0-9A-Fa-f]{16,}"
)
_COUNTED: Final = re.compile(r"[-_.:*0-9]+\Z")
ANY: Final = "*"


def shortened(text: str | None) -> str | None:
    """Return a text as it is if it has 255 characters at most, else its first 200, an ellipsis and
    32 hexadecimal digits of its SHA-256: texts that differ stay different.
    """
    if text is None or len(text) <= LONGEST:
        return text
    return f"{text[:_KEPT]}{CUT}{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@lru_cache(maxsize=10_000)
def pattern_of(transactional_id: str) -> str:
    """Return what ids of one application have in common: uuids and runs of 16 or more hexadecimal
    digits become `*`, and numbers at the end go, with `*` and what joins them.

    >>> pattern_of("app-0_12"), pattern_of("app-1b4e28ba-2fa1-11d2-883f-0016d3cca427-3")
    ('app', 'app')
    """
    text = _RANDOM.sub(ANY, shortened(transactional_id) or "")
    return _COUNTED.sub("", text) or ANY
