"""Leader changes that are said to have happened against those of the log."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from truth.compare_events import EventScore, LeaderChange, left_out_rows, within
from truth.model.events import (
    FAILOVER,
    OFFLINE,
    PREFERRED,
    REASSIGNMENT,
    RECOVERY,
    Transition,
    broker_goes,
    leader_transitions,
    raised_by_moves,
)
from truth.model.states import NO_LEADER, PartitionKey, PartitionState, Truth, during
from truth.observed import Poll, Seen, Watch

EXACT: Final = "exact"
UPPER_BOUND: Final = "upper_bound"
UNRELIABLE: Final = "unreliable"
_UNKNOWN: Final = "unknown"
_ISR_SHRINK: Final = "isr_shrink"
_CHANGED: Final = (PREFERRED, FAILOVER, REASSIGNMENT)
"""Reasons of a change from one leader to another."""
_AS_GOOD: Final = {FAILOVER: (OFFLINE,)}
"""A leader that failed, and left none until another was there, was failed over."""


def compare_leader_changes(
    rows: Sequence[LeaderChange], seen: Iterable[Seen], watch: Watch, truth: Truth
) -> EventScore:
    """Each transition of the log is in the range of epochs of one row, within its bounds; each row
    holds what the log has.

    `seen`, the states in silver, tell when each partition was watched first and last.
    """
    score = EventScore()
    inside = _in_ranges(
        rows, leader_transitions(truth), _watched(seen, watch), watch.tolerance, score
    )
    left_out = left_out_rows(rows, watch)
    leaders, gone = (
        {
            (key, state.leader_epoch): state.leader
            for key, states in truth.partitions.items()
            for state in states
            if state.is_shown_gone == is_shown_gone
        }
        for is_shown_gone in (False, True)
    )
    for row in rows:
        if row in left_out:
            score.left_out[left_out[row]] += 1
            continue
        score.given += 1
        if row.changes_max is not None:
            score.slack.append(row.changes_max - row.changes_min)
        score.widths.append(row.began_before - row.began_after)
        said = ((row.prev_leader_epoch, row.prev_leader), (row.leader_epoch, row.leader))
        shown_gone = [
            leader == NO_LEADER == gone.get((row.key, epoch)) != leaders.get((row.key, epoch))
            for epoch, leader in said
        ]
        if any(
            leaders.get((row.key, epoch)) != leader and not is_gone
            for (epoch, leader), is_gone in zip(said, shown_gone, strict=True)
        ):
            score.extra.append(str(row))
            continue
        for transition in inside[row]:
            _judge_bounds(row, transition, watch.tolerance, score)
        if any(shown_gone):
            score.left_out["shown_gone"] += 1
            _judge_shown_gone(row, score)
            continue
        epochs = range(row.prev_leader_epoch + 1, row.leader_epoch + 1)
        moves = raised_by_moves(truth, row.key, epochs)
        if row.epoch_semantics == EXACT and moves and row.changes_max == len(inside[row]) + moves:
            # What polling cannot know, and gold says that it does not.
            score.left_out["unseen_reassignment"] += 1
        else:
            _judge_leader_change(row, inside[row], truth, watch.tolerance, score)
    return score


def _judge_shown_gone(row: LeaderChange, score: EventScore) -> None:
    """Nobody is shown to lead in the epoch of a leader that is gone."""
    told = (row.prev_leader == NO_LEADER, row.leader == NO_LEADER)
    wanted = {(False, True): OFFLINE, (True, False): RECOVERY}.get(told, _UNKNOWN)
    if row.reason not in (None, wanted):
        score.misjudged.append(f"{row} was {wanted}, with a leader that is gone")
    score.decided += 1


def _in_ranges(
    rows: Sequence[LeaderChange],
    transitions: Iterable[Transition],
    watched: Mapping[PartitionKey, tuple[Poll, Poll]],
    tolerance: timedelta,
    score: EventScore,
) -> Mapping[LeaderChange, list[Transition]]:
    """The transitions that lie in each row's range of epochs; each must lie in just one."""
    inside: dict[LeaderChange, list[Transition]] = {row: [] for row in rows}
    by_key: dict[PartitionKey, list[LeaderChange]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    for transition in transitions:
        epoch = transition.after.leader_epoch
        holding = [
            row
            for row in by_key.get(transition.key, ())
            if row.prev_leader_epoch < epoch <= row.leader_epoch
        ]
        for row in holding:
            inside[row].append(transition)
        why = _unwatched(transition, watched, tolerance)
        if why is not None and not holding:
            score.left_out[why] += 1
            continue
        score.expected += 1
        if len(holding) != 1:
            score.missed.append(f"{_said(transition)} is in {len(holding)} rows")
    return inside


def _judge_leader_change(
    row: LeaderChange,
    transitions: Sequence[Transition],
    truth: Truth,
    tolerance: timedelta,
    score: EventScore,
) -> None:
    count = len(transitions)
    if not row.changes_min <= count <= row.changes_max:
        score.miscounted.append(f"{row} holds {count}")
    elif row.epoch_semantics == EXACT and row.changes_min != row.changes_max:
        score.miscounted.append(f"{row} is exact and a range")
    _judge_unclean(row, transitions, score)
    if len(transitions) == 1 and row.leader_epoch - row.prev_leader_epoch == 1:
        _judge_certainty(row, transitions[0], truth, tolerance, score)
    _judge_reason(row, transitions, truth, tolerance, score)


def _judge_reason(
    row: LeaderChange,
    transitions: Sequence[Transition],
    truth: Truth,
    tolerance: timedelta,
    score: EventScore,
) -> None:
    """A reason must be one of the log's; of several changes it is of what was seen, so that any of
    theirs will do.
    """
    if row.reason is None:  # as silver alone gives it
        return
    is_undecidable = _is_undecidable(row, transitions, truth, tolerance)
    score.undecidable += is_undecidable
    if row.reason == _UNKNOWN:
        score.unknown += 1
        if not is_undecidable:
            score.needless.append(
                f"{row} was {transitions[0].reason if transitions else _ISR_SHRINK}"
            )
        return
    reasons = {transition.reason for transition in transitions}
    score.decided += None not in reasons
    if row.reason == _ISR_SHRINK and transitions:
        score.misjudged.append(f"{row} holds {len(transitions)}")
    elif row.reason == FAILOVER:  # of the leader before
        reasons = {transition.reason for transition in transitions[:1]}
    if row.reason in _CHANGED and not reasons & {None, row.reason, *_AS_GOOD.get(row.reason, ())}:
        score.misjudged.append(
            f"{row} was {' and '.join(map(str, reasons)) or 'no change of the leader'}"
        )


def _is_undecidable(
    row: LeaderChange, transitions: Sequence[Transition], truth: Truth, tolerance: timedelta
) -> bool:
    """Whether polls cannot tell the reason: more than one thing was done to the partition between
    them, or to its leader.

    That leader may have failed where it went, where something that it led changed more than once,
    and where it lost something otherwise than to an election of the preferred replica with itself
    in sync.
    """
    since, until = row.began_after - tolerance, row.began_before
    if not transitions:
        return not _only_shrank(row, truth, since, until)
    if (
        len(transitions) > 1
        or transitions[0].reason is None
        or row.leader_epoch - row.prev_leader_epoch > 1
    ):
        return True
    before, after, reason = transitions[0].before, transitions[0].after, transitions[0].reason
    is_preferred = after.leader in (before.replicas[0], after.replicas[0])
    if reason in (RECOVERY, OFFLINE) or (reason == FAILOVER and not is_preferred):
        return False
    leader = row.prev_leader
    return broker_goes(truth, leader, since, until) or any(
        _may_be_a_failure(leader, states, since, until) for states in truth.partitions.values()
    )


def _may_be_a_failure(
    leader: int, states: Sequence[PartitionState], since: datetime, until: datetime
) -> bool:
    shown = during(states, since, until)
    raised = [after for after in shown[1:] if after.names_leader]
    if not raised or not any(state.leader == leader for state in shown):
        return False
    if len(raised) > 1:
        return True
    was_preferred = raised[0].leader in (raised[0].replicas[0], shown[0].replicas[0])
    return raised[0].leader != leader and not (
        was_preferred and all(leader in state.isr for state in shown)
    )


def _only_shrank(row: LeaderChange, truth: Truth, since: datetime, until: datetime) -> bool:
    """Return whether only brokers that left the ISR raised the epoch under one leader."""
    shown = during(truth.partitions[row.key], since, until)
    steps = list(pairwise(shown))
    if not all(
        set(after.isr) <= set(before.isr) and after.replicas == before.replicas
        for before, after in steps
    ):
        return False
    raised = [
        after for before, after in steps if after.names_leader and len(after.isr) < len(before.isr)
    ]
    return len(raised) == row.leader_epoch - row.prev_leader_epoch > 0


def _judge_unclean(row: LeaderChange, transitions: Sequence[Transition], score: EventScore) -> None:
    """`proven` must be true, and so must `no`, of the election of the leader that was seen."""
    unclean = any(transition.unclean for transition in transitions)
    if unclean:
        score.unclean[row.unclean or "unknown"] += 1
    elif row.unclean == "proven":
        score.misjudged.append(f"{row} was clean")
    last = transitions[-1] if transitions else None
    if (
        last is not None
        and last.unclean
        and last.after.leader == row.leader
        and row.unclean == "no"
    ):
        score.misjudged.append(f"{row} was unclean")


def _judge_certainty(
    row: LeaderChange,
    transition: Transition,
    truth: Truth,
    tolerance: timedelta,
    score: EventScore,
) -> None:
    """Where ISRs alone are elected from, one election that polls saw can be known for what it was.

    With ELR others can be elected clean, from lists that are asked for later.
    """
    if row.reason is None or truth.level("eligible.leader.replicas.version"):
        return
    before, after = transition.before, transition.after
    shown = during(truth.partitions[row.key], row.began_after - tolerance, row.began_before)
    if after.leader == NO_LEADER or all(
        after.leader in state.isr for state in shown if state.offset < after.offset
    ):
        wanted = "no"
    elif before.leader == NO_LEADER and transition.unclean:
        wanted = "proven"
    else:
        return
    if row.unclean != wanted:
        score.needless.append(f"{row} was {wanted} unclean")


def compare_counts(
    rows: Iterable[LeaderChange], plain: Iterable[LeaderChange], score: EventScore
) -> None:
    """Each row has the bounds that the plainest reading of silver gives it, and is as exact."""
    wanted = {(each.key, each.leader_epoch, each.leader): each for each in plain}
    for row in rows:
        of_row = wanted.get((row.key, row.leader_epoch, row.leader), row)
        if _count(row) != _count(of_row):
            score.miscounted.append(f"{row} is {_count(of_row)}")


def _count(row: LeaderChange) -> tuple[str, int, int | None]:
    return row.epoch_semantics, row.changes_min, row.changes_max


def _judge_bounds(
    row: LeaderChange, transition: Transition, tolerance: timedelta, score: EventScore
) -> None:
    if row.began_after > transition.at:
        score.trail.append(row.began_after - transition.at)
    if not within(row, transition.at, tolerance):
        score.outside.append(f"{_said(transition)} is outside {row}")


def _watched(seen: Iterable[Seen], watch: Watch) -> dict[PartitionKey, tuple[Poll, Poll]]:
    """For each partition the first and the last accepted poll that showed it."""
    spans: dict[PartitionKey, tuple[str, str]] = {}
    newest = watch.polls[-1].poll_id
    for row in seen:
        first_poll, last_poll = row.first_poll, row.last_poll or newest
        before = spans.get(row.key, (first_poll, last_poll))
        spans[row.key] = min(before[0], first_poll), max(before[1], last_poll)
    between = {key: watch.between(first, last) for key, (first, last) in spans.items()}
    return {key: (polls[0], polls[-1]) for key, polls in between.items() if polls}


def _unwatched(
    transition: Transition, watched: Mapping[PartitionKey, tuple[Poll, Poll]], tolerance: timedelta
) -> str | None:
    """Return why a transition need not be known: outside of the good polls of the partition."""
    if transition.key not in watched:
        return "never_seen"
    first, last = watched[transition.key]
    if transition.at <= first.received_at:
        return "before_first_poll"
    return "after_last_poll" if transition.at > last.sent_at - tolerance else None


def _said(transition: Transition) -> str:
    before, after = transition.before, transition.after
    return (
        f"{after.topic}-{after.partition} from {before.leader}@{before.leader_epoch} to "
        f"{after.leader}@{after.leader_epoch} at {after.at:%H:%M:%S.%f} "
        f"({transition.reason}{', unclean' if transition.unclean else ''})"
    )
