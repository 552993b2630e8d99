"""Events that are said to have happened against those of the log: leader changes and ISR changes.

Made for the rows of gold.leader_changes and gold.isr_changes; `LeaderChange` and `IsrChange` are
what it needs of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from statistics import median

from truth.events import (
    BROKER_DOWN,
    FAILOVER,
    OFFLINE,
    PREFERRED,
    REASSIGNMENT,
    RECOVERY,
    Stretch,
    Transition,
    broker_goes,
    isr_stretches,
    leader_transitions,
    raised_by_moves,
)
from truth.log import PartitionKey, PartitionState, Truth, during
from truth.observed import Poll, Seen, Watch

LEFT = "left"
EXACT = "exact"
UNKNOWN = "unknown"
ISR_SHRINK = "isr_shrink"
CHANGED = (PREFERRED, FAILOVER, REASSIGNMENT)
"""Reasons of a change from one leader to another."""
AS_GOOD = {FAILOVER: (OFFLINE,)}
"""A leader that failed, and left none until another was there, was failed over."""
STAYED = ("leader_stalled", "lagging")
"""Causes of departures of a broker that is there, and is a replica."""


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """One observed change of a leader or its epoch."""

    topic: str
    topic_id: str
    partition: int
    prev_leader: int
    leader: int
    prev_leader_epoch: int
    leader_epoch: int
    changes_min: int
    changes_max: int
    epoch_semantics: str
    """exact | upper_bound."""
    reason: str | None
    unclean: str | None
    """no | suspected | proven; null where it cannot be told."""
    began_after: datetime
    began_before: datetime

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True)
class IsrChange:
    """One broker that left an ISR, or came into it."""

    topic: str
    topic_id: str
    partition: int
    broker_id: int
    change: str
    """left | rejoined | joined."""
    cause: str | None
    began_after: datetime
    began_before: datetime

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass
class EventScore:
    """How events agree with the log's."""

    expected: int = 0
    """Of the log: those that had to be found."""
    missed: list[str] = field(default_factory=list)
    given: int = 0
    """Rows that were judged."""
    extra: list[str] = field(default_factory=list)
    """Rows of which the log has no such event."""
    outside: list[str] = field(default_factory=list)
    """Events outside the bounds of their row, by more than the tolerance."""
    trail: list[timedelta] = field(default_factory=list)
    """By how much events came before their row's lower bound: the answer was older than the log."""
    miscounted: list[str] = field(default_factory=list)
    """Rows whose changes_min and changes_max do not hold what the log counts."""
    misjudged: list[str] = field(default_factory=list)
    """Rows whose reason, cause or certainty the log contradicts."""
    decided: int = 0
    """Rows whose reason or cause the log decides."""
    unknown: int = 0
    """Rows that leave their reason unknown, or their cause open."""
    undecidable: int = 0
    """Rows whose reason the log leaves open too: more happened between two polls than these can
    tell apart.
    """
    needless: list[str] = field(default_factory=list)
    """Rows that leave open what only one thing in the log can have been, or what was due."""
    unclean: Counter[str] = field(default_factory=Counter)
    """The `unclean` of the rows of truly unclean elections, counted."""
    slack: list[int] = field(default_factory=list)
    """changes_max - changes_min of each row."""
    widths: list[timedelta] = field(default_factory=list)
    """began_before - began_after of each row."""
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def recall(self) -> float:
        """Of what had to be found, the part that was."""
        return 1 - len(self.missed) / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        """Of what was given, the part that is true."""
        return 1 - len(self.extra) / self.given if self.given else 1.0

    @property
    def median_width(self) -> float:
        """Seconds."""
        return median(self.widths).total_seconds() if self.widths else 0.0

    @property
    def widest(self) -> float:
        """Seconds."""
        return max(self.widths, default=timedelta(0)).total_seconds()

    @property
    def longest_trail(self) -> float:
        """Seconds."""
        return max(self.trail, default=timedelta(0)).total_seconds()

    @property
    def faults(self) -> list[str]:
        """Everything that should not be."""
        kinds = ("missed", "extra", "outside", "miscounted", "misjudged", "needless")
        return [f"{kind}: {each}" for kind in kinds for each in getattr(self, kind)]

    def row(self) -> tuple[str, ...]:
        """For a table; see HEADINGS."""
        return (
            f"{self.recall:.1%} of {self.expected}",
            f"{self.precision:.1%} of {self.given}",
            str(len(self.outside)),
            f"{len(self.miscounted)}",
            f"{len(self.misjudged)} of {self.decided}",
            f"{self.unknown} unknown, {self.undecidable} undecidable",
            f"{self.median_width:.2f} / {self.widest:.2f} s",
            f"{sum(self.slack) / len(self.slack):.2f}" if self.slack else "-",
            f"{self.longest_trail:.2f} s",
            _counts(self.unclean),
            _counts(self.left_out),
        )


def _counts(counter: Counter[str]) -> str:
    return " ".join(f"{what}={count}" for what, count in sorted(counter.items()) if count) or "-"


HEADINGS = (
    "recall", "precision", "out of bounds", "miscounted", "misjudged", "left open",
    "width, median / most", "count slack", "trail", "truly unclean", "left out",
)  # fmt: skip


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
    left_out = _left_out(rows, watch)
    leaders = {
        (key, state.leader_epoch): state.leader
        for key, states in truth.partitions.items()
        for state in states
    }
    for row in rows:
        if row in left_out:
            score.left_out[left_out[row]] += 1
            continue
        score.given += 1
        score.slack.append(row.changes_max - row.changes_min)
        score.widths.append(row.began_before - row.began_after)
        said = ((row.prev_leader_epoch, row.prev_leader), (row.leader_epoch, row.leader))
        if any(leaders.get((row.key, epoch)) != leader for epoch, leader in said):
            score.extra.append(str(row))
            continue
        for transition in inside[row]:
            _judge_bounds(row, transition, watch.tolerance, score)
        epochs = range(row.prev_leader_epoch + 1, row.leader_epoch + 1)
        moves = raised_by_moves(truth, row.key, epochs)
        if row.epoch_semantics == EXACT and moves and row.changes_max == len(inside[row]) + moves:
            # What polling cannot know, and gold says that it does not.
            score.left_out["unseen_reassignment"] += 1
        else:
            _judge_leader_change(row, inside[row], truth, watch.tolerance, score)
    return score


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
    if row.reason == UNKNOWN:
        score.unknown += 1
        if not is_undecidable:
            score.needless.append(
                f"{row} was {transitions[0].reason if transitions else ISR_SHRINK}"
            )
        return
    reasons = {transition.reason for transition in transitions}
    score.decided += None not in reasons
    if row.reason == ISR_SHRINK and transitions:
        score.misjudged.append(f"{row} holds {len(transitions)}")
    elif row.reason == FAILOVER:  # of the leader before
        reasons = {transition.reason for transition in transitions[:1]}
    if row.reason in CHANGED and not reasons & {None, row.reason, *AS_GOOD.get(row.reason, ())}:
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
    """Whether brokers that left the ISR, each seen to be out, are all that raised the epoch under
    one leader.
    """
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


def compare_isr_changes(
    rows: Sequence[IsrChange], watch: Watch, truth: Truth, *, look_ahead: timedelta | None
) -> EventScore:
    """Each departure and arrival of the log that spans a poll has its row, of the right broker and
    with the time in its bounds; each row has its event in the log.

    `look_ahead`: after which each departure has a cause; null where rows have none.
    """
    score = EventScore()
    stretches: dict[tuple[PartitionKey, int], list[Stretch]] = {}
    for stretch in isr_stretches(truth):
        stretches.setdefault((stretch.key, stretch.broker_id), []).append(stretch)
    by_key: dict[tuple[PartitionKey, int, bool], list[IsrChange]] = {}
    for row in rows:
        by_key.setdefault((row.key, row.broker_id, row.change == LEFT), []).append(row)
    for (key, broker_id), turns in stretches.items():
        for group in _shown(turns, watch, score):
            given = by_key.get((key, broker_id, not group[0].inside), [])
            score.expected += 1
            if not any(
                _within(row, turn.since, watch.tolerance) for row in given for turn in group
            ):
                score.missed.append(" or ".join(map(str, group)))
    left_out = _left_out(rows, watch)
    for row in rows:
        if row in left_out:
            score.left_out[left_out[row]] += 1
        else:
            turns = stretches.get((row.key, row.broker_id), [])
            _judge_isr_change(row, turns, watch.tolerance, score)
            if row.change == LEFT and look_ahead is not None:
                _judge_cause(row, turns, truth, (watch, look_ahead), score)
    return score


def _judge_isr_change(
    row: IsrChange, turns: Sequence[Stretch], tolerance: timedelta, score: EventScore
) -> None:
    score.given += 1
    score.widths.append(row.began_before - row.began_after)
    events = _events(row, turns)
    if not any(turn.since <= row.began_before for turn in events):
        score.extra.append(str(row))
    elif not any(_within(row, turn.since, tolerance) for turn in events):
        score.outside.append(str(row))
    score.trail += [
        row.began_after - turn.since
        for turn in events
        if turn.since < row.began_after and _within(row, turn.since, tolerance)
    ]


def _events(row: IsrChange, turns: Sequence[Stretch]) -> list[Stretch]:
    """The log's events of the kind that a row is."""
    return [turn for turn in turns if not turn.is_first and turn.inside == (row.change != LEFT)]


def _shown(turns: Sequence[Stretch], watch: Watch, score: EventScore) -> Iterator[list[Stretch]]:
    """The departures and arrivals that polls had to show: from one stretch that a poll lies in to
    the next that one does, if the broker was in the ISR in one of them and out in the other. Any of
    the stretches between may be the one seen.
    """
    sure = [
        index for index, turn in enumerate(turns) if watch.certainly_within(turn.since, turn.until)
    ]
    for before, after in pairwise(sure):
        between = turns[before + 1 : after + 1]
        if turns[before].inside != turns[after].inside:
            yield [turn for turn in between if turn.inside == turns[after].inside]
            score.left_out["between_polls"] += len(between) // 2 * 2
        else:
            score.left_out["between_polls"] += len(between)
    score.left_out["before_first_poll"] += sure[0] if sure else len(turns) - 1
    score.left_out["after_last_poll"] += len(turns) - 1 - sure[-1] if sure else 0


def _judge_cause(
    row: IsrChange,
    turns: Sequence[Stretch],
    truth: Truth,
    looked: tuple[Watch, timedelta],
    score: EventScore,
) -> None:
    """The log decides whether it was removed, and whether it went, unless it did about when the
    look-ahead ended, or no poll had to show that.

    Where it did both, both are true.
    """
    watch, look_ahead = looked
    tolerance = watch.tolerance
    if row.cause is None:
        score.unknown += 1
        # The last poll may wait for one more: a topic that it does not show may be there.
        if row.began_before + look_ahead < watch.polls[-2].received_at:
            score.needless.append(f"{row} has no cause")
        return
    held = [turn for turn in _events(row, turns) if _within(row, turn.since, tolerance)]
    if len(held) != 1:
        return
    states = during(truth.partitions[row.key], row.began_after - tolerance, row.began_before)
    removed = any(row.broker_id not in state.replicas for state in states)
    width = row.began_before - row.began_after
    went = broker_goes(truth, row.broker_id, row.began_after, row.began_before + look_ahead - width)
    might_have = broker_goes(
        truth, row.broker_id, row.began_after - width, row.began_before + look_ahead + width
    )
    is_shown = not went or _is_shown_away(watch, truth, row, row.began_before + look_ahead - width)
    if removed or (went == might_have and is_shown):
        score.decided += 1
        true = [
            cause for cause, is_true in ((REASSIGNMENT, removed), (BROKER_DOWN, went)) if is_true
        ]
        if row.cause not in (true or STAYED):
            score.misjudged.append(f"{row}: {' and '.join(true) or 'the broker stayed'}")


def _is_shown_away(watch: Watch, truth: Truth, row: IsrChange, until: datetime) -> bool:
    """Whether a poll had to show by then that the broker was not there."""
    states = truth.brokers[row.broker_id]
    for state, following in zip_longest(states, states[1:]):
        if not state.is_alive:
            poll = watch.certainly_within(
                max(state.at, row.began_after), following and following.at
            )
            if poll is not None and poll.received_at <= until:
                return True
    return False


def _judge_bounds(
    row: LeaderChange, transition: Transition, tolerance: timedelta, score: EventScore
) -> None:
    if row.began_after > transition.at:
        score.trail.append(row.began_after - transition.at)
    if not _within(row, transition.at, tolerance):
        score.outside.append(f"{_said(transition)} is outside {row}")


def _within(row: LeaderChange | IsrChange, at: datetime, tolerance: timedelta) -> bool:
    return row.began_after - tolerance <= at <= row.began_before


_Row = LeaderChange | IsrChange


def _left_out(rows: Sequence[_Row], watch: Watch) -> Mapping[_Row, str]:
    """Rows between two polls of which one does not count."""
    why = {poll.sent_at: poll.left_out for poll in watch.polls} | {
        poll.received_at: poll.left_out for poll in watch.polls
    }
    found = {row: why.get(row.began_after) or why.get(row.began_before) for row in rows}
    return {row: reason for row, reason in found.items() if reason is not None}


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
    """Why a transition need not be known: before the first good poll that showed the partition, or
    after the last.
    """
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
