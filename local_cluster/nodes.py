"""The nodes of a cluster and their configuration: pure functions, in Kafka's own words."""

import itertools
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local_cluster import zookeeper
from local_cluster.errors import LocalClusterError
from local_cluster.listeners import LISTENER_HOST, SCRAM, Listener
from local_cluster.ports import HOST

PLAINTEXT = "PLAINTEXT"
CONTROLLER = "CONTROLLER"

DATA = "data"
"""The folder of a node's logs, within its own."""
HOSTS = "hosts"

CONTROLLERS = "controllers"
"""The name by which nodes reach the controllers, where brokers can be isolated."""

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
    def name(self) -> str:
        """For messages."""
        return f"node {self.node_id} ({self.description})"

    @property
    def description(self) -> str:
        """Its roles, for messages and `status`."""
        if self.is_zookeeper:
            return "ZooKeeper"
        role = "broker and controller" if self.is_broker and self.is_controller else "broker"
        return role if self.is_broker else "controller"


@dataclass(frozen=True)
class Roles:
    """The roles, and the rack, of a node of the cluster to come, before it has ports."""

    is_broker: bool
    is_controller: bool
    rack: str | None
    is_zookeeper: bool = False

    def listeners(self, beside: Sequence[str]) -> list[str]:
        """Return the listeners of such a node, with those of brokers `beside` PLAINTEXT."""
        if self.is_zookeeper:
            return [zookeeper.LISTENER]
        return ([PLAINTEXT, *beside] if self.is_broker else []) + (
            [CONTROLLER] if self.is_controller else []
        )


def plan_roles(
    brokers: int,
    controllers: int | None,
    racks: Sequence[str] | None,
    *,
    with_zookeeper: bool = False,
) -> list[Roles]:
    """Nodes 1..n are the brokers, each a controller too; with `controllers` those are nodes of
    their own, after them. With ZooKeeper the brokers are brokers alone, and the node after them is
    ZooKeeper.

    Racks are given to the brokers in turn.
    """
    if brokers < 1:
        raise LocalClusterError(f"brokers={brokers}: a cluster has at least one")
    if controllers is not None and controllers < 1:
        raise LocalClusterError(
            f"controllers={controllers}: at least one, or None for controllers within the brokers"
        )
    if with_zookeeper and controllers is not None:
        raise LocalClusterError(
            f"controllers={controllers}: with ZooKeeper one of the brokers is the controller"
        )
    racks_in_turn = itertools.cycle(racks or [None])
    combined = controllers is None and not with_zookeeper
    return [
        *(Roles(True, combined, rack) for rack in itertools.islice(racks_in_turn, brokers)),
        *(Roles(False, True, None) for _ in range(controllers or 0)),
        *([Roles(False, False, None, is_zookeeper=True)] if with_zookeeper else []),
    ]


def with_ports(
    roles: Sequence[Roles], beside: Sequence[str], ports: Sequence[int]
) -> dict[int, Node]:
    """Return the nodes by their ids, each listener on one of these ports (see `port_count`)."""
    numbers = iter(ports)
    return {
        node_id: Node(
            node_id,
            each.is_broker,
            each.is_controller,
            each.rack,
            {name: next(numbers) for name in each.listeners(beside)},
            each.is_zookeeper,
        )
        for node_id, each in enumerate(roles, start=1)
    }


def port_count(roles: Sequence[Roles], beside: Sequence[str]) -> int:
    """Return how many ports these nodes listen on."""
    return sum(len(each.listeners(beside)) for each in roles)


def data_folders(folder: Path, log_dirs: int) -> list[Path]:
    """Return the log directories of a node, within its own folder."""
    return [folder / DATA, *(folder / f"{DATA}-{number}" for number in range(2, log_dirs + 1))]


def node_properties(
    node: Node,
    nodes: Sequence[Node],
    folder: Path,
    *,
    extra: Mapping[str, str],
    listeners: Sequence[Listener] = (),
    isolatable: bool = False,
    log_dirs: int = 1,
) -> dict[str, str]:
    """The server.properties of one node, its data in `folder`.

    `listeners` are those of brokers beside PLAINTEXT; `extra` wins over everything here. If
    `isolatable`, nodes reach the controllers by a name, which each looks up in a file of its own
    (see `hosts`). `log_dirs`: how many log directories it has.
    """
    if node.is_zookeeper:
        return zookeeper.server_properties(node.ports[zookeeper.LISTENER], folder / DATA)
    protocols = {CONTROLLER: "PLAINTEXT", PLAINTEXT: "PLAINTEXT"} | {
        listener.name: listener.security_protocol for listener in listeners
    }
    broker_count = sum(other.is_broker for other in nodes)
    replication = str(min(3, broker_count))
    keepers = [one.ports[zookeeper.LISTENER] for one in nodes if one.is_zookeeper]
    host = CONTROLLERS if isolatable else HOST
    properties = {
        **(
            zookeeper.broker_properties(node.node_id, keepers)
            if keepers
            else _kraft_properties(node, nodes, host)
        ),
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in node.ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": ",".join(str(each) for each in data_folders(folder, log_dirs)),
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
            f"{name}://{HOST if name == PLAINTEXT else LISTENER_HOST}:{port}"
            for name, port in node.ports.items()
            if name != CONTROLLER
        )
    elif isolatable:
        # The address that brokers fetch the metadata log from, once a controller has told it
        # (KIP-853).
        properties["advertised.listeners"] = f"{CONTROLLER}://{host}:{node.ports[CONTROLLER]}"
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    if node.is_broker:
        for listener in listeners:
            properties |= listener.broker_properties()
    return {**properties, **extra}


def own_address(node_id: int) -> str:
    """Return a broker's own address of this machine, of its proxies to the controllers."""
    return f"127.0.1.{node_id}"


def hosts(node: Node) -> str:
    """The file in which a node of an isolatable cluster looks names up (jdk.net.hosts.file)."""
    controllers = own_address(node.node_id) if node.is_broker else HOST
    return f"{HOST} localhost {socket.gethostname()}\n{controllers} {CONTROLLERS}\n"


def _kraft_properties(node: Node, nodes: Sequence[Node], host: str) -> dict[str, str]:
    # A static quorum (not KIP-853's): any metadata.version allows it.
    voters = ",".join(
        f"{one.node_id}@{host}:{one.ports[CONTROLLER]}" for one in nodes if one.is_controller
    )
    return {
        "process.roles": ",".join(
            ["broker"] * node.is_broker + ["controller"] * node.is_controller
        ),
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
    }


def render(properties: Mapping[str, str]) -> str:
    """A Java .properties file.

    JSON's escapes are all among those that java.util.Properties reads.
    """
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
