"""The product as users run it: its session, its configuration, a round of history, its processes.
Nothing else here knows its jobs.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, Any, Final

import psutil
import yaml

from jobs.configuration.config import Config, load
from jobs.configuration.limits import CROSSED
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.run import metadata_stream
from jobs.run.logs import FOLLOWED_GROUP_LOG
from jobs.run.reading import Reading
from jobs.run.session import spark_session
from local_cluster.process import NodeProcess
from schemas import bronze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from jobs.rounds.history import History

ROOT: Final = Path(__file__).resolve().parents[1]
CONFIG: Final = "config.yaml"
SUBMIT: Final = ("spark-submit", "--properties-file", "conf/spark-defaults.conf")
STOP_S: Final = 30.0
LOOK_S: Final = 2.0
"""Between two looks at what is waited for: looking must not keep the machine from its work."""
MEMORY: Final = "2g"
"""Of a driver in whose session rounds are timed."""


class ProductError(RuntimeError):
    """Raised when the product ended, or does not do what is waited for.

    One line and the end of its log.
    """


def session() -> SparkSession:
    """Return a session with the settings that the jobs are run with."""
    os.chdir(ROOT)  # the settings name folders of the repository
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
        [*SUBMIT[1:], "--driver-memory", MEMORY, "pyspark-shell"]
    )
    return spark_session("benchmarks")


def configured(
    folder: Path, aliases: Iterable[str], servers: str = "127.0.0.1:9", **more: Any
) -> Config:
    """Write a configuration with these aliases and a lake within `folder`, and return it. `more`:
    its other keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / CONFIG
    content = {
        "lake": str(folder / "lake"),
        "checkpoints": str(folder / "checkpoints"),
        "clusters": {alias: {"kafka.bootstrap.servers": servers} for alias in aliases},
        **more,
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return load(str(file))


def append_polls(spark: SparkSession, config: Config, rows: pa.Table, *, files: int = 1) -> None:
    """Append rows as the poller's batch would, one commit."""
    # PySpark cannot take chunks that are slices of lists with nulls (tried with 4.2.0).
    frame = spark.createDataFrame(rows.combine_chunks()).coalesce(files)
    frame.write.format("delta").mode("append").save(config.lake.path(bronze.METADATA_POLLS))


def round_once(spark: SparkSession, config: Config, history: type[History[Any]] = Polls) -> bool:
    """Make a history of all that bronze has more, in one round; return whether that was anything.

    What says nothing new is not noted: `status` may wait for that.
    """
    key = str(config.lake), history
    if key not in _ENGINES:
        _ENGINES[key] = Engine(spark, config, history())
    # By a clock of before the polls: what says nothing new waits a minute to be noted.
    return _ENGINES[key].round(datetime.now(UTC) - timedelta(days=1))


_ENGINES: dict[tuple[str, type[History[Any]]], Engine] = {}


@contextmanager
def polling(spark: SparkSession, config: Config) -> Iterator[None]:
    """Poll, and read the coordinators' log, as long as this is open."""
    streams = (metadata_stream.polling(spark, config), Reading(spark, config, FOLLOWED_GROUP_LOG))
    try:
        yield
    finally:
        for stream in streams:
            stream.query.stop()


# --- processes ---


class Process(NodeProcess):
    """A job's process and what it has started."""

    @property
    def family(self) -> list[psutil.Process]:
        """The job's process, Java and Python workers, those that run."""
        with suppress(psutil.NoSuchProcess):
            return [self.java, *self.java.children(recursive=True)]
        return []

    @property
    def status(self) -> int | None:
        """The exit status, once it has ended."""
        return None if self._supervisor is None else self._supervisor.wait()


@contextmanager
def running(
    folder: Path,
    *flags: str,
    job: str = "pipeline",
    settings: Sequence[str] = (),
    command: Sequence[str] = (),
) -> Iterator[Process]:
    """Run a job as README.md has it, or another command, with a log in `folder`; it and all it has
    started end with this block. `settings`: more of Spark's.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.chdir(ROOT)
    line = command or [*SUBMIT, *settings, f"jobs/{job}.py"]
    line = [*line, "--config", str(folder / CONFIG), *flags]
    process = Process.supervised(line, folder / "log", remove=folder / "scratch")
    try:
        yield process  # type: ignore[misc]
    finally:
        family = [NodeProcess(each) for each in process.family]  # type: ignore[attr-defined]
        process.send(SIGTERM)
        process.wait(STOP_S)
        for each in family:
            if not each.wait(STOP_S):
                each.java.kill()


def run_once(folder: Path) -> float:
    """Run `pipeline.py --once` and return its seconds. Raises ProductError when it fails."""
    start = time.perf_counter()
    with running(folder, "--once") as process:
        while process.is_running:
            time.sleep(0.05)
    seconds = time.perf_counter() - start
    status = process.status
    if status not in {0, CROSSED}:  # CROSSED: a cluster could not be polled
        raise ProductError(f"pipeline.py --once ended with status {status}: {log_end(folder)}")
    return seconds


def await_that(
    what: str, process: Process, folder: Path, reached: Callable[[], bool], timeout_s: float
) -> None:
    """Wait until something is so.

    Raises ProductError when the process ends, or it takes too long.
    """
    deadline = time.monotonic() + timeout_s
    while not reached():
        if not process.is_running:
            raise ProductError(f"the pipeline ended: {log_end(folder)}")
        if time.monotonic() > deadline:
            raise ProductError(f"{what} has not come within {timeout_s:.0f} s: {log_end(folder)}")
        time.sleep(LOOK_S)


def log_end(folder: Path, lines: int = 10) -> str:
    """Return the last lines that a job has logged."""
    return "\n".join((folder / "log").read_text(errors="replace").splitlines()[-lines:])


def table_folder(config: Config, name: str) -> Path:
    """Return the folder of a table (`schema.name`)."""
    return Path(str(config.lake), *name.split("."))


ENRICH: Final = "configs, reassignments, elr"
POLLS: Final[Mapping[str, Any]] = {"pollInterval": "2s", "requestTimeout": "4s", "enrich": ENRICH}
"""How the clusters of this machine are polled unless told."""
