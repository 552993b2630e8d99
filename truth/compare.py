"""The states in silver against the log: each that was said to hold at a poll did."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from truth.model.events import leader_transitions, raised_by_moves
from truth.model.states import BrokerState, PartitionKey, PartitionState, Truth, during
from truth.observed import Poll, Seen, SeenBroker, Watch

TOLERANCE = timedelta(seconds=0.6)
"""Brokers answer from their own copies, which trail the log: by so much at most."""
PART_OF_INTERVAL = 0.4
"""Less than half: a poll must not pass for the one before or after it."""


def tolerance(interval: timedelta) -> timedelta:
    """How far the answers of polls at an interval may trail the log."""
    return min(PART_OF_INTERVAL * interval, TOLERANCE)


@dataclass
class StateScore:
    """The fate of each claim that a partition, or a broker, was in some state at some poll."""

    claims: int = 0
    """Made at polls that count."""
    late: list[timedelta] = field(default_factory=list)
    """Of claims that were true only before the tolerance: by how much longer ago."""
    wrong: list[str] = field(default_factory=list)
    """Of claims that never were true before the poll."""
    offline_wrong: list[str] = field(default_factory=list)
    """Of claims that a replica was offline, or not, while its broker was not so."""
    missing: list[str] = field(default_factory=list)
    """Partitions that existed all around a poll, and of which nothing is said there."""
    trail: list[timedelta] = field(default_factory=list)
    """Of claims that were true only before the poll was sent: for how long they had not been."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Claims at polls that do not count, by why."""

    def __str__(self) -> str:
        trail = max(self.trail, default=timedelta(0)).total_seconds()
        left_out = (
            ", ".join(f"{why} {count}" for why, count in sorted(self.left_out.items())) or "none"
        )
        return (
            f"{self.claims} claims: {len(self.wrong)} wrong, {len(self.offline_wrong)} of replicas "
            f"offline, {len(self.missing)} missing, {len(self.late)} late{_most(self.late)}; "
            f"{len(self.trail)} trailed, at most {trail:.3f} s; left out: {left_out}"
        )


@dataclass
class EpochScore:
    """Differences of leader epochs in silver, as counts of transitions, against the log."""

    pairs: int = 0
    """Rows that follow each other, with another epoch."""
    transitions: int = 0
    """Of the log, between those."""
    exact: int = 0
    """Pairs with the same replicas: the difference is said to count the transitions."""
    moved_between: list[str] = field(default_factory=list)
    """Of the exact, those that do not count them since a reassignment between was unseen."""
    wrong: list[str] = field(default_factory=list)
    """Of the exact, other miscounts; of the others, those below the transitions."""

    def __str__(self) -> str:
        return (
            f"{self.pairs} changes of epoch, {self.transitions} transitions: {self.exact} with the "
            f"same replicas, {len(self.moved_between)} of them around an unseen reassignment, "
            f"{len(self.wrong)} wrong"
        )


def compare_states(rows: Sequence[Seen], watch: Watch, truth: Truth) -> StateScore:
    """Every row at every accepted poll from its first to its last, and what no row speaks of."""
    score = StateScore()
    spoken: dict[str, set[PartitionKey]] = {poll.poll_id: set() for poll in watch.polls}
    for row in rows:
        score.wrong += [
            f"{row}: nothing is proven by {poll_id}"
            for poll_id in (row.first_poll, row.last_poll)
            if poll_id is not None and poll_id not in spoken
        ]
        for poll in watch.between(row.first_poll, row.last_poll):
            spoken[poll.poll_id].add(row.key)
            if poll.left_out is None:
                score.claims += 1
                _judge(row, poll, truth, watch, score)
            else:
                score.left_out[poll.left_out] += 1
    for poll in watch.polls:
        if poll.left_out is None and poll.received_at < truth.ended_at:
            lived = (
                key
                for key in truth.partitions
                if _lives(truth, key, poll.sent_at - watch.tolerance, poll)
            )
            score.missing += [
                f"{_name(truth, key)} at {_when(poll)}"
                for key in lived
                if key not in spoken[poll.poll_id]
            ]
    return score


def compare_brokers(rows: Sequence[SeenBroker], watch: Watch, truth: Truth) -> StateScore:
    """Whether each broker was listed or not, at every accepted poll; and its rack."""
    score = StateScore()
    listed = {poll.poll_id: {} for poll in watch.polls}  # type: dict[str, dict[int, SeenBroker]]
    for row in rows:
        for poll in watch.between(row.first_poll, row.last_poll):
            listed[poll.poll_id][row.broker_id] = row
    for poll in watch.polls:
        if poll.left_out is not None:
            score.left_out[poll.left_out] += 1
            continue
        for broker_id in sorted(truth.brokers.keys() | listed[poll.poll_id].keys()):
            row = listed[poll.poll_id].get(broker_id)
            states = truth.brokers.get(broker_id, [])
            score.claims += 1
            if row is not None and states and row.rack != states[0].rack:
                score.wrong.append(f"{row}, the log has rack {states[0].rack}")
            elif (trail := _alive_ago(states, row is not None, poll)) is None:
                score.wrong.append(
                    f"broker {broker_id} is {'' if row else 'not '}listed at {_when(poll)}"
                )
            else:
                _note_trail(trail, watch, score)
    return score


def _note_trail(trail: timedelta, watch: Watch, score: StateScore) -> None:
    if trail:
        score.trail.append(trail)
    if trail > watch.tolerance:
        score.late.append(trail - watch.tolerance)


def _alive_ago(states: Sequence[BrokerState], alive: bool, poll: Poll) -> timedelta | None:
    """How long before a poll was sent the broker was last alive, or not; zero while it was polled,
    null for never.
    """
    if not states or states[0].at > poll.received_at:
        return None if alive else timedelta(0)
    if any(state.is_alive == alive for state in during(states, poll.sent_at, poll.received_at)):
        return timedelta(0)
    ends = [
        after.at
        for before, after in pairwise(states)
        if before.is_alive == alive and after.at <= poll.sent_at
    ]
    return poll.sent_at - max(ends) if ends else None


def compare_epochs(rows: Iterable[Seen], truth: Truth, *, shrinks_raise: bool) -> EpochScore:
    """The difference of epochs of rows that follow each other against the transitions that the log
    has between.

    `shrinks_raise`: metadata.version is below 3.6-IV0, where a shrink raises the epoch too, and
    differences only bound.
    """
    score = EpochScore()
    raised = {(t.key, t.after.leader_epoch): t for t in leader_transitions(truth)}
    by_key: dict[PartitionKey, list[Seen]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    for key, states in by_key.items():
        for before, after in pairwise(sorted(states, key=lambda row: row.first_poll)):
            difference = after.leader_epoch - before.leader_epoch
            if difference == 0:
                continue
            epochs = range(before.leader_epoch + 1, after.leader_epoch + 1)
            transitions = sum((key, epoch) in raised for epoch in epochs)
            score.pairs += 1
            score.transitions += transitions
            exact = before.replicas == after.replicas and not shrinks_raise
            score.exact += exact
            said = (
                f"{_name(truth, key)}: {difference} epochs from {before} to {after}, "
                f"{transitions} transitions"
            )
            if exact and difference != transitions:
                moves = raised_by_moves(truth, key, epochs)
                (score.moved_between if difference == transitions + moves else score.wrong).append(
                    said
                )
            elif transitions > difference or transitions < (before.leader != after.leader):
                score.wrong.append(said)
    return score


def _judge(row: Seen, poll: Poll, truth: Truth, watch: Watch, score: StateScore) -> None:
    offline = set(row.offline_replicas)
    for broker_id in row.replicas:
        of_broker = truth.brokers.get(broker_id, [])
        trail = _alive_ago(of_broker, broker_id not in offline, poll)
        is_stopping = truth.shows_stopping_offline and any(
            state.in_controlled_shutdown
            for state in during(of_broker, poll.sent_at, poll.received_at)
        )
        if not is_stopping and (trail is None or trail > watch.tolerance):
            score.offline_wrong.append(f"{row} at {_when(poll)}: broker {broker_id}")
    states = truth.partitions.get(row.key, [])
    if any(_same(row, state) for state in _held(truth, states, poll.sent_at, poll.received_at)):
        return
    ends = [*(state.at for state in states[1:]), *([truth.ends_at(row.key)] if states else [])]
    before = (
        end
        for state, end in zip(states, ends, strict=True)
        if end and end <= poll.sent_at and _same(row, state)
    )
    ended_at = max(before, default=None)
    if ended_at is None:
        held = [
            _short(state)
            for state in _held(truth, states, poll.sent_at - watch.tolerance, poll.received_at)
        ]
        score.wrong.append(
            f"{row} at {_when(poll)}, the log has {' then '.join(held) or 'nothing'}"
        )
        return
    _note_trail(poll.sent_at - ended_at, watch, score)


def _held(
    truth: Truth, states: Sequence[PartitionState], since: datetime, until: datetime
) -> Sequence[PartitionState]:
    """The states that held at some time between; none of a topic that was gone by then."""
    if not states:
        return []
    ended_at = truth.ends_at((states[0].topic_id, states[0].partition))
    return [] if ended_at is not None and ended_at < since else during(states, since, until)


def _lives(truth: Truth, key: PartitionKey, since: datetime, poll: Poll) -> bool:
    ended_at = truth.ends_at(key)
    return truth.partitions[key][0].at < since and (ended_at is None or ended_at > poll.received_at)


def _same(row: Seen, state: PartitionState) -> bool:
    return (row.leader, row.leader_epoch, row.isr, row.replicas) == (
        state.leader,
        state.leader_epoch,
        state.isr,
        state.replicas,
    )


def _name(truth: Truth, key: PartitionKey) -> str:
    return (
        f"{truth.topics[key[0]].topic}-{key[1]}" if key[0] in truth.topics else f"{key[0]}-{key[1]}"
    )


def _short(state: PartitionState) -> str:
    return (
        f"{state.leader}@{state.leader_epoch} isr {state.isr} of {state.replicas} since "
        f"{state.at:%H:%M:%S.%f}"
    )


def _when(poll: Poll) -> str:
    return (
        f"{poll.poll_id} ({poll.sent_at:%H:%M:%S.%f} to {poll.received_at:%S.%f}, broker "
        f"{poll.broker_id})"
    )


def _most(late: Sequence[timedelta]) -> str:
    return f" (at most {max(late).total_seconds():.3f} s beyond the tolerance)" if late else ""
