"""How many bytes a second are asked of whoever has no quota, and how often batches begin."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_S: Final = 10.0
"""The most that a long batch holds up the next one."""


class Pace:
    """Asks for nothing more while what came takes its time at so many bytes a second. Of one thread
    at a time.

    `wait`: lets seconds pass, or fewer if nobody wants more.
    """

    def __init__(
        self,
        bytes_a_second: int,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bytes_a_second, self._wait, self._clock = bytes_a_second, wait, clock
        self._free_at = clock()

    def took(self, size: int) -> None:
        """Note that so many bytes came."""
        self._free_at = max(self._free_at, self._clock()) + size / self._bytes_a_second

    def hold(self) -> float:
        """Wait until more may be asked for, and return for how many seconds."""
        left = self._free_at - self._clock()
        if left <= 0:
            return 0.0
        self._wait(left)
        return left


@dataclass
class Begins:
    """When the batches of a stream begin: no more often than once in `least_s`; after a batch that
    took longer than half of that, not before as much time again has passed, so that others of the
    machine have their turn.
    """

    least_s: float
    clock: Callable[[], float] = time.monotonic
    _at: float = float("-inf")

    def note(self) -> None:
        """Note that a batch begins."""
        self._at = self.clock()

    def next_at(self) -> float:
        """Return when the next batch may begin, by the clock. The last one has just ended."""
        return self._at + max(self.least_s, min(_LONGEST_S, 2 * (self.clock() - self._at)))
