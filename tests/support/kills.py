"""SIGKILL between two commits, in one process: what a round has not written by then does not come
to be.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pytest

from jobs.rounds.commit import Commit
from jobs.rounds.plan import Rounds, Step


class KilledError(Exception):
    """Stands for SIGKILL."""


@contextmanager
def killed_after(commits: int) -> Iterator[None]:
    """Let a process make so many more commits of rounds. The one after them does not come to be."""
    write, lock, left = Commit.write, Lock(), [commits]

    def dying(commit: Commit, *args: Any, **more: Any) -> None:
        with lock:
            if not left[0]:
                raise KilledError
            left[0] -= 1
            write(commit, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commit, "write", dying)
        yield


@contextmanager
def killed_at(step: str, *, before: bool) -> Iterator[None]:
    """Kill a process when it plans a round, or says that it is done: before the commit, or after
    it.
    """
    original: Callable[..., Step | None] = getattr(Rounds, step)

    def dying(*args: Any) -> None:
        if not before:
            original(*args)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rounds, step, dying)
        yield


@contextmanager
def beside(commits: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something once, after so many commits of a round and before its others."""
    write, lock, left = Commit.write, Lock(), [commits]

    def interrupted(commit: Commit, *args: Any, **more: Any) -> None:
        with lock:
            if not left[0]:
                act()
            left[0] -= 1
            write(commit, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commit, "write", interrupted)
        yield
    assert left[0] < 0, "there were no more commits"
