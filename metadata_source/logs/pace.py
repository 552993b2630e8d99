"""How many bytes a second are asked of whoever has no quota of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pace:
    """Asks for nothing more while what came takes its time at so many bytes a second. Of one thread at a time.

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
