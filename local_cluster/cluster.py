"""The cluster: its nodes planned, formatted, started, watched and ended."""

import base64
import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from local_cluster import probe
from local_cluster.certificates import Authority
from local_cluster.errors import LocalClusterError
from local_cluster.ivy import kafka_classes, kafka_jars
from local_cluster.java import java_command
from local_cluster.listeners import LISTENER_HOST, SASL_SSL, Listener, scram_over_tls
from local_cluster.nodes import (
    CONTROLLER,
    DATA,
    HOSTS,
    PLAINTEXT,
    Node,
    format_arguments,
    hosts,
    node_properties,
    own_address,
    plan_roles,
    render,
)
from local_cluster.ports import HOST, ReservedPorts
from local_cluster.process import NodeProcess
from local_cluster.proxy import Proxy

KAFKA_VERSION = "4.4.0"

START_TIMEOUT = 120.0
STOP_TIMEOUT = 60.0
LOG_LINES = 30
"""Of a log, in an error."""

_SMALL_JVM = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",  # its files outlive a SIGKILL
)
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # The whole configuration, several times a start.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
)
_STATE_FILE = "state.json"
_PORT_TAKEN = "Address already in use"


@dataclass(frozen=True)
class SaslSsl:
    """How to reach the SASL_SSL listener (SCRAM-SHA-512)."""

    bootstrap_servers: str
    """By the name localhost: the certificate is not for 127.0.0.1."""
    ca_file: Path
    """PEM."""
    users: Mapping[str, str]
    """Passwords by name."""


class LocalCluster:
    """A real Kafka of several processes on this machine; a context manager.

    Node ids are 1..`brokers`; `controllers` makes that many controller-only nodes with the ids
    after those, None makes each broker a controller too. `racks` are given to the brokers in turn.
    `kafka_version` is any in the package repository, `metadata_version` (such as "3.5-IV2") and
    `features` (such as {"eligible.leader.replicas.version": 0}) any that it has. `properties` are
    extra broker properties. `sasl_ssl` opens a second listener. With `isolatable`, which takes
    `controllers`, brokers reach these through proxies of this process, and `isolate` cuts one off.
    `zookeeper` runs the brokers with ZooKeeper, one more node with the id after them, in the place
    of KRaft (Kafka up to 3.9).

    All data are in a temporary folder and go with the cluster; when this process ends in whatever
    way, so do the brokers. Only with a `detached` folder of its own does the cluster live on, until
    `LocalCluster.attach(folder).down()`.

    Raises LocalClusterError, with the end of the log when a broker does not start.
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
    ) -> None:
        if zookeeper and (metadata_version or features or sasl_ssl):
            raise LocalClusterError(
                "zookeeper=True: metadata_version, features and sasl_ssl are of KRaft here; what "
                "brokers speak is the property inter.broker.protocol.version"
            )
        self.kafka_version = kafka_version
        self.metadata_version = metadata_version
        self.features = dict(features or {})
        self.properties = dict(properties or {})
        self.cluster_id = _random_uuid()
        self.nodes: dict[int, Node] = {}
        self._roles = plan_roles(brokers, controllers, racks, with_zookeeper=zookeeper)
        self._zookeeper = zookeeper
        self._users = {"alice": "alice-secret", "bob": "bob-secret"} if sasl_ssl else {}
        if isolatable and (controllers is None or detached is not None):
            raise LocalClusterError(
                "isolatable=True: a cluster of this process's own, with controllers=1 or more"
            )
        self._isolatable = isolatable
        self._proxies: dict[int, list[Proxy]] = {}
        self._listeners = tuple(listeners)
        self._java_options = tuple(java_options)
        self._detached = detached
        self._folder = detached.absolute() if detached else Path()
        self._processes: dict[int, NodeProcess] = {}

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """The detached cluster that lives in `folder`. Raises LocalClusterError when there is
        none.
        """
        try:
            state: dict[str, Any] = json.loads((folder / _STATE_FILE).read_text())
        except FileNotFoundError:
            raise LocalClusterError(
                f"no cluster in {folder}: python -m local_cluster up starts one"
            ) from None
        cluster = cls(kafka_version=state["kafka_version"], detached=folder)
        cluster.cluster_id = state["cluster_id"]
        cluster.nodes = {node["node_id"]: Node(**node) for node in state["nodes"]}
        cluster._users = state["users"]
        # By what they run, not by recorded ids: whoever started a node may have been killed before
        # it could write that down.
        for node_id in cluster.nodes:
            process = NodeProcess.found(*cluster._main(node_id))
            if process is not None:
                cluster._processes[node_id] = process
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
        return self._servers(PLAINTEXT, HOST)

    @property
    def controller_servers(self) -> str:
        """Where the controllers listen, running or not."""
        return ",".join(
            f"{HOST}:{node.ports[CONTROLLER]}" for node in self.nodes.values() if node.is_controller
        )

    @property
    def has_sasl_ssl(self) -> bool:
        """Whether it was started with a SASL_SSL listener."""
        return bool(self._users)

    @property
    def sasl_ssl(self) -> SaslSsl:
        """The SASL_SSL listener, which must have been asked for."""
        if not self.has_sasl_ssl:
            raise LocalClusterError(
                "this cluster has no SASL_SSL listener: start it with sasl_ssl=True"
            )
        return SaslSsl(self.servers(SASL_SSL), self._folder / "ca.pem", self._users)

    def servers(self, listener: str) -> str:
        """A listener of all brokers, running or not, by the name localhost; PLAINTEXT is
        `bootstrap_servers`.
        """
        return self._servers(listener, LISTENER_HOST)

    def up(self) -> None:
        """Make and start the cluster, and wait until each broker knows all. A port that was taken
        meanwhile: once more.
        """
        kafka_jars(self.kafka_version)
        try:
            try:
                self._make_and_start()
            except _PortTakenError:
                self.down()
                self._make_and_start()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End all nodes at once (SIGKILL) and remove their data."""
        for process in self._processes.values():
            process.send(signal.SIGKILL)
        for process in self._processes.values():
            process.wait(STOP_TIMEOUT)
        self._processes.clear()
        for proxy in chain.from_iterable(self._proxies.values()):
            proxy.close()
        self._proxies.clear()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    def stop(self, node_id: int) -> None:
        """Stop a node the controlled way (SIGTERM; its leaders move first), and wait until it has
        ended.
        """
        process = self._running(node_id)
        process.send(
            signal.SIGTERM, signal.SIGCONT
        )  # a paused one cannot hear the first without the second
        if not process.wait(STOP_TIMEOUT):
            raise LocalClusterError(
                f"{self._name(node_id)} still runs {STOP_TIMEOUT:.0f} s after SIGTERM (no "
                f"controller to let it go?): kill it\n{self._error_lines(node_id)}"
            )
        del self._processes[node_id]

    def kill(self, node_id: int) -> None:
        """End a node with SIGKILL. The others see it missing only after broker.session.timeout.ms,
        9 s by default.
        """
        process = self._running(node_id)
        process.send(signal.SIGKILL)
        process.wait(STOP_TIMEOUT)
        del self._processes[node_id]

    def start(self, *node_ids: int) -> None:
        """Start nodes that were stopped or killed, and wait until each running broker knows them.

        After a loss of the controllers' majority start as many as make one at once: none is ready
        without it.
        """
        wanted = sorted(set(node_ids))
        for node_id in wanted:
            if self.is_running(node_id):
                raise LocalClusterError(f"{self._name(node_id)} is running already")
        for node_id in wanted:
            self._spawn(node_id)
        self._await_started(wanted)

    def pause(self, node_id: int) -> None:
        """Hold a node with SIGSTOP: its connections stay open, and nothing answers."""
        process = self._running(node_id)
        process.send(signal.SIGSTOP)
        while (
            process.state == "running"
        ):  # a signal takes a moment to arrive, in which it may still answer
            time.sleep(0.01)

    def resume(self, node_id: int) -> None:
        """Let a paused node run on (SIGCONT)."""
        self._running(node_id).send(signal.SIGCONT)

    def isolate(self, node_id: int) -> None:
        """Cut a broker off from the controllers: it answers clients from the image that it has,
        until `rejoin`.
        """
        for proxy in self._proxies_of(node_id):
            proxy.cut()

    def rejoin(self, node_id: int) -> None:
        """Let an isolated broker reach the controllers again."""
        for proxy in self._proxies_of(node_id):
            proxy.mend()

    def is_running(self, node_id: int) -> bool:
        """Whether the node's process is alive, paused or not."""
        return self.state(node_id) != "down"

    def state(self, node_id: int) -> str:
        """`running`, `isolated`, `paused` or `down`."""
        self._name(node_id)
        state = self._processes[node_id].state if node_id in self._processes else "down"
        is_cut = any(proxy.is_cut for proxy in self._proxies.get(node_id, ()))
        return "isolated" if is_cut and state == "running" else state

    def pid(self, node_id: int) -> int:
        """The process id of a running node."""
        pid: int = self._running(node_id).java.pid
        return pid

    def log_file(self, node_id: int) -> Path:
        """The file that the node logs to."""
        return self._node_folder(node_id) / "server.log"

    def data_folder(self, node_id: int) -> Path:
        """Where the node keeps its partitions' logs, a controller's metadata log among them."""
        return self._node_folder(node_id) / DATA

    def _make_and_start(self) -> None:
        if self._detached is None:
            self._folder = Path(tempfile.mkdtemp(prefix="local-cluster-"))
        beside = [SASL_SSL] * self.has_sasl_ssl + [listener.name for listener in self._listeners]
        listeners = [roles.listeners(beside) for roles in self._roles]
        with ReservedPorts(sum(map(len, listeners))) as ports:
            numbers = iter(ports.numbers)
            self.nodes = {
                node_id: Node(
                    node_id,
                    roles.is_broker,
                    roles.is_controller,
                    roles.rack,
                    {name: next(numbers) for name in names},
                    roles.is_zookeeper,
                )
                for node_id, (roles, names) in enumerate(
                    zip(self._roles, listeners, strict=True), start=1
                )
            }
            if self._detached is not None:
                self._make_folder()
            self._write_configuration()
            if not self._zookeeper:
                with ThreadPoolExecutor(max_workers=2) as pool:
                    list(pool.map(self._format, self.nodes))
        for node_id in self.nodes:
            self._spawn(node_id)
        self._await_started(list(self.nodes))
        if self._zookeeper:
            # The first broker has made it up.
            self.cluster_id = probe.cluster_id_of(self.nodes[1].ports[PLAINTEXT])

    def _write_configuration(self) -> None:
        listeners = self._listeners
        if self.has_sasl_ssl:
            keystore = self._folder / "keystore.pem"
            authority = Authority.create("local_cluster")
            authority.write_certificate(self._folder / "ca.pem")
            authority.write_server_keystore(LISTENER_HOST, keystore)
            listeners = (scram_over_tls(keystore), *listeners)
        for node in self.nodes.values():
            folder = self._node_folder(node.node_id)
            folder.mkdir()
            if self._isolatable:
                (folder / HOSTS).write_text(hosts(node))
            if self._isolatable and node.is_broker:
                ports = [one.ports[CONTROLLER] for one in self.nodes.values() if one.is_controller]
                self._proxies[node.node_id] = [
                    Proxy(own_address(node.node_id), port) for port in ports
                ]
            properties = node_properties(
                node,
                list(self.nodes.values()),
                folder,
                extra=self.properties,
                listeners=listeners,
                isolatable=self._isolatable,
            )
            self._config(node.node_id).write_text(render(properties))

    def _format(self, node_id: int) -> None:
        arguments = format_arguments(
            self.cluster_id,
            self._config(node_id),
            metadata_version=self.metadata_version,
            features=self.features,
            users=self._users,
        )
        tool = subprocess.run(
            [*self._java(), "kafka.tools.StorageTool", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if tool.returncode != 0:
            raise LocalClusterError(
                f"cannot format the data of {self._name(node_id)}:\n{_last_lines(tool.stdout)}"
            )

    def _java(self) -> list[str]:
        class_path = ":".join(map(str, kafka_jars(self.kafka_version)))
        kept = kafka_classes(self.kafka_version)
        # Java says nothing where it cannot take them, and loads classes as ever.
        classes = [f"-XX:SharedArchiveFile={kept}", "-Xlog:cds*=off"] if kept.exists() else []
        return [
            java_command(),
            *_SMALL_JVM,
            *classes,
            *_LOGGING,
            *self._java_options,
            "-cp",
            class_path,
        ]

    def _command(self, node_id: int) -> list[str]:
        names = (
            [f"-Djdk.net.hosts.file={self._node_folder(node_id) / HOSTS}"]
            if self._isolatable
            else []
        )
        return [*self._java(), *names, *self._main(node_id)]

    def _main(self, node_id: int) -> list[str]:
        return [self.nodes[node_id].main_class, str(self._config(node_id))]

    def _spawn(self, node_id: int) -> None:
        command, log = self._command(node_id), self.log_file(node_id)
        if self._detached is None:
            self._processes[node_id] = NodeProcess.supervised(command, log, remove=self._folder)
        else:
            self._processes[node_id] = NodeProcess.detached(command, log)

    def _await_started(self, node_ids: Sequence[int]) -> None:
        """Wait until the controllers among these listen and each running broker knows the brokers
        among them.
        """
        deadline = time.monotonic() + START_TIMEOUT
        new_brokers = frozenset(node_id for node_id in node_ids if self.nodes[node_id].is_broker)
        waiting: dict[int, Callable[[Node], bool]] = {}
        for node_id, node in self.nodes.items():
            if node.is_broker and new_brokers and self.state(node_id) == "running":
                waiting[node_id] = lambda node: _knows(node, new_brokers)
            elif node_id in node_ids and not node.is_broker:
                waiting[node_id] = lambda node: all(map(probe.is_listening, node.ports.values()))
        while waiting:
            for node_id in node_ids:
                if not self.is_running(node_id):
                    self._raise_not_started(node_id, "ended while starting")
            waiting = {
                node_id: ready
                for node_id, ready in waiting.items()
                if not ready(self.nodes[node_id])
            }
            if waiting and time.monotonic() > deadline:
                ids = ", ".join(map(str, node_ids))
                self._raise_not_started(
                    min(waiting), f"is not ready {START_TIMEOUT:.0f} s after the start of {ids}"
                )
            time.sleep(0.1)

    def _raise_not_started(self, node_id: int, what: str) -> None:
        error_lines = self._error_lines(node_id)
        error = _PortTakenError if _PORT_TAKEN in error_lines else LocalClusterError
        raise error(f"{self._name(node_id)} {what}; its log ends with:\n{error_lines}")

    def _error_lines(self, node_id: int) -> str:
        return _last_lines(self.log_file(node_id).read_text(errors="replace"))

    def _running(self, node_id: int) -> NodeProcess:
        if not self.is_running(node_id):
            raise LocalClusterError(f"{self._name(node_id)} is not running")
        return self._processes[node_id]

    def _proxies_of(self, node_id: int) -> list[Proxy]:
        if node_id not in self._proxies:
            raise LocalClusterError(
                f"{self._name(node_id)} cannot be isolated: that takes a broker and isolatable=True"
            )
        return self._proxies[node_id]

    def _name(self, node_id: int) -> str:
        if node_id not in self.nodes:
            raise LocalClusterError(
                f"no node {node_id}: there are {', '.join(map(str, self.nodes))}"
            )
        return f"node {node_id} ({self.nodes[node_id].description})"

    def _servers(self, listener: str, host: str) -> str:
        return ",".join(
            f"{host}:{node.ports[listener]}" for node in self.nodes.values() if node.is_broker
        )

    def _node_folder(self, node_id: int) -> Path:
        return self._folder / f"node-{node_id}"

    def _config(self, node_id: int) -> Path:
        return self._node_folder(node_id) / "server.properties"

    def _make_folder(self) -> None:
        """Make the folder of a detached cluster with the state in it: it is never there without,
        whenever we are killed.
        """
        state = {
            "kafka_version": self.kafka_version,
            "cluster_id": self.cluster_id,
            "nodes": [asdict(node) for node in self.nodes.values()],
            "users": self._users,
        }
        unfinished = self._folder.with_name(f".{self._folder.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)  # of one that was killed
        unfinished.mkdir(parents=True)
        (unfinished / _STATE_FILE).write_text(json.dumps(state, indent=2))
        unfinished.rename(self._folder)


class _PortTakenError(LocalClusterError):
    """Another process took a port between the moment we let go of it and the moment the broker
    asked for it.
    """


def _knows(node: Node, brokers: frozenset[int]) -> bool:
    with contextlib.suppress(OSError):
        return brokers <= probe.brokers_known_to(node.ports[PLAINTEXT])
    return False


def _last_lines(log: str) -> str:
    """The last warnings and errors with their stack traces: a broker that fails says much at INFO
    while it shuts down.
    """
    lines = log.splitlines()
    telling = [line for line in lines if " INFO " not in line]
    return "\n".join((telling or lines)[-LOG_LINES:])


def _random_uuid() -> str:
    """As Kafka's Uuid.randomUuid: never with a dash first, which its tools take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
