"""The recorder as a user runs it: the command, a configuration file, a log."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from signal import SIGTERM
from typing import Self

import psutil
import yaml

from jobs.configuration.histories import (
    DECLARED,
    INCIDENTS,
    ISR_SHRINK,
    LEADER_CHURN,
    TRANSACTION_HISTORY,
)
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.opened import without_spark
from local_cluster.process import NodeProcess
from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.recorder.spool import Spooled
from schemas.lake import Lake, LakeError, resolved

CLUSTER = "demo"
POLL_INTERVAL = "2s"
ENRICH = {"configs": "30s", "reassignments": "2s", "elr": "10s", "groups": "2s", "offsets": "4s"}
_STOP_SECONDS = 20.0
_POLL_SECONDS = 30.0
_HISTORY_SECONDS = 480.0
"""From the last step on, with the rest of Spark's start."""
_LOG_LINES = 25
_SEEN = " UNION ALL ".join(
    f"SELECT max({each.seen_at}) AS seen_at FROM internal.state WHERE history = '{each.name}'"  # noqa: S608 - names of our own
    for each in DECLARED
    # Nobody writes transactions here.
    if each.seen_at is not None and each is not TRANSACTION_HISTORY
)
_MADE_OF_SILVER = " UNION ALL ".join(
    each.waits.query for each in (ISR_SHRINK, LEADER_CHURN, INCIDENTS) if each.waits is not None
)
BEHIND = resolved(
    f"""SELECT count(*) FROM (
  SELECT coalesce(seen_at, TIMESTAMP '1970-01-01 00:00:00Z') < TIMESTAMP ':at' AS is_behind
  FROM ({_SEEN})
  UNION ALL
  SELECT true FROM ({_MADE_OF_SILVER.replace("CLUSTERS", f"'{CLUSTER}'")})
) WHERE is_behind""",  # noqa: S608 - as above
    lambda name: name,
)
"""How many histories have nothing yet that was read after a time, or not all changes of silver."""


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
            "clusters": {CLUSTER: servers},
            "poll": {"pollInterval": POLL_INTERVAL, "enrich": ENRICH},
            "groupLog": {"startingOffsets": "earliest"},
            "clusterLog": {"startingOffsets": "earliest"},
        },
        sort_keys=False,
    )


class Pipeline:
    """The pipeline's process. A context manager; it ends with this process in any case."""

    def __init__(self, config: Path) -> None:
        folder = config.parent
        self.config = config
        self.log = folder / "pipeline.log"
        self._lake = Lake(root=str(folder / "lake"))
        self._spool = folder / "checkpoints" / "spool"
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
        """End it and what it started, with SIGTERM. The batch in flight is made again by the next
        run.
        """
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

    def await_polls(self, count: int) -> None:
        """Wait until `count` more polls are recorded. Raises PipelineError if none come."""
        wanted = self._recorded() + count
        self._wait(
            f"no {count} polls in {_POLL_SECONDS:.0f} s",
            _POLL_SECONDS,
            lambda: self._recorded() >= wanted,
        )

    def await_history(self, at: datetime) -> None:
        """Wait until all up to a time is history. Raises PipelineError when that does not come."""
        sql = BEHIND.replace(":at", f"{at:%Y-%m-%d %H:%M:%S}Z")

        def is_made() -> bool:
            with suppress(LakeError, QueryError):  # a lake that Spark has only begun to make
                behind: int = without_spark(self._lake)(sql).column(0)[0].as_py()
                return behind == 0
            return False

        self._wait(f"no history in {_HISTORY_SECONDS:.0f} s", _HISTORY_SECONDS, is_made)

    def _recorded(self) -> int:
        """How many polls the spool ever had: the cluster is one."""
        spooled = Spooled(self._spool)
        spooled.after(0)
        return spooled.newest_seq

    def _wait(self, what: str, seconds: float, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not is_there():
            if self._process is None or not self._process.is_running:
                raise PipelineError(f"the pipeline ended; {self._log_end()}")
            if time.monotonic() > deadline:
                raise PipelineError(f"{what}; {self._log_end()}")
            time.sleep(0.5)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "kafka_metadata_history", "run", "--config", str(self.config)]

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{self.log} ends with:", *(f"  {line}" for line in lines)])
