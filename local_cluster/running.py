"""The nodes of a cluster, started, watched and signalled."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from local_cluster.errors import LocalClusterError
from local_cluster.files import NodeFiles, node_files
from local_cluster.launch import end_of_command, kafka_java, node_command
from local_cluster.process import NodeProcess
from local_cluster.proxy import Link
from local_cluster.startup import await_started

if TYPE_CHECKING:
    from local_cluster.nodes import Node

STOP_TIMEOUT = 60.0


class RunningNodes:
    """The nodes of one cluster, by their ids, and the processes of those that run."""

    def __init__(
        self, kafka_version: str, java_options: Sequence[str], detached: Path | None
    ) -> None:
        self.kafka_version = kafka_version
        self.nodes: dict[int, Node] = {}
        self._java_options = tuple(java_options)
        self._is_detached = detached is not None
        self._folder = detached.absolute() if detached else Path()
        self._processes: dict[int, NodeProcess] = {}
        self._links: dict[int, Link] = {}
        """Of brokers that can be isolated, the ways to the controllers."""

    def start(self, *node_ids: int) -> None:
        """Start nodes that were stopped or killed, and wait until each running broker knows them.

        After a loss of the controllers' majority start as many as make one at once: none is ready
        without it.
        """
        wanted = sorted(set(node_ids))
        for node_id in wanted:
            if self.state(node_id) != "down":
                raise LocalClusterError(f"{self.nodes[node_id].name} is running already")
        java = kafka_java(self.kafka_version, self._java_options)
        for node_id in wanted:
            files = self.files(node_id)
            command = node_command(java, self.nodes[node_id], files)
            self._processes[node_id] = (
                NodeProcess.detached(command, files.log)
                if self._is_detached
                else NodeProcess.supervised(command, files.log, remove=self._folder)
            )
        await_started(
            self.nodes,
            wanted,
            state=self.state,
            log_end=lambda node_id: self.files(node_id).log_end(),
        )

    def stop(self, node_id: int) -> None:
        """Stop a node in the controlled way (SIGTERM; its leaders move first), and wait."""
        process = self._running(node_id)
        # A paused one cannot hear the first without the second.
        process.send(signal.SIGTERM, signal.SIGCONT)
        if not process.wait(STOP_TIMEOUT):
            raise LocalClusterError(
                f"{self.nodes[node_id].name} still runs {STOP_TIMEOUT:.0f} s after SIGTERM (no "
                f"controller to let it go?): kill it\n{self.files(node_id).log_end()}"
            )
        del self._processes[node_id]

    def kill(self, node_id: int) -> None:
        """End a node with SIGKILL.

        The others see it missing only after broker.session.timeout.ms, 9 s by default.
        """
        process = self._running(node_id)
        process.send(signal.SIGKILL)
        process.wait(STOP_TIMEOUT)
        del self._processes[node_id]

    def pause(self, node_id: int) -> None:
        """Hold a node with SIGSTOP: its connections stay open, and nothing answers."""
        process = self._running(node_id)
        process.send(signal.SIGSTOP)
        # A signal takes a moment to arrive, in which the node may still answer.
        while process.state == "running":
            time.sleep(0.01)

    def resume(self, node_id: int) -> None:
        """Let a paused node run on (SIGCONT)."""
        self._running(node_id).send(signal.SIGCONT)

    def isolate(self, node_id: int) -> None:
        """Cut a broker off from the controllers, until `rejoin`.

        It answers clients from the image that it has.
        """
        self._link(node_id).cut()

    def rejoin(self, node_id: int) -> None:
        """Let an isolated broker reach the controllers again."""
        self._link(node_id).mend()

    def state(self, node_id: int) -> str:
        """Return `running`, `isolated`, `paused` or `down`. Raises LocalClusterError: no node."""
        if node_id not in self.nodes:
            raise LocalClusterError(
                f"no node {node_id}: there are {', '.join(map(str, self.nodes))}"
            )
        state = self._processes[node_id].state if node_id in self._processes else "down"
        is_cut = node_id in self._links and self._links[node_id].is_cut
        return "isolated" if is_cut and state == "running" else state

    def pid(self, node_id: int) -> int:
        """Return the process id of a running node."""
        pid: int = self._running(node_id).java.pid
        return pid

    def files(self, node_id: int) -> NodeFiles:
        """Return the files of a node."""
        return node_files(self._folder, node_id)

    def _find_processes(self) -> None:
        # By what they run, not by recorded ids: whoever started a node may have been killed before
        # it could write that down.
        for node_id, node in self.nodes.items():
            process = NodeProcess.found(*end_of_command(node, self.files(node_id)))
            if process is not None:
                self._processes[node_id] = process

    def _end_processes(self) -> None:
        for process in self._processes.values():
            process.send(signal.SIGKILL)
        for process in self._processes.values():
            process.wait(STOP_TIMEOUT)
        self._processes.clear()
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _running(self, node_id: int) -> NodeProcess:
        if self.state(node_id) == "down":
            raise LocalClusterError(f"{self.nodes[node_id].name} is not running")
        return self._processes[node_id]

    def _link(self, node_id: int) -> Link:
        self.state(node_id)
        if node_id not in self._links:
            raise LocalClusterError(
                f"{self.nodes[node_id].name} cannot be isolated: that takes a broker and "
                "isolatable=True"
            )
        return self._links[node_id]
