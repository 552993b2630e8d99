"""Who is and was the active controller of a local cluster."""

import re

from local_cluster.cluster import LocalCluster

_BECAME = re.compile(r"Becoming the active controller at epoch (\d+)")


def controller_terms(cluster: LocalCluster) -> dict[int, int]:
    """Return the ids of active controllers by epoch, as the controllers' own logs have them."""
    logs = {
        node_id: cluster.files(node_id).log.read_text(errors="replace")
        for node_id, node in cluster.nodes.items()
        if node.is_controller
    }
    return {
        int(epoch): node_id for node_id, text in logs.items() for epoch in _BECAME.findall(text)
    }


def active_controller(cluster: LocalCluster) -> tuple[int, int]:
    """Epoch and id of the active controller, or of the last one while there is none."""
    return max(controller_terms(cluster).items())
