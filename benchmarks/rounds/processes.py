"""Processor time and memory of processes, as the kernel counts them."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

KB_IN_MB = 1_000
SAMPLE_S = 0.5


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the processor time of processes so far, and of their children that ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the resident memory of processes in MB, shared pages once (Linux's PSS)."""
    kb = 0
    for process in processes:
        with suppress(OSError, psutil.NoSuchProcess):
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            kb += int(rollup.partition("\nPss:")[2].split()[0])
    return kb * 1.024 / KB_IN_MB


class Sampler:
    """A context manager: a thread that looks at the memory of processes every `every_s` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def look(self) -> None:
        """Take one sample."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self.look()


class Watch(Sampler):
    """Looks at the memory of processes; `most_mb` is the most that they had together."""

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]]) -> None:
        super().__init__(SAMPLE_S)
        self.most_mb = 0.0
        self._processes = processes

    def look(self) -> None:
        """Take one sample."""
        self.most_mb = max(self.most_mb, resident_mb(self._processes()))
