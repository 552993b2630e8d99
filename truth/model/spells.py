"""Spells: partitions at levels, ISRs that lack a broker, what each broker leads.

An answer shows what held at some time while the poll was answered, or a moment before. So of each
moment there is what may hold around it, and what surely does.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from truth.model.states import NO_LEADER, PartitionKey, PartitionState, Truth

UNDER_REPLICATED, AT_MIN_ISR, UNDER_MIN_ISR, OFFLINE = (
    "under_replicated",
    "at_min_isr",
    "under_min_isr",
    "offline",
)
LEVELS = (UNDER_REPLICATED, AT_MIN_ISR, UNDER_MIN_ISR, OFFLINE)
"""The least bad one first."""
OF_MIN_ISR = (AT_MIN_ISR, UNDER_MIN_ISR)

_TOPIC, _BROKER = 2, 4
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Span:
    """The time that something held."""

    since: datetime
    until: datetime | None
    """Null: to the end of the log."""

    def may_hold(self, since: datetime, until: datetime) -> bool:
        """Whether it held at some time between."""
        return self.since <= until and (self.until is None or self.until >= since)

    def surely_holds(self, since: datetime, until: datetime) -> bool:
        """Whether it held all the time between."""
        return self.since <= since and (self.until is None or self.until > until)


def spans(
    states: Sequence[PartitionState], hold: Iterable[bool], ended_at: datetime | None
) -> list[Span]:
    """The times that something held.

    `hold`: whether it does in each of the states. `ended_at`: of the last state.
    """
    found: list[Span] = []
    ends = [*(state.at for state in states[1:]), ended_at]
    for state, until, holds in zip(states, ends, hold, strict=True):
        if holds and found and found[-1].until == state.at:
            found[-1] = Span(found[-1].since, until)
        elif holds:
            found.append(Span(state.at, until))
    return found


def out_of(states: Sequence[PartitionState]) -> list[frozenset[int]]:
    """For each state the replicas that are out of the ISR: they have been in it, or were there from
    the beginning.
    """
    been = frozenset(states[0].replicas) - frozenset(states[0].adding)
    found = []
    for state in states:
        been = (been | frozenset(state.isr)) & frozenset(state.replicas)
        found.append(been - frozenset(state.isr))
    return found


def min_isr(truth: Truth, topic: str, at: datetime) -> int:
    """How many in-sync replicas a topic wants: its setting, the cluster's or Kafka's default."""
    for kind, name in ((_TOPIC, topic), (_BROKER, "")):
        told = [
            each
            for each in truth.configs
            if (each.resource_type, each.resource, each.name) == (kind, name, _MIN_ISR)
            and each.at <= at
        ]
        if told and told[-1].value is not None:
            return int(told[-1].value)
    return 1


def levels(state: PartitionState, out: frozenset[int], least: int) -> frozenset[str]:
    """The levels that a partition is at. `least`: its min ISR."""
    if state.leader == NO_LEADER:
        of_leader = {OFFLINE}
    else:
        size, asked = len(state.isr), min(least, len(state.replicas))
        of_leader = {AT_MIN_ISR} if size == asked else {UNDER_MIN_ISR} if size < asked else set()
    return frozenset(of_leader | ({UNDER_REPLICATED} if out else set()))


def level_spans(truth: Truth) -> dict[tuple[PartitionKey, str], list[Span]]:
    """For each partition and level the times that it was there."""
    found = {}
    for key, states in truth.partitions.items():
        least = min_isr(truth, states[0].topic, states[0].at)
        at = [levels(state, out, least) for state, out in zip(states, out_of(states), strict=True)]
        for level in LEVELS:
            found[key, level] = spans(states, (level in each for each in at), truth.ends_at(key))
    return found


def absences(truth: Truth) -> dict[int, dict[PartitionKey, list[Span]]]:
    """For each broker and partition the times that it was a replica and out of the ISR."""
    found: dict[int, dict[PartitionKey, list[Span]]] = {}
    for key, states in truth.partitions.items():
        outs = out_of(states)
        for broker in frozenset().union(*outs):
            held = spans(states, (broker in out for out in outs), truth.ends_at(key))
            found.setdefault(broker, {})[key] = held
    return found


Balance = tuple[int, int, int]
"""Partitions that a broker leads, is preferred for, and of these those that it does not lead."""


def balances(truth: Truth) -> dict[int, list[tuple[datetime, Balance]]]:
    """For each broker the numbers of what it leads, each from when on, in order."""
    changes: list[tuple[datetime, int, PartitionKey, PartitionState | None]] = []
    for key, states in truth.partitions.items():
        changes += [(state.at, state.offset, key, state) for state in states]
        if (ended_at := truth.ends_at(key)) is not None:
            changes.append((ended_at, -1, key, None))
    last: dict[PartitionKey, PartitionState | None] = {}
    numbers: Counter[tuple[int, int]] = Counter()
    found: dict[int, list[tuple[datetime, Balance]]] = {}
    for at, _, key, state in sorted(changes, key=itemgetter(0, 1)):
        touched = set()
        for sign, each in ((-1, last.get(key)), (1, state)):
            for broker, which in _counted(each):
                numbers[broker, which] += sign
                touched.add(broker)
        last[key] = state
        for broker in touched:
            now = (numbers[broker, 0], numbers[broker, 1], numbers[broker, 2])
            found.setdefault(broker, []).append((at, now))
    return found


def _counted(state: PartitionState | None) -> Iterator[tuple[int, int]]:
    if state is None:
        return
    if state.leader != NO_LEADER:
        yield state.leader, 0
    yield state.replicas[0], 1
    if state.leader != state.replicas[0]:
        yield state.replicas[0], 2
