"""The cluster: planned, made, started and ended."""

import base64
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from local_cluster import probe
from local_cluster.errors import LocalClusterError
from local_cluster.files import State
from local_cluster.jars import kafka_jars
from local_cluster.launch import kafka_java
from local_cluster.listeners import LISTENER_HOST, SASL_SSL, Listener
from local_cluster.nodes import (
    CONTROLLER,
    PLAINTEXT,
    own_address,
    plan_roles,
    port_count,
    with_ports,
)
from local_cluster.ports import HOST, ReservedPorts
from local_cluster.proxy import Link
from local_cluster.running import RunningNodes
from local_cluster.startup import PortTakenError
from local_cluster.storage import Settings, authority_file, format_data, write_configuration

KAFKA_VERSION = "4.4.0"

_USERS = {"alice": "alice-secret", "bob": "bob-secret"}


@dataclass(frozen=True)
class SaslSsl:
    """How to reach the SASL_SSL listener (SCRAM-SHA-512)."""

    bootstrap_servers: str
    """By the name localhost: the certificate is not for 127.0.0.1."""
    ca_file: Path
    """PEM."""
    users: Mapping[str, str]
    """Passwords by name."""


class LocalCluster(RunningNodes):
    """A real Kafka of several processes on this machine; a context manager.

    Node ids are 1..`brokers`; `controllers` makes that many controller-only nodes with the ids
    after those, None makes each broker a controller too. `racks` are given to the brokers in turn.
    `kafka_version` is any in the package repository, `metadata_version` (such as "3.5-IV2") and
    `features` (such as {"eligible.leader.replicas.version": 0}) any that it has. `properties` are
    extra broker properties. `sasl_ssl` opens a second listener. With `isolatable`, which takes
    `controllers`, brokers reach these through proxies of this process, and `isolate` cuts one off.
    `zookeeper` runs the brokers with ZooKeeper, one more node with the id after them, in the place
    of KRaft (Kafka up to 3.9). Each node has so many `log_dirs`.

    All data are in a temporary folder and go with the cluster; when this process ends in whatever
    way, so do the brokers. Only with a `detached` folder of its own does the cluster live on, until
    `LocalCluster.attach(folder).down()`.

    Raises LocalClusterError, with the end of the log when a broker does not start, JarsError.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | None = None,
        kafka_version: str = KAFKA_VERSION,
        metadata_version: str | None = None,
        features: Mapping[str, int] | None = None,
        racks: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        sasl_ssl: bool = False,
        isolatable: bool = False,
        listeners: Sequence[Listener] = (),
        java_options: Sequence[str] = (),
        zookeeper: bool = False,
        detached: Path | None = None,
        log_dirs: int = 1,
    ) -> None:
        if zookeeper and (metadata_version or features or sasl_ssl):
            raise LocalClusterError(
                "zookeeper=True: metadata_version, features and sasl_ssl are of KRaft here; what "
                "brokers speak is the property inter.broker.protocol.version"
            )
        if isolatable and (controllers is None or detached is not None):
            raise LocalClusterError(
                "isolatable=True: a cluster of this process's own, with controllers=1 or more"
            )
        if sasl_ssl and find_spec("cryptography") is None:
            raise LocalClusterError(
                "a SASL_SSL listener needs certificates: install the package cryptography, which "
                "makes them"
            )
        super().__init__(kafka_version, java_options, detached)
        self.cluster_id = _random_uuid()
        self.users: Mapping[str, str] = _USERS if sasl_ssl else {}
        """Passwords by name, of the SASL_SSL listener; none without one."""
        self._has_zookeeper = zookeeper
        self._roles = plan_roles(brokers, controllers, racks, with_zookeeper=zookeeper)
        self._settings = Settings(
            metadata_version,
            features or {},
            properties or {},
            self.users,
            listeners,
            isolatable=isolatable,
            log_dirs=log_dirs,
        )

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """Return the detached cluster that lives in `folder`. Raises LocalClusterError: none."""
        state = State.of(folder)
        cluster = cls(kafka_version=state.kafka_version, detached=folder)
        cluster.cluster_id = state.cluster_id
        cluster.nodes = dict(state.nodes)
        cluster.users = state.users
        cluster._find_processes()
        return cluster

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def bootstrap_servers(self) -> str:
        """The PLAINTEXT listeners of all brokers, running or not."""
        return self.servers(PLAINTEXT, HOST)

    @property
    def controller_servers(self) -> str:
        """Where the controllers listen, running or not."""
        return ",".join(
            f"{HOST}:{node.ports[CONTROLLER]}" for node in self.nodes.values() if node.is_controller
        )

    @property
    def sasl_ssl(self) -> SaslSsl:
        """The SASL_SSL listener, which must have been asked for."""
        if not self.users:
            raise LocalClusterError(
                "this cluster has no SASL_SSL listener: start it with sasl_ssl=True"
            )
        return SaslSsl(self.servers(SASL_SSL), authority_file(self._folder), self.users)

    def servers(self, listener: str, host: str = LISTENER_HOST) -> str:
        """Return a listener of all brokers, running or not; PLAINTEXT is `bootstrap_servers`."""
        return ",".join(
            f"{host}:{node.ports[listener]}" for node in self.nodes.values() if node.is_broker
        )

    def up(self) -> None:
        """Make and start the cluster, and wait until each broker knows all.

        If a port was taken meanwhile, once more.
        """
        kafka_jars(self.kafka_version)
        try:
            try:
                self._make_and_start()
            except PortTakenError:
                self.down()
                self._make_and_start()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End all nodes at once (SIGKILL) and remove their data."""
        self._end_processes()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_and_start(self) -> None:
        beside = self._settings.listener_names
        with ReservedPorts(port_count(self._roles, beside)) as ports:
            self.nodes = with_ports(self._roles, beside, ports.numbers)
            if self._is_detached:
                state = State(self.kafka_version, self.cluster_id, self.nodes, self.users)
                state.make_folder(self._folder)
            else:
                self._folder = Path(tempfile.mkdtemp(prefix="local-cluster-"))
            write_configuration(self._folder, self.nodes, self._settings)
            if self._settings.isolatable:
                self._links = self._links_to_controllers()
            if not self._has_zookeeper:
                java = kafka_java(self.kafka_version, self._java_options)
                format_data(
                    self._folder, self.nodes, self._settings, cluster_id=self.cluster_id, java=java
                )
        self.start(*self.nodes)
        if self._has_zookeeper:
            # The first broker has made it up.
            self.cluster_id = probe.cluster_id_of(self.nodes[1].ports[PLAINTEXT])

    def _links_to_controllers(self) -> dict[int, Link]:
        ports = [node.ports[CONTROLLER] for node in self.nodes.values() if node.is_controller]
        return {
            node_id: Link(own_address(node_id), ports)
            for node_id, node in self.nodes.items()
            if node.is_broker
        }


def _random_uuid() -> str:
    """As Kafka's Uuid.randomUuid: never with a dash first, which its tools take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
