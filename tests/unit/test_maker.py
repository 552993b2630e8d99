"""A round whose commit fails ends when all its commits have."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from jobs.common.maker import Maker


class Idle(Maker):
    """A maker without Spark, which only writes what it is given."""

    by = "topic"

    def __init__(self) -> None:
        self._lake, self._replacing, self._writers = None, True, ThreadPoolExecutor(2)

    round = _finish = None


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
        Idle()._write(SimpleNamespace(round=1), {}, None, {}, [commit(fail), commit(write)], of="test")
    assert written.is_set()
