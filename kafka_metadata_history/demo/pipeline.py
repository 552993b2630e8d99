"""The recorder as a user runs it: the command, a configuration file, a log."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from typing import Self

import psutil
import yaml

from local_cluster.process import NodeProcess
from metadata_source.errors import KafkaMetadataHistoryError

POLL_INTERVAL = "4s"
"""On two cores some polls are late: they also run the cluster and make history."""
ENRICH = {"configs": "32s", "reassignments": "4s", "elr": "12s", "groups": "4s", "offsets": "4s"}
_STOP_SECONDS = 20.0
_BATCH_SECONDS = 180.0
"""The first batch comes after Spark's start."""
_LOG_LINES = 25


class PipelineError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when the pipeline ended or hangs; the message closes with the end of its log."""


def configuration(bootstrap_servers: str, controller_servers: str) -> str:
    """The configuration file, YAML, of a lake beside it."""
    servers = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.controller.bootstrap.servers": controller_servers,
    }
    return yaml.safe_dump(
        {
            "lake": "lake",
            "checkpoints": "checkpoints",
            "clusters": {"demo": servers},
            "poll": {"pollInterval": POLL_INTERVAL, "pollsPerBatch": 1, "enrich": ENRICH},
            "groupLog": {"startingOffsets": "earliest"},
            "clusterLog": {"startingOffsets": "earliest"},
        },
        sort_keys=False,
    )


class Pipeline:
    """The pipeline's process, polling until it is stopped. A context manager; it ends with this process in any case."""

    def __init__(self, config: Path) -> None:
        folder = config.parent
        self.config = config
        self.log = folder / "pipeline.log"
        self._commits = folder / "checkpoints" / "poll_metadata" / "commits"
        self._scratch = folder / "scratch"
        self._process: NodeProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start polling; returns at once."""
        self._process = NodeProcess.supervised(self._command(), self.log, remove=self._scratch)

    def stop(self) -> None:
        """End it and what it started, with SIGTERM. The batch in flight is redone by the next run."""
        if self._process is None:
            return
        with suppress(psutil.NoSuchProcess):
            family = [NodeProcess(child) for child in self._process.java.children(recursive=True)]
            self._process.send(SIGTERM)
            if not self._process.wait(_STOP_SECONDS):
                self._process.java.kill()
                self._process.wait(_STOP_SECONDS)
            # Python workers end by themselves once Spark is gone; none may stay.
            for child in family:
                if not child.wait(_STOP_SECONDS):
                    child.java.kill()
        self._process = None

    def run_once(self) -> None:
        """Poll once more and make history of all of bronze. Raises PipelineError if that fails."""
        with self.log.open("ab") as log:
            ended = subprocess.run(
                self._command("--once"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        if ended.returncode:
            raise PipelineError(f"the last run ended with status {ended.returncode}; {self._log_end()}")

    def await_batches(self, count: int) -> None:
        """Wait until `count` more batches of polls are in bronze. Raises PipelineError when they do not come."""
        wanted = self._committed() + count
        deadline = time.monotonic() + _BATCH_SECONDS
        while self._committed() < wanted:
            if self._process is None or not self._process.is_running:
                raise PipelineError(f"the pipeline ended; {self._log_end()}")
            if time.monotonic() > deadline:
                raise PipelineError(f"no batch of polls for {_BATCH_SECONDS:.0f} s; {self._log_end()}")
            time.sleep(0.2)

    def _committed(self) -> int:
        return sum(name.name.isdigit() for name in self._commits.iterdir()) if self._commits.is_dir() else 0

    def _command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "kafka_metadata_history", "run", "--config", str(self.config), *more]

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{self.log} ends with:", *(f"  {line}" for line in lines)])
