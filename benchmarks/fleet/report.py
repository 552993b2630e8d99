"""The report of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.fleet.headers import asked, holes, seen
from benchmarks.results import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.fleet.headers import Polled
    from benchmarks.fleet.made_up import Member


def show(what: str, members: Sequence[Member], found: Polled) -> None:
    """Print one run."""
    print(f"\n{len(members)} clusters, {what}")
    print(
        _line("", "clusters", "polls", "requests", "off beat", "late, s", "95 %", "most", "failed")
    )
    for manner, each in seen(found.headers, members).items():
        values = (
            [percentile(each.late, 0.5), percentile(each.late, 0.95), max(each.late)]
            if each.late
            else []
        )
        late = [f"{value:.2f}" for value in values] or ["", "", ""]
        failed = ", ".join(f"{kind} {times}" for kind, times in sorted(each.errors.items()))
        print(_line(manner, each.clusters, each.polls, each.requests, each.off_beat, *late, failed))
    times = asked(found.headers).values()
    print(f"asked beside metadata: {sum(times)} times, {len(times)} clusters")
    print(f"numbers without a poll: {len(holes(found.headers))}")
    print(f"{'memory, MB at most':<30}{'processes':>10}{'largest':>9}{'all':>7}")
    for role, memory in sorted(found.memory.items()):
        print(f"{role:<30}{memory.processes:>10}{memory.one:>9,.0f}{memory.all:>7,.0f}", flush=True)


def _line(manner: str, *columns: object) -> str:
    *numbers, failed = columns
    return f"{manner:<12}" + "".join(f"{number:>9}" for number in numbers) + f"  {failed}"
