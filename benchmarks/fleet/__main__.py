"""``python -m benchmarks.fleet [--clusters N] [--seconds S] [--pipeline]``: a fleet is polled each
30 seconds, once with nobody sick, and once with sick clusters among the others, of which some leave
and others come after half of the time.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.aims import aim
from benchmarks.fleet.answers import answering
from benchmarks.fleet.headers import percentile, seen
from benchmarks.fleet.made_up import USUAL_MS, fleet, manners
from benchmarks.fleet.report import show
from benchmarks.fleet.run import RECORDER, polled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.fleet.made_up import Member
    from benchmarks.fleet.run import Polled

CHANGED: Final = 10
"""So many good clusters leave the configuration, and others come."""
MANY: Final = 300
LATE_S: Final = (0.5, 1.0)
"""How late 95 of 100 polls are sent at most: of so many clusters, and of more."""
RECORDER_MB: Final = 2_000


def main() -> None:
    """Print what became of the polls, the processes' memory, the aims and what was reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--clusters", type=int, default=MANY)
    parser.add_argument(
        "--seconds", type=float, default=180.0, help="of each of the two runs (default %(default)s)"
    )
    parser.add_argument(
        "--pipeline", action="store_true", help="with history, which shares the processors"
    )
    arguments = parser.parse_args()
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    count, seconds = arguments.clusters, arguments.seconds
    job = "pipeline" if arguments.pipeline else "poll_metadata"
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as home,
        answering(manners(count, {})) as servers,
    ):
        good = fleet(manners(count, {}), servers, beat_ms=USUAL_MS)
        well = polled(Path(home), good, seconds, job=job)
    show("nobody is sick", good, well)
    behaving = manners(count + CHANGED)
    with tempfile.TemporaryDirectory(prefix="fleet-") as home, answering(behaving) as servers:
        everyone = fleet(behaving, servers, beat_ms=USUAL_MS)
        first, then = everyone[:count], everyone[: count - CHANGED] + everyone[count:]
        sick = polled(Path(home), first, seconds / 2, job=job)
        changed = polled(Path(home), then, seconds / 2, job=job)
    show("some are sick", first, sick)
    show("... and others after a change of the configuration", then, changed)
    runs = (("well", good, well), ("some are sick", first, sick), ("others came", then, changed))
    print(*(line for run in runs for line in _aims(*run)), sep="\n")


def _aims(what: str, members: Sequence[Member], found: Polled) -> Iterator[str]:
    late = seen(found.headers, members)["good"].late
    wanted = LATE_S[len(members) > MANY]
    yield aim(
        f"{what}: 95 % of the polls of good clusters are sent within",
        percentile(late, 95),
        "<=",
        wanted,
        " s",
    )
    yield aim(
        f"{what}: the recorder's memory", found.memory[RECORDER].all, "<=", RECORDER_MB, " MB"
    )


if __name__ == "__main__":
    main()
