"""The nodes of a cluster and their configuration: pure functions, in Kafka's own words."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import zookeeper
from local_cluster.errors import LocalClusterError
from local_cluster.ports import HOST

PLAINTEXT = "PLAINTEXT"
CONTROLLER = "CONTROLLER"
SASL_SSL = "SASL_SSL"
SCRAM = "SCRAM-SHA-512"

DATA = "data"
"""The folder of a node's logs, within its own."""

# What SASL_SSL advertises. Its certificate is for this name only, so connecting by address is a wrong host name.
SASL_SSL_HOST = "localhost"

# Partitions of each internal topic: Kafka's default, 50, costs three small JVMs seconds.
INTERNAL_PARTITIONS = 4


@dataclass(frozen=True)
class Node:
    """One process: a broker, a controller or both, or (in ZooKeeper mode) ZooKeeper."""

    node_id: int
    is_broker: bool
    is_controller: bool
    rack: str | None
    ports: Mapping[str, int]
    """By listener name."""
    is_zookeeper: bool = False

    @property
    def main_class(self) -> str:
        """The class that the process runs, with the node's configuration as its one argument."""
        return zookeeper.MAIN_CLASS if self.is_zookeeper else "kafka.Kafka"

    @property
    def description(self) -> str:
        """For messages and `status`."""
        if self.is_zookeeper:
            return "ZooKeeper"
        role = "broker and controller" if self.is_broker and self.is_controller else "broker"
        return role if self.is_broker else "controller"


@dataclass(frozen=True)
class Roles:
    """What a node of the cluster to come will be, before it has ports."""

    is_broker: bool
    is_controller: bool
    rack: str | None
    is_zookeeper: bool = False

    def listeners(self, *, sasl_ssl: bool) -> list[str]:
        """The listeners that such a node opens."""
        if self.is_zookeeper:
            return [zookeeper.LISTENER]
        names = [PLAINTEXT, SASL_SSL] if sasl_ssl else [PLAINTEXT]
        return (names if self.is_broker else []) + ([CONTROLLER] if self.is_controller else [])


def plan_roles(
    brokers: int, controllers: int | None, racks: Sequence[str] | None, *, with_zookeeper: bool = False
) -> list[Roles]:
    """Nodes 1..n are the brokers, each a controller too; with `controllers` those are nodes of their own, after them.
    With ZooKeeper the brokers are brokers alone, and the node after them is ZooKeeper.

    Racks are given to the brokers in turn.
    """
    if brokers < 1:
        raise LocalClusterError(f"brokers={brokers}: a cluster has at least one")
    if controllers is not None and controllers < 1:
        raise LocalClusterError(f"controllers={controllers}: at least one, or None for controllers within the brokers")
    if with_zookeeper and controllers is not None:
        raise LocalClusterError(f"controllers={controllers}: with ZooKeeper one of the brokers is the controller")
    racks_in_turn = itertools.cycle(racks or [None])
    combined = controllers is None and not with_zookeeper
    return [
        *(Roles(True, combined, rack) for rack in itertools.islice(racks_in_turn, brokers)),
        *(Roles(False, True, None) for _ in range(controllers or 0)),
        *([Roles(False, False, None, is_zookeeper=True)] if with_zookeeper else []),
    ]


def node_properties(
    node: Node,
    nodes: Sequence[Node],
    folder: Path,
    *,
    extra: Mapping[str, str],
    keystore: Path | None = None,
) -> dict[str, str]:
    """The server.properties of one node, its data in `folder`.

    `keystore` (PEM: key and certificate) opens SASL_SSL; `extra` wins over everything here.
    """
    if node.is_zookeeper:
        return zookeeper.server_properties(node.ports[zookeeper.LISTENER], folder / DATA)
    broker_count = sum(other.is_broker for other in nodes)
    replication = str(min(3, broker_count))
    keepers = [one.ports[zookeeper.LISTENER] for one in nodes if one.is_zookeeper]
    properties = {
        **(zookeeper.broker_properties(node.node_id, keepers) if keepers else _kraft_properties(node, nodes)),
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in node.ports.items()),
        "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{PLAINTEXT}:PLAINTEXT,{SASL_SSL}:SASL_SSL",
        "log.dirs": str(folder / DATA),
        "num.network.threads": "1",
        "num.io.threads": "2",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
        "group.initial.rebalance.delay.ms": "0",
    }
    if node.is_broker:
        properties["inter.broker.listener.name"] = PLAINTEXT
        properties["advertised.listeners"] = ",".join(
            f"{name}://{SASL_SSL_HOST if name == SASL_SSL else HOST}:{port}"
            for name, port in node.ports.items()
            if name != CONTROLLER
        )
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    if keystore is not None and node.is_broker:
        listener = f"listener.name.{SASL_SSL.lower()}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties |= {
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(keystore),
            f"{listener}.sasl.enabled.mechanisms": SCRAM,
            f"{listener}.{SCRAM.lower()}.sasl.jaas.config": login,
        }
    return {**properties, **extra}


def _kraft_properties(node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    # A static quorum (not KIP-853's): any metadata.version allows it.
    voters = ",".join(f"{one.node_id}@{HOST}:{one.ports[CONTROLLER]}" for one in nodes if one.is_controller)
    return {
        "process.roles": ",".join(["broker"] * node.is_broker + ["controller"] * node.is_controller),
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
    }


def render(properties: Mapping[str, str]) -> str:
    """A Java .properties file. JSON's escapes are all among those that java.util.Properties reads."""
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in properties.items())


def format_arguments(
    cluster_id: str,
    config: Path,
    *,
    metadata_version: str | None,
    features: Mapping[str, int],
    users: Mapping[str, str],
) -> list[str]:
    """The arguments of kafka.tools.StorageTool that make a node's data folder."""
    arguments = ["format", "--cluster-id", cluster_id, "--config", str(config)]
    if metadata_version is not None:
        arguments += ["--release-version", metadata_version]
    for feature, level in features.items():
        arguments += ["--feature", f"{feature}={level}"]
    for name, password in users.items():
        arguments += ["--add-scram", f"{SCRAM}=[name={name},password={password}]"]
    return arguments
