"""Events by the log: leader transitions, and brokers leaving and joining ISRs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from truth.model.states import NO_LEADER, PartitionKey, PartitionState, Truth, at_time, during

PREFERRED = "preferred"
FAILOVER = "failover"
REASSIGNMENT = "reassignment"
RECOVERY = "recovery"
OFFLINE = "offline"
BROKER_DOWN = "broker_down"


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a partition's leader, to and from none included."""

    before: PartitionState
    after: PartitionState
    unclean: bool
    reason: str | None
    """preferred | failover | reassignment | recovery | offline; null: not decided by the log."""

    @property
    def at(self) -> datetime:
        """When it was decided."""
        return self.after.at

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.after.topic_id, self.after.partition

    @property
    def of_last_known_leader(self) -> bool:
        """Whether the new leader was elected for being the last one known (KIP-966)."""
        return self.unclean and self.after.leader in self.before.last_known_elr


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time that a broker was in, or was out of, an ISR, between its joining and its leaving."""

    topic: str
    topic_id: str
    partition: int
    broker_id: int
    inside: bool
    since: datetime
    until: datetime | None
    """Null: to the end of the log."""
    is_first: bool
    """It began with the partition: nobody joined or left."""
    cause: str | None
    """Why it left, where the log decides it: reassignment (no replica any more); null otherwise."""

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition


def leader_transitions(
    truth: Truth, since: datetime | None = None, until: datetime | None = None
) -> list[Transition]:
    """The leader transitions of all partitions in (since, until], by partition and time.

    Records that set the same leader again, which raise the epoch, are not among them
    (`epoch_raises`).
    """
    return [
        _transition(truth, before, after)
        for before, after in _raises(truth, since, until)
        if before.leader != after.leader
    ]


def epoch_raises(
    truth: Truth, since: datetime | None = None, until: datetime | None = None
) -> list[PartitionState]:
    """The states whose record raised the leader epoch, with or without another leader."""
    return [after for _, after in _raises(truth, since, until)]


def isr_departures(truth: Truth) -> list[Stretch]:
    """Each time that a broker left an ISR: how long it was out."""
    return [
        stretch for stretch in isr_stretches(truth) if not stretch.inside and not stretch.is_first
    ]


def isr_stretches(truth: Truth) -> list[Stretch]:
    """For each partition and broker ever in its ISR, the stretches in and out, in order."""
    return [
        stretch
        for key, states in truth.partitions.items()
        for broker_id in sorted({broker for state in states for broker in state.isr})
        for stretch in _stretches(truth, key, broker_id)
    ]


def broker_goes(truth: Truth, broker_id: int, since: datetime, until: datetime) -> bool:
    """Whether the broker was ever down (fenced, gone, shutting down) from `since` to `until`."""
    states = truth.brokers.get(broker_id, [])
    return any(
        not state.is_alive or state.in_controlled_shutdown for state in during(states, since, until)
    )


def raised_by_moves(truth: Truth, key: PartitionKey, epochs: range) -> int:
    """How many of these epochs a record made that changed the replicas and left the leader."""
    return sum(
        after.names_leader
        and after.leader == before.leader
        and after.replicas != before.replicas
        and after.leader_epoch in epochs
        for before, after in pairwise(truth.partitions[key])
    )


def _raises(
    truth: Truth, since: datetime | None, until: datetime | None
) -> Iterator[tuple[PartitionState, PartitionState]]:
    for states in truth.partitions.values():
        # With a leader that is shown gone nothing was written.
        for before, after in pairwise(state for state in states if not state.is_shown_gone):
            late_enough = since is None or after.at > since
            if after.names_leader and late_enough and (until is None or after.at <= until):
                yield before, after


def _transition(truth: Truth, before: PartitionState, after: PartitionState) -> Transition:
    outsider = after.leader not in before.isr and after.leader not in before.elr
    alone = after.isr == (after.leader,)
    return Transition(
        before=before,
        after=after,
        # Once it recovers from one unclean election, another leaves no new mark.
        unclean=after.leader != NO_LEADER
        and after.recovering
        and (not before.recovering or (outsider and alone)),
        reason=_reason(truth, before, after),
    )


_MOMENT = timedelta(milliseconds=1)
"""Batches written one after the other in a millisecond are one moment by the log's clock."""


def _reason(truth: Truth, before: PartitionState, after: PartitionState) -> str | None:
    if before.leader == NO_LEADER:
        return RECOVERY
    if after.leader == NO_LEADER:
        return OFFLINE
    if before.leader not in after.replicas:
        return REASSIGNMENT
    old = at_time(truth.brokers.get(before.leader, []), after.at + _MOMENT)
    if (
        before.leader not in after.isr
        or old is None
        or not old.is_alive
        or old.in_controlled_shutdown
    ):
        return FAILOVER
    return PREFERRED if after.leader == after.replicas[0] else None


def _stretches(truth: Truth, key: PartitionKey, broker_id: int) -> Iterator[Stretch]:
    states = truth.partitions[key]
    turns = [states[0]]
    turns += [
        after
        for before, after in pairwise(states)
        if (broker_id in before.isr) != (broker_id in after.isr)
    ]
    ends = [*(turn.at for turn in turns[1:]), truth.ends_at(key)]
    for index, (turn, until) in enumerate(zip(turns, ends, strict=True)):
        inside = broker_id in turn.isr
        moved = not inside and index > 0 and broker_id not in turn.replicas
        yield Stretch(
            topic=turn.topic,
            topic_id=turn.topic_id,
            partition=turn.partition,
            broker_id=broker_id,
            inside=inside,
            since=turn.at,
            until=until,
            is_first=index == 0,
            cause=REASSIGNMENT if moved else None,
        )
