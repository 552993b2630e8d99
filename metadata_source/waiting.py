"""Calls that take no deadline."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_READING_S: Final = 1.0


class TooLateError(KafkaMetadataHistoryError):
    """The call has not ended by its deadline."""


def read_by(deadline: float) -> float:
    """Return until when an answer may be read that came by `deadline` (both of `time.monotonic`):
    one that came late has a second.
    """
    return max(deadline, time.monotonic() + _READING_S)


def by_deadline(call: Callable[[], T], deadline: float, what: str) -> T:
    """Return what `call` does, or raise what it raises; TooLateError at the deadline (of
    `time.monotonic`).

    It runs in a thread, called after `what` it does, which is left behind when it takes too long:
    what it may wait for without end is to be of `Sockets`.
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


class Sockets:
    """Sockets that a call in another thread opens. With the end of the context they are shut down,
    and so is whatever waits for them: a peer that sends a byte now and then would be waited for as
    long as it likes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def connect(self, *args: Any, **more: Any) -> socket.socket:
        """Connect as `socket.create_connection`. Raises TimeoutError once the context has ended."""
        made = socket.create_connection(*args, **more)
        with self._lock:
            if self._is_over:
                made.close()
                raise TimeoutError
            # TLS takes the socket itself over, and hands it out only after its handshake.
            self._open.append(made.dup())
        return made
