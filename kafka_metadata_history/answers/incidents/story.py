"""What is said of an incident, section by section. Pure: records in, texts out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs.rules.incidents.finding import OPENERS
from jobs.rules.incidents.incident import INCIDENT, MAINTENANCE, MERGED, WITHDRAWN
from kafka_metadata_history.answers.incidents import words
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.thresholds import span
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import (
        Account,
        Finding,
        Incident,
        Recorded,
    )

_CLOSE: Final = timedelta(seconds=1)
"""Bounds that are so close are one time for people."""


def state(of: Incident) -> str:
    """Return OPEN, OVER, MERGED into whom, or WITHDRAWN."""
    if of.end_reason is None:
        return "OPEN"
    if of.end_reason == MERGED:
        return f"MERGED into {of.merged_into}"
    if of.end_reason == WITHDRAWN:
        return "WITHDRAWN (another source showed that it was none)"
    gone = " (the broker is gone for a day: inferred)" if of.end_reason == "removed" else ""
    return f"OVER{gone}"


def title(of: Incident) -> str:
    """Return what it is in one sentence without times."""
    is_incident = of.incident_class == INCIDENT
    what = of.severity if is_incident else f"{of.severity}, {of.incident_class}"
    return f"{what}: {words.of_incident(of)}, in {of.cluster}"


def since(of: Incident, now: datetime) -> str:
    """Return since when it lasts or from when to when it lasted, with both bounds of each."""
    day = words.day_of(of.began_after or of.began_before, of.began_before)
    began = f"began {words.when(of.began_after, of.began_before)}"
    if of.ended_before is None:
        lasted = f", {span(now - of.began_before)} ago" if of.is_open else ""
    else:
        same = words.day_of(of.began_before, of.ended_after or of.ended_before, of.ended_before)
        lasted = f"; ended {words.when(of.ended_after, of.ended_before, same and day)}"
    again = f"; came back {counted(of.reopened, 'time')}" if of.reopened else ""
    return f"{began}{lasted}{again}"


def hurt(of: Incident) -> str:
    """Return what is hurt now, and what was at worst."""
    now, worst = hurt_now(of), hurt_most(of)
    if not of.is_open:
        groups = words.listed(of.group_ids, "group") if of.group_ids else ""
        return f"at worst {'; '.join(filter(None, [worst, groups])) or 'no partition'}"
    return f"{now}; at worst {worst}" if worst else now


def hurt_now(of: Incident) -> str:
    """Return what is hurt now."""
    said = counts([(of.offline, "offline"), (of.under_min_isr, "under min ISR")])
    groups = words.listed(of.group_ids, "group") if of.group_ids else ""
    return "; ".join(filter(None, [said or "no partition offline or under min ISR", groups]))


def hurt_most(of: Incident) -> str:
    """Return the most that was hurt at a time; empty if nothing was."""
    return counts(
        [
            (of.offline_most, "offline"),
            (of.under_min_isr_most, "under min ISR"),
            (of.out_of_sync_most, "not fully in sync"),
        ]
    )


def counts(of: Sequence[tuple[int, str]]) -> str:
    """Return numbers of partitions by what they are, without those of which there are none."""
    some = [(count, what) for count, what in of if count]
    return ", ".join(
        f"{count:,} {what}" if number else f"{counted(count, 'partition')} {what}"
        for number, (count, what) in enumerate(some)
    )


def cause(of: Incident) -> str:
    """Return the first cause, how sure it is, and what else may be."""
    said = words.cause(of.cause, of.cause_of, of.cause_sureness)
    if of.cause == "unknown" and not of.alternatives:
        return f"{said}: no rule finds one"
    others = " or ".join(map(words.alternative, of.alternatives))
    return f"{said}; or else: {others}" if others else said


def beside(of: Incident) -> Iterator[tuple[str, str]]:
    """Yield what else there is to say of it: a name, and the text."""
    if of.is_escalated:
        why = (
            "it began in a controlled way, and was not over after 15 minutes or took partitions "
            "offline or under min ISR"
        )
        yield "escalated", why
    if of.incident_class == MAINTENANCE and of.steps > 1:
        yield "steps", f"{of.steps} brokers were missing one after the other"
    if of.overlaps:
        some = words.listed(of.overlaps)
        yield "overlaps", f"{counted(len(of.overlaps), 'incident')} at the same time: {some}"


def record_age(of: Account, now: datetime) -> str:
    """Return up to when the cluster is recorded, and when nobody looked meanwhile."""
    until = of.recorded.until
    known = (
        "nobody records the cluster"
        if until is None
        else f"to {shown(until)}, {span(now - until)} ago"
    )
    if not of.gaps:
        return f"{known}; no gap inside"
    seconds = sum((end - begin).total_seconds() for begin, end in of.gaps)
    first = of.gaps[0]
    return (
        f"{known}; {counted(len(of.gaps), 'gap')} inside, {seconds:,.0f} s, "
        f"the first {shown(first[0])} to {shown(first[1])}"
    )


def lacks(of: Recorded) -> list[str]:
    """Return what cannot be known, as a source is not read."""
    return [
        what
        for what, is_read in (
            ("pauses (the coordinators' log is not read)", of.has_coordinators_log),
            ("lag (`enrich: offsets` is not asked)", of.has_lag),
            (
                "exact times and controlled stops (the controllers' log is not read)",
                of.has_controllers_log,
            ),
        )
        if not is_read
    ]


def chosen(findings: Sequence[Finding], most: int) -> list[Finding]:
    """Return so many findings at most, in order of time: those that can open an incident first,
    then one of each kind, then the earliest.
    """
    seen: set[str] = set()
    ranked = []
    for place, each in enumerate(findings):
        is_first = each.kind not in seen
        seen.add(each.kind)
        rank = 0 if each.rule is None else 1 if is_first else 2 if each.kind in OPENERS else 3
        ranked.append((rank, place))
    kept = sorted(place for _, place in sorted(ranked)[:most])
    return [findings[place] for place in kept]


def told(of: Finding, day: str) -> tuple[str, str, str]:
    """Return when a finding began, what it says, and how it is tied to another one."""
    said = words.capital(words.of_finding(of))
    if words.lasts(of.kind) and of.ended_before is not None:
        said += f" until {_end(of.ended_after, of.ended_before, day)}"
    return _range(of.began_after, of.began_before, day), said, words.why(of)


def _range(after: datetime | None, before: datetime, day: str) -> str:
    last = words.clock(before, day)
    if after is None:
        return f"by {last}"
    first = words.clock(after, day)
    return last if first == last else f"{first} to {last}"


def _end(after: datetime | None, before: datetime, day: str) -> str:
    last = words.clock(before, day)
    return last if after is None or before - after <= _CLOSE else f"{last} at the latest"


def sentence(of: Incident) -> str:
    """Return an incident as one plain sentence, with its times."""
    day = words.day_of(of.began_before, of.ended_before)
    what = words.capital(words.of_incident(of))
    is_close = of.began_after is not None and of.began_before - of.began_after <= _CLOSE
    began = shown(of.began_before) + ("" if is_close else " at the latest")
    times = f" since {began}"
    if of.ended_before is not None:
        times = f" from {began} to {_end(of.ended_after, of.ended_before, day)}"
    because = words.cause(of.cause, of.cause_of, of.cause_sureness)
    return f"{what}{times} ({of.severity}; cause: {because}; {hurt(of)})."
