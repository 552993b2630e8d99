"""The pipeline as a user runs it: spark-submit, a configuration file, a log."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGTERM
from typing import Self

import psutil
import yaml

from local_cluster.process import NodeProcess

ROOT = Path(__file__).resolve().parent.parent
POLL_INTERVAL = "2s"
POLLS_PER_BATCH = 2
ENRICH = "configs=30s, reassignments=2s, elr=10s, groups=2s"
NOTEBOOKS = ("isr_history", "incident")
_STOP_SECONDS = 20.0
_BATCH_SECONDS = 180.0
"""The first batch comes after Spark's start."""
_LOG_LINES = 25
_QUIET_SECONDS = 10.0
"""So much of the time before the first commit is drawn, too: its polls are older, and all was well."""


class PipelineError(RuntimeError):
    """Raised when the pipeline ended or hangs; the message closes with the end of its log."""


def configuration(bootstrap_servers: str, folder: Path) -> str:
    """The configuration file, YAML, of a lake within `folder`."""
    return yaml.safe_dump(
        {
            "lake": str(folder / "lake"),
            "checkpoints": str(folder / "checkpoints"),
            "clusters": {"demo": {"kafka.bootstrap.servers": bootstrap_servers}},
            "poll": {"pollInterval": POLL_INTERVAL, "pollsPerBatch": POLLS_PER_BATCH, "enrich": ENRICH},
            "groupLog": {"startingOffsets": "earliest"},
        },
        sort_keys=False,
    )


def submit_command(script: str, *arguments: str) -> list[str]:
    """The command line that runs a script of the repository on Spark."""
    spark = ["spark-submit", "--properties-file", "conf/spark-defaults.conf", "--master", "local[3]"]
    return [*spark, script, *arguments]


class Pipeline:
    """The pipeline's process, polling until it is stopped. A context manager; it ends with this process in any case."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "demo.yaml"
        self.log = folder / "pipeline.log"
        self._commits = folder / "checkpoints" / "poll_metadata" / "commits"
        self._scratch = folder / "scratch"
        self._process: NodeProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def command(self) -> list[str]:
        """What `start` runs, from the repository's root."""
        return submit_command("jobs/pipeline.py", "--config", _relative(self.config))

    def start(self) -> None:
        """Start polling; returns at once."""
        self._process = NodeProcess.supervised(self.command, self.log, remove=self._scratch)

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
        """Poll once more and make history of all of bronze. Raises PipelineError when that fails."""
        self._run([*self.command, "--once"])

    def summary(self) -> str:
        """What the tables say (demo/summary.py). Raises PipelineError when they cannot be read."""
        return self._run(submit_command("demo/summary.py", _relative(self.config)))

    def pictures(self) -> AbstractContextManager[Callable[[], str]]:
        """Begin to draw the notebooks of the time that was polled. What it gives waits for the HTML files, and returns
        their paths, a line each; it raises PipelineError when that fails.
        """
        polled = sorted(file.stat().st_mtime for file in self._commits.iterdir() if file.name.isdigit())
        since, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (polled[0] - _QUIET_SECONDS, polled[-1]))
        window = ["--since", since, "--until", until]
        draw = [sys.executable, "-m", "notebooks", *NOTEBOOKS]
        return self._running(
            [*draw, "--config", _relative(self.config), *window, "--to", _relative(self.config.parent)]
        )

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

    def _run(self, command: Sequence[str]) -> str:
        with self._running(command) as output:
            return output()

    @contextmanager
    def _running(self, command: Sequence[str]) -> Iterator[Callable[[], str]]:
        """Run a command, which ends with the block in any case; what is yielded waits for what it prints."""

        def output() -> str:
            printed, _ = process.communicate()
            if process.returncode:
                raise PipelineError(f"{' '.join(command)} ended with status {process.returncode}; {self._log_end()}")
            return printed

        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                yield output
            finally:
                process.kill()

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{_relative(self.log)} ends with:", *(f"  {line}" for line in lines)])


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
