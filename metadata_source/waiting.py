"""Calls that take no deadline."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_READING_S: Final = 1.0


class TooLateError(Exception):
    """The call has not ended by its deadline."""


def read_by(deadline: float) -> float:
    """Return until when an answer may be read that came by `deadline` (both of `time.monotonic`): one that came late
    has a second.
    """
    return max(deadline, time.monotonic() + _READING_S)


def by_deadline(call: Callable[[], T], deadline: float, what: str) -> T:
    """Return what `call` does, or raise what it raises; TooLateError at the deadline (of `time.monotonic`).

    It runs in a thread, called after `what` it does, which is left behind when it takes too long.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised where the caller waits
            done.set_exception(error)

    thread = threading.Thread(target=run, name=f"kafka_metadata {what}", daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if not done.done():
        raise TooLateError
    return done.result()
