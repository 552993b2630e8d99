"""Times of the page: milliseconds since 1970, in UTC, and the texts that say the bounds of one."""

from __future__ import annotations

from datetime import UTC, datetime


def ms(at: object) -> float | None:
    """Return a time as milliseconds since 1970; one without a zone is in UTC. None stays None."""
    if not isinstance(at, datetime):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000


def text(at: float) -> str:
    """Return milliseconds since 1970 as a time in UTC, to the millisecond."""
    whole, rest = divmod(round(at), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}.{rest:03}"


def between(after: float | None, before: float | None, day: str = "") -> str:
    """Return both bounds of a time as a text, without dates that are `day` or said before."""

    def short(at: float) -> str:
        return text(at).removeprefix(f"{day} ")

    if before is None:
        return "" if after is None else f"after {short(after)}"
    if after is None:
        return f"by {short(before)}"
    first, last = short(min(after, before)), short(max(after, before))
    if first == last:
        return f"at {first}"
    return (
        f"between {first} and {last[11:] if len(last) > 12 and first[:11] == last[:11] else last}"
    )


def day_of(since: float, until: float) -> str:
    """Return the date that all times of a window have, else an empty text."""
    first = text(since)[:10]
    return first if first == text(until)[:10] else ""
