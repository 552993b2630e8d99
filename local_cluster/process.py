"""A broker's process: started under a supervisor or detached, and signalled."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from local_cluster import supervisor
from local_cluster.errors import LocalClusterError


class NodeProcess:
    """A running Java process; psutil tells it from a later process with the same id."""

    def __init__(
        self, java: psutil.Process, supervised_by: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.java = java
        self._supervisor = supervised_by

    @classmethod
    def supervised(cls, command: Sequence[str], log: Path, *, remove: Path) -> "NodeProcess":
        """Start `command`; when this process is gone, kill it and remove the folder `remove`."""
        with log.open("ab") as output:
            supervised_by = subprocess.Popen(
                [
                    sys.executable,
                    "-IS",
                    supervisor.__file__,
                    str(os.getpid()),
                    str(remove),
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us
            )
        assert supervised_by.stdout is not None  # noqa: S101  # a pipe, asked for above
        with supervised_by.stdout as answer:
            pid = answer.readline()
        if not pid:
            raise LocalClusterError(f"cannot start {command[0]}: see {log}")
        return cls(psutil.Process(int(pid)), supervised_by)

    @classmethod
    def detached(cls, command: Sequence[str], log: Path) -> "NodeProcess":
        """Start `command`, to live on after this process."""
        with log.open("ab") as output:
            java = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(psutil.Process(java.pid))

    @classmethod
    def found(cls, *last_arguments: str) -> "NodeProcess | None":
        """The process whose command line ends with these arguments; None when there is none."""
        for java in psutil.process_iter(["cmdline"]):
            if (java.info["cmdline"] or [])[-len(last_arguments) :] == list(last_arguments):
                return cls(java)
        return None

    @property
    def state(self) -> str:
        """`running`, `paused` (by SIGSTOP) or `down`, which a process not yet waited for is too."""
        try:
            status = self.java.status() if self.java.is_running() else psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return "down"
        return {psutil.STATUS_ZOMBIE: "down", psutil.STATUS_STOPPED: "paused"}.get(
            status, "running"
        )

    @property
    def is_running(self) -> bool:
        """Whether it is alive, paused or not."""
        return self.state != "down"

    def send(self, *signals: signal.Signals) -> None:
        """Send signals; to a process that is gone, nothing."""
        try:
            for one in signals:
                self.java.send_signal(one)
        except psutil.NoSuchProcess:
            return

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended; False when it still runs after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.is_running:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        if self._supervisor is not None:
            self._supervisor.wait()
        return True
