"""The product polls a fleet each 30 seconds: once with nobody sick, and once with sick clusters
among the others, of which some leave and others come after half of the time.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from benchmarks.fleet.answers import answering
from benchmarks.fleet.headers import Polled, read_headers, seen
from benchmarks.fleet.made_up import USUAL_MS, fleet, manners
from benchmarks.fleet.report import show
from benchmarks.processes import Watch
from benchmarks.product import await_that, configured, running, table_folder
from benchmarks.results import Results, median, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import psutil

    from benchmarks.fleet.made_up import Member
    from benchmarks.product import Process
    from benchmarks.results import Say
    from jobs.configuration.config import Config

SETTINGS: Final = ("--master", "local[2]", "--driver-memory", "1g")
RECORDER: Final = "recorder"
FIRST_S: Final = 240.0
SECONDS: Final = 180.0
"""Of each run."""
CHANGED: Final = 10
"""So many good clusters leave the configuration, and others come."""
_ROLES: Final = (
    *(("java", "driver, Java"), ("metadata_source.recorder", RECORDER)),
    *(("streaming_source_runner", "driver, reader of the spool"), ("daemon", "worker")),
)


def fleet_of_300(folder: Path, _say: Say, _runs: int) -> Results:
    """Measure fleet_*."""
    return _measured("fleet", folder, 300)


def fleet_of_1000(folder: Path, _say: Say, _runs: int) -> Results:
    """Measure fleet_1000_*."""
    return _measured("fleet_1000", folder, 1_000)


def _measured(name: str, folder: Path, count: int) -> Results:
    with answering(manners(count, {})) as servers:
        good = fleet(manners(count, {}), servers, beat_ms=USUAL_MS)
        well = polled(folder / "well", good, SECONDS)
    with answering(behaving := manners(count + CHANGED)) as servers:
        everyone = fleet(behaving, servers, beat_ms=USUAL_MS)
        first, then = everyone[:count], everyone[: count - CHANGED] + everyone[count:]
        sick = polled(folder / "sick", first, SECONDS / 2)
        changed = polled(folder / "sick", then, SECONDS / 2)
    runs = {"": (good, well), "sick_": (first, sick), "changed_": (then, changed)}
    for what, (members, found) in runs.items():
        show(f"{name} {what}".strip("_ "), members, found)
    late = {
        f"{name}_{what}late_s": percentile(seen(found.headers, members)["good"].late, 0.95)
        for what, (members, found) in runs.items()
    }
    memory = median([found.memory[RECORDER].all for _, found in runs.values()])
    return {name: median([seconds]) for name, seconds in late.items()} | {f"{name}_mb": memory}


def polled(folder: Path, members: Sequence[Member], seconds: float) -> Polled:
    """Poll these clusters for so long after the first batch; return all polls."""
    with polling(folder, members, "poll_metadata") as (_, config, found):
        time.sleep(seconds)
    found.headers = read_headers(_polls(config))
    return found


@contextmanager
def polling(
    folder: Path, members: Sequence[Member], job: str
) -> Iterator[tuple[Process, Config, Polled]]:
    """Let a job poll these clusters, from its first batch on, as long as this is open."""
    config = configured(folder, (), clusters={member.alias: member.options for member in members})
    before = len(read_headers(_polls(config)))
    with (
        running(folder, job=job, settings=SETTINGS) as process,
        Watch(lambda: process.family, _role) as watch,
    ):
        await_that(
            "the first batch",
            process,
            folder,
            lambda: len(read_headers(_polls(config))) > before,
            FIRST_S,
        )
        yield process, config, Polled(memory=watch.memory)


def _polls(config: Config) -> Path:
    return table_folder(config, "bronze.metadata_polls")


def _role(process: psutil.Process) -> str:
    command = process.cmdline()
    line = " ".join(command)
    is_java = bool(command) and command[0].endswith("java")
    return next(
        (role for sign, role in _ROLES if sign in line and (sign != "java" or is_java)),
        "driver, Python",
    )
