"""The thresholds of how recording fares."""

from dataclasses import dataclass
from datetime import timedelta

POLLS_AT_LEAST = 10
"""The window has room for so many polls, whatever the configuration says."""

CROSSED = 3
"""The exit status if a threshold is crossed."""


@dataclass(frozen=True)
class Limits:
    """The thresholds, and the time before now whose polls and gaps are counted.

    `last_good_poll` None: two intervals and two minutes, since a batch may hold a minute of polls
    and takes some seconds to commit. `lake_bytes` None: any size.
    """

    window: timedelta = timedelta(hours=1)
    last_good_poll: timedelta | None = None
    failures: int = 3
    unanswered: int = 3
    failed_percent: int = 20
    late_percent: int = 10
    gaps: int = 0
    lost_offsets: int = 0
    behind: timedelta = timedelta(minutes=5)
    upkeep: timedelta = timedelta(hours=13)
    lake_bytes: int | None = None

    def window_of(self, interval: timedelta) -> timedelta:
        """The window, with room for some polls. `interval`: the longest one between two polls."""
        return max(self.window, POLLS_AT_LEAST * interval)
