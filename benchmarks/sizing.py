"""What recording takes, by the number of clusters.

The pipeline polls clusters of 1,000 partitions and three brokers every 30 seconds, and makes
history. In each cluster a partition gets another leader each minute. Processors and bytes count
from the first such change on, when nothing is there for the first time. The processes that answer
for the clusters share the machine and are not counted.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from benchmarks.aims import SIZES
from benchmarks.fleet.answers import answering
from benchmarks.fleet.made_up import USUAL_MS, fleet
from benchmarks.fleet.run import FIRST_S, polling
from benchmarks.processes import cpu_seconds
from benchmarks.product import await_that
from benchmarks.results import Results, median, percentile
from benchmarks.rounds.commits import commits, first_commits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.results import Say

SECONDS: Final = 240.0
"""Of each run."""
DAY_S: Final = timedelta(days=1).total_seconds()
_SCHEMAS: Final = (("bronze",), ("silver", "gold", "internal"))


def sizes(folder: Path, say: Say, _runs: int) -> Results:
    """Measure sizing_*."""
    results = {}
    for count in SIZES:
        found = dict(_measured(folder / str(count), count))
        say(f"{count} clusters: {found}")
        results |= {f"sizing_{count}_{name}": median([value]) for name, value in found.items()}
    return results


def _measured(folder: Path, count: int) -> Iterator[tuple[str, float]]:
    with answering(["moving"] * count) as servers:
        everyone = fleet(["moving"] * count, servers, beat_ms=USUAL_MS)
        lake = folder / "lake"
        changes = lake / "gold" / "leader_changes"
        with polling(folder, everyone, "pipeline") as (process, _, found):
            # From then on nothing is there for the first time.
            await_that("a change of a leader", process, folder, lambda: any(commits(changes)),
                       FIRST_S)  # fmt: skip
            begun, used = time.monotonic(), cpu_seconds(process.family)
            before = [_bytes(lake, *schemas) for schemas in _SCHEMAS]
            time.sleep(SECONDS)
            took = time.monotonic() - begun
            busy = (cpu_seconds(process.family) - used) / took
            after = [_bytes(lake, *schemas) for schemas in _SCHEMAS]
    java = found.memory["driver, Java"].one
    yield "java_mb", java
    yield "python_mb", sum(each.all for each in found.memory.values()) - java
    yield "cores", busy
    for name, less, more in zip(("bronze_mb", "history_mb"), before, after, strict=True):
        yield name, (more - less) / 1e6 * DAY_S / took
    of_each = first_commits(changes, "id", "began_before")
    delays = [(at - row["began_before"]).total_seconds() for at, row in of_each]
    yield "delay_s", percentile(delays, 0.5)
    yield "delay_p95_s", percentile(delays, 0.95)


def _bytes(lake: Path, *schemas: str) -> int:
    files = (file for schema in schemas for file in (lake / schema).rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files)
