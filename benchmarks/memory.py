"""The most memory that a polling task holds: as many clusters as a task has, whose rows nobody takes for a while.

``python -m benchmarks.memory [--quick]``. Each cluster answers with 1,000 x 100 partitions (`benchmarks.replay`), and
all answers are there before a row is taken. Measured is the growth of a fresh process; beside it what it would be
without a bound on decoded answers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.replay import replayed
from metadata_source import datasource
from metadata_source.options import parse
from metadata_source.schedule import Offset, plan

if TYPE_CHECKING:
    from metadata_source.datasource import _Task

TOPICS: Final = 1_000
PARTITIONS: Final = 100
STALL_S: Final = 5.0
MB: Final = 1e6


def main() -> None:
    """Print a line for the task as it is and one for a task without the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 clusters")
    clusters = 16 if parser.parse_args().quick else datasource.CLUSTERS_PER_TASK
    print(f"a polling task of {clusters} clusters, {TOPICS:,} x {PARTITIONS} partitions each, MB at most")
    with replayed(TOPICS, PARTITIONS) as address:
        for decoders in (datasource._DECODERS, clusters):  # noqa: SLF001 - what is measured
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                most = pool.apply(grown, (address, clusters, decoders))
            print(f"{decoders:>2} of them with a decoded answer at once {most:>6,.0f}", flush=True)


def grown(address: tuple[str, int], clusters: int, decoders: int) -> float:
    """Return by how many MB this process grows when it reads a task."""
    datasource._DECODERS = decoders  # type: ignore[misc]  # noqa: SLF001
    read(task(address, 1), 0)  # what is loaded with the first poll
    before = most_resident()
    read(task(address, clusters), STALL_S)
    return (most_resident() - before) / MB


def most_resident() -> int:
    """Return the most bytes that this process had resident; `ru_maxrss` begins with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def task(address: tuple[str, int], clusters: int) -> _Task:
    """Return a task of one poll of so many clusters."""
    host, port = address
    aliases = {f"cluster-{n}": {"kafka.bootstrap.servers": f"{host}:{port}"} for n in range(clusters)}
    options = parse({"clusters": json.dumps(aliases), "requestTimeout": "60s"})
    (only,) = datasource._tasks(options, plan(Offset(), time.time_ns() // 1_000_000, options.beat_ms, 1, {}))  # noqa: SLF001
    return only


def read(planned: _Task, stall_s: float) -> None:
    """Take the rows of a task, all but the first late."""
    for number, _ in enumerate(datasource._read_on_schedule(planned)):  # noqa: SLF001
        if not number:
            time.sleep(stall_s)


if __name__ == "__main__":
    main()
