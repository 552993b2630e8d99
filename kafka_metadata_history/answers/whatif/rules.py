"""The effects of a loss on each partition, by the rules of KRaft's controllers.

A stop (controlled shutdown) and a kill end in the same state: the controllers take the broker out
of each ISR and elect in the same way. They differ in the time before, and in the time after:

- Before. A broker that stops gives its leaderships away first. One that is killed keeps them until
  its session has timed out.
- After. If eligible leader replicas (ELR) are in force, a broker that comes back from a kill is
  taken out of ISR and ELR, as its shutdown was not clean. Where nobody else is left, it is elected
  as the last known leader: an unclean election. A loss alone never elects a last known leader,
  since whoever was lost stays in the ELR until it comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_metadata_history.answers.whatif.losses import quorum_effect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_metadata_history.answers.whatif.losses import QuorumEffect
    from kafka_metadata_history.answers.whatif.state import Cluster, Loss, Partition

NO_LEADER: Final = -1
STAYS, ISR, ELR, UNCLEAN, NOBODY, UNKNOWN = (
    "stays",
    "isr",
    "elr",
    "unclean",
    "nobody",
    "unknown",
)
"""Where the leader after a loss comes from."""
COORDINATING: Final = {
    "__consumer_offsets": "groups",
    "__transaction_state": "transactions",
    "__share_group_state": "share groups",
}
"""Topic -> whose coordinators lead its partitions."""


class Election(NamedTuple):
    """`leader`: -1 nobody; None is not known."""

    leader: int | None
    source: str


class Standing(NamedTuple):
    """How a partition stands; None is not known. `under_min_isr`: it has a leader."""

    offline: bool | None
    under_min_isr: bool | None


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a loss on a partition with a replica on a broker that is lost, or may be.

    `min_isr`: the effective one. `stalls`: its reassignment cannot end. `is_rf1`, `is_at_rf`: any
    loss of its one replica takes it offline; any loss in its ISR takes it under min ISR, as RF <=
    min ISR. `loses_after_kill`: offline until who was killed is elected unclean. `is_in_isr`: the
    ISR loses somebody, or may. `out`: other replicas that are not in the ISR, without those that a
    reassignment adds.
    """

    of: Partition
    election: Election
    before: Standing
    after: Standing
    min_isr: int | None
    moves: bool | None
    stalls: bool | None
    is_rf1: bool
    is_at_rf: bool
    loses_after_kill: bool | None
    is_in_isr: bool
    out: Sequence[int]


@dataclass(frozen=True)
class WhatIf:
    """All that a loss does. `quorum`: None: not known."""

    cluster: Cluster
    loss: Loss
    effects: Sequence[Effect]
    quorum: QuorumEffect | None


def what_if(cluster: Cluster, loss: Loss) -> WhatIf:
    """Return what the loss does to the cluster."""
    able = frozenset(each for each, of in cluster.brokers.items() if of.can_lead) - loss.brokers
    return WhatIf(
        cluster,
        loss,
        list(_effects(cluster, loss.brokers, able)),
        None if cluster.quorum is None else quorum_effect(cluster.quorum, loss.controllers),
    )


def _effects(cluster: Cluster, lost: frozenset[int], able: frozenset[int]) -> Iterator[Effect]:
    for of in cluster.partitions:
        if lost and (of.replicas is None or not lost.isdisjoint(of.replicas)):
            yield effect(cluster, of, lost, able)


def effect(cluster: Cluster, of: Partition, lost: frozenset[int], able: frozenset[int]) -> Effect:
    """Return what the loss of brokers does to a partition. `able`: who may lead after it."""
    min_isr = cluster.min_isr(of)
    found = election(of, lost, able, has_elr=cluster.has_elr)
    left = None if of.isr is None else [each for each in of.isr if each in able]
    # Whoever is elected from outside of the ISR is alone in it.
    size = None if left is None else max(len(left), 1)
    after = standing({NOBODY: False, UNKNOWN: None}.get(found.source, True), size, min_isr)
    replicas, isr = of.replicas or (), of.isr or ()
    is_touched = of.isr is None or of.leader in lost or not lost.isdisjoint(isr)
    before = standing(of.leader != NO_LEADER, None if of.isr is None else len(isr), min_isr)
    return Effect(
        of,
        found,
        before,
        # It stays as it is where an ISR does not change.
        after if is_touched and not before.offline else before,
        min_isr,
        moves=_moves(of, found, lost),
        stalls=_stalls(of, lost),
        is_rf1=len(replicas) == 1,
        is_at_rf=of.min_isr is not None and len(replicas) <= of.min_isr,
        loses_after_kill=_loses_after_kill(of, found, lost, has_elr=cluster.has_elr),
        is_in_isr=is_touched,
        out=[each for each in replicas if each not in (*isr, *lost, *(of.adding or ()))],
    )


def standing(has_leader: bool | None, isr: int | None, min_isr: int | None) -> Standing:
    """Return how a partition stands with an ISR of that size, as history has its levels."""
    if has_leader is None:
        return Standing(None, None)
    if not has_leader:
        return Standing(offline=True, under_min_isr=False)
    return Standing(False, None if isr is None or min_isr is None else isr < min_isr)


def election(
    of: Partition, lost: frozenset[int], able: frozenset[int], *, has_elr: bool | None
) -> Election:
    """Return who leads a partition once brokers are lost (``PartitionChangeBuilder``): whoever
    leads, if it may; else the first in the order of replicas that is in the ISR, or, if nobody is
    left in the ISR, in the ELR; else the first at all, if an unclean election is allowed.
    """
    if of.leader == NO_LEADER:
        return Election(NO_LEADER, NOBODY)
    if of.replicas is None or of.isr is None:
        return Election(None, UNKNOWN)
    if of.leader is not None and of.leader not in lost:
        return Election(of.leader, STAYS)
    left = [each for each in of.replicas if each in able]
    if in_sync := [each for each in left if each in of.isr]:
        # A leader that is hidden may stay.
        return Election(None if of.leader is None else in_sync[0], ISR)
    if not left:
        return Election(NO_LEADER, NOBODY)
    if has_elr is None or (has_elr and of.elr is None):
        return Election(None, UNKNOWN)
    if eligible := [each for each in left if has_elr and each in (of.elr or ())]:
        return Election(eligible[0], ELR)
    if of.unclean is None:
        return Election(None, UNKNOWN)
    return Election(left[0], UNCLEAN) if of.unclean else Election(NO_LEADER, NOBODY)


def _moves(of: Partition, found: Election, lost: frozenset[int]) -> bool | None:
    """Whether another broker leads: None is not known."""
    if of.leader is None or found.leader is None:
        return None
    return of.leader in lost and found.leader != NO_LEADER


def _stalls(of: Partition, lost: frozenset[int]) -> bool | None:
    """Whether a reassignment runs that cannot end: all replicas that it leaves have to be in the
    ISR (``PartitionReassignmentReplicas``).
    """
    if of.adding is None or of.removing is None or of.replicas is None:
        return None
    if not of.adding and not of.removing:
        return False
    return any(each in lost for each in of.replicas if each not in of.removing)


def _loses_after_kill(
    of: Partition, found: Election, lost: frozenset[int], *, has_elr: bool | None
) -> bool | None:
    if found.source == UNKNOWN:
        return None
    if found.source != NOBODY or of.leader == NO_LEADER or has_elr is False:
        return False
    if has_elr is None or of.elr is None:
        return None
    # Somebody else who comes back is eligible.
    return all(each in lost for each in (*(of.isr or ()), *of.elr))
