"""When the next batch of a stream begins: at once where there is news, else after a while."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from metadata_source.recorder.batches import BATCH_BYTES
from metadata_source.recorder.news import News

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metadata_source.recorder.spool import Entry

FOLLOWS_S: Final = 5.0
"""How long an entry waits for which history may wait."""
_BURST_MOST_S: Final = 10.0
_BURST_PART: Final = 2
"""In a burst a batch begins after so many times the last one's time, and so long, at most."""


class Pace:
    """Says when a batch begins. Times are of the monotonic clock, s; `wall_ms` of the other."""

    def __init__(self, commit_interval_s: float, min_commit_interval_s: float) -> None:
        """Have begun no batch yet."""
        self._quiet_s, self._least_s = commit_interval_s, min_commit_interval_s
        self._began = -math.inf
        self._asked = self._checked = -math.inf
        self._in_a_row = 0
        self._seq, self._bytes, self._has_news = 0, 0, False
        self._oldest = self._oldest_following = math.inf
        """Since when the oldest entry of all waits, and the oldest one that follows news."""
        self._is_first_check = True
        self._has_left = False

    def ask(self, now: float) -> None:
        """Note that Spark asks for a batch: the last one is done."""
        self._asked = now
        self._seq, self._bytes, self._has_news = 0, 0, False
        self._oldest = self._oldest_following = math.inf
        self._is_first_check = True

    def is_due(self, entries: Sequence[Entry], now: float, wall_ms: int) -> bool:
        """Whether a batch of these entries, all that wait, begins now."""
        new = [entry for entry in entries if entry.seq > self._seq]
        for entry in new:
            # Not since before the last check, or a clock that is set would make it old.
            waits_s = min(max(0.0, (wall_ms - entry.at_ms) / 1000), now - self._checked)
            self._oldest = min(self._oldest, now - waits_s)
            if entry.news is News.FOLLOWS:
                self._oldest_following = min(self._oldest_following, now - waits_s)
            self._has_news |= entry.news is News.NEWS
            self._bytes += entry.end - entry.begin
        self._seq = max([self._seq, *(entry.seq for entry in new)])
        self._checked = now
        if self._is_first_check:
            self._in_a_row = self._in_a_row + 1 if self._has_news else 0
            self._is_first_check = False
        return bool(entries) and (
            self._has_left
            or (self._has_news and now - self._began >= self._apart_s)
            or now - self._oldest_following >= FOLLOWS_S
            or now - self._oldest >= self._quiet_s
            or self._bytes >= BATCH_BYTES
        )

    @property
    def _apart_s(self) -> float:
        """The least time from one batch to the next. In a burst, where one batch after the other
        has news as soon as Spark asks for it, batches would otherwise leave no time for anything
        else.
        """
        if self._in_a_row < 2 or math.isinf(self._began):
            return self._least_s
        return max(self._least_s, min(_BURST_MOST_S, _BURST_PART * (self._asked - self._began)))

    def begin(self, now: float, *, has_left: bool = False) -> None:
        """Note that a batch begins. `has_left`: it takes a part of what was due."""
        self._began, self._has_left = now, has_left
