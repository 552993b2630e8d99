"""Rows of gold.incidents, gold.incident_links and gold.events, as far as they are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from truth.model import faults as of_log
from truth.model.faults import Fault
from truth.model.spells import Span

_OF_BROKER = frozenset({of_log.MISSING, of_log.STALE, of_log.LEADER_CHANGED})
_UNKNOWN = timedelta(days=1)
"""So long before its upper bound something may have begun that has no lower one."""


@dataclass(frozen=True, slots=True)
class Incident:
    """A row of gold.incidents."""

    id: str
    began_before: datetime
    ended_before: datetime | None
    end_reason: str | None
    began_controlled: bool | None
    merged_into: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of gold.incident_links."""

    id: str
    incident_id: str
    kind: str
    broker_id: int | None
    leader: int | None
    brokers: tuple[int, ...]
    topic: str | None
    partitions: int
    began_after: datetime | None
    began_before: datetime
    ended_after: datetime | None
    ended_before: datetime | None
    source: str
    is_controlled: bool | None
    rule: str | None
    from_id: str | None
    sureness: str | None
    delay_ms_min: int | None
    delay_ms_max: int | None

    def is_about(self, fault: Fault) -> bool:
        """Whether it may be about a fault: rows do not name each partition."""
        if fault.kind != self.kind:
            return False
        mine = {*self.brokers, self.broker_id} - {None}
        if self.kind in _OF_BROKER:
            return self.broker_id in fault.brokers
        if self.kind == of_log.CONFIG_CHANGED:
            return self.topic == fault.topic
        return self.topic == fault.topic or not mine or not fault.brokers.isdisjoint(mine)

    def may_last(self, span: Span, tolerance: timedelta) -> bool:
        """Whether it may have lasted at some time of a span."""
        return span.may_hold(
            (self.began_after or self.began_before) - tolerance,
            self.ended_before or datetime.max.replace(tzinfo=UTC),
        )

    def may_begin(self, at: datetime, tolerance: timedelta) -> bool:
        """Whether a time lies within the bounds of its begin."""
        since = self.began_after or self.began_before - _UNKNOWN
        return since - tolerance <= at <= self.began_before


@dataclass(frozen=True, slots=True)
class Event:
    """A row of gold.events."""

    id: str
    event: str
    incident_id: str | None
    happened_before: datetime
    known_at: datetime


@dataclass(frozen=True)
class Told:
    """All that history tells of incidents."""

    incidents: Sequence[Incident]
    findings: Sequence[Finding]
    events: Sequence[Event]
