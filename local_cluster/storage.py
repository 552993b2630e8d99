"""Writes what nodes find in their folders when they start: configuration and formatted data."""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from local_cluster.errors import LocalClusterError
from local_cluster.files import last_lines, node_files
from local_cluster.listeners import LISTENER_HOST, SASL_SSL, Listener, scram_over_tls
from local_cluster.nodes import Node, format_arguments, hosts, node_properties, render


@dataclass(frozen=True)
class Settings:
    """How the nodes of a cluster are set up, beside their roles."""

    metadata_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)
    """Passwords by name, of the SASL_SSL listener; without users it has none."""
    listeners: Sequence[Listener] = ()
    isolatable: bool = False
    log_dirs: int = 1

    @property
    def listener_names(self) -> list[str]:
        """The listeners of brokers beside PLAINTEXT."""
        return [SASL_SSL] * bool(self.users) + [listener.name for listener in self.listeners]


def authority_file(folder: Path) -> Path:
    """Return the certificate, PEM, of whoever signed that of the SASL_SSL listener."""
    return folder / "ca.pem"


def write_configuration(folder: Path, nodes: Mapping[int, Node], settings: Settings) -> None:
    """Make the folders of all nodes, and write their configuration."""
    listeners = tuple(settings.listeners)
    if settings.users:
        from local_cluster.certificates import Authority  # noqa: PLC0415 - not everybody has it

        keystore = folder / "keystore.pem"
        authority = Authority.create("local_cluster")
        authority.write_certificate(authority_file(folder))
        authority.write_server_keystore(LISTENER_HOST, keystore)
        listeners = (scram_over_tls(keystore), *listeners)
    for node in nodes.values():
        files = node_files(folder, node.node_id)
        files.folder.mkdir()
        if settings.isolatable:
            files.hosts.write_text(hosts(node))
        properties = node_properties(
            node,
            list(nodes.values()),
            files.folder,
            extra=settings.properties,
            listeners=listeners,
            isolatable=settings.isolatable,
            log_dirs=settings.log_dirs,
        )
        files.config.write_text(render(properties))


def format_data(
    folder: Path,
    nodes: Mapping[int, Node],
    settings: Settings,
    *,
    cluster_id: str,
    java: Sequence[str],
) -> None:
    """Format the data of all nodes, two at a time. Raises LocalClusterError."""

    def format_one(node: Node) -> None:
        arguments = format_arguments(
            cluster_id,
            node_files(folder, node.node_id).config,
            metadata_version=settings.metadata_version,
            features=settings.features,
            users=settings.users,
        )
        tool = subprocess.run(
            [*java, "kafka.tools.StorageTool", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if tool.returncode != 0:
            raise LocalClusterError(
                f"cannot format the data of {node.name}:\n{last_lines(tool.stdout)}"
            )

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(format_one, nodes.values()))
