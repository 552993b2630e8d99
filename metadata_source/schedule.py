"""The names and days of streams and polls."""

from __future__ import annotations

import secrets
from datetime import UTC, date, datetime, timedelta
from typing import Final

_START: Final = "%Y%m%dT%H%M%SZ"


def mint_stream(now: datetime, newest: str | None = None) -> str:
    """Name a new stream: its start in UTC to the second, then eight random hex digits; names sort
    by start.

    It sorts after the stream `newest`, whose name has a later start than `now` where a clock was
    ahead: then it is named a second after that.
    """
    start = now.astimezone(UTC)
    if newest is not None:
        start = max(
            start,
            datetime.strptime(newest.partition("-")[0], _START).replace(tzinfo=UTC)
            + timedelta(seconds=1),
        )
    return f"{start:{_START}}-{secrets.token_hex(4)}"


def poll_id(stream: str, n: int) -> str:
    """Name poll `n` of a stream. Twelve digits sort as text for 30,000 years of a poll a second."""
    return f"{stream}/{n:012d}"


def day_of(scheduled_ms: int) -> date:
    """Return the day, in UTC, that all rows of a poll have which is due then."""
    return datetime.fromtimestamp(scheduled_ms / 1000, UTC).date()
