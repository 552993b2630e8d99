"""The command line that every job has: --config FILE [--once]."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.common.config import Config, load
from jobs.common.session import spark_session

log = logging.getLogger("kafka_metadata_history")


Job = Callable[[SparkSession, Config, bool], None]
"""What a job does with a session and a checked configuration; the last says whether for one round only."""


def run_job(name: str, description: str, job: Job, argv: Sequence[str] | None) -> int:
    """Parse `argv`, run `job` to its end, and return the exit status: 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog=name, description=description.splitlines()[0])
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML: lake, clusters, poll (see conf/)")
    parser.add_argument("--once", action="store_true", help="one round, then end: for schedulers")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)

    def run() -> None:
        config = load(arguments.config)
        job(spark_session(name), config, arguments.once)

    return reported(name, run)


def reported(name: str, action: Callable[[], None]) -> int:
    """Do it, and return the exit status: 0, or 1 after one line that says what is wrong."""
    # PySpark writes each error that it raises to stderr by itself, whole plans with it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        action()
    except KeyboardInterrupt:
        return 130
    except (ValueError, RuntimeError, PySparkException, Py4JJavaError) as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        log.debug("traceback", exc_info=True)
        return 1
    return 0


def one_line(error: BaseException) -> str:
    """What an error says, without the stack traces that Spark wraps around it."""
    # What PySpark has no exception for arrives as Java's.
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Errors that crossed from a Python worker keep only their text; ours lead with a stable code.
    ours = [line for line in lines if "[KAFKA_METADATA_" in line or line.startswith(("schemas.lake.", "jobs."))]
    line = (ours or lines or [type(error).__name__])[0]
    return line[line.index("[KAFKA_METADATA_") :] if "[KAFKA_METADATA_" in line else line
