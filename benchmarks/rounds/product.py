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
from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.histories.rebalances import RebalanceHistory
from jobs.rounds.engine import Engine
from jobs.run import metadata_stream
from jobs.run.logs import FOLLOWED_GROUP_LOG
from jobs.run.reading import Reading
from jobs.run.session import spark_session
from jobs.upkeep.upkeep import keep_up, next_due
from local_cluster.process import NodeProcess
from schemas import bronze
from schemas.in_spark import ensure_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[2]
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
    file = config_file(folder)
    content = {
        "lake": str(folder / "lake"),
        "checkpoints": str(folder / "checkpoints"),
        "clusters": {alias: {"kafka.bootstrap.servers": servers} for alias in aliases},
        **more,
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return load(str(file))


def config_file(folder: Path) -> Path:
    """Return where `configured` writes."""
    return folder / "config.yaml"


def make_tables(spark: SparkSession, config: Config) -> None:
    """Make the lake, empty."""
    ensure_lake(spark, config.lake)


def append_polls(spark: SparkSession, config: Config, rows: pa.Table, *, files: int = 1) -> None:
    """Append rows as the poller's batch would, one commit."""
    # PySpark cannot take chunks that are slices of lists with nulls (tried with 4.2.0).
    frame = spark.createDataFrame(rows.combine_chunks()).coalesce(files)
    frame.write.format("delta").mode("append").save(config.lake.path(bronze.METADATA_POLLS))


def round_once(spark: SparkSession, config: Config) -> bool:
    """Make history of all that bronze has more, in one round; return whether that was anything."""
    if str(config.lake) not in _HISTORIES:
        _HISTORIES[str(config.lake)] = Engine(spark, config, Polls())
    # By a clock of before the polls, so that those that say nothing new wait to be noted, as they
    # do for a minute.
    return _HISTORIES[str(config.lake)].round(datetime.now(UTC) - timedelta(days=1))


def lag_once(spark: SparkSession, config: Config) -> None:
    """Make lag of the visits that bronze has more.

    That nothing moved is not noted: `status` may wait for that.
    """
    if str(config.lake) not in _LAGS:
        _LAGS[str(config.lake)] = Engine(spark, config, GroupLag())
    _LAGS[str(config.lake)].round(datetime.now(UTC) - timedelta(days=1))


_HISTORIES: dict[str, Engine] = {}
_LAGS: dict[str, Engine] = {}


class Pipeline:
    """The pipeline without polling, by its own clock: rounds of polls, of groups, upkeep."""

    def __init__(self, spark: SparkSession, config: Config) -> None:
        ensure_lake(spark, config.lake)
        self._spark, self._config = spark, config
        self._history, self._groups = (
            Engine(spark, config, Polls()),
            Engine(spark, config, RebalanceHistory()),
        )

    def rounds(self, now: datetime) -> tuple[float, float]:
        """Make history of all that is new; return the seconds of rounds of polls, and of groups."""
        took = []
        for maker in (self._history, self._groups):
            start = time.perf_counter()
            while maker.round(now):
                pass
            took.append(time.perf_counter() - start)
        return took[0], took[1]

    def keep_up_when_due(self, now: datetime) -> bool:
        """Do the upkeep if it is due; return whether it was."""
        lake, config = self._config.lake, self._config
        is_due = next_due(self._spark, lake, now) <= now
        if is_due:
            keep_up(self._spark, lake, config.bronze_retention, config.kept, now)
        return is_due


@contextmanager
def polling(spark: SparkSession, config: Config) -> Iterator[None]:
    """Poll, and read the coordinators' log, as long as this is open."""
    streams = (
        metadata_stream.polling(spark, config),
        Reading(spark, config, FOLLOWED_GROUP_LOG),
    )
    try:
        yield
    finally:
        for stream in streams:
            stream.query.stop()


# --- processes ---


def command(script: str, folder: Path, *flags: str, settings: Sequence[str] = ()) -> list[str]:
    """Return the command line of a job, as README.md has it; `settings`: more of Spark's."""
    return [*SUBMIT, *settings, script, "--config", str(config_file(folder)), *flags]


def run_once(folder: Path, settings: Sequence[str] = ()) -> float:
    """Run `pipeline.py --once` and return its seconds. Raises ProductError when it fails."""
    start = time.perf_counter()
    with running("jobs/pipeline.py", folder, "--once", settings=settings) as process:
        while process.is_running:
            time.sleep(0.05)
    seconds = time.perf_counter() - start
    status = process.status
    if status not in {0, CROSSED}:  # CROSSED: a cluster could not be polled
        raise ProductError(f"pipeline.py --once ended with status {status}: {log_end(folder)}")
    return seconds


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
    script: str, folder: Path, *flags: str, settings: Sequence[str] = ()
) -> Iterator[Process]:
    """Run a job for a while, with a log in `folder`; it and all it started end with this block."""
    with _running(command(script, folder, *flags, settings=settings), folder) as process:
        yield process


@contextmanager
def recording(folder: Path) -> Iterator[Process]:
    """Run `kafka-metadata-history run` for a while, in the same way."""
    with _running(
        [
            sys.executable,
            "-m",
            "kafka_metadata_history",
            "run",
            "--config",
            str(config_file(folder)),
        ],
        folder,
    ) as process:
        yield process


@contextmanager
def _running(line: Sequence[str], folder: Path) -> Iterator[Process]:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.chdir(ROOT)
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
POLLS: Final[Mapping[str, Any]] = {
    "pollInterval": "2s",
    "requestTimeout": "4s",
    "enrich": ENRICH,
}
"""How the clusters of this machine are polled unless told."""
