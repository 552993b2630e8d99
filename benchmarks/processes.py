"""Processor time and memory of processes, as the kernel counts them."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KB_IN_MB = 1_000
SAMPLE_S = 1.0


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


@dataclass
class Memory:
    """MB of the processes of one role: of the largest, and of all together, each at its most."""

    one: float = 0.0
    all: float = 0.0
    processes: int = 0


class Watch:
    """A context manager: a thread that looks at the memory of processes, role by role."""

    def __init__(
        self,
        processes: Callable[[], Iterable[psutil.Process]],
        role: Callable[[psutil.Process], str] = lambda _: "all",
    ) -> None:
        self.memory: dict[str, Memory] = defaultdict(Memory)
        self._processes, self._role = processes, role
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            found: dict[str, list[float]] = defaultdict(list)
            for each in self._processes():
                with suppress(psutil.NoSuchProcess):
                    found[self._role(each)].append(resident_mb([each]))
            for role, sizes in found.items():
                most = self.memory[role]
                most.one, most.all = max(most.one, *sizes), max(most.all, sum(sizes))
                most.processes = max(most.processes, len(sizes))
