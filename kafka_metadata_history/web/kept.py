"""Answers kept by version of the lake: made once for all who ask, so many at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE: Final = 5
"""So many answers are made at a time."""
PATIENCE_S: Final = 5.0
"""So long one more waits for its turn."""
BYTES: Final = 64 * 2**20
"""All answers that are kept."""


class BusyError(KafkaMetadataHistoryError):
    """Raised when too many answers are being made."""


class KeptAnswers:
    """Answers by key. Used in one event loop; an answer is made in a thread."""

    def __init__(
        self, at_once: int = AT_ONCE, patience_s: float = PATIENCE_S, most_bytes: int = BYTES
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="answer")
        self._free = asyncio.Semaphore(at_once)
        self._patience_s, self._most_bytes = patience_s, most_bytes
        self._being_made: dict[object, asyncio.Task[bytes]] = {}
        self._kept: OrderedDict[object, bytes] = OrderedDict()
        self._bytes = 0

    async def get(self, key: object, make: Callable[[], bytes]) -> bytes:
        """Return the answer of a key, made by `make` unless it is kept, or being made for another.
        Raises what `make` raises, and BusyError.
        """
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        task = self._being_made.get(key)
        if task is None:
            task = self._being_made[key] = asyncio.create_task(self._make(key, make))
            task.add_done_callback(lambda done: self._is_made(key, done))
        # Who asked first may leave; others wait for the same answer.
        return await asyncio.shield(task)

    def _is_made(self, key: object, done: asyncio.Task[bytes]) -> None:
        del self._being_made[key]
        if not done.cancelled():
            done.exception()  # if nobody waits any more, asyncio would report it

    async def _make(self, key: object, make: Callable[[], bytes]) -> bytes:
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience_s)
        except TimeoutError:
            raise BusyError("too many questions at once: try again in a moment") from None
        try:
            made = await asyncio.get_running_loop().run_in_executor(self._threads, make)
        finally:
            self._free.release()
        self._keep(key, made)
        return made

    def _keep(self, key: object, made: bytes) -> None:
        self._kept[key] = made
        self._bytes += len(made)
        while self._bytes > self._most_bytes and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest)

    def close(self) -> None:
        """Make no more answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)
