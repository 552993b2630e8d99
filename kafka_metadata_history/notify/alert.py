"""Alerts: an incident, a cluster of which nothing is recorded, or a lake that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from jobs.configuration.notify import LAKE_UNREADABLE
from jobs.configuration.severities import NOTHING_RECORDED, PAGE
from kafka_metadata_history.answers.incidents import story, words
from kafka_metadata_history.answers.questions import shown
from metadata_source.text import printable
from schemas.incidents import SEVERITIES

if TYPE_CHECKING:
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Incident

LEVELS: Final = (None, *words.LEVELS)
"""From the mildest to the worst."""
RECOVERED, GONE = "recovered", "gone"
"""Reasons of an end: `gone` is an incident that the lake no longer has."""


@dataclass(frozen=True)
class Alert:
    """One thing that lasts, or lasted. `key`: never changes, and no other one has it; of an
    incident its id. `cluster`: None of the lake itself. `level`: the worst of its partitions.
    `state`, `title`, `text`: for people, printable. `link`: its page, where there is one.
    """

    key: str
    cluster: str | None
    kind: str
    severity: str
    began: datetime
    state: str
    title: str
    text: str
    level: str | None = None
    brokers: tuple[int, ...] = ()
    ended: datetime | None = None
    end_reason: str | None = None
    link: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it lasts."""
        return self.end_reason is None

    @property
    def headline(self) -> str:
        """The state and the title, on one line."""
        return f"{self.state} {self.title}"


def of_incident(of: Incident, pages: str) -> Alert:
    """Return an incident. `pages`: the base of links; empty: it has none."""
    return Alert(
        key=of.id,
        cluster=of.cluster,
        kind=of.kind,
        severity=of.severity,
        began=of.began_before,
        state=printable(story.state(of)),
        title=printable(story.title(of)),
        text=printable(story.sentence(of)),
        level=of.worst_level,
        brokers=tuple(of.brokers),
        ended=of.ended_before,
        end_reason=of.end_reason,
        link=f"{pages}/incident/{of.id}" if pages else None,
    )


def of_silent(cluster: str, until: datetime | None, began: datetime) -> Alert:
    """Return that nothing is recorded of a cluster. `until`: up to when it is; None: never."""
    since = "so far" if until is None else f"since {shown(until)}"
    return Alert(
        key=f"{NOTHING_RECORDED}-{cluster}",
        cluster=cluster,
        kind=NOTHING_RECORDED,
        severity=PAGE,
        began=until or began,
        state="OPEN",
        title=printable(f"{PAGE}: nothing is recorded of {cluster}"),
        text=printable(
            f"Nothing is recorded of {cluster} {since}: nobody can say how it is. "
            "`kafka-metadata-history status` says what fails."
        ),
    )


def of_lake(problem: str, began: datetime) -> Alert:
    """Return that the lake cannot be read."""
    return Alert(
        key=LAKE_UNREADABLE,
        cluster=None,
        kind=LAKE_UNREADABLE,
        severity=PAGE,
        began=began,
        state="OPEN",
        title=f"{PAGE}: the lake cannot be read",
        text=printable(f"The lake cannot be read since {shown(began)}: {problem}"),
    )


def over(of: Alert, at: datetime) -> Alert:
    """Return what the lake no longer shows as one that is over."""
    if of.kind in {NOTHING_RECORDED, LAKE_UNREADABLE}:
        return replace(of, state="OVER", ended=at, end_reason=RECOVERED)
    return replace(of, state="OVER (the lake no longer has it)", ended=at, end_reason=GONE)


def is_worse(now: Alert, before: Alert) -> bool:
    """Whether it is of a worse severity or level than before, or hits another broker: as the event
    `worse` of gold.events.
    """
    return (
        SEVERITIES.index(now.severity) > SEVERITIES.index(before.severity)
        or _level(now) > _level(before)
        or not {*now.brokers} <= {*before.brokers}
    )


def worst(now: Alert, before: Alert) -> Alert:
    """Return what is so now, with the worst of both: an incident that eases is no better for it."""
    return replace(
        now,
        severity=max(now.severity, before.severity, key=SEVERITIES.index),
        level=max(now, before, key=_level).level,
        brokers=tuple(sorted({*now.brokers, *before.brokers})),
    )


def _level(of: Alert) -> int:
    return LEVELS.index(of.level) if of.level in LEVELS else len(LEVELS)
