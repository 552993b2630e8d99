"""``python -m benchmarks.fleet [--clusters N] [--seconds S] [--pipeline]``: a fleet is polled twice, once with nobody
sick, and once with sick clusters among the others, of which some leave and others come after half of the time.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.fleet.answers import answering
from benchmarks.fleet.made_up import fleet, manners
from benchmarks.fleet.report import show
from benchmarks.fleet.run import polled

CHANGED: Final = 10
"""So many good clusters leave the configuration, and others come."""


def main() -> None:
    """Print what became of the polls, and the memory of the processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--clusters", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=180.0, help="of each of the two runs (default %(default)s)")
    parser.add_argument("--pipeline", action="store_true", help="with history, which shares the processors")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    count, seconds = arguments.clusters, arguments.seconds
    job = "pipeline" if arguments.pipeline else "poll_metadata"
    with tempfile.TemporaryDirectory(prefix="fleet-") as home, answering(manners(count + CHANGED, {})) as servers:
        everyone = fleet(manners(count, {}), servers[:count])
        show("nobody is sick", everyone, polled(Path(home), everyone, seconds, job=job))
    behaving = manners(count + CHANGED)
    with tempfile.TemporaryDirectory(prefix="fleet-") as home, answering(behaving) as servers:
        everyone = fleet(behaving, servers)
        first, then = everyone[:count], everyone[: count - CHANGED] + everyone[count:]
        show("some are sick", first, polled(Path(home), first, seconds / 2, job=job))
        show("... and others after a change of the configuration", then, polled(Path(home), then, seconds / 2, job=job))


if __name__ == "__main__":
    main()
