"""The files of a cluster: those of each node, and the state of a cluster that lives on."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from local_cluster.errors import LocalClusterError
from local_cluster.nodes import DATA, HOSTS, Node

LOG_LINES = 30
"""Of a log, in an error."""

_STATE = "state.json"


@dataclass(frozen=True)
class NodeFiles:
    """The files of one node, in its own folder."""

    folder: Path

    @property
    def config(self) -> Path:
        """Its server.properties."""
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        """The file that it logs to."""
        return self.folder / "server.log"

    @property
    def data(self) -> Path:
        """Its partitions' logs, a controller's metadata log among them."""
        return self.folder / DATA

    @property
    def hosts(self) -> Path:
        """The names that it looks up. Only nodes of an isolatable cluster have one."""
        return self.folder / HOSTS

    def log_end(self) -> str:
        """Return the end of its log, for an error."""
        return last_lines(self.log.read_text(errors="replace"))


def node_files(folder: Path, node_id: int) -> NodeFiles:
    """Return the files of one node of the cluster in `folder`."""
    return NodeFiles(folder / f"node-{node_id}")


def last_lines(log: str) -> str:
    """Return the last warnings and errors with their stack traces.

    A broker that fails says much at INFO while it shuts down.
    """
    lines = log.splitlines()
    telling = [line for line in lines if " INFO " not in line]
    return "\n".join((telling or lines)[-LOG_LINES:])


@dataclass(frozen=True)
class State:
    """All that is to be known of a cluster that lives on, beside its files."""

    kafka_version: str
    cluster_id: str
    nodes: Mapping[int, Node]
    users: Mapping[str, str]

    def make_folder(self, folder: Path) -> None:
        """Make the folder with the state in it: a kill at any time leaves none without."""
        state = {**vars(self), "nodes": [asdict(node) for node in self.nodes.values()]}
        unfinished = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)  # of one that was killed
        unfinished.mkdir(parents=True)
        (unfinished / _STATE).write_text(json.dumps(state, indent=2))
        unfinished.rename(folder)

    @classmethod
    def of(cls, folder: Path) -> "State":
        """Read the state of the cluster in `folder`. Raises LocalClusterError without one."""
        try:
            state = json.loads((folder / _STATE).read_text())
        except FileNotFoundError:
            raise LocalClusterError(
                f"no cluster in {folder}: python -m {__package__} up starts one"
            ) from None
        nodes = {node["node_id"]: Node(**node) for node in state["nodes"]}
        return cls(**state | {"nodes": nodes})
