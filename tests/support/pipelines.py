"""Jobs as users run them, with spark-submit in processes of their own, and what is seen of them
from outside.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from jobs.configuration.config import load
from jobs.run.metadata_stream import QUERY
from local_cluster import LocalCluster
from metadata_source.recorder.folder import last_owner
from tests.support.recorders import end_recorder
from tests.support.repository import ROOT
from tests.support.worker import SMALL_JVM, worker_python


def config_file(
    folder: Path, cluster: LocalCluster, *, poll: dict[str, object], **more: object
) -> Path:
    """Write a configuration with a lake in `folder`. `more`: other keys of the file."""
    content = {
        "lake": str(folder / "lake"),
        "clusters": {"local": {"kafka.bootstrap.servers": cluster.bootstrap_servers}},
        "poll": {"pollInterval": "1s", "requestTimeout": "3s", **poll},
        "validation": {"docs": str(folder / "docs")},
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(content | more))
    return file


def command(
    job: str, config: Path, *flags: str, more: Mapping[str, str] | None = None
) -> list[str]:
    """As the documents say, with a heap that suits the test machine, and `more` settings."""
    return command_of(f"jobs/{job}.py", "--config", str(config), *flags, settings=more)


def command_of(
    script: str, *arguments: str, settings: Mapping[str, str] | None = None
) -> list[str]:
    """The same for any script. `settings`: more of Spark's."""
    submit = Path(sys.executable).with_name("spark-submit")
    given = {"spark.master": "local[3]", "spark.pyspark.python": worker_python()} | dict(
        settings or {}
    )
    options = ["--properties-file", "conf/spark-defaults.conf", "--driver-memory", "1g"]
    options += ["--driver-java-options", SMALL_JVM]
    options += [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    return [str(submit), *options, script, *arguments]


def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": worker_python(),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


class Pipeline:
    """A pipeline that runs, in a process group of its own. It may be ended and run again."""

    def __init__(self, config: Path, settings: Mapping[str, str] | None = None) -> None:
        self._config, self._log, self._process = config, config.with_name("pipeline.log"), None
        self._settings = settings

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                command("pipeline", self._config, more=self._settings),
                cwd=ROOT,
                env=environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def end(self, by: signal.Signals) -> None:
        """End the whole process group. Its recorder, which is in none, has to end by itself
        then.
        """
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, by)
            self._process.wait()
            recorder = last_owner(self.spool)
            wait_for(lambda: recorder is None or not recorder.is_alive(), 15, "the recorder to end")

    def again(self, by: signal.Signals) -> None:
        """End the whole process group, and run again."""
        self.end(by)
        self.start()

    @property
    def spool(self) -> Path:
        """The folder in which its polls wait."""
        return Path(load(str(self._config)).spool)

    @property
    def pid(self) -> int:
        """The process that runs, spark-submit."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """With which it has ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def log(self) -> str:
        return self._log.read_text()

    def check_running(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-3000:]
        assert "Traceback" not in self.log()

    def wait_for_batches(self, more: int) -> None:
        """Wait until so many more batches of polls are committed."""
        until = self._batches() + more

        def are_there() -> bool:
            self.check_running()
            return self._batches() >= until

        wait_for(are_there, 300, "polls")

    def _batches(self) -> int:
        """The number of batches that the stream has done. Upkeep commits to the table of polls
        too.
        """
        done = Path(load(str(self._config)).checkpoint(QUERY), "commits").glob("[0-9]*")
        return max((int(file.name) + 1 for file in done), default=0)


@contextmanager
def running(config: Path, settings: Mapping[str, str] | None = None) -> Iterator[Pipeline]:
    """A pipeline, with more settings of Spark, which is killed whole in the end."""
    pipeline = Pipeline(config, settings)
    pipeline.start()
    try:
        yield pipeline
    finally:
        try:
            pipeline.end(signal.SIGKILL)
        finally:
            end_recorder(pipeline.spool)


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.5)


@contextmanager
def stopped(cluster: LocalCluster, broker: int) -> Iterator[None]:
    cluster.stop(broker)
    try:
        yield
    finally:
        cluster.start(broker)
