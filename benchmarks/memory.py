"""The most memory that the recorder holds: many clusters, all of which answer at once.

``python -m benchmarks.memory [--quick]``. Each cluster answers with 1,000 x 100 partitions
(`benchmarks.replay`) and is polled once, into a spool. Measured is the growth of a fresh process;
beside it what it would be without a bound on decoded answers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.replay import replayed
from metadata_source.options import parse
from metadata_source.recorder import beat, fleet
from metadata_source.recorder.folder import Owner
from metadata_source.recorder.spool import Spool, Spooled

if TYPE_CHECKING:
    from metadata_source.options import Options

TOPICS: Final = 1_000
PARTITIONS: Final = 100
CLUSTERS: Final = 64
ENDS_S: Final = 120.0
MB: Final = 1e6


def main() -> None:
    """Print a line for the recorder as it is and one for a recorder without the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 clusters")
    clusters = 16 if parser.parse_args().quick else CLUSTERS
    print(
        f"a recorder of {clusters} clusters, {TOPICS:,} x {PARTITIONS} partitions each, MB at most"
    )
    with replayed(TOPICS, PARTITIONS) as address:
        for decoders in (fleet._DECODERS, clusters):  # noqa: SLF001 - what is measured
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                most = pool.apply(grown, (address, clusters, decoders))
            print(f"{decoders:>2} of them with a decoded answer at once {most:>6,.0f}", flush=True)


def grown(address: tuple[str, int], clusters: int, decoders: int) -> float:
    """Return by how many MB this process grows when it polls so many clusters."""
    fleet._DECODERS = decoders  # type: ignore[misc]  # noqa: SLF001
    beat._APART_MS = 0  # type: ignore[misc]  # noqa: SLF001 - all at once
    record(options(address, 1))  # what is loaded with the first poll
    before = most_resident()
    record(options(address, clusters))
    return (most_resident() - before) / MB


def most_resident() -> int:
    """Return the most bytes that this process had resident; `ru_maxrss` begins as the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def options(address: tuple[str, int], clusters: int) -> Options:
    """Return the options of so many clusters, all due at nearly the same time."""
    host, port = address
    aliases = {
        f"cluster-{n}": {"kafka.bootstrap.servers": f"{host}:{port}"} for n in range(clusters)
    }
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


if __name__ == "__main__":
    main()
