"""``python -m benchmarks.sizing [--clusters N ...] [--seconds S]``: what recording takes, by the
number of clusters.

The pipeline polls clusters of 1,000 partitions and three brokers every 30 seconds, and makes
history. In each cluster a partition gets another leader each minute. One line for each number of
clusters: memory at most, processors kept busy, bytes of a day before anything is compacted, and how
long after the poll that showed it a change of a leader is in gold. Processors and bytes count from
the first such change on, when nothing is there for the first time. The processes that answer for
the clusters share the machine and are not counted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.fleet.answers import answering
from benchmarks.fleet.headers import percentile
from benchmarks.fleet.made_up import USUAL_MS, fleet
from benchmarks.fleet.run import FIRST_S, polling
from benchmarks.rounds.commits import commits, first_commits
from benchmarks.rounds.processes import cpu_seconds
from benchmarks.rounds.product import await_that

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
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="of each run (default %(default)s)"
    )
    arguments = parser.parse_args(argv)
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(_LINE.format(*_COLUMNS))
    for count in arguments.clusters:
        print(_LINE.format(*_measured(count, arguments.seconds)), flush=True)


def _measured(count: int, seconds: float) -> Iterator[object]:
    with (
        tempfile.TemporaryDirectory(prefix="sizing-") as home,
        answering(["moving"] * count) as servers,
    ):
        everyone = fleet(["moving"] * count, servers, beat_ms=USUAL_MS)
        lake = Path(home) / "lake"
        changes = lake / "gold" / "leader_changes"
        with polling(Path(home), everyone, "pipeline") as (process, _, found):
            # From then on nothing is there for the first time.
            await_that(
                "a change of a leader", process, Path(home), lambda: any(commits(changes)), FIRST_S
            )
            begun, used = time.monotonic(), cpu_seconds(process.family)
            before = [_bytes(lake, *schemas) for schemas in _SCHEMAS]
            time.sleep(seconds)
            took = time.monotonic() - begun
            busy = (cpu_seconds(process.family) - used) / took
            after = [_bytes(lake, *schemas) for schemas in _SCHEMAS]
        java = found.memory["driver, Java"].one
        yield from (
            count,
            f"{java:,.0f}",
            f"{sum(each.all for each in found.memory.values()) - java:,.0f}",
        )
        yield f"{busy:.2f}"
        yield from (
            f"{(more - less) / 1e6 * DAY_S / took:,.1f}"
            for less, more in zip(before, after, strict=True)
        )
        of_each = first_commits(changes, "id", "began_before")
        delays = [(at - row["began_before"]).total_seconds() for at, row in of_each]
        yield from (f"{percentile(delays, share):.1f}" for share in (50, 95))
        yield len(delays)


def _bytes(lake: Path, *schemas: str) -> int:
    files = (file for schema in schemas for file in (lake / schema).rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    main()
