"""The lock under which small answers are read: by one thread of a process at a time.

NumPy and Arrow let go of Python's lock for each column. If hundreds of threads read answers at
once, they take the processor for handing that lock around: with 1,000 clusters of 1,000 partitions
each, polled every 30 seconds on two cores, 95 % of the polls were sent within 8 s, and ever later;
under this lock, within 5 ms. A large answer takes long for each column; of these `Poller` reads
several at once, so that none holds up the others.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

SMALL_BYTES: Final = 1 << 18
_LOCK: Final = threading.Lock()


def is_small(size: int) -> bool:
    """Whether an answer of so many bytes takes little time and memory."""
    return size <= SMALL_BYTES


def answer_lock(size: int | None = None) -> AbstractContextManager[object]:
    """Return the lock under which an answer of so many bytes, or of a size that is not known, is
    read; none for a large one.
    """
    return _LOCK if size is None or is_small(size) else nullcontext()
