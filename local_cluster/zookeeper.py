"""ZooKeeper mode, of Kafka up to 3.9: one ZooKeeper node, in which brokers keep metadata."""

from collections.abc import Sequence
from pathlib import Path

from local_cluster.ports import HOST

LISTENER = "ZOOKEEPER"
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""With one server in its configuration it runs alone (ZooKeeperServerMain)."""

TICK_MS = 1000
"""ZooKeeper counts sessions in ticks: one ends up to a tick after its time-out."""


def server_properties(port: int, data: Path) -> dict[str, str]:
    """The configuration of the ZooKeeper node."""
    return {
        "dataDir": str(data),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": str(TICK_MS),
        "maxClientCnxns": "0",
        # It needs Jetty, which Kafka does not bring.
        "admin.enableServer": "false",
    }


def broker_properties(broker_id: int, ports: Sequence[int]) -> dict[str, str]:
    """Return the properties by which a broker finds ZooKeeper, in the place of KRaft's."""
    return {
        "broker.id": str(broker_id),
        "zookeeper.connect": ",".join(f"{HOST}:{port}" for port in ports),
    }
