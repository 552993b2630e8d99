"""Waiting for others: brokers, processes, threads."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(
    check: Callable[[], Found], what: str | Callable[[], str] = "it", *, within: float = 60
) -> Found:
    """Ask until there is an answer that is true, and return that. A test fails after `within`
    seconds, far more than a busy machine needs, and says for what it waited.
    """
    end = time.monotonic() + within
    while not (found := check()):
        if time.monotonic() > end:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {within} s for {said}")
        time.sleep(0.05)
    return found
