"""Findings: rows of gold that are alike, as one stretch of time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

BROKER_MISSING: Final = "broker_missing"
PARTITION_OFFLINE: Final = "partition_offline"
UNDER_MIN_ISR: Final = "under_min_isr"
QUORUM_LOST: Final = "quorum_lost"
QUORUM_FLAPPING: Final = "quorum_flapping"
STALE_BROKER: Final = "stale_broker"
UNCLEAN_ELECTION: Final = "unclean_election"
GROUP_STUCK: Final = "group_stuck"
GROUP_STOPPED: Final = "group_stopped"
STUCK_TRANSACTION: Final = "stuck_transaction"
ISR_LEFT: Final = "isr_left"
UNDER_REPLICATED: Final = "under_replicated"
LOG_DIR_FAILED: Final = "log_dir_failed"
LEADER_CHANGED: Final = "leader_changed"
COORDINATOR_MOVED: Final = "coordinator_moved"
CONTROLLER_ELECTED: Final = "controller_elected"
REBALANCE: Final = "rebalance"
PAUSE: Final = "pause"
LAG: Final = "lag"
REASSIGNMENT: Final = "reassignment"
CONFIG_CHANGED: Final = "config_changed"

OPENERS: Final = (
    BROKER_MISSING,
    PARTITION_OFFLINE,
    UNDER_MIN_ISR,
    QUORUM_LOST,
    QUORUM_FLAPPING,
    STALE_BROKER,
    UNCLEAN_ELECTION,
    GROUP_STUCK,
    GROUP_STOPPED,
    STUCK_TRANSACTION,
    LOG_DIR_FAILED,
)
"""The findings that open an incident; all others only belong to one."""
ONE_IN_SYNC: Final = "one_in_sync"
CRASH_LOOP: Final = "crash_loop"
GROUP_BEHIND: Final = "group_behind"
LONE_SETTING: Final = "lone_setting"
THROTTLE_LEFT: Final = "throttle_left"
SHARED_RACK: Final = "shared_rack"

BESIDE: Final = (
    ONE_IN_SYNC,
    CRASH_LOOP,
    GROUP_BEHIND,
    LONE_SETTING,
    THROTTLE_LEFT,
    SHARED_RACK,
)
"""Findings beside incidents: each is worth an event, and belongs to no incident."""
LEVELS: Final = {
    UNDER_REPLICATED: "under_replicated",
    UNDER_MIN_ISR: "under_min_isr",
    PARTITION_OFFLINE: "offline",
}
"""Findings about levels of partitions, from the mildest to the worst -> gold.isr_episodes.level."""

GAP: Final = timedelta(minutes=2)
"""Rows of one kind and subject with no more time between them are one finding."""
REOPENED_WITHIN: Final = timedelta(minutes=15)
"""... of findings that open an incident."""
STUCK_AFTER: Final = timedelta(minutes=5)
"""A group whose rebalance lasts for so long is stuck."""
WORTH_AFTER: Final = dict.fromkeys(
    (ONE_IN_SYNC, GROUP_BEHIND, THROTTLE_LEFT, SHARED_RACK), timedelta(minutes=10)
)
"""Findings that are some once they have lasted for so long."""
ELECTIONS, ELECTIONS_WITHIN = 3, timedelta(minutes=10)
"""A quorum that elects so often within this flaps."""


class Subject(NamedTuple):
    """Who a finding is about."""

    broker_id: int | None = None
    leader: int | None = None
    group_id: str | None = None
    topic: str | None = None
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, or a row of gold that becomes part of one; columns as in gold.incident_links.

    `id`: empty until it is known whether it is an older one. `parts`: if it came again, when each
    unbroken part surely began, and until when it surely lasted (None: it still does); not stored.
    """

    kind: str
    began_before: datetime
    began_after: datetime | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    source: str = "polls"
    broker_id: int | None = None
    leader: int | None = None
    group_id: str | None = None
    rack: str | None = None
    brokers: tuple[int, ...] = ()
    topic: str | None = None
    partitions: int = 0
    partitions_now: int = 0
    number: int | None = None
    cause: str | None = None
    is_controlled: bool | None = None
    id: str = ""
    parts: tuple[tuple[datetime, datetime | None], ...] = ()

    @property
    def opens(self) -> bool:
        """Whether it opens an incident, or is a finding beside them."""
        return self.kind in OPENERS or self.kind in BESIDE

    @property
    def is_exact(self) -> bool:
        """Whether its begin is the time of one record."""
        return self.began_after == self.began_before

    @property
    def subject(self) -> Subject:
        """Findings of one kind and subject are one, if they are close in time."""
        if self.kind in LEVELS:
            brokers = self.brokers or (() if self.broker_id is None else (self.broker_id,))
            return Subject(brokers=brokers, topic=None if brokers else self.topic)
        if self.group_id is not None:
            return Subject(group_id=self.group_id)
        if self.kind in {CONFIG_CHANGED, THROTTLE_LEFT, STUCK_TRANSACTION}:
            return Subject(topic=self.topic)
        if self.kind == LONE_SETTING:
            return Subject(self.broker_id, topic=self.topic)
        if self.kind in {REASSIGNMENT, QUORUM_LOST, QUORUM_FLAPPING, SHARED_RACK}:
            return Subject()
        return Subject(self.broker_id, self.leader)

    @property
    def spans(self) -> tuple[tuple[datetime, datetime | None], ...]:
        """Its unbroken parts; only one if nobody knows of more."""
        end = None if self.ended_before is None else self.ended_after or self.began_before
        return self.parts or ((self.began_before, end),)

    def lasted(self, until: datetime) -> timedelta:
        """For how long it has lasted without a break, at least, as of an observation."""
        return max((end or until) - begin for begin, end in self.spans)

    def lasts_at(self, at: datetime) -> bool:
        """Whether it may have lasted at a time."""
        return self.ended_before is None or at <= self.ended_before


def finding_of(row: Mapping[str, Any]) -> Finding:
    """A row of gold.incident_links, or one that is to become part of a finding."""
    names = (name for name in Finding.__slots__ if row.get(name) is not None)
    found = {name: row[name] for name in names}
    return Finding(**found | {"brokers": tuple(row["brokers"] or ())})


def joined(parts: Sequence[Finding]) -> Finding:
    """Findings of one kind and subject as one, in order of their begins. Of both sources the log's
    begin counts if it is exact: it lies within the bounds of polls.
    """
    first = min(parts, key=_by_begin)
    same = [each for each in parts if _may_be_same_begin(each, first)]
    begin = min(same, key=lambda each: (not each.is_exact, each.began_before))
    is_open = any(each.ended_before is None for each in parts)
    last = None if is_open else max(parts, key=lambda each: each.ended_before or each.began_before)
    topics = sorted({each.topic for each in parts if each.topic is not None}, key=_by_name)
    numbers = [each.number for each in parts if each.number is not None]
    controlled = [each.is_controlled for each in parts if each.is_controlled is not None]
    causes = [each.cause for each in sorted(parts, key=_by_begin) if each.cause is not None]
    return replace(
        first,
        began_after=begin.began_after,
        began_before=begin.began_before,
        ended_after=None if last is None else last.ended_after,
        ended_before=None if last is None else last.ended_before,
        source=begin.source,
        rack=next((each.rack for each in parts if each.rack is not None), None),
        brokers=tuple(sorted({broker for each in parts for broker in each.brokers})),
        topic=topics[0] if topics else None,
        partitions=most_at_once(parts),
        partitions_now=sum(each.partitions for each in parts if each.ended_before is None),
        number=max(numbers, default=None),
        cause=causes[0] if causes else None,
        is_controlled=controlled[0] if controlled else None,
        id=next((each.id for each in parts if each.id), ""),
        parts=unbroken(parts),
    )


def unbroken(parts: Iterable[Finding]) -> tuple[tuple[datetime, datetime | None], ...]:
    """When parts surely lasted, those that touch as one."""
    found: list[tuple[datetime, datetime | None]] = []
    until: datetime | None = None
    for each in sorted(parts, key=_by_begin):
        ((begin, end),) = replace(each, parts=()).spans
        touches = until is None or (each.began_after or each.began_before) <= until
        if found and touches:
            first, last = found.pop()
            begin, end = first, None if last is None or end is None else max(last, end)
            until = _later(until, each.ended_before)
        else:
            until = each.ended_before
        found.append((begin, end))
    return tuple((begin, None if end is None else max(begin, end)) for begin, end in found)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return None if one is None or other is None else max(one, other)


def continued(known: Finding, parts: Sequence[Finding]) -> Finding:
    """A finding of an earlier round, by rows of which it may have had some, or all, already."""
    found = joined([known, *parts]) if parts else known
    again = joined(parts) if parts else known
    return replace(
        found,
        id=known.id,
        ended_after=again.ended_after,
        ended_before=again.ended_before,
        partitions=max(known.partitions, again.partitions),
        partitions_now=again.partitions_now,
        parts=again.parts,
    )


def _may_be_same_begin(one: Finding, first: Finding) -> bool:
    """Whether the begin of one lies within the bounds of the first."""
    after = first.began_after or first.began_before
    return after <= one.began_before <= first.began_before


def _by_begin(of: Finding) -> tuple[datetime, str]:
    return of.began_before, of.source


def _by_name(topic: str) -> tuple[bool, str]:
    return topic.startswith("__"), topic


def most_at_once(parts: Iterable[Finding]) -> int:
    """The most partitions that findings were about at a time; of those without a duration all."""
    points, steps = 0, []
    for each in parts:
        if each.ended_before is not None and each.ended_before <= each.began_before:
            points += each.partitions
            continue
        steps.append((each.began_before, each.partitions))
        if each.ended_before is not None:
            steps.append((each.ended_before, -each.partitions))
    most = now = 0
    # Of what ends and begins at one time, the end comes first.
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most + points


def stretches(findings: Iterable[Finding], gap: timedelta) -> Iterable[list[Finding]]:
    """Findings of one kind and subject, cut where nothing lasted for longer than `gap`."""
    found: list[Finding] = []
    until: datetime | None = None
    for each in sorted(findings, key=_by_begin):
        if found and until is not None and (each.began_after or each.began_before) > until + gap:
            yield found
            found = []
        until = _later(until, each.ended_before) if found else each.ended_before
        found.append(each)
    if found:
        yield found


def by_subject(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Findings of one kind, by subject."""

    def key(of: Finding) -> tuple[str, ...]:
        return tuple(map(str, of.subject))

    for _, found in groupby(sorted(findings, key=key), key):
        yield list(found)


def flapping(elections: Sequence[Finding]) -> Iterable[Finding]:
    """Elections of controllers that surely came too close together, as findings that open an
    incident.

    Two polls may have missed some between them. Epochs do not tell: votes that nobody won raise
    them, too.
    """
    ordered = sorted(elections, key=_by_begin)
    for place in range(len(ordered) - ELECTIONS + 1):
        some = ordered[place : place + ELECTIONS]
        first, last = some[0], some[-1]
        if last.began_before - (first.began_after or first.began_before) <= ELECTIONS_WITHIN:
            yield replace(
                first,
                kind=QUORUM_FLAPPING,
                broker_id=None,
                ended_after=last.began_after or last.began_before,
                ended_before=last.began_before,
                number=ELECTIONS,
            )


def stuck(rebalances: Iterable[Finding], until: datetime) -> Iterable[Finding]:
    """Rebalances that last for too long, as findings that open an incident."""
    for each in rebalances:
        if each.lasted(until) >= STUCK_AFTER:
            yield replace(each, kind=GROUP_STUCK, id="", parts=())
