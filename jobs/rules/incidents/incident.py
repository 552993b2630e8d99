"""The row of an incident, by its findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.configuration.severities import INFO, Severity
from jobs.rules.incidents.causes import alternatives, first_cause
from jobs.rules.incidents.finding import (
    BESIDE,
    BROKER_MISSING,
    CONFIG_CHANGED,
    ISR_LEFT,
    LEVELS,
    LOG_DIR_FAILED,
    PARTITION_OFFLINE,
    REASSIGNMENT,
    STALE_BROKER,
    UNDER_MIN_ISR,
    Finding,
)
from jobs.rules.incidents.links import Link
from jobs.rules.incidents.severity import next_severity, severity
from jobs.rules.incidents.trees import REMOVED_AFTER, Linked, Tree
from schemas.incidents import SEVERITIES

Row = dict[str, Any]

QUIET: Final = timedelta(minutes=2)
"""An incident is over once all that belongs to it has ended, and this has passed."""
CONTROLLED_WITHIN: Final = timedelta(minutes=15)
"""A controlled stop that lasts for longer is escalated."""
REVISED_WITHIN: Final = timedelta(hours=2)
"""For so long after its end a slower source may revise an incident: rows of gold that ended so long
ago are read again.
"""
MOST_NAMES: Final = 100
_CONTEXT: Final = {REASSIGNMENT, CONFIG_CHANGED}
"""Findings that may be a cause, and neither begin an incident nor keep it open."""

INCIDENT, MAINTENANCE, FINDING = "incident", "maintenance", "finding"
RECOVERED, REMOVED, MERGED, WITHDRAWN = "recovered", "removed", "merged", "withdrawn"


@dataclass(frozen=True)
class Key:
    """Whose incident it is."""

    id: str
    cluster_id: str
    cluster: str


@dataclass(frozen=True)
class Seen:
    """`until`: of the newest observation. `before`: the row of an earlier round."""

    until: datetime
    severities: Mapping[str, Severity]
    before: Row | None = None


def incident(key: Key, tree: Tree, all_of: Linked, seen: Seen) -> Row:
    """The row of gold.incidents, but for what other incidents decide."""
    until, before = seen.until, seen.before
    members, openers = tree.members, tree.openers
    cause, controlled = first_cause(tree, all_of.links), began_controlled(tree)
    steps = len({each.broker_id for each in members if each.kind == BROKER_MISSING})
    ties = [all_of.links[each.id] for each in members if each.id in all_of.links]
    is_maintenance = controlled is True or any(each.rule.name == "rolling" for each in ties)
    is_beside = tree.root.kind in BESIDE
    escalated = is_maintenance and is_bad(members, until)
    ended = over(members, until)
    worst = severity(members, until, seen.severities)
    if before is not None:
        worst = max(worst, before["severity"], key=SEVERITIES.index)
    if is_maintenance and not escalated:
        worst = INFO
    begin = next(each for each in members if each.kind not in _CONTEXT)
    levels = [each.kind for each in members if each.kind in LEVELS]
    row: Row = {
        **asdict(key),
        "kind": openers[0].kind if before is None else before["kind"],
        "class": FINDING if is_beside else MAINTENANCE if is_maintenance else INCIDENT,
        "severity": worst,
        "began_after": begin.began_after,
        "began_before": begin.began_before,
        "ended_after": ended and ended[0],
        "ended_before": ended and ended[1],
        "end_reason": None if ended is None else _end_reason(openers),
        "cause": cause.name,
        "cause_of": cause.of,
        "cause_sureness": cause.sureness,
        "alternatives": alternatives(tree, all_of, cause),
        "began_controlled": controlled,
        "is_escalated": escalated,
        "brokers": sorted(brokers_of(members)),
        "group_ids": _names(each.group_id for each in members),
        "topics": _names(each.topic for each in members),
        "steps": steps,
        "worst_level": LEVELS[max(levels, key=[*LEVELS].index)] if levels else None,
        "offline": _now(members, PARTITION_OFFLINE),
        "under_min_isr": _now(members, UNDER_MIN_ISR),
        "offline_most": _most(members, PARTITION_OFFLINE),
        "under_min_isr_most": _most(members, UNDER_MIN_ISR),
        "out_of_sync_most": _most(members, ISR_LEFT),
        "reopened": 0 if before is None else before["reopened"],
        "merged_into": None,
        "overlaps": [],
        "is_live": ended is None or ended[1] + REVISED_WITHIN > until,
    }
    if before is not None and came_again(before, row):
        row["reopened"] += 1
    return row


def began_controlled(tree: Tree) -> bool | None:
    """Whether somebody began it on purpose, as far as a source can tell."""
    if tree.root.kind == BROKER_MISSING:
        return tree.root.is_controlled
    return tree.root.kind == REASSIGNMENT


def is_bad(members: Iterable[Finding], until: datetime) -> bool:
    """Whether maintenance is more than that: it takes too long, or partitions offline or under min
    ISR.
    """
    return any(
        each.kind in {PARTITION_OFFLINE, UNDER_MIN_ISR}
        or (each.kind == BROKER_MISSING and each.lasted(until) >= CONTROLLED_WITHIN)
        for each in members
    )


def over(members: Iterable[Finding], until: datetime) -> tuple[datetime, datetime] | None:
    """The bounds of its end; None while something lasts, or QUIET has not passed."""
    ends = []
    for each in members:
        if each.kind in _CONTEXT:
            continue
        if each.ended_before is None:
            return None
        ends.append((each.ended_before, each.ended_after or each.began_before))
    before, after = max(ends)
    return (after, before) if before + QUIET <= until else None


def _end_reason(openers: Iterable[Finding]) -> str:
    is_removed = any(
        each.kind == BROKER_MISSING
        and each.ended_before is not None
        and each.ended_before == each.began_before + REMOVED_AFTER
        for each in openers
    )
    return REMOVED if is_removed else RECOVERED


_OF_ONE_BROKER = frozenset({BROKER_MISSING, STALE_BROKER, LOG_DIR_FAILED})


def brokers_of(members: Iterable[Finding]) -> set[int]:
    """The brokers that are or were missing, stale, or out of ISRs, or whose directory failed."""
    found: set[int] = set()
    for each in members:
        if each.kind in _OF_ONE_BROKER and each.broker_id is not None:
            found.add(each.broker_id)
        elif each.kind == ISR_LEFT:
            found.update(each.brokers)
    return found


def _names(names: Iterable[str | None]) -> list[str]:
    return sorted({each for each in names if each is not None})[:MOST_NAMES]


def _now(members: Iterable[Finding], kind: str) -> int:
    return sum(each.partitions_now for each in members if each.kind == kind)


def _most(members: Iterable[Finding], kind: str) -> int:
    """The most at a time, as far as findings of the same time are known together."""
    of_kind = [each for each in members if each.kind == kind]
    return max((_at(each.began_before, of_kind) for each in of_kind), default=0)


def _at(at: datetime, findings: Sequence[Finding]) -> int:
    return sum(
        each.partitions for each in findings if each.began_before <= at and each.lasts_at(at)
    )


def came_again(before: Row, row: Row) -> bool:
    """Whether an incident that was over is open, or was open again since. Less than QUIET is a
    revision of its end.
    """
    if before["ended_before"] is None:
        return False
    return row["ended_before"] is None or row["ended_before"] > before["ended_before"] + QUIET


def due_at(
    row: Row, members: Sequence[Finding], until: datetime, table: Mapping[str, Severity]
) -> Iterable[datetime]:
    """When an incident has to be looked at again though nothing changed."""
    if row["ended_before"] is not None:
        yield row["ended_before"] + REVISED_WITHIN
        return
    yield from next_severity(members, until, table)
    ends = [each.ended_before for each in members if each.kind not in _CONTEXT]
    if None not in ends:
        yield max(each for each in ends if each is not None) + QUIET
    for each in members:
        if each.kind == BROKER_MISSING and each.ended_before is None:
            yield each.spans[-1][0] + CONTROLLED_WITHIN
            yield each.began_before + REMOVED_AFTER


def link_row(row: Row, of: Finding, tie: Link | None) -> Row:
    """The row of gold.incident_links of a finding. `row`: of its incident."""
    names = ("cluster_id", "cluster", "is_live")
    return {
        **{name: getattr(of, name) for name in Finding.__slots__ if name != "parts"},
        **{name: row[name] for name in names},
        "brokers": list(of.brokers),
        "incident_id": row["id"],
        "rule": tie and tie.rule.name,
        "from_id": tie and tie.first.id,
        "sureness": tie and tie.sureness,
        "delay_ms_min": tie and tie.delay_ms_min,
        "delay_ms_max": tie and tie.delay_ms_max,
    }
