"""``python -m benchmarks.sizing [--clusters N ...] [--seconds S]``: what recording takes, by the number of clusters.

The pipeline polls clusters of 1,000 partitions and three brokers every 30 seconds, and makes history. In each cluster
a partition gets another leader each minute. One line for each number of clusters: memory at most, processors kept
busy, what a day adds to bronze and to history before files are compacted, and how long after the poll that showed it a
change of a leader is in gold. The processes that answer for the clusters share the machine and are not counted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.fleet.answers import answering
from benchmarks.fleet.headers import percentile
from benchmarks.fleet.made_up import USUAL_MS, fleet
from benchmarks.fleet.run import polled
from benchmarks.rounds.commits import first_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CLUSTERS: Final = (3, 50, 300)
DAY_S: Final = timedelta(days=1).total_seconds()
_COLUMNS: Final = (
    *("clusters", "Java MB", "Python MB", "processors", "bronze MB/day", "history MB/day"),
    *("delay s", "95 %", "changes"),
)
_LINE: Final = "  ".join(f"{{:>{len(name)}}}" for name in _COLUMNS)
_SCHEMAS: Final = (("bronze",), ("silver", "gold", "internal"))


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each number of clusters."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS)
    parser.add_argument("--seconds", type=float, default=240.0, help="of each run (default %(default)s)")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    print(_LINE.format(*_COLUMNS))
    for count in arguments.clusters:
        print(_LINE.format(*_measured(count, arguments.seconds)), flush=True)


def _measured(count: int, seconds: float) -> Iterator[object]:
    with tempfile.TemporaryDirectory(prefix="sizing-") as home, answering(["moving"] * count) as servers:
        everyone = fleet(["moving"] * count, servers, beat_ms=USUAL_MS)
        found = polled(Path(home), everyone, seconds, job="pipeline")
        lake = Path(home) / "lake"
        polls = [header["scheduled_at"] for header in found.headers]
        days = (max(polls) - min(polls) + timedelta(milliseconds=USUAL_MS)).total_seconds() / DAY_S
        changes = first_commits(lake / "gold" / "leader_changes", "id", "began_before")
        delays = [(at - row["began_before"]).total_seconds() for at, row in changes]
        java = found.memory["driver, Java"].one
        yield from (count, f"{java:,.0f}", f"{sum(each.all for each in found.memory.values()) - java:,.0f}")
        yield f"{found.cpu:.2f}"
        yield from (
            f"{_bytes(lake, *schemas) / 1e6 / days:,.1f}" for schemas in (("bronze",), ("silver", "gold", "internal"))
        )
        yield from (f"{percentile(delays, 50):.1f}", f"{percentile(delays, 95):.1f}", len(delays))


def _bytes(lake: Path, *schemas: str) -> int:
    files = (file for schema in schemas for file in (lake / schema).rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    main()
