"""Reassignments that answers beside polls told against the log: each begins and ends between the
answers that say so.

Made for rows of silver.reassignments. The active controller alone answers, from what it has
committed, so no image that trails is between the two: nothing may have begun or ended after the
answer that told it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from truth.compare_spells import SpellScore
from truth.model.states import PartitionState, Truth

COMMITTED_WITHIN = timedelta(milliseconds=500)
"""A record has the time at which its batch was begun; answers show it once it is committed."""

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
