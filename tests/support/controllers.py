"""Controllers of a local cluster."""

import re

from local_cluster import LocalCluster


def active_controller(cluster: LocalCluster) -> tuple[int, int]:
    """Epoch and id of the active controller, as the controllers' own logs have it."""
    became = re.compile(r"Becoming the active controller at epoch (\d+)")
    logs = {node: cluster.log_file(node).read_text() for node in cluster.nodes if cluster.nodes[node].is_controller}
    return max((int(epoch), node) for node, text in logs.items() for epoch in became.findall(text))
