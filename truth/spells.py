"""Spells, by the log: partitions at levels, ISRs that lack a broker, what each broker leads,
brokers cut off.

An answer shows what held at some time while the poll was answered, or a moment before. So of each
moment there is what may hold around it, and what surely does.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter

from truth.chaos import Entry
from truth.log import NO_LEADER, BrokerState, PartitionKey, PartitionState, Truth, at_time

UNDER_REPLICATED, AT_MIN_ISR, UNDER_MIN_ISR, OFFLINE = (
    "under_replicated",
    "at_min_isr",
    "under_min_isr",
    "offline",
)
LEVELS = (UNDER_REPLICATED, AT_MIN_ISR, UNDER_MIN_ISR, OFFLINE)
"""The least bad one first."""
OF_MIN_ISR = (AT_MIN_ISR, UNDER_MIN_ISR)
CATCHES_UP = timedelta(seconds=10)
"""So long after its return a broker may answer from the image of before."""

_TOPIC, _BROKER = 2, 4
_LIST = "brokers"
_MIN_ISR = "min.insync.replicas"
_CUT = timedelta(seconds=0.5)
"""Records of so long before a broker was cut off may not have come to it."""


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


@dataclass(frozen=True, slots=True)
class View:
    """The live partitions and brokers that an answer shows."""

    partitions: Mapping[PartitionKey, PartitionState]
    brokers: frozenset[int]

    def behind(self, newer: "View") -> tuple[int, int]:
        """In how many partitions another view differs, at most, and by how many leader epochs."""
        epochs = sum(
            abs(newer.partitions[key].leader_epoch - state.leader_epoch)
            for key, state in self.partitions.items()
            if key in newer.partitions
        )
        return sum(1 for _ in self._differing(newer)), epochs

    def is_same(self, other: "View") -> bool:
        """Whether nobody can tell the two apart."""
        return self.brokers == other.brokers and next(self._differing(other), None) is None

    def parts(self) -> frozenset[str]:
        """The parts that an answer is compared by: its topics, by id, and its list of brokers."""
        return frozenset({_LIST, *(topic_id for topic_id, _ in self.partitions)})

    def parts_unlike(self, other: "View") -> frozenset[str]:
        """Those in which another view is not the same."""
        listed = [] if self.brokers == other.brokers else [_LIST]
        return frozenset([*listed, *(topic_id for topic_id, _ in self._differing(other))])

    def _differing(self, other: "View") -> Iterator[PartitionKey]:
        for key in self.partitions.keys() | other.partitions.keys():
            if _shown(self, key) != _shown(other, key):
                yield key


def _shown(view: View, key: PartitionKey) -> object:
    """The state of a partition as an answer tells it."""
    state = view.partitions.get(key)
    if state is None:
        return None
    offline = frozenset(state.replicas) - view.brokers
    return state.leader, state.leader_epoch, state.isr, state.replicas, offline


class Views:
    """The views of up-to-date brokers, from moment to moment."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._times = sorted(
            {*_times(truth.partitions.values()), *_times(truth.brokers.values()), *_ends(truth)}
        )
        self._made: dict[int, View] = {}

    def during(self, since: datetime, until: datetime) -> list[View]:
        """Those of a time, in order, the one at its beginning among them."""
        first = max(0, bisect_right(self._times, since) - 1)
        return [self._view(number) for number in range(first, bisect_right(self._times, until))]

    def first_other(
        self, views: Sequence[View], since: datetime, until: datetime
    ) -> datetime | None:
        """When a view first held that differs from all of these."""
        for number in range(bisect_left(self._times, since), bisect_right(self._times, until)):
            if not any(view.is_same(self._view(number)) for view in views):
                return self._times[number]
        return None

    def _view(self, number: int) -> View:
        if number not in self._made:
            at = self._times[number]
            partitions = {}
            for key, states in self._truth.partitions.items():
                state, ended_at = at_time(states, at), self._truth.ends_at(key)
                if state is not None and (ended_at is None or ended_at > at):
                    partitions[key] = state
            live = {
                broker
                for broker, states in self._truth.brokers.items()
                if (registered := at_time(states, at)) is not None and registered.is_alive
            }
            self._made[number] = View(partitions, frozenset(live))
        return self._made[number]


def _times(states: Iterable[Sequence[PartitionState | BrokerState]]) -> Iterator[datetime]:
    return (state.at for each in states for state in each)


def _ends(truth: Truth) -> Iterator[datetime]:
    return (topic.deleted_at for topic in truth.topics.values() if topic.deleted_at is not None)


@dataclass(frozen=True)
class Cut:
    """The time that a broker heard nothing of the controllers, and may have answered clients after
    all or afterwards.

    Its image may move on from `returning_at` on. `frozen`: the views that it may have been left
    with. `stale_from`: when the cluster first differed from all of them, null if it never did.
    """

    broker_id: int
    since: datetime
    returning_at: datetime
    back_at: datetime
    frozen: tuple[View, ...]
    stale_from: datetime | None

    @property
    def until(self) -> datetime:
        """By when it has caught up."""
        return self.back_at + CATCHES_UP

    def may_be_behind(self, views: Sequence[View]) -> bool:
        """Whether it may show something else than one of these."""
        return any(not old.is_same(view) for old in self.frozen for view in views)

    def is_surely_behind(self, views: Sequence[View]) -> bool:
        """Whether it shows something else than each of these."""
        return not any(old.is_same(view) for old in self.frozen for view in views)

    def surely_lacks(self, known: View, views: Sequence[View]) -> bool:
        """Whether it lacks, of a topic or the brokers, what was known and is in each of these."""
        kept = frozenset.intersection(*(known.parts() - known.parts_unlike(view) for view in views))
        return all(known.parts_unlike(old) & kept for old in self.frozen)


_CUTS = {"isolate": "rejoin", "pause": "resume"}


def cuts(journal: Sequence[Entry], views: Views) -> list[Cut]:
    """The brokers that were cut off from the controllers, or paused."""
    return [
        cut
        for action, back in _CUTS.items()
        for broker in sorted({broker for entry in journal for broker in entry.nodes})
        for cut in _cuts(
            [entry for entry in journal if broker in entry.nodes], broker, (action, back), views
        )
    ]


def _cuts(
    entries: Sequence[Entry], broker: int, actions: tuple[str, str], views: Views
) -> Iterator[Cut]:
    for gone, back in pairwise(entry for entry in entries if entry.action in actions):
        if (gone.action, back.action) == actions:
            frozen = tuple(views.during(gone.began_at - _CUT, gone.ended_at))
            stale_from = views.first_other(frozen, gone.ended_at, back.began_at)
            yield Cut(broker, gone.began_at, back.began_at, back.ended_at, frozen, stale_from)
