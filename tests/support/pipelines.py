"""Jobs as users run them, with spark-submit in processes of their own, and what is seen of them
from outside.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from jobs.configuration.config import load
from jobs.run.metadata_stream import QUERY
from local_cluster import LocalCluster
from metadata_source.recorder.folder import last_owner
from tests.support.programs import Program
from tests.support.recorders import end_recorder
from tests.support.waiting import eventually
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


class Pipeline(Program):
    """A pipeline that runs, with more settings of Spark; or by another command, with its own
    variables.
    """

    def __init__(
        self,
        config: Path,
        settings: Mapping[str, str] | None = None,
        *,
        by: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        super().__init__(
            by or command("pipeline", config, more=settings),
            config.with_name("pipeline.log"),
            variables=environment() if variables is None else variables,
        )

    def end(self, by: signal.Signals, within: float = 120) -> int:
        """End it. Its recorder is in another process group, and has to end by itself then."""
        status = super().end(by, within)
        recorder = last_owner(self.spool)
        if recorder is not None:
            eventually(lambda: not recorder.is_alive(), "the recorder to end", within=120)
        return status

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        finally:
            end_recorder(self.spool)

    def again(self, by: signal.Signals) -> None:
        """End the whole process group, and run again."""
        self.end(by)
        self.start()

    @property
    def spool(self) -> Path:
        """The folder in which its polls wait."""
        return Path(load(str(self._config)).spool)

    def check_running(self) -> None:
        super().check_running()
        assert "Traceback" not in self.log()

    def wait_for_batches(self, more: int) -> None:
        """Wait until so many more batches of polls are committed."""
        until = batches(self._config) + more
        self.until(lambda: batches(self._config) >= until, "polls")


def batches(config: Path) -> int:
    """The number of batches that the stream has done. Upkeep commits to the table of polls too."""
    done = Path(load(str(config)).checkpoint(QUERY), "commits").glob("[0-9]*")
    return max((int(file.name) + 1 for file in done), default=0)


@contextmanager
def stopped(cluster: LocalCluster, broker: int) -> Iterator[None]:
    cluster.stop(broker)
    try:
        yield
    finally:
        cluster.start(broker)
