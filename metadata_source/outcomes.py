"""What asking for something came to, in one stable word, or two and one line: `enriched` in the headers of bronze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from metadata_source.errors import PollError

OK: Final = "ok"
NOT_ALLOWED: Final = "not_allowed"
NOT_SUPPORTED: Final = "not_supported"


def failed(problem: str) -> str:
    """Return the outcome of what got no answer, as one line."""
    return f"failed: {' '.join(problem.split())}"


def outcome_of(error: PollError) -> str:
    """Return what an error came to."""
    return {"authorization": NOT_ALLOWED, "unsupported_version": NOT_SUPPORTED}.get(error.kind) or failed(error.problem)
