"""Whether a broker may stop, by what its loss would do: pure functions, and how they are said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.text import as_json as json_lines
from kafka_metadata_history.answers.text import few
from kafka_metadata_history.answers.thresholds import span
from kafka_metadata_history.answers.whatif.rules import UNCLEAN
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.whatif.read import Record
    from kafka_metadata_history.answers.whatif.rules import Effect, WhatIf

SAFE, NOT_SAFE, NOT_KNOWN = "safe", "not_safe", "not_known"
STATUSES: Final = {SAFE: 0, NOT_SAFE: 3, NOT_KNOWN: 4}
"""Verdict -> exit status."""
RF1, RF_AT_MIN_ISR, WAS_OFFLINE, WAS_UNDER = ACCEPTABLE = (
    "rf1",
    "rf-at-most-min-isr",
    "offline",
    "under-min-isr",
)
"""Reasons that were there before this stop, and that `--accept` takes."""
QUORUM_WAS_LOST: Final = "quorum-was-lost"
OFFLINE, UNDER, LOSES_DATA, QUORUM_LOST = NEW = (
    "new-offline",
    "new-under-min-isr",
    "loses-data",
    "quorum-lost",
)
SAID: Final = {
    OFFLINE: "go offline",
    UNDER: "fall under min ISR",
    LOSES_DATA: "lose records by an unclean election",
    QUORUM_LOST: "too few controllers are left that are caught up",
    RF1: "have one replica, and go offline at any stop",
    RF_AT_MIN_ISR: "have RF <= min ISR, and fall under min ISR at any stop",
    WAS_OFFLINE: "are offline already",
    WAS_UNDER: "are under min ISR already",
    QUORUM_WAS_LOST: "too few controllers are caught up already",
}
"""Reason -> what is said of its partitions, or of the quorum."""
RECENT: Final = timedelta(seconds=10)
"""A record of at most so long ago says how a cluster is now."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a stop is not safe. `partitions`: those that it is about."""

    reason: str
    partitions: Sequence[str] = ()
    is_accepted: bool = False

    @property
    def is_new(self) -> bool:
        """Whether this stop alone brings it about."""
        return self.reason in NEW


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a broker may stop. `lacks`: what is not known, a clause each. `notes`: what does no
    harm to partitions.
    """

    cluster: str
    broker: int
    reasons: Sequence[Reason] = ()
    lacks: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """Unsafe is what is known to do harm, whatever else is not known."""
        if any(not each.is_accepted for each in self.reasons):
            return NOT_SAFE
        return NOT_KNOWN if self.lacks else SAFE


def judged(
    found: WhatIf, broker: int, lacks: Sequence[str], accepted: Collection[str] = ()
) -> Verdict:
    """Return the verdict by what a loss does. `lacks`: of the state. `accepted`: of ACCEPTABLE."""
    by_reason: dict[str, list[str]] = {}
    for each in found.effects:
        for reason in _reasons(each):
            by_reason.setdefault(reason, []).append(each.of.name)
    # Without a quorum nobody elects leaders, whoever stops.
    if (quorum := found.quorum) is not None and quorum.is_lost:
        by_reason[QUORUM_WAS_LOST if quorum.was_lost else QUORUM_LOST] = []
    reasons = [
        Reason(each, by_reason[each], each in ACCEPTABLE and each in accepted)
        for each in SAID
        if each in by_reason
    ]
    return Verdict(
        found.cluster.name, broker, reasons, [*lacks, *_unknown(found)], [*_notes(found, broker)]
    )


def stale(record: Record, now: datetime) -> list[str]:
    """Return why a record does not say how the cluster is now; empty if it does."""
    age = now - record.until
    if -RECENT <= age <= RECENT:
        return []
    said = f"is {span(age)} old" if age > RECENT else f"is {span(-age)} ahead: a clock is wrong"
    return [f"how the cluster is now: the record {said}"]


def unanswered(record: Record, beats: Mapping[str, timedelta], now: datetime) -> Iterator[str]:
    """Say what of a record is too old to judge a stop by, though the state is of now: answers to
    questions that were to come twice since. `beats`: how often each question is asked.
    """
    if record.cluster.has_elr is None:
        yield "whether eligible leader replicas are in force"
    for question, at in record.answered.items():
        if question not in beats:
            yield f"{question}: nobody asks (`enrich: {question}`)"
        elif at is None or now - at > 2 * beats[question] + RECENT:
            yield f"{question}: not answered for {span(2 * beats[question])} and more"


def _reasons(each: Effect) -> Iterator[str]:
    if each.after.offline:
        yield WAS_OFFLINE if each.before.offline else RF1 if each.is_rf1 else OFFLINE
    if each.after.under_min_isr:
        is_under = each.before.under_min_isr
        yield WAS_UNDER if is_under else RF_AT_MIN_ISR if each.is_at_rf else UNDER
    if each.election.source == UNCLEAN:
        yield LOSES_DATA


def _unknown(found: WhatIf) -> Iterator[str]:
    fates = [each.of.name for each in found.effects if each.after.offline is None]
    if fates:
        yield f"whether {few(fates)} keep a leader"
    levels = [
        each.of.name
        for each in found.effects
        if each.after.offline is False and each.after.under_min_isr is None
    ]
    if levels:
        yield f"min ISR, or the ISR, of {few(levels)}"
    if found.quorum is None:
        yield "whether the quorum holds"
    elif found.loss.controllers and found.quorum.is_lost is None:
        yield "which controllers are caught up"


def _notes(found: WhatIf, broker: int) -> Iterator[str]:
    of = found.cluster.brokers.get(broker)
    if of is None or not of.is_live:
        yield "the broker is down or fenced already"
    if stalled := [each.of.name for each in found.effects if each.stalls]:
        yield f"reassignments of {few(stalled)} cannot end before it is back"
    if behind := [each.of.name for each in found.effects if each.out]:
        yield f"other replicas of {few(behind)} are not in sync"


def as_text(of: Verdict) -> str:
    """Return the verdict and a line for each reason."""
    heads = {
        SAFE: f"broker {of.broker} may stop",
        NOT_SAFE: f"broker {of.broker} may not stop",
        NOT_KNOWN: f"nobody knows whether broker {of.broker} may stop",
    }
    lines = [f"{of.cluster}: {heads[of.verdict]}", *_lines(of)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines(of: Verdict) -> Iterable[str]:
    for each in of.reasons:
        name = "new" if each.is_new else "accepted" if each.is_accepted else "already so"
        whose = f"{few(each.partitions)} " if each.partitions else ""
        is_offered = each.reason in ACCEPTABLE and not each.is_accepted
        hint = f" (--accept {each.reason})" if is_offered else ""
        yield f"  {name:12}{whose}{SAID[each.reason]}{hint}"
    yield from (f"  {'not known':12}{each}" for each in of.lacks)
    yield from (f"  {'note':12}{each}" for each in of.notes)


def as_json(of: Verdict) -> str:
    """Return one object on one line; partitions are all named."""
    reasons = [
        {
            "reason": each.reason,
            "is_new": each.is_new,
            "is_accepted": each.is_accepted,
            "partitions": [*each.partitions],
        }
        for each in of.reasons
    ]
    fields = {
        "cluster": of.cluster,
        "broker": of.broker,
        "verdict": of.verdict,
        "reasons": reasons,
        "not_known": [*of.lacks],
        "notes": [*of.notes],
    }
    return json_lines(pa.Table.from_pylist([fields]))


FORMS: Final = {"text": as_text, "json": as_json}
