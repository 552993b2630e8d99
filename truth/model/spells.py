"""Spells: partitions at levels, ISRs that lack a broker, what each broker leads.

An answer shows what held at some time while the poll was answered, or a moment before. So of each
moment there is what may hold around it, and what surely does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar

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
MERGED_WITHIN = timedelta(seconds=60)
"""Absences of a broker that are less apart are one incident."""

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


def levels(isr: int, asked: int, out: Collection[int], *, has_leader: bool) -> frozenset[str]:
    """The levels that a partition is at: `isr` replicas are in sync, `asked` are wanted, `out` were
    in sync and are not.
    """
    of_leader = set[str]()
    if not has_leader:
        of_leader = {OFFLINE}
    elif isr <= asked:
        of_leader = {AT_MIN_ISR if isr == asked else UNDER_MIN_ISR}
    return frozenset(of_leader | ({UNDER_REPLICATED} if out else set()))


def levels_of(state: PartitionState, out: frozenset[int], least: int) -> frozenset[str]:
    """The levels of a state. `least`: its topic's min ISR."""
    asked = min(least, len(state.replicas))
    return levels(len(state.isr), asked, out, has_leader=state.leader != NO_LEADER)


def level_spans(truth: Truth) -> dict[tuple[PartitionKey, str], list[Span]]:
    """For each partition and level the times that it was there."""
    found = {}
    for key, states in truth.partitions.items():
        least = min_isr(truth, states[0].topic, states[0].at)
        at = [
            levels_of(state, out, least) for state, out in zip(states, out_of(states), strict=True)
        ]
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


_Absence = TypeVar("_Absence")


def incidents(
    absences: Iterable[_Absence], span_of: Callable[[_Absence], Span]
) -> list[list[_Absence]]:
    """Absences of one broker, in order of their begins: those less than MERGED_WITHIN apart are one
    incident.
    """
    found: list[list[_Absence]] = []
    for each in absences:
        ends = [span_of(other).until for other in (found[-1] if found else [])]
        over = [end for end in ends if end is not None]
        is_over = len(over) == len(ends) and (
            not over or span_of(each).since >= max(over) + MERGED_WITHIN
        )
        if is_over:
            found.append([])
        found[-1].append(each)
    return found


BALANCE = LEADS, PREFERRED_FOR, LED_ELSEWHERE = "leads", "preferred_for", "led_elsewhere"
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
    numbers: Counter[tuple[int, str]] = Counter()
    found: dict[int, list[tuple[datetime, Balance]]] = {}
    for at, _, key, state in sorted(changes, key=itemgetter(0, 1)):
        touched = set()
        for sign, each in ((-1, last.get(key)), (1, state)):
            for broker, what in () if each is None else counted(each.leader, each.replicas[0]):
                numbers[broker, what] += sign
                touched.add(broker)
        last[key] = state
        for broker in touched:
            leads, preferred, elsewhere = (numbers[broker, what] for what in BALANCE)
            found.setdefault(broker, []).append((at, (leads, preferred, elsewhere)))
    return found


def counted(leader: int, preferred: int) -> Iterator[tuple[int, str]]:
    """What a partition is to its leader, and to the replica that is to lead it."""
    if leader != NO_LEADER:
        yield leader, LEADS
    yield preferred, PREFERRED_FOR
    if leader != preferred:
        yield preferred, LED_ELSEWHERE
