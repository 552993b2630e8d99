"""Groups: who had what, the rebalances that members' callbacks tell, what they came to, and those
that come one soon after the other.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from local_cluster.members import Told, TopicPartition

Owned = Mapping[Any, Collection[TopicPartition]]
"""The partitions of each member."""


@dataclass(frozen=True)
class Holder:
    """A member of a group that is quiet, and what it has."""

    member_id: str
    client_id: str
    instance_id: str | None
    partitions: frozenset[TopicPartition]
    """Of streams: active tasks, the topic is the subtopology."""


Holders = Mapping[str, Holder]
"""By member id."""


@dataclass(frozen=True)
class Call:
    """A callback of a member."""

    client_id: str
    told: Told


@dataclass(frozen=True)
class Round:
    """A rebalance of a classic group as its members called it back."""

    prev_generation: int
    generation: int
    phases: int


def rounds(
    calls: Iterable[Call], generation: int, *, quits: AbstractSet[str], eager: bool, emptied: bool
) -> list[Round]:
    """The rebalances of a classic group that its members' callbacks tell; `generation` is the one
    before them. `quits` are ids of members that are gone afterwards.

    Each generation is called back to each member, the last of an `emptied` group to nobody. A
    cooperative one in which a member gave up what another has in the next is a phase of the same
    rebalance.
    """
    given_up, taken = (defaultdict[int, set[TopicPartition]](set) for _ in range(2))
    for told in (call.told for call in calls):
        if told.generation is None:
            continue
        if told.what == "revoked" and told.member_id not in quits and not eager:
            given_up[told.generation] |= told.partitions
        elif told.what == "assigned":
            taken[told.generation] |= told.partitions
    found: list[Round] = []
    for each in sorted(of for of in taken if of > generation):
        last = found[-1] if found else Round(generation, generation, 0)
        if last.generation == each - 1 and given_up[last.generation] & taken[each]:
            found[-1:] = [replace(last, generation=each, phases=last.phases + 1)]
        else:
            found.append(Round(last.generation, each, 1))
    if emptied:
        last_generation = found[-1].generation if found else generation
        found.append(Round(last_generation, last_generation + 1, 1))
    return found


def figures(
    before: Owned, after: Owned, *, passed: AbstractSet[Any] = frozenset(), restarted: int = 0
) -> dict[str, int]:
    """The figures of a rebalance, counted member by member and partition by partition.

    `passed` came meanwhile, also if they are gone again. `restarted` members are the same ones.
    """
    owned_before, owned_after = (
        {(member, partition) for member, has in owned.items() for partition in has}
        for owned in (before, after)
    )
    had, has = ({partition for _, partition in owned} for owned in (owned_before, owned_after))
    kept = {partition for _, partition in owned_before & owned_after}
    return {
        "members": len(after),
        "prev_members": len(before),
        "members_joined": len((after.keys() | passed) - before.keys()),
        "members_left": len((before.keys() | passed) - after.keys()),
        "members_restarted": restarted,
        "partitions_kept": len(kept),
        "partitions_moved": len(had & has - kept),
        "partitions_added": len(has - had),
        "partitions_lost": len(had - has),
    }


def skew(owned: Owned) -> int | None:
    """How many partitions the member that has the most has more than the one that has the least;
    None where nobody is there.
    """
    numbers = sorted(len({*has}) for has in owned.values())
    return numbers[-1] - numbers[0] if numbers else None


def chains(times: Sequence[datetime], least: int, window: timedelta) -> list[tuple[int, int]]:
    """Times, in order, that come one soon after the other, each time by the index of the first and
    of the last: windows that hold enough, those as one that share a time.
    """
    found: list[tuple[int, int]] = []
    for first, time in enumerate(times):
        last = max(n for n, other in enumerate(times) if other - time < window)
        if last - first + 1 < least:
            continue
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found
