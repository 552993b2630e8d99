"""Storms and crash loops, counted in the plainest way: windows that hold enough."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from truth.groups.happened import Happened
from truth.groups.history import History, Rebalance, Storm
from truth.groups.script import CRASHES
from truth.model.groups import chains

STORM: Final = "storm"
CRASH_LOOP: Final = "crash_loop"


LIMITS: Final = {STORM: (5, timedelta(minutes=10)), CRASH_LOOP: (3, timedelta(minutes=10))}
"""From how many on within less than a window it is one, as docs/configuration.md says that it is
unless configured.
"""


def compare_storms(happened: Sequence[Happened], history: History) -> Iterator[str]:
    """Storms and crash loops of one group against its rebalances."""
    group = happened[0].group
    rows = [row for row in history.rebalances if row.group_id == group]
    told = [storm for storm in history.storms if storm.group_id == group]
    wanted = list(storms(group, rows))
    yield from (
        f"it did not rebalance so often: {storm}"
        for storm in (Counter(told) - Counter(wanted)).elements()
    )
    yield from (
        f"nothing is said of {storm}" for storm in (Counter(wanted) - Counter(told)).elements()
    )


def compare_loops(happened: Sequence[Happened], history: History) -> Iterator[str]:
    """Crash loops of one group against the script: all that died joined, and one stayed."""
    loops = [
        each
        for each in history.storms
        if (each.group_id, each.kind) == (happened[0].group, CRASH_LOOP)
    ]
    for client_id in (
        deed.member for one in happened for deed in one.step if deed.action == CRASH_LOOP
    ):
        most = max((each.rebalances for each in loops if _is_of(client_id, each)), default=0)
        if most < CRASHES + 1:
            yield f"{client_id} joined {CRASHES + 1} times, {most} are in its crash loop"


def storms(group: str, rows: Sequence[Rebalance]) -> Iterator[Storm]:
    """The storms and crash loops that a group's rebalances make."""
    times = sorted(row.stored_before or row.began_before for row in rows)
    yield from _chains(group, STORM, None, times)
    joins: dict[str, list[datetime]] = {}
    for row in rows:
        joined = {
            each.client_id
            for each in row.people
            if each.change == "joined" and each.client_id is not None
        }
        for client_id in joined if row.ended_before is not None else ():
            joins.setdefault(client_id, []).append(row.stored_before or row.began_before)
    for client_id, begins in joins.items():
        yield from _chains(group, CRASH_LOOP, client_id, sorted(begins))


def _chains(
    group: str, kind: str, client_id: str | None, times: Sequence[datetime]
) -> Iterator[Storm]:
    for first, last in chains(times, *LIMITS[kind]):
        yield Storm(group, kind, client_id, times[first], times[last], last - first + 1)


def _is_of(client_id: str, storm: Storm) -> bool:
    """Java's clients put more behind their client id."""
    return (storm.client_id or "").startswith(client_id)
