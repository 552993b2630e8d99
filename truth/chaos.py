"""Does a planned series of things to a cluster, and keeps the journal of when each was done."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from local_cluster import LocalCluster, LocalClusterError
from local_cluster.controllers import active_controller
from truth.administration import Administration, AdministrationError
from truth.steps import Step

_FAILED = (LocalClusterError, AdministrationError)


@dataclass(frozen=True)
class Entry:
    """A step that was done, from when to when; `error` when it did not go as wanted."""

    action: str
    what: str
    nodes: tuple[int, ...]
    """Those that it was done to; none: it was asked of the cluster."""
    began_at: datetime
    ended_at: datetime
    error: str | None


def play(
    cluster: LocalCluster,
    administration: Administration,
    steps: Sequence[Step],
    say: Callable[[str], None],
) -> list[Entry]:
    """Do it; the journal of it, in order. However it goes, all nodes run in the end and the cluster
    has settled.

    A step that fails is in the journal with its error; the next one follows. Raises
    AdministrationError when the cluster does not settle.
    """
    journal: list[Entry] = []
    try:
        for step in steps:
            time.sleep(step.wait)
            journal.append(_do(cluster, administration, step))
            error = journal[-1].error
            say(step.what + (f": {error}" if error else ""))
    finally:
        journal += _bring_back(cluster, administration)
    administration.await_settled(
        sorted(node_id for node_id, node in cluster.nodes.items() if node.is_broker)
    )
    return journal


def _do(cluster: LocalCluster, administration: Administration, step: Step) -> Entry:
    began_at = datetime.now(UTC)
    error, nodes = None, _nodes(cluster, step)
    try:
        _act(cluster, administration, step, nodes)
    except _FAILED as failed:
        error = str(failed).splitlines()[0]
    return Entry(step.action, step.what, nodes, began_at, datetime.now(UTC), error)


def _nodes(cluster: LocalCluster, step: Step) -> tuple[int, ...]:
    """The nodes that a step is done to now."""
    controllers = [node_id for node_id, node in cluster.nodes.items() if node.is_controller]
    if step.action == "restore":
        return tuple(node_id for node_id in controllers if cluster.state(node_id) != "running")
    if not step.controllers:
        return step.brokers
    _, active = active_controller(cluster)
    ranked = [active, *(node_id for node_id in controllers if node_id != active)]
    return tuple(ranked[rank] for rank in step.controllers)


def _act(
    cluster: LocalCluster, administration: Administration, step: Step, nodes: tuple[int, ...]
) -> None:
    if step.action == "start":
        cluster.start(*nodes)
    elif step.action == "restore":
        _restore(cluster, nodes)
    elif nodes:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(getattr(cluster, step.action), nodes))
    elif step.action == "create":
        administration.create_topics(step.topics)
    elif step.action == "delete":
        administration.delete_topics([topic.name for topic in step.topics])
    elif step.action == "grow":
        administration.grow(step.moves)
    elif step.action == "reassign":
        administration.reassign(step.moves)
    elif step.action == "cancel":
        administration.cancel_reassignments()
    else:
        administration.elect(unclean=step.action == "elect_unclean")


def _restore(cluster: LocalCluster, nodes: Sequence[int]) -> None:
    down = [node_id for node_id in nodes if cluster.state(node_id) == "down"]
    for node_id in {*nodes} - {*down}:
        cluster.resume(node_id)
    if down:
        cluster.start(*down)


def _bring_back(cluster: LocalCluster, administration: Administration) -> list[Entry]:
    """Bring back whatever a step that failed, or the end, left out."""
    entries = []
    for state, action in (("isolated", "rejoin"), ("paused", "resume"), ("down", "start")):
        out = tuple(node_id for node_id in cluster.nodes if cluster.state(node_id) == state)
        if out:
            entries.append(_do(cluster, administration, Step(0, action, out)))
    return entries
