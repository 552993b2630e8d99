"""Waits until nodes that were started are of use."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping

from local_cluster import probe
from local_cluster.errors import LocalClusterError
from local_cluster.nodes import PLAINTEXT, Node

START_TIMEOUT = 120.0

_PORT_TAKEN = "Address already in use"


class PortTakenError(LocalClusterError):
    """Another process took a port after it was let go of, before the node asked for it."""


def await_started(
    nodes: Mapping[int, Node],
    started: Collection[int],
    *,
    state: Callable[[int], str],
    log_end: Callable[[int], str],
) -> None:
    """Wait until the started controllers listen and each running broker knows the started brokers.

    `state` and `log_end` tell those of a node by its id. Raises LocalClusterError, with the end of
    the log, for a node that ends, or is not ready in time.
    """

    def raise_not_started(node_id: int, what: str) -> None:
        lines = log_end(node_id)
        error = PortTakenError if _PORT_TAKEN in lines else LocalClusterError
        raise error(f"{nodes[node_id].name} {what}; its log ends with:\n{lines}")

    deadline = time.monotonic() + START_TIMEOUT
    new_brokers = frozenset(node_id for node_id in started if nodes[node_id].is_broker)
    waiting: dict[int, Callable[[Node], bool]] = {}
    for node_id, node in nodes.items():
        if node.is_broker and new_brokers and state(node_id) == "running":
            waiting[node_id] = lambda node: _knows(node, new_brokers)
        elif node_id in started and not node.is_broker:
            waiting[node_id] = lambda node: all(map(probe.is_listening, node.ports.values()))
    while waiting:
        for node_id in started:
            if state(node_id) == "down":
                raise_not_started(node_id, "ended while starting")
        waiting = {
            node_id: is_ready
            for node_id, is_ready in waiting.items()
            if not is_ready(nodes[node_id])
        }
        if waiting and time.monotonic() > deadline:
            ids = ", ".join(map(str, started))
            raise_not_started(
                min(waiting), f"is not ready {START_TIMEOUT:.0f} s after the start of {ids}"
            )
        time.sleep(0.1)


def _knows(node: Node, brokers: frozenset[int]) -> bool:
    with contextlib.suppress(OSError):
        return brokers <= probe.brokers_known_to(node.ports[PLAINTEXT])
    return False
