"""A server that answers a benchmark, in its own process: it takes no time of what is measured."""

from __future__ import annotations

import multiprocessing
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def in_process(serve: Callable[..., None], *args: object) -> Iterator[Any]:
    """Run `serve(pipe, *args)` in another process, give what it sends first, and end it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()  # which ends it, as our own end would
        process.join(30)
