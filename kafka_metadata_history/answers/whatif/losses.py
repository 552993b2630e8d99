"""Who is lost, and what that does to the quorum of controllers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_metadata_history.answers.whatif.state import Loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_metadata_history.answers.whatif.state import Cluster, Quorum


@dataclass(frozen=True, slots=True)
class QuorumEffect:
    """`left`: voters that are not lost, and not known to be behind. `is_lost`: None: it depends on
    whether those left are caught up, which is not known. `was_lost`: it was so before.
    `elects`: the active controller is lost.
    """

    of: Quorum
    left: frozenset[int]
    is_lost: bool | None
    was_lost: bool | None
    elects: bool


def loss_of_nodes(cluster: Cluster, nodes: Iterable[int], *, controllers: bool = False) -> Loss:
    """Return the loss of brokers, or of controllers; of combined nodes both."""
    lost = frozenset(nodes)
    voters = cluster.quorum.voters if cluster.quorum else frozenset[int]()
    if controllers:
        return Loss(lost & cluster.brokers.keys(), lost)
    return Loss(lost, lost & voters)


def loss_of_rack(cluster: Cluster, rack: str) -> Loss:
    """Return the loss of all brokers of a rack, and of the controllers that are known to be in it:
    combined nodes, and those of `controller_racks`.
    """
    brokers = (each for each, of in cluster.brokers.items() if of.rack == rack)
    controllers = (each for each, of in cluster.controller_racks.items() if of == rack)
    return (
        Loss(racks=frozenset({rack}))
        | loss_of_nodes(cluster, brokers)
        | loss_of_nodes(cluster, controllers, controllers=True)
    )


def with_racks(cluster: Cluster, configured: Mapping[str, Mapping[int, str]]) -> Cluster:
    """Return the cluster with the racks of controllers that are configured for its alias. Those
    that it has already count more. A controller that did not vote then had none.
    """
    racks = configured.get(cluster.name, {})
    voters = racks.keys() if cluster.quorum is None else cluster.quorum.voters
    known = {node: rack for node, rack in racks.items() if node in voters}
    return replace(cluster, controller_racks={**known, **cluster.controller_racks})


def controllers_of_no_rack(cluster: Cluster) -> list[int]:
    """Return the voters whose rack is not known, sorted."""
    if cluster.quorum is None:
        return []
    racks = {each for each, of in cluster.brokers.items() if of.rack is not None}
    return sorted(cluster.quorum.voters - racks - cluster.controller_racks.keys())


def quorum_effect(of: Quorum, lost: frozenset[int]) -> QuorumEffect:
    """Return what the loss of controllers does to the quorum: a majority of its voters has to be
    there and caught up.
    """
    left = of.voters - lost - (of.behind or frozenset())
    return QuorumEffect(
        of,
        left,
        _is_lost(of, left),
        _is_lost(of, of.voters - (of.behind or frozenset())),
        elects=of.leader in lost,
    )


def _is_lost(of: Quorum, left: Collection[int]) -> bool | None:
    if len(left) < of.majority:
        return True
    return None if of.behind is None else False
