"""Answers beside polls: whether each kind got one, and reassignments that they told against the
log: each begins and ends between the answers that say so.

Made for rows of silver.reassignments, and of answers in bronze. The active controller alone tells
reassignments, from what it has committed, so no image that trails is between the two: nothing may
have begun or ended after the answer that told it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from truth.chaos import Entry
from truth.compare_spells import SpellScore
from truth.model.states import PartitionState, Truth

COMMITTED_WITHIN = timedelta(milliseconds=500)
"""A record has the time at which its batch was begun; answers show it once it is committed."""

KINDS = ("configs", "reassignments", "groups", "log_dirs")
"""Those that every version answers."""
SETTLING = timedelta(seconds=10)
"""So long after something was done to a node an answer may be refused."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question beside a poll, and what it came to."""

    kind: str
    outcome: str
    asked_at: datetime


def compare_kinds(
    answers: Iterable[Answered],
    journal: Sequence[Entry],
    until: datetime,
    kinds: Iterable[str] = KINDS,
) -> Iterator[str]:
    """Yield those of these kinds that nobody answered, and what was said of those that were refused
    while all nodes were in their places, before `until`. That no time was left says something of
    this machine, and nothing of the version.
    """
    moving = [entry for entry in journal if entry.nodes]
    since, back = moving[0].began_at, moving[-1].ended_at + SETTLING
    calm = [each for each in answers if each.asked_at < since or back <= each.asked_at < until]
    for kind in kinds:
        told = {each.outcome for each in calm if each.kind == kind}
        refused = [each for each in told if not any(word in each for word in _AS_GOOD)]
        if refused or not any(each.startswith("ok") for each in told):
            yield f"{kind}: {'; '.join(sorted(refused)) or 'never answered'}"


_AS_GOOD = ("ok", "put off", "in time")

_Key = tuple[str, int]
_Moves = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A row of silver.reassignments."""

    topic: str
    partition: int
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    prev_sent_at: datetime | None
    valid_from: datetime
    last_seen_sent_at: datetime | None
    valid_to: datetime | None

    @property
    def moves(self) -> _Moves:
        """Replicas being added, and removed."""
        return self.adding_replicas, self.removing_replicas


def compare_reassignments(rows: Sequence[Reassigned], truth: Truth) -> SpellScore:
    """Each row was so in the log, and began and ended within its bounds."""
    score, spans = SpellScore(rows=len(rows)), _spans(truth)
    for row in rows:
        score.claims += 1
        found = [
            span for span in spans.get((row.topic, row.partition), ()) if span.moves == row.moves
        ]
        if not any(span.began_at <= row.valid_from for span in found):
            score.wrong.append(f"{row}: it was never so before the answer")
            continue
        if not any(_lies_within(span.began_at, row.prev_sent_at, row.valid_from) for span in found):
            score.outside.append(f"{row} began at another time")
        ends = [span.ended_at for span in found if span.ended_at is not None]
        if row.valid_to is not None and not any(
            _lies_within(at, row.last_seen_sent_at, row.valid_to) for at in ends
        ):
            score.outside.append(f"{row} ended at another time")
    return score


def _lies_within(at: datetime, after: datetime | None, before: datetime) -> bool:
    return (after is None or at > after - COMMITTED_WITHIN) and at <= before


@dataclass(frozen=True, slots=True)
class _Span:
    moves: _Moves
    began_at: datetime
    ended_at: datetime | None


def _spans(truth: Truth) -> dict[_Key, list[_Span]]:
    """The log's stretches in which a partition's reassignment was the same, by topic and number."""
    found: dict[_Key, list[_Span]] = defaultdict(list)
    for key, states in truth.partitions.items():
        begun = [(moves, next(same).at) for moves, same in groupby(states, key=_moves)]
        ends = [*(at for _, at in begun[1:]), truth.ends_at(key)]
        found[states[0].topic, key[1]] += [
            _Span(*each, end) for each, end in zip(begun, ends, strict=True)
        ]
    return found


def _moves(state: PartitionState) -> _Moves:
    return tuple(sorted(state.adding)), tuple(sorted(state.removing))
