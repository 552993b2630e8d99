"""Incidents, their findings and their events as a lake has them, typed."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Row = dict[str, Any]


@dataclass(frozen=True)
class Incident:
    """A row of gold.incidents. `incident_class`: its column class."""

    id: str
    cluster: str
    kind: str
    incident_class: str
    severity: str
    began_after: datetime | None
    began_before: datetime
    ended_after: datetime | None
    ended_before: datetime | None
    end_reason: str | None
    cause: str
    cause_of: str | None
    cause_sureness: str | None
    alternatives: Sequence[str]
    began_controlled: bool | None
    is_escalated: bool
    brokers: Sequence[int]
    group_ids: Sequence[str]
    topics: Sequence[str]
    steps: int
    worst_level: str | None
    offline: int
    under_min_isr: int
    offline_most: int
    under_min_isr_most: int
    out_of_sync_most: int
    reopened: int
    merged_into: str | None
    overlaps: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Whether it lasts."""
        return self.end_reason is None


@dataclass(frozen=True)
class Finding:
    """A row of gold.incident_links."""

    id: str
    kind: str
    broker_id: int | None
    leader: int | None
    group_id: str | None
    rack: str | None
    brokers: Sequence[int]
    topic: str | None
    partitions: int
    partitions_now: int
    number: int | None
    began_after: datetime | None
    began_before: datetime
    ended_after: datetime | None
    ended_before: datetime | None
    source: str
    cause: str | None
    rule: str | None
    from_id: str | None
    sureness: str | None
    delay_ms_min: int | None
    delay_ms_max: int | None


@dataclass(frozen=True)
class Event:
    """A row of gold.events."""

    id: str
    cluster: str
    event: str
    incident_id: str | None
    kind: str
    severity: str
    what: str
    happened_after: datetime | None
    happened_before: datetime
    known_at: datetime
    offline: int
    under_min_isr: int
    detail: str | None


@dataclass(frozen=True)
class Recorded:
    """How much is recorded of a cluster. `until`: up to when; None: nothing yet. `is_made`: whether
    its incidents are made. Of the rest: whether a source is read.
    """

    cluster: str
    until: datetime | None
    is_made: bool
    has_controllers_log: bool
    has_coordinators_log: bool
    has_lag: bool


@dataclass(frozen=True)
class Account:
    """All that is known of one incident. `gaps`: from when to when nobody looked meanwhile.
    `hosts`: broker -> host:port as of its begin. `controllers`: the active ones from its begin to
    its end.
    """

    incident: Incident
    findings: Sequence[Finding]
    recorded: Recorded
    gaps: Sequence[tuple[datetime, datetime]] = ()
    hosts: Mapping[int, str] = field(default_factory=dict)
    controllers: Sequence[int] = ()


_Record = TypeVar("_Record", Incident, Finding, Event, Recorded)


def record(kind: type[_Record], row: Row) -> _Record:
    """Return a row as a record of that type. A list that is null is empty."""
    return kind(
        **{
            each.name: [] if row[each.name] is None and "Sequence" in each.type else row[each.name]
            for each in fields(kind)
        }
    )
