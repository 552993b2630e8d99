"""Whether this machine's clock may be believed: it can be set while a process runs, its other clock
cannot.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LEAP_S: Final = 60.0
"""A clock that is set ahead by more is not believed at once: times of history do not fall, so that
it would have that time until the clock comes up to it.
"""
BELIEVED_AFTER_S: Final = 600.0
"""A clock set ahead is believed once it has kept its time so long: it was wrong before."""

_COUNTS_ON: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that nobody sets, and that counts while the machine sleeps (macOS: monotonic)."""


class Clock:
    """Compares the clock with the one that nobody sets, since this process began. Of any thread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        other: Callable[[], float] = lambda: time.clock_gettime(_COUNTS_ON),
    ) -> None:
        self._clock, self._other = clock, other
        self._lock = threading.Lock()
        self._believed = clock() - other()
        """How far apart the two were at most while the clock was believed: one that is set back,
        and ahead to where it was, has leapt nowhere.
        """
        self._leapt_at: float | None = None

    def doubt(self, between: tuple[float, float] | None = None) -> str | None:
        """Return why the clock is not believed now, one line; None where it is. `between`: from
        when until when what is kept contradicts it, s since the epoch; before this process began it
        may have been set ahead, too.
        """
        if between is not None and between[0] < (now := self._clock()) < between[1]:
            return (
                "the clock of the machine that polls says "
                f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%SZ}, more than a day after the "
                "newest poll that is kept, and may be wrong: it is believed if it is still so in "
                f"{between[1] - now:.0f} s"
            )
        with self._lock:
            now = self._other()
            apart = self._clock() - now
            if apart - self._believed > LEAP_S:
                self._leapt_at = now if self._leapt_at is None else self._leapt_at
                if now - self._leapt_at < BELIEVED_AFTER_S:
                    return (
                        "the clock of the machine that polls was set ahead by "
                        f"{apart - self._believed:.0f} s: it is believed if it is still so in "
                        f"{BELIEVED_AFTER_S - (now - self._leapt_at):.0f} s"
                    )
            self._believed, self._leapt_at = max(self._believed, apart), None
            return None


CLOCK: Final = Clock()
"""This process's."""
