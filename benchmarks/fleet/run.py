"""The product polls a fleet: its headers, and the memory of its processes."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.fleet.headers import read_headers
from benchmarks.rounds.processes import Sampler
from benchmarks.rounds.product import await_that, configured, running, table_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from benchmarks.fleet.made_up import Member
    from benchmarks.rounds.product import Process
    from jobs.configuration.config import Config

MASTER: Final = "local[2]"
HEAP: Final = "1g"
RECORDER: Final = "recorder"
FIRST_S: Final = 240.0
_SAMPLE_S: Final = 1.0
_ROLES: Final = (
    *(("java", "driver, Java"), ("metadata_source.recorder", RECORDER)),
    *(("streaming_source_runner", "driver, reader of the spool"), ("daemon", "worker")),
)


@dataclass
class Memory:
    """Resident memory, MB, of the processes of one role: of the largest, and of all together, each
    at its most.
    """

    one: float = 0.0
    all: float = 0.0
    processes: int = 0


@dataclass
class Polled:
    """The headers of polls that a run left, and the memory of its processes."""

    headers: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Memory] = field(default_factory=lambda: defaultdict(Memory))


def polled(
    folder: Path, members: Sequence[Member], seconds: float, *, job: str = "poll_metadata"
) -> Polled:
    """Let a job poll these clusters for so long after its first batch; return all polls."""
    with polling(folder, members, job) as (_, config, found):
        time.sleep(seconds)
    found.headers = read_headers(_polls(config))
    return found


@contextmanager
def polling(
    folder: Path, members: Sequence[Member], job: str
) -> Iterator[tuple[Process, Config, Polled]]:
    """Let a job poll these clusters, from its first batch on, as long as this is open."""
    config = configured(folder, (), clusters={member.alias: member.options for member in members})
    before, found = len(read_headers(_polls(config))), Polled()
    settings = ("--master", MASTER, "--driver-memory", HEAP)
    with running(f"jobs/{job}.py", folder, settings=settings) as process, _Watch(process, found):
        await_that(
            "the first batch",
            process,
            folder,
            lambda: len(read_headers(_polls(config))) > before,
            FIRST_S,
        )
        yield process, config, found


def _polls(config: Config) -> Path:
    return table_folder(config, "bronze.metadata_polls")


class _Watch(Sampler):
    """Looks at the memory of a job's processes, role by role."""

    def __init__(self, process: Process, found: Polled) -> None:
        super().__init__(_SAMPLE_S)
        self._process, self._found = process, found

    def look(self) -> None:
        """Take one sample."""
        sizes: dict[str, list[float]] = defaultdict(list)
        for each in self._process.family:
            try:
                sizes[_role(each.cmdline())].append(each.memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                continue
        for role, found in sizes.items():
            memory = self._found.memory[role]
            memory.one = max(memory.one, *found)
            memory.all = max(memory.all, sum(found))
            memory.processes = max(memory.processes, len(found))


def _role(command: Sequence[str]) -> str:
    line = " ".join(command)
    is_java = bool(command) and command[0].endswith("java")
    return next(
        (role for sign, role in _ROLES if sign in line and (sign != "java" or is_java)),
        "driver, Python",
    )
