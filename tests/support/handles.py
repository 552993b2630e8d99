"""What this process holds open. Threads that have done their work take a moment to end."""

import time

import psutil

_SETTLES_S = 5.0
_LOOK_S = 0.1

Handles = tuple[int, int]
"""Files, sockets included; and threads."""


def handles() -> Handles:
    """What is open now."""
    process = psutil.Process()
    return process.num_fds(), process.num_threads()


def settled() -> Handles:
    """What is open once nothing is closed any more."""
    before, until = handles(), time.monotonic() + _SETTLES_S
    while time.monotonic() < until:
        time.sleep(_LOOK_S)
        if (now := handles()) == before:
            return now
        before = now
    return before


def come_to(wanted: Handles) -> Handles:
    """What is open once that is what is wanted, or after a while."""
    until = time.monotonic() + _SETTLES_S
    while (now := handles()) != wanted and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return now
