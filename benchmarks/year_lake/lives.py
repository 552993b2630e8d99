"""The life of partitions that lie alike: their states, and rows of gold that follow.

The rules are those of Kafka and of jobs/rules/gold/ for the few faults that happen here.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.year_lake.clusters import Outage, Placed

Row = dict[str, Any]
NOBODY: Final = -1


class State(NamedTuple):
    """A state of a partition from poll `n` on. `down`: replicas that are not available."""

    n: int
    leader: int
    epoch: int
    isr: tuple[int, ...]
    down: tuple[int, ...]


def states(placed: Placed, outages: Sequence[Outage]) -> list[State]:
    """The states of a partition, by all outages of its cluster."""
    events: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for outage in outages:
        if outage.broker in placed.replicas:
            for n, what in (
                (outage.since, "down"),
                (outage.until, "back"),
                (outage.preferred, "preferred"),
            ):
                events[n].append((what, outage.broker))
    now = State(0, placed.replicas[0], 0, tuple(sorted(placed.replicas)), ())
    found = [now]
    for n in sorted(events):
        after = now._replace(n=n)
        for what, broker in events[n]:
            after = _after(placed, after, what, broker)
        if after[1:] != now[1:]:
            now = after
            found.append(now)
    return found


def _after(placed: Placed, now: State, what: str, broker: int) -> State:
    down, isr, leader = {*now.down}, {*now.isr}, now.leader
    if what == "down":
        down.add(broker)
        # The last one stays in the ISR.
        isr -= {broker} if isr - {broker} else set()
    elif what == "back":
        down.discard(broker)
        isr |= {broker} if isr - down else set()
    elif placed.replicas[0] in isr - down:
        leader = placed.replicas[0]
    if leader not in isr - down:
        leader = next((each for each in placed.replicas if each in isr - down), NOBODY)
    return State(
        now.n, leader, now.epoch + (leader != now.leader), tuple(sorted(isr)), tuple(sorted(down))
    )


def rows(placed: Placed, of: list[State]) -> dict[str, list[Row]]:
    """Rows by the name of their table. `n`: the poll that showed it first; `m`: that ended it."""
    found: dict[str, list[Row]] = {
        "partition_snapshots": [],
        "leader_changes": [],
        "isr_changes": [],
    }
    ends = [*(each.n for each in of[1:]), None]
    for before, state, end in zip([None, *of], of, ends, strict=False):
        told = state._asdict() | {"m": end, "replicas": placed.replicas}
        told |= {
            f"prev_{name}": value
            for name, value in (before or State(0, None, None, None, None))._asdict().items()
        }  # type: ignore[arg-type]
        found["partition_snapshots"].append(told)
        if before and before.leader != state.leader:
            found["leader_changes"].append(
                told | {"m": state.n, "reason": _reason(placed, before, state)}
            )
    out: dict[int, Row] = {}
    for before, state in pairwise(of):
        told = {
            "n": state.n,
            "leader": state.leader,
            "prev_leader": before.leader,
            "replicas": placed.replicas,
            "isr": state.isr,
            "prev_isr": before.isr,
        }
        for broker in {*before.isr} - {*state.isr}:
            out[broker] = told | {"broker_id": broker, "change": "left", "m": None}
            found["isr_changes"].append(out[broker])
        for broker in {*state.isr} - {*before.isr}:
            out.pop(broker)["m"] = state.n
            found["isr_changes"].append(
                told | {"broker_id": broker, "change": "rejoined", "m": state.n}
            )
    return found | {"isr_episodes": list(_episodes(placed, of))}


def _reason(placed: Placed, before: State, state: State) -> str:
    if state.leader == NOBODY:
        return "offline"
    if before.leader == NOBODY:
        return "recovery"
    return "preferred" if state.leader == placed.replicas[0] else "failover"


def _episodes(placed: Placed, of: list[State]) -> Iterator[Row]:
    needed, lasting = min(placed.min_isr, len(placed.replicas)), {}
    for state in of:
        size = len(state.isr)
        levels = {
            "under_replicated": size < len(placed.replicas),
            "at_min_isr": size == needed,
            "under_min_isr": size < needed and state.leader != NOBODY,
            "offline": state.leader == NOBODY,
        }
        for level, holds in levels.items():
            if holds and level not in lasting:
                lasting[level] = {"n": state.n, "m": None, "level": level, "min_isr": needed}
                lasting[level] |= {"smallest_isr": size, "brokers_out": []}
            if holds:
                episode = lasting[level]
                episode["smallest_isr"] = min(episode["smallest_isr"], size)
                episode["brokers_out"] = sorted(
                    {*episode["brokers_out"], *placed.replicas} - {*state.isr}
                )
            elif level in lasting:
                yield lasting.pop(level) | {"m": state.n}
    yield from lasting.values()
