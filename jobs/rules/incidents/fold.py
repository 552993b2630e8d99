"""The fold of the incidents of a cluster: rows of gold -> incidents, what ties them, events."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobs.configuration.severities import Severity
from jobs.rules.arrow import by_value, rows_in
from jobs.rules.ids import row_id
from jobs.rules.incidents.events import Observed, baseline, events
from jobs.rules.incidents.finding import finding_of
from jobs.rules.incidents.incident import (
    FINDING,
    MERGED,
    RECOVERED,
    REVISED_WITHIN,
    WITHDRAWN,
    Key,
    Seen,
    due_at,
    incident,
    link_row,
)
from jobs.rules.incidents.trees import NONE, Known, Linked, Tree, linked
from schemas.incidents import EVENTS, INCIDENT_LINKS, INCIDENTS
from schemas.table import PART, Table

Row = dict[str, Any]

_TOLD = [name for name in INCIDENT_LINKS.column_names if name not in {"updated_at", PART}]
"""The columns of a link by which it is another one."""


@dataclass(frozen=True)
class ClusterTake:
    """The part of a round that is one cluster's. `until`: its newest observation. `after`: that of
    the round before; None in the first round.
    """

    cluster_id: str
    until: datetime
    after: datetime | None = None


@dataclass
class Made:
    """The rows of a cluster. `due_at`: when it has to be looked at again, by an observation."""

    incidents: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    due_at: datetime | None = None


def fold(
    cluster: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    take: ClusterTake,
    severities: Mapping[str, Severity],
    at: datetime,
) -> Made:
    """The rows that a round makes of a cluster, changed ones alone. `news`: rows that become parts
    of findings, as in gold.incident_links. `live`: of both tables. `at`: of the round.
    """
    since = take.until - REVISED_WITHIN
    rows = [finding_of(row) for row in _of(take.cluster_id, news, INCIDENT_LINKS)]
    rows = [each for each in rows if each.ended_before is None or each.ended_before >= since]
    before = {row["id"]: row for row in _of(take.cluster_id, live, INCIDENTS)}
    tied = _of(take.cluster_id, live, INCIDENT_LINKS)
    known = [Known(finding_of(row), row["from_id"], row["incident_id"]) for row in tied]
    all_of = linked(take.cluster_id, rows, known, take.until)
    found = _incidents(cluster, take, all_of, _Before(before, known), severities)
    made = Made()
    due = all_of.due
    for row, tree in found:
        made.incidents.append(row)
        due += due_at(row, tree.members, take.until, severities)
        made.links += [link_row(row, each, all_of.links.get(each.id)) for each in tree.members]
    observed = Observed(take.after, take.until, at)
    if take.after is None:
        lasting = [row for row in made.incidents if row["ended_before"] is None]
        made.events = [baseline(lasting, observed)] if lasting else []
    else:
        for row in made.incidents:
            made.events += events(before.get(row["id"]), row, observed)
    made.due_at = min((each for each in due if each > take.until), default=None)
    _changed(made, before, tied, at)
    return made


def _of(cluster_id: str, tables: Mapping[str, pa.Table], table: Table) -> list[Row]:
    return [row for row in rows_in(tables, table) if row["cluster_id"] == cluster_id]


@dataclass(frozen=True)
class _Before:
    """Incidents of the round before by id, and the findings of all of them."""

    incidents: Mapping[str, Row]
    findings: Sequence[Known]


def _incidents(
    cluster: str,
    take: ClusterTake,
    all_of: Linked,
    before: _Before,
    severities: Mapping[str, Severity],
) -> list[tuple[Row, Tree]]:
    """The row of each incident, and its findings; of one that is gone there are none."""
    trees = all_of.trees()
    ids, merged = _ids(take.cluster_id, trees, before)
    found = []
    for id_, tree in zip(ids, trees, strict=True):
        key, was = Key(id_, take.cluster_id, cluster), before.incidents.get(id_)
        row = incident(key, tree, all_of, Seen(take.until, severities, was))
        # Nobody reads what ended so long ago again: it may be a part of something larger.
        if row["is_live"] or was is not None:
            found.append((row, tree))
    _overlap([row for row, _ in found])
    there = {row["id"] for row, _ in found}
    gone = (row for id_, row in before.incidents.items() if id_ not in there)
    return found + [(_gone(row, merged.get(row["id"]), take), NONE) for row in gone]


def _changed(made: Made, before: Mapping[str, Row], tied: Sequence[Row], at: datetime) -> None:
    """Leave out what is as it was."""
    then, now = by_value(tied, "incident_id"), by_value(made.links, "incident_id")
    links: list[Row] = []
    for row in made.incidents:
        was, found = then.get(row["id"], []), now.get(row["id"], [])
        if _texts(was) == _texts(found):
            continue
        # Where none is left, a row without kind takes the place of those that were.
        links += found or [_no_link(row)]
    made.links = [row | {"updated_at": at} for row in links]
    made.incidents = [
        row | {"updated_at": at}
        for row in made.incidents
        if not _is_same(before.get(row["id"]), row)
    ]


def _texts(links: Iterable[Row]) -> list[tuple[str, ...]]:
    return sorted(tuple(str(row[name]) for name in _TOLD) for row in links)


def _is_same(before: Row | None, row: Row) -> bool:
    return before is not None and all(before[name] == value for name, value in row.items())


def _ids(
    cluster_id: str, trees: Sequence[Tree], before: _Before
) -> tuple[list[str], dict[str, str]]:
    """The id of each tree, and into which incident each other one went. An incident that is there
    keeps its id, the oldest one if there are several; if it falls apart, the tree has the id that
    holds more of it.
    """
    was = {each.finding.id: each.incident_id for each in before.findings}
    shares = [Counter(was[each.id] for each in tree.members if each.id in was) for tree in trees]
    largest = {id_: max(share[id_] for share in shares) for share in shares for id_ in share}
    found: list[str] = []
    merged: dict[str, str] = {}
    for tree, share in zip(trees, shares, strict=True):
        own = [
            id_
            for id_, count in share.items()
            if count == largest[id_] and id_ in before.incidents and id_ not in {*found, *merged}
        ]
        own.sort(key=lambda id_: (before.incidents[id_]["began_before"], id_))
        id_ = own[0] if own else row_id("incident", cluster_id, tree.openers[0].id)
        merged |= dict.fromkeys(own[1:], id_)
        found.append(id_)
    return found, merged


def _overlap(rows: Sequence[Row]) -> None:
    """Say which incidents were at the same time."""
    for row in rows:
        row["overlaps"] = sorted(
            other["id"]
            for other in rows
            if other is not row and FINDING not in {row["class"], other["class"]}
            if _lasts(row, other) and _lasts(other, row)
        )


def _lasts(row: Row, other: Row) -> bool:
    return row["ended_before"] is None or other["began_before"] <= row["ended_before"]


def _gone(row: Row, into: str | None, take: ClusterTake) -> Row:
    """The row of an incident of which no finding is there any more: `into` another one, or none."""
    is_over = row["ended_before"] is not None
    if into is not None:
        reason = MERGED
    elif is_over and row["ended_before"] + REVISED_WITHIN <= take.until:
        reason = row["end_reason"]
    elif row["class"] == FINDING:
        reason = RECOVERED  # It was there in the round before.
    else:
        reason = row["end_reason"] if row["end_reason"] in {MERGED, WITHDRAWN} else WITHDRAWN
    return row | {
        "ended_after": row["ended_after"] if is_over else take.after,
        "ended_before": row["ended_before"] if is_over else take.until,
        "end_reason": reason,
        "merged_into": into or row["merged_into"],
        "offline": 0,
        "under_min_isr": 0,
        "is_live": False,
    }


def _no_link(row: Row) -> Row:
    """Takes the place of the links of an incident that has none any more."""
    own = {name: row[name] for name in ("id", "cluster_id", "cluster")}
    return dict.fromkeys(INCIDENT_LINKS.column_names) | own | {"incident_id": row["id"]}


TABLES = (INCIDENTS, INCIDENT_LINKS, EVENTS)
"""The tables that rounds of incidents write."""
