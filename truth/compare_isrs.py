"""ISR changes that are said to have happened against those of the log."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Final

from truth.compare_events import EventScore, IsrChange, left_out_rows, within
from truth.model.events import BROKER_DOWN, REASSIGNMENT, Stretch, broker_goes, isr_stretches
from truth.model.states import PartitionKey, Truth, during
from truth.observed import Watch

LEFT: Final = "left"
_STAYED: Final = ("leader_stalled", "lagging")
"""Causes of departures of a broker that is there, and is a replica."""


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
            if not any(within(row, turn.since, watch.tolerance) for row in given for turn in group):
                score.missed.append(" or ".join(map(str, group)))
    left_out = left_out_rows(rows, watch)
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
    elif not any(within(row, turn.since, tolerance) for turn in events):
        score.outside.append(str(row))
    score.trail += [
        row.began_after - turn.since
        for turn in events
        if turn.since < row.began_after and within(row, turn.since, tolerance)
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
    held = [turn for turn in _events(row, turns) if within(row, turn.since, tolerance)]
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
        if row.cause not in (true or _STAYED):
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
