"""The parts that the command lines share: Spark in a folder of its own, and lines for people."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.run.session import spark_session

ROOT = Path(__file__).resolve().parent.parent


def default_settings() -> dict[str, str]:
    """The settings of conf/spark-defaults.conf, by name.

    Paths in them are relative to the repository.
    """
    return settings_of("spark-defaults.conf")


def settings_of(file: str) -> dict[str, str]:
    """The settings of a file in conf/, by name."""
    lines = (ROOT / "conf" / file).read_text().splitlines()
    return dict(
        line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")
    )


@contextlib.contextmanager
def local_session(slots: int) -> Iterator[tuple[SparkSession, Path]]:
    """A session with the settings that jobs have, and a slot for each query that polls; and a
    folder. SIGTERM ends all that was started.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Outside of all else: Spark may be gone already when it is to be stopped.
    with tempfile.TemporaryDirectory(prefix="truth-", ignore_cleanup_errors=True) as folder:
        spark = _session(slots)
        try:
            yield spark, Path(folder)
        finally:
            spark.stop()


def saying() -> Callable[[str], None]:
    """Prints what is said, after the seconds since now."""
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {what}", flush=True)

    return say


def concluded(faults: Sequence[str]) -> int:
    """Print the faults; the exit status."""
    print("\n".join(["", f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


def _session(slots: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers have the driver's packages
    os.chdir(ROOT)  # the settings name folders of the repository
    # Polling is stopped in the middle of a batch, which Spark says much about.
    settings = default_settings() | {"spark.driver.memory": "2g", "spark.log.level": "OFF"}
    SparkSession.builder.master(f"local[{slots}]").config(map=settings).getOrCreate()
    return spark_session("truth")
