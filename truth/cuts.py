"""Brokers that were cut off from the controllers, and what they may have shown meanwhile."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from truth.chaos import Entry
from truth.model.states import BrokerState, PartitionKey, PartitionState, Truth, at_time

CATCHES_UP = timedelta(seconds=10)
"""So long after its return a broker may answer from the image of before."""
_LIST = "brokers"
_CUT = timedelta(seconds=0.5)
"""Records of so long before a broker was cut off may not have come to it."""


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
