"""Groups that rebalance again and again, and clients that join again and again.

Within `window` means less than `window` apart, as for brokers that flap. Two begins hang together
when some window holds both and `least` of them or more. A chain is all that hangs together so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.rules.groups.rows import MEMBER_ROWS, Row
from jobs.rules.groups.state import MICROSECOND, to_micros
from jobs.rules.memory import from_json, to_json

STORM, CRASH_LOOP = "storm", "crash_loop"

Time = tuple[int, str]
"""When a rebalance had begun, microseconds since the epoch, and its id."""

Who = tuple[str, str | None, str | None]
"""STORM or CRASH_LOOP; and of a crash loop client id and host."""


@dataclass(frozen=True)
class Chain:
    """Begins that hang together. `first`: id of the first one."""

    first: str
    began: int
    last: int
    count: int


@dataclass(frozen=True)
class Chains:
    """The memory: the last least - 1 begins, the chain that may grow, and begins `since` then."""

    recent: Sequence[Time] = ()
    chain: Chain | None = None
    since: int = 0


Stormed = list[tuple[Who, Chain]]


def chained(chains: Chains, time: Time, least: int, window: int) -> tuple[Chains, Chain | None]:
    """Add the next begin; returns also the chain that is over with it. `window`: microseconds."""
    recent, chain, since, over = chains.recent[-(least - 1) :], chains.chain, chains.since, None
    if len(recent) == least - 1 and time[0] - recent[0][0] < window:
        if chain is None:
            chain = Chain(recent[0][1], recent[0][0], time[0], least)
        else:
            chain = replace(chain, last=time[0], count=chain.count + since + 1)
        since = 0
    elif chain is not None:
        since += 1
        if since == least - 1:  # No window holds what comes next and one of the chain.
            over, chain, since = chain, None, 0
    return Chains((*recent, time)[-(least - 1) :], chain, since), over


def stormed(
    kept: Iterable[Any], rows: Iterable[Row], limits: Any
) -> tuple[list[Any], Stormed, Stormed]:
    """The memory after more rebalances, as JSON; chains that are over; and those that may grow."""
    chains: dict[Who, Chains] = {tuple(who): from_json(Chains, made) for who, made in kept}
    least = {STORM: limits.storm, CRASH_LOOP: limits.crash_loop}
    window = {
        STORM: limits.storm_window // MICROSECOND,
        CRASH_LOOP: limits.crash_loop_window // MICROSECOND,
    }
    over, newest = [], 0
    for who, time in _begins(row for row in rows if "event" not in row):
        chains[who], chain = chained(chains.get(who, Chains()), time, least[who[0]], window[who[0]])
        over += [(who, chain)] if chain else []
        newest = time[0]
    forgotten = [
        who for who, each in chains.items() if each.recent[-1][0] + window[who[0]] <= newest
    ]
    over += [(who, chain) for who in forgotten if (chain := chains.pop(who).chain)]
    longer = [(who, each.chain) for who, each in chains.items() if each.chain]
    return [[who, to_json(each)] for who, each in chains.items()], over, longer


def _begins(rebalances: Iterable[Row]) -> Iterator[tuple[Who, Time]]:
    """Begins of rebalances, and of those in which a client joined, once for all its members."""
    for row in sorted(rebalances, key=lambda row: (row["began_before"], row["first_offset"] or 0)):
        time = to_micros(row["began_before"]), row["id"]
        yield (STORM, None, None), time
        # Who joins one that is open may not be a member of it after all.
        if row["ended_before"] is not None:
            joined = {
                (each["client_id"], each["client_host"])
                for each in row[MEMBER_ROWS]
                if each["change"] == "joined"
            }
            yield from (
                ((CRASH_LOOP, *who), time)
                for who in sorted(each for each in joined if None not in each)
            )
