"""Spells that history tells, against the log: partitions at levels, incidents of brokers, what each
broker leads.

Made for the rows of gold.isr_episodes, gold.broker_incidents and gold.leader_balance. At each poll
that counts, what history says of that moment must have held; the ends of each row must hold an
event of the log; and what a row counts lies between what polls had to show and what the log has.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TypeVar

from truth.model.spells import (
    LEVELS,
    MERGED_WITHIN,
    OF_MIN_ISR,
    Balance,
    Span,
    absences,
    balances,
    level_spans,
    levels_of,
    min_isr,
    out_of,
)
from truth.model.states import PartitionKey, PartitionState, Truth, at_time, during
from truth.observed import Poll, Watch


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of silver.topic_configs, as far as it is compared."""

    topic: str
    min_insync_replicas: int | None
    first_poll: str
    superseded_poll: str | None


@dataclass(frozen=True, slots=True)
class Episode:
    """A row of gold.isr_episodes."""

    topic: str
    topic_id: str
    partition: int
    level: str
    poll: str
    began_after: datetime | None
    began_before: datetime
    ended_poll: str | None
    ended_after: datetime | None
    ended_before: datetime | None
    end_reason: str | None
    brokers_out: tuple[int, ...]
    smallest_isr: int
    min_isr: int | None

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition number."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True)
class Incident:
    """A row of gold.broker_incidents."""

    broker_id: int
    poll: str
    began_after: datetime | None
    began_before: datetime
    ended_poll: str | None
    ended_after: datetime | None
    ended_before: datetime | None
    partitions: int
    partitions_out: int
    worst_level: str


@dataclass(frozen=True, slots=True)
class Led:
    """A row of gold.leader_balance."""

    broker_id: int
    poll: str
    superseded_poll: str | None
    leads: int
    preferred_for: int
    led_elsewhere: int

    @property
    def numbers(self) -> Balance:
        """As the log counts them."""
        return self.leads, self.preferred_for, self.led_elsewhere


@dataclass
class SpellScore:
    """How what lasted agrees with the log."""

    rows: int = 0
    claims: int = 0
    """That something is so, or is not, at a poll that counts."""
    wrong: list[str] = field(default_factory=list)
    """Claims that something is so which is not."""
    missed: list[str] = field(default_factory=list)
    """Claims that nothing is so which surely is."""
    outside: list[str] = field(default_factory=list)
    """Begins and ends of rows with no event of the log within their bounds."""
    misjudged: list[str] = field(default_factory=list)
    """Rows that count or call something otherwise than the log."""

    @property
    def faults(self) -> list[str]:
        """Everything that should not be."""
        kinds = ("wrong", "missed", "outside", "misjudged")
        return [f"{kind}: {each}" for kind in kinds for each in getattr(self, kind)]

    def __str__(self) -> str:
        return (
            f"{self.rows} rows, {self.claims} claims: {len(self.wrong)} wrong, {len(self.missed)} "
            f"missed, {len(self.outside)} out of bounds, {len(self.misjudged)} misjudged"
        )


_Row = Episode | Incident


def compare_episodes(
    rows: Sequence[Episode], settings: Sequence[Setting], watch: Watch, truth: Truth
) -> SpellScore:
    """Rows of gold.isr_episodes. `settings`: what was known of min ISR, which is compared too."""
    score = SpellScore(rows=len(rows))
    known = known_min_isr(settings, watch)
    _judge_settings(settings, watch, truth, score)
    held = level_spans(truth)
    said = _said(((row.key, row.level), row) for row in rows)
    for row in rows:
        if (row.key, row.level) not in held:
            score.wrong.append(f"{row}: no such partition")
    for (key, level), of_level in held.items():
        topic = truth.topics[key[0]].topic
        for poll, since in counted(watch):
            if level in OF_MIN_ISR and poll.poll_id not in known.get(topic, ()):
                continue
            is_said = _at(said.get((key, level), ()), poll)
            score.claims += 1
            if is_said and not any(span.may_hold(since, poll.received_at) for span in of_level):
                score.wrong.append(f"{topic}-{key[1]} {level} at {_when(poll)}")
            if not is_said and any(span.surely_holds(since, poll.received_at) for span in of_level):
                score.missed.append(f"{topic}-{key[1]} {level} at {_when(poll)}")
    passed_over = not_counted(watch)
    begins_of_settings = {(each.topic, each.first_poll) for each in settings}
    for row in rows:
        of_level = held.get((row.key, row.level), [])
        is_by_setting = row.level in OF_MIN_ISR and (row.topic, row.poll) in begins_of_settings
        _judge_bounds(row, of_level, watch.tolerance, passed_over, score, begin=not is_by_setting)
        _judge_episode(row, watch, truth, score)
    return score


def _judge_episode(row: Episode, watch: Watch, truth: Truth, score: SpellScore) -> None:
    states = truth.partitions.get(row.key)
    if states is None:
        return
    least = min_isr(truth, row.topic, states[0].at)
    if row.level in OF_MIN_ISR and row.min_isr not in {
        min(least, len(state.replicas)) for state in states
    }:
        score.misjudged.append(f"{row}: min ISR is {least}")
    outs = dict(zip(states, out_of(states), strict=True))
    most = during(states, *_lasts(row, watch))
    sure = [state for poll in _polls_of(row, watch) for state in _only(states, poll, watch)]
    if not _union(outs, sure) <= set(row.brokers_out) <= _union(outs, most):
        score.misjudged.append(
            f"{row}: out were {sorted(_union(outs, sure))} to {sorted(_union(outs, most))}"
        )
    sizes = [len(state.isr) for state in most]
    if sizes and not min(sizes) <= row.smallest_isr <= min(
        (len(state.isr) for state in sure), default=99
    ):
        score.misjudged.append(f"{row}: the ISR had {min(sizes)} at least")
    ended_at = truth.ends_at(row.key)
    if row.ended_before is not None and row.end_reason != "not_polled":
        is_over = ended_at is not None and ended_at <= row.ended_before
        if row.end_reason in ("gone", "recreated") and not is_over:
            score.misjudged.append(f"{row}: the topic was there")
        if row.end_reason not in (None, "gone", "recreated"):
            score.misjudged.append(f"{row}: everything was known")


def compare_incidents(
    rows: Sequence[Incident], settings: Sequence[Setting], watch: Watch, truth: Truth
) -> SpellScore:
    """Rows of gold.broker_incidents. `settings`: as in compare_episodes."""
    score, lacking = SpellScore(rows=len(rows)), absences(truth)
    known, passed_over = known_min_isr(settings, watch), not_counted(watch)
    for broker in sorted(truth.brokers.keys() | {row.broker_id for row in rows}):
        of_partitions = lacking.get(broker, {})
        held = [span for each in of_partitions.values() for span in each]
        mine = sorted((row for row in rows if row.broker_id == broker), key=lambda row: row.poll)
        for poll, since in counted(watch):
            is_said = _at(mine, poll)
            score.claims += 1
            if not is_said and any(span.surely_holds(since, poll.received_at) for span in held):
                score.missed.append(f"broker {broker} at {_when(poll)}")
            if is_said and not any(
                span.may_hold(since - MERGED_WITHIN, poll.received_at + MERGED_WITHIN)
                for span in held
            ):
                score.wrong.append(f"broker {broker} at {_when(poll)}")
        for row in mine:
            _judge_bounds(row, held, watch.tolerance, passed_over, score)
            _judge_incident(row, of_partitions, known, watch, truth, score=score)
        for before, after in pairwise(mine):
            if (
                before.ended_before is None
                or after.began_before < before.ended_before + MERGED_WITHIN
            ):
                score.misjudged.append(f"{after}: is part of the one before, {before}")
    return score


def _judge_incident(
    row: Incident,
    of_partitions: Mapping[PartitionKey, Sequence[Span]],
    known: Mapping[str, frozenset[str]],
    watch: Watch,
    truth: Truth,
    *,
    score: SpellScore,
) -> None:
    since, until = _lasts(row, watch)
    polls = list(_polls_of(row, watch))
    times = [(poll.sent_at - watch.tolerance, poll.received_at) for poll in polls]
    most = [
        key
        for key, held in of_partitions.items()
        if any(span.may_hold(since, until) for span in held)
    ]
    sure = [
        key
        for key, held in of_partitions.items()
        if any(span.surely_holds(*time) for span in held for time in times)
    ]
    if not len(sure) <= row.partitions <= len(most):
        score.misjudged.append(f"{row}: {len(sure)} to {len(most)} partitions lacked it")
    if (row.partitions_out == 0) != (row.ended_before is not None):
        score.misjudged.append(f"{row}: {row.partitions_out} partitions lack it")
    surely, perhaps = {LEVELS[0]}, {LEVELS[0]}
    for key in most:
        states = truth.partitions[key]
        topic = states[0].topic
        least = min_isr(truth, topic, states[0].at)
        at = {
            id(state): levels_of(state, out, least)
            for state, out in zip(states, out_of(states), strict=True)
        }
        perhaps |= {level for state in during(states, since, until) for level in at[id(state)]}
        for poll, time in zip(polls, times, strict=True):
            shown = during(states, *time)
            if len(shown) == 1 and any(span.surely_holds(*time) for span in of_partitions[key]):
                # If a poll did not know the topic's min ISR, history has no level of it there.
                is_known = poll.poll_id in known.get(topic, ())
                surely |= {
                    level for level in at[id(shown[0])] if is_known or level not in OF_MIN_ISR
                }
    worst = [max(each, key=LEVELS.index) for each in (surely, perhaps)]
    if not LEVELS.index(worst[0]) <= LEVELS.index(row.worst_level) <= LEVELS.index(worst[1]):
        score.misjudged.append(f"{row}: the worst was {worst[0]} to {worst[1]}")


def compare_balance(rows: Sequence[Led], watch: Watch, truth: Truth) -> SpellScore:
    """Rows of gold.leader_balance."""
    score, held = SpellScore(rows=len(rows)), balances(truth)
    said = _said((row.broker_id, row) for row in rows)
    nothing: Balance = (0, 0, 0)
    for broker in sorted(held.keys() | said.keys()):
        changes = held.get(broker, [])
        times = [at for at, _ in changes]
        for poll, since in counted(watch):
            row = next(_at_of(said.get(broker, ()), poll), None)
            numbers = nothing if row is None else row.numbers
            first, last = bisect_right(times, since), bisect_right(times, poll.received_at)
            might = {numbers for _, numbers in changes[max(0, first - 1) : last]} | (
                set() if first else {nothing}
            )
            score.claims += 1
            if numbers not in might:
                # What the log numbered at some other time is of another poll, what it never did of
                # none.
                score.wrong.append(
                    f"broker {broker} has {numbers} at {_when(poll)}, in the log {sorted(might)}"
                )
    for broker, of_broker in said.items():
        for before, after in pairwise(of_broker):
            if before.superseded_poll != after.poll:
                score.misjudged.append(f"broker {broker}: {after} does not follow {before}")
    return score


def known_min_isr(settings: Sequence[Setting], watch: Watch) -> dict[str, frozenset[str]]:
    """The polls by which the min ISR of each topic was known."""
    known: dict[str, frozenset[str]] = {}
    for each in settings:
        known[each.topic] = known.get(each.topic, frozenset()) | {
            poll.poll_id for poll in _polls_with(each, watch)
        }
    return known


def _judge_settings(
    settings: Sequence[Setting], watch: Watch, truth: Truth, score: SpellScore
) -> None:
    """Compare each setting once, at the first poll that knew it."""
    for each in settings:
        poll = next(_polls_with(each, watch), None)
        if poll is None:
            continue
        score.claims += 1
        least = min_isr(truth, each.topic, poll.received_at)
        if each.min_insync_replicas != least:
            score.wrong.append(f"{each}: it is {least} at {_when(poll)}")


def _polls_with(setting: Setting, watch: Watch) -> Iterator[Poll]:
    return (
        poll for poll in watch.polls if _is_open(setting.first_poll, setting.superseded_poll, poll)
    )


def _judge_bounds(
    row: _Row,
    held: Sequence[Span],
    tolerance: timedelta,
    passed_over: frozenset[datetime],
    score: SpellScore,
    *,
    begin: bool = True,
) -> None:
    """Something began within the bounds of the begin, and ended within those of the end."""
    bounds = [
        (
            "began",
            row.began_after if begin else None,
            row.began_before,
            [span.since for span in held],
        ),
        ("ended", row.ended_after, row.ended_before, [span.until for span in held]),
    ]
    for what, after, before, events in bounds:
        if after is None or before is None or passed_over & {after, before}:
            continue
        if not any(at is not None and after - tolerance <= at <= before for at in events):
            score.outside.append(f"{row} {what} at another time")


def _lasts(row: _Row, watch: Watch) -> tuple[datetime, datetime]:
    since = (row.began_after or row.began_before) - watch.tolerance
    return since, row.ended_before or watch.polls[-1].received_at


def _polls_of(row: _Row, watch: Watch) -> Iterator[Poll]:
    """The polls that count and that showed it."""
    return (poll for poll, _ in counted(watch) if _is_open(row.poll, row.ended_poll, poll))


def _only(states: Sequence[PartitionState], poll: Poll, watch: Watch) -> Sequence[PartitionState]:
    """The state that a poll had to show; none where it may have shown several."""
    shown = during(states, poll.sent_at - watch.tolerance, poll.received_at)
    return (
        shown
        if len(shown) == 1 and at_time(states, poll.sent_at - watch.tolerance) is not None
        else ()
    )


def _union(
    outs: Mapping[PartitionState, frozenset[int]], states: Iterable[PartitionState]
) -> set[int]:
    return {broker for state in states for broker in outs[state]}


def counted(watch: Watch) -> Iterator[tuple[Poll, datetime]]:
    """The polls that count, each with the moment from which on what it showed may have held."""
    return ((poll, poll.sent_at - watch.tolerance) for poll in watch.polls if poll.left_out is None)


def not_counted(watch: Watch) -> frozenset[datetime]:
    """The times of polls that do not count."""
    return frozenset(
        at for poll in watch.polls if poll.left_out for at in (poll.sent_at, poll.received_at)
    )


_Key = TypeVar("_Key")
_Of = TypeVar("_Of", Episode, Led)


def _said(rows: Iterable[tuple[_Key, _Of]]) -> dict[_Key, list[_Of]]:
    found: dict[_Key, list[_Of]] = {}
    for key, row in rows:
        found.setdefault(key, []).append(row)
    return {key: sorted(of_key, key=lambda row: row.poll) for key, of_key in found.items()}


def _at(rows: Iterable[_Row], poll: Poll) -> bool:
    return any(_is_open(row.poll, row.ended_poll, poll) for row in rows)


def _at_of(rows: Iterable[Led], poll: Poll) -> Iterator[Led]:
    return (row for row in rows if _is_open(row.poll, row.superseded_poll, poll))


def _is_open(first_poll: str, ended_poll: str | None, poll: Poll) -> bool:
    return first_poll <= poll.poll_id and (ended_poll is None or poll.poll_id < ended_poll)


def _when(poll: Poll) -> str:
    return (
        f"{poll.poll_id} ({poll.sent_at:%H:%M:%S.%f} to {poll.received_at:%S.%f}, broker "
        f"{poll.broker_id})"
    )
