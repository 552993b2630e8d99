"""A round whose commit fails ends when all its commits have."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from jobs.rounds.engine import Engine
from jobs.rounds.history import News, Output


class Idle(Engine):
    """An engine without Spark, which only writes what it is given."""

    def __init__(self) -> None:
        self.lake, self._replacing, self._writers = None, True, ThreadPoolExecutor(2)


def commit(write: Callable[[], object]) -> SimpleNamespace:
    return SimpleNamespace(write=lambda *_, **__: write())


def test_no_commit_is_under_way_when_a_round_has_failed() -> None:
    """The round is made again, and its commits would meet."""
    failed, written = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError("no space left")

    def write() -> None:
        assert failed.wait(10)
        time.sleep(0.2)
        written.set()

    with pytest.raises(OSError, match="no space left"):
        Idle()._write(
            SimpleNamespace(round=1),
            None,
            News(plan=None),
            Output({}, [commit(fail), commit(write)]),
        )
    assert written.is_set()
