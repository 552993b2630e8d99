"""Threads that read many clusters, or ask many brokers of one, side by side."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

_QUEUED: Final = 8
"""Batches of rows that wait for Spark to take them."""
_STOP_SEEN_S: Final = 0.1
_AT_ONCE: Final = 64
"""Threads that ask the brokers of one cluster: nearly all of their time they wait for answers."""

_Cluster = TypeVar("_Cluster")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_threads(
    clusters: Sequence[_Cluster],
    rows: Callable[[_Cluster], Iterator[pa.RecordBatch]],
    stopped: threading.Event,
) -> Iterator[pa.RecordBatch]:
    """Yield what `rows` yields for each cluster, each in a thread of its own, as it comes. Sets
    `stopped` at the end.

    Nothing is made far ahead of whoever takes it: a thread whose batch finds no room waits with it,
    and makes no more once nobody takes any. An error is raised when all have ended.
    """
    batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(_QUEUED)

    def put(batch: pa.RecordBatch | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                batches.put(batch, timeout=_STOP_SEEN_S)
                return

    def follow(cluster: _Cluster) -> None:
        try:
            for batch in rows(cluster):
                put(batch)
                del batch  # a part of tables that would be kept until the next poll
                if stopped.is_set():
                    break
        finally:
            put(None)

    with ThreadPoolExecutor(len(clusters), "kafka_metadata") as threads:
        followers = [threads.submit(follow, cluster) for cluster in clusters]
        try:
            running = len(followers)
            while running:
                batch = batches.get()
                if batch is None:
                    running -= 1
                else:
                    yield batch
        finally:
            # Spark drops a read that it cancels: nobody waits for the rest of the beat then.
            stopped.set()
    for follower in followers:
        follower.result()


def side_by_side(
    items: Iterable[_Item], call: Callable[[_Item], _Result], what: str, at_once: int = _AT_ONCE
) -> list[_Result]:
    """Return what `call` makes of each item, in the order of the items. At most 64 at once, or
    `at_once`, are in threads, called after `what` they do.

    It waits for all, so each call ends by a deadline of its own. An error is raised when all have
    ended.
    """
    items = list(items)
    if not items:
        return []
    with ThreadPoolExecutor(min(len(items), at_once), f"kafka_metadata {what}") as threads:
        return list(threads.map(call, items))
