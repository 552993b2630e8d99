"""The first cause of an incident, by rules: not what came first, since a broker that hangs shrinks
ISRs before it is fenced.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.rules.ids import LOG
from jobs.rules.incidents.finding import (
    BROKER_MISSING,
    CONFIG_CHANGED,
    GROUP_STOPPED,
    GROUP_STUCK,
    ISR_LEFT,
    LAG,
    LOG_DIR_FAILED,
    PAUSE,
    QUORUM_FLAPPING,
    QUORUM_LOST,
    REASSIGNMENT,
    REBALANCE,
    STALE_BROKER,
    STUCK_TRANSACTION,
    Finding,
)
from jobs.rules.incidents.links import BOUNDED, EXACT, INFERRED, Link, links
from jobs.rules.incidents.trees import Linked, Tree

BROKER_DOWN, BROKER_HUNG, CONTROLLED = "broker_down", "broker_hung", "controlled_shutdown"
RACK, REASSIGNED, UNKNOWN = "rack", "reassignment", "unknown"
MOST_ALTERNATIVES = 3

_OF_KIND: Mapping[str, str] = {
    REASSIGNMENT: REASSIGNED,
    CONFIG_CHANGED: "config_changed",
    STALE_BROKER: "stale",
    LOG_DIR_FAILED: "log_dir_failed",
    QUORUM_LOST: "quorum",
    QUORUM_FLAPPING: "quorum",
    STUCK_TRANSACTION: "transaction",
    **dict.fromkeys((REBALANCE, GROUP_STUCK, PAUSE, LAG, GROUP_STOPPED), "group"),
}


@dataclass(frozen=True)
class Cause:
    """A cause. `of`: a broker id, a rack, a group, a topic; None where there is none. `sureness`:
    None if the cause is unknown.
    """

    name: str
    of: str | None = None
    sureness: str | None = None

    def __str__(self) -> str:
        """As gold.incidents lists it among others."""
        return self.name if self.of is None else f"{self.name}: {self.of}"


def first_cause(tree: Tree, ties: Mapping[str, Link]) -> Cause:
    """The cause of an incident."""
    root = tree.root
    if root.kind != BROKER_MISSING:
        return cause_of(root)
    of_tree = [ties[each.id] for each in tree.members if each.id in ties]
    if any(each.rule.name == "same_rack" and each.first.id == root.id for each in of_tree):
        return Cause(RACK, root.rack, INFERRED)
    is_rolling = any(each.rule.name == "rolling" for each in of_tree)
    if root.is_controlled is None and is_rolling:
        return Cause(CONTROLLED, str(root.broker_id), INFERRED)
    left_before = (
        each.first.id == root.id
        and each.rule.of == BROKER_MISSING
        and each.delay_ms_max is not None
        and each.delay_ms_max < 0
        for each in (ties[member.id] for member in tree.members if _left(member, ties))
    )
    if root.is_controlled is not True and any(left_before):
        return Cause(BROKER_HUNG, str(root.broker_id), INFERRED)
    return cause_of(root)


def _left(of: Finding, ties: Mapping[str, Link]) -> bool:
    return of.kind == ISR_LEFT and of.id in ties


def cause_of(root: Finding) -> Cause:
    """The cause that a finding is, if it follows from none."""
    if root.kind == BROKER_MISSING:
        sureness = EXACT if root.source == LOG else INFERRED
        how = CONTROLLED if root.is_controlled else BROKER_DOWN
        return Cause(how, str(root.broker_id), sureness)
    if root.kind == ISR_LEFT and root.cause is not None:
        broker = root.broker_id if root.leader is None else root.leader
        return Cause(root.cause, None if broker is None else str(broker), INFERRED)
    if (name := _OF_KIND.get(root.kind)) is None:
        return Cause(UNKNOWN)
    who = root.group_id or root.topic or root.broker_id
    # A broker tells of its own directories, and no rule guesses. That nothing else was written of a
    # transaction does not tell that it is stuck.
    sureness = BOUNDED if root.kind == LOG_DIR_FAILED else INFERRED
    is_exact = root.is_exact and root.kind != STUCK_TRANSACTION
    return Cause(name, None if who is None else str(who), EXACT if is_exact else sureness)


def alternatives(tree: Tree, all_of: Linked, cause: Cause) -> list[str]:
    """Other causes that rules allow of what opened the incident, the likeliest first."""
    found: list[str] = []
    for each in (tree.root, tree.openers[0]):
        for other in _others(each, all_of):
            text = str(cause_of(other))
            if text not in {str(cause), UNKNOWN, *found}:
                found.append(text)
    return found[:MOST_ALTERNATIVES]


def _others(of: Finding, all_of: Linked) -> Iterable[Finding]:
    chosen = all_of.links.get(of.id)
    for tie in links(of, all_of.findings):
        if tie.first.id not in {of.id, chosen and chosen.first.id}:
            yield tie.first
