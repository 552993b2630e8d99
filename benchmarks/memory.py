"""The most memory that the recorder holds: many clusters, all of which answer at once.

Each cluster answers with 1,000 x 100 partitions and is polled once, into a spool. Measured is the
growth of a fresh process; beside it what it would be without a bound on decoded answers.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.fleet.answers import answering
from benchmarks.results import Results, median
from metadata_source.options import parse
from metadata_source.recorder import beat, fleet
from metadata_source.recorder.folder import Owner
from metadata_source.recorder.spool import Spool, Spooled

if TYPE_CHECKING:
    from benchmarks.results import Say
    from metadata_source.options import Options

CLUSTERS: Final = 64
ENDS_S: Final = 120.0


def many_answers(_folder: Path, _say: Say, _runs: int) -> Results:
    """Measure many_answers_*: the recorder as it is, and without the bound."""
    results = {}
    bounds = {"many_answers_mb": fleet._DECODERS, "many_answers_unbound_mb": CLUSTERS}  # noqa: SLF001 - what is measured
    with answering(["huge"]) as (servers,):
        for name, decoders in bounds.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                results[name] = median([pool.apply(grown, (servers, decoders))])
    return results


def grown(servers: str, decoders: int) -> float:
    """Return by how many MB this process grows when it polls all clusters."""
    fleet._DECODERS = decoders  # type: ignore[misc]  # noqa: SLF001
    beat._APART_MS = 0  # type: ignore[misc]  # noqa: SLF001 - all at once
    record(options(servers, 1))  # what is loaded with the first poll
    before = most_resident()
    record(options(servers, CLUSTERS))
    return (most_resident() - before) / 1e6


def most_resident() -> int:
    """Return the most bytes that this process had resident; `ru_maxrss` begins as the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def options(servers: str, clusters: int) -> Options:
    """Return the options of so many clusters, all due at nearly the same time."""
    aliases = {f"cluster-{n}": {"kafka.bootstrap.servers": servers} for n in range(clusters)}
    return parse(
        {"clusters": json.dumps(aliases), "pollInterval": "1s", "requestTimeout": "60s"}, "stream"
    )


def record(what: Options) -> None:
    """Poll each cluster once. Raises RuntimeError unless the spool has a good poll of each."""
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool.open(Path(folder), Owner.here("benchmark"))
        clusters = fleet.Fleet(what, spool, is_once=True)
        clusters.begin()
        until = time.monotonic() + ENDS_S
        while not clusters.has_ended and time.monotonic() < until:
            time.sleep(0.05)
        clusters.end()
        spool.close()
        if sum(entry.ok for entry in Spooled(Path(folder)).after(0)) != len(what.clusters):
            raise RuntimeError("not every cluster has a good poll")
