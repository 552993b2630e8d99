"""Findings, tied by rules, as trees: what follows from one first cause is one incident."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from jobs.rules.ids import POLLS, row_id
from jobs.rules.incidents.finding import (
    BESIDE,
    BROKER_MISSING,
    CONFIG_CHANGED,
    CONTROLLER_ELECTED,
    COORDINATOR_MOVED,
    GAP,
    GROUP_BEHIND,
    GROUP_STOPPED,
    GROUP_STUCK,
    ISR_LEFT,
    LAG,
    LEADER_CHANGED,
    LEVELS,
    LOG_DIR_FAILED,
    OPENERS,
    PARTITION_OFFLINE,
    PAUSE,
    QUORUM_FLAPPING,
    QUORUM_LOST,
    REASSIGNMENT,
    REBALANCE,
    REOPENED_WITHIN,
    STALE_BROKER,
    STUCK_AFTER,
    STUCK_TRANSACTION,
    UNCLEAN_ELECTION,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    WORTH_AFTER,
    Finding,
    by_subject,
    continued,
    flapping,
    joined,
    stretches,
    stuck,
)
from jobs.rules.incidents.links import Link, link

ORDER: Final = (
    REASSIGNMENT,
    CONFIG_CHANGED,
    BROKER_MISSING,
    LOG_DIR_FAILED,
    STALE_BROKER,
    QUORUM_LOST,
    QUORUM_FLAPPING,
    CONTROLLER_ELECTED,
    ISR_LEFT,
    LEADER_CHANGED,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    PARTITION_OFFLINE,
    UNCLEAN_ELECTION,
    STUCK_TRANSACTION,
    COORDINATOR_MOVED,
    REBALANCE,
    GROUP_STUCK,
    PAUSE,
    LAG,
    GROUP_STOPPED,
    *BESIDE,
)
"""Kinds of findings: each follows from itself, or from kinds before it."""

REMOVED_AFTER: Final = timedelta(days=1)
"""A broker that is missing for so long, and that no ISR lacks, was taken away (inferred)."""


@dataclass
class Known:
    """A finding of an earlier round. `from_id`: of the finding that it followed from."""

    finding: Finding
    from_id: str | None
    incident_id: str


@dataclass
class Tree:
    """A first cause, and all findings that follow from it, in order of their begins."""

    root: Finding
    members: list[Finding] = field(default_factory=list)

    @property
    def openers(self) -> list[Finding]:
        """Those that open an incident."""
        return [each for each in self.members if each.opens]


NONE: Final = Tree(Finding("", datetime.max.replace(tzinfo=UTC)))
"""Of an incident without findings."""


@dataclass
class Linked:
    """All findings of a cluster, and by id the link of each that follows from another one.
    `due`: when something that lasts is a finding, if nothing changes.
    """

    findings: list[Finding] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    due: list[datetime] = field(default_factory=list)

    def trees(self) -> list[Tree]:
        """The trees that hold a finding which opens an incident, in order of their begins."""
        found: dict[str, Tree] = {}
        for each in sorted(self.findings, key=_in_time):
            root = self._root(each)
            found.setdefault(root.id, Tree(root)).members.append(each)
        return [each for each in found.values() if each.openers]

    def _root(self, of: Finding) -> Finding:
        while of.id in self.links:
            of = self.links[of.id].first
        return of


def _in_time(of: Finding) -> tuple[datetime, int, tuple[str, ...]]:
    return of.began_before, ORDER.index(of.kind), tuple(map(str, of.subject))


def linked(
    cluster_id: str, rows: Iterable[Finding], known: Sequence[Known], until: datetime
) -> Linked:
    """The findings of a cluster: rows of gold that are alike are one, and each is tied to the one
    that it follows from. `known`: those of earlier rounds, of which `rows` may not have all any
    more. `until`: of the newest observation.
    """
    of_kind: dict[str, list[Finding]] = defaultdict(list)
    for row in rows:
        of_kind[row.kind].append(row)
    of_kind[QUORUM_FLAPPING] = [*flapping(of_kind[CONTROLLER_ELECTED])]
    of_kind[GROUP_STUCK] = [*stuck(of_kind[REBALANCE], until)]
    of_kind[GROUP_BEHIND] = [
        replace(row, kind=GROUP_BEHIND, id="") for row in of_kind[LAG] if row.source == POLLS
    ]
    # Whether it is missed: a broker that no ISR lacks for a day was taken away.
    missed = {each.broker_id for each in of_kind[ISR_LEFT] if each.ended_before is None}
    open_rebalances = (row for row in of_kind[REBALANCE] if row.ended_before is None)
    found = Linked(due=[row.began_before + STUCK_AFTER for row in open_rebalances])
    before: dict[str, list[Known]] = defaultdict(list)
    for older in known:
        before[older.finding.kind].append(older)
    for kind in ORDER:
        made = [*_findings(cluster_id, kind, of_kind[kind], before[kind], found)]
        made = _worth(made, {each.finding.id for each in before[kind]}, until, found.due)
        if kind == BROKER_MISSING:
            made = [_unless_removed(each, missed, until) for each in made]
        for each in sorted(made, key=_in_time):
            if (tie := link(each, found.findings)) is not None:
                found.links[each.id] = tie
            found.findings.append(each)
    return found


def _findings(
    cluster_id: str, kind: str, rows: Sequence[Finding], known: Iterable[Known], so_far: Linked
) -> Iterable[Finding]:
    """The findings of a kind, with ids."""
    gap = REOPENED_WITHIN if kind in OPENERS else GAP
    left = list(known)
    for parent, of_parent in _by_parent(kind, rows, so_far).items():
        for of_subject in [of_parent] if parent else by_subject(of_parent):
            for stretch in stretches(of_subject, gap):
                made = joined(stretch)
                older = [each for each in left if _is_same(each, parent, made, gap)]
                left = [each for each in left if each not in older]
                if older:
                    first = min(older, key=lambda each: each.finding.began_before)
                    made = continued(first.finding, stretch)
                yield made if made.id else replace(made, id=_id(cluster_id, made))
    yield from (each.finding for each in left if each.finding.ended_before is not None)


def _worth(
    made: Iterable[Finding], known: Container[str], until: datetime, due: list[datetime]
) -> list[Finding]:
    """Those that have lasted for long enough, or had before; and when others will have."""
    found = []
    for each in made:
        after = WORTH_AFTER.get(each.kind)
        if after is None or each.id in known or each.lasted(until) >= after:
            found.append(each)
        elif each.ended_before is None:
            due.append(each.spans[-1][0] + after)
    return found


def _by_parent(
    kind: str, rows: Sequence[Finding], so_far: Linked
) -> Mapping[str, Sequence[Finding]]:
    """Rows by the id of the finding that they follow from, if they are about levels of partitions:
    brokers that are lost together leave each partition without others. All others are as one.
    """
    found: dict[str, list[Finding]] = defaultdict(list)
    for row in rows:
        tie = link(row, so_far.findings) if kind in LEVELS else None
        found["" if tie is None else tie.first.id].append(row)
    return found


def _is_same(known: Known, parent: str, made: Finding, gap: timedelta) -> bool:
    """Whether a finding of an earlier round is this one."""
    older = known.finding
    is_same = known.from_id == parent if parent else older.subject == made.subject
    is_after = older.ended_before is None or older.ended_before + gap >= (
        made.began_after or made.began_before
    )
    return is_same and is_after and (made.lasts_at(older.began_before - gap))


def _id(cluster_id: str, of: Finding) -> str:
    return row_id(cluster_id, of.kind, str(tuple(of.subject)), of.began_before.isoformat())


def _unless_removed(of: Finding, missed: Iterable[int | None], until: datetime) -> Finding:
    ends = of.began_before + REMOVED_AFTER
    if of.ended_before is not None or of.broker_id in missed or ends > until:
        return of
    return replace(of, ended_after=ends, ended_before=ends, partitions_now=0)
