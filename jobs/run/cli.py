"""The command line that every job has: --config FILE [--once]."""

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config, exposures, load
from jobs.run.driver import (
    JAVA_ERRORS,
    JVM_IS_GONE,
    end_with_process,
    is_of_metastore,
    java_causes,
    java_text,
    without_metastore,
)
from jobs.run.session import writing_session
from metadata_source.text import let_write_all, printable
from schemas.lake import LakeError

log = logging.getLogger("kafka_metadata_history")

_REPORTED: tuple[type[Exception], ...] = (ValueError, RuntimeError, PySparkException, *JAVA_ERRORS)
"""Errors whose message says what is wrong."""
_STREAM_FAILED = re.compile(
    r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ?(.*?) ?(?:SQLSTATE: \w+)?"
)
_OWN = (f"{LakeError.__module__}.", str(__package__).removesuffix("run"))
"""Beginnings of the names of our errors, whatever the package is called where it is installed."""

_NO_CLASS = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError): (?:Class )?([\w.$/]+)"
    r"|No FileSystem for scheme \"?(\w+)"
)
_OF_S3A = re.compile(r"\bs3a\b|software\.amazon\.awssdk")
_PLACE = re.compile(r"s3[an]?://[^\s:'`]+")
_PACKAGES = {
    "org.apache.hadoop.fs.s3a.": "org.apache.hadoop:hadoop-aws, of the version of Spark's Hadoop",
    "org.apache.hadoop.fs.azurebfs.": (
        "org.apache.hadoop:hadoop-azure, of the version of Spark's Hadoop"
    ),
    "com.google.cloud.hadoop.": "com.google.cloud.bigdataoss:gcs-connector",
}
"""The beginning of a class's name -> the package that has it."""

Job = Callable[[SparkSession, Config, bool], int | None]
"""Runs a job with a session and a checked configuration; the last argument says whether for one
round only. Returns the exit status (None: 0).
"""

OfCluster = Callable[[SparkSession, Config, str], None]
"""Does something to the history of a cluster; the last argument is its alias."""


def run_job(
    name: str,
    description: str | None,
    job: Job,
    argv: Sequence[str] | None = None,
    *,
    again: OfCluster | None = None,
    believe: OfCluster | None = None,
    beside: Callable[[Config], AbstractContextManager[None]] | None = None,
) -> int:
    """Parse `argv`, run `job` to its end, and return its exit status, or 1 after one line that says
    what is wrong.

    `again`: what `--again CLUSTER` does in place of `job`, `believe`: what `--believe CLUSTER` does
    before it; None: the job has no such flag. `beside`: what lasts from before Spark is started
    until the job ends, but for one round.
    """
    parser = parser_of(name, description, "lake, clusters, poll")
    parser.add_argument("--once", action="store_true", help="one round, then end: for schedulers")
    if again is not None:
        parser.add_argument(
            "--again", metavar="CLUSTER", help="compute the history of this cluster again, then end"
        )
    if believe is not None:
        says = (
            "first believe the answers of this cluster that wait, as older ones than what was "
            "accepted"
        )
        parser.add_argument("--believe", metavar="CLUSTER", help=says)
    arguments = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Each error that py4j raises, it writes with a trace, too.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(is_not_of_py4j)

    def run() -> int | None:
        config = load(arguments.config)
        for line in exposures(config):
            log.warning("%s", line)
        with nullcontext() if beside is None or arguments.once else beside(config):
            spark = writing_session(name, config)
            end_with_process(spark)
            if again is not None and arguments.again is not None:
                again(spark, config, arguments.again)
                return None
            if believe is not None and arguments.believe is not None:
                believe(spark, config, arguments.believe)
            return job(spark, config, arguments.once)

    return reported(name, run)


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is no trace that py4j writes of a call to a JVM that is
    gone, or that was interrupted: what ended the job is one line.
    """
    return not record.getMessage().endswith("while sending command.")


def parser_of(name: str, description: str | None, config_holds: str) -> argparse.ArgumentParser:
    """A parser that asks for --config; of a module's docstring it shows the first paragraph."""
    first = " ".join((description or "").partition("\n\n")[0].split())
    parser = argparse.ArgumentParser(prog=name, description=first)
    parser.add_argument(
        "--config", required=True, metavar="FILE", help=f"YAML: {config_holds} (see conf/)"
    )
    return parser


def reported(name: str, action: Callable[[], int | None]) -> int:
    """Do it, and return its exit status (None: 0), or that of an error (1 unless it has another)
    after one line that says what is wrong.
    """
    let_write_all(sys.stdout, sys.stderr)
    # PySpark writes each error that it raises to stderr by itself, whole plans with it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        return action() or 0
    except KeyboardInterrupt:
        return 130
    except _REPORTED as error:
        print(f"{name}: {one_line(error)}", file=sys.stderr)
        log.debug("traceback", exc_info=True)
        return int(getattr(error, "exit_status", 1))
    except JVM_IS_GONE as error:
        print(
            f"{name}: Spark's JVM has ended, or does not answer ({printable(str(error))}): if it "
            "wrote nothing above, the machine had too little memory for it (dmesg names what the "
            "kernel killed); run it again",
            file=sys.stderr,
        )
        log.debug("traceback", exc_info=True)
        return 1


def one_line(error: BaseException) -> str:
    """The message of an error, printable, without the stack traces that Spark wraps around it."""
    causes = java_causes(error)
    if (why := _of_store(causes)) is not None:
        return why
    cause = (causes or [""])[-1]
    if lacking := _NO_CLASS.search(cause or java_text(error)):
        return _without_class(lacking[1], lacking[2])
    if is_of_metastore(error):
        return without_metastore(error)
    lines = [line.strip() for line in java_text(error).splitlines() if line.strip()]
    # Errors that crossed from a Python worker keep only their text; ours lead with a stable code.
    ours = [line for line in lines if "[KAFKA_METADATA_" in line or line.startswith(_OWN)]
    line = printable((ours or lines or [type(error).__name__])[0])
    if "[KAFKA_METADATA_" in line:
        return line[line.index("[KAFKA_METADATA_") :]
    failed = _STREAM_FAILED.fullmatch(line)
    line = line if failed is None else f"a stream ended: {failed[1]}"
    if "Python worker failed to connect back" in line:
        return f"{line} The machine was too busy to start Python in Spark's time; run it again"
    cause = printable(cause.partition("\n")[0])
    if line.endswith("awaitResult:") and cause:
        return cause
    return line if not cause.startswith("java.") or cause in line else f"{line} ({cause})"


def _of_store(causes: Sequence[str]) -> str | None:
    """Say why a store does not give or take something; None for errors of something else."""
    text = printable(" ".join(each for each in causes if _OF_S3A.search(each)))
    if not text:
        return None
    from schemas.object_stores import reason  # noqa: PLC0415 - only lakes in stores need delta-rs

    place, why = _PLACE.search(text), reason(text)
    return None if why is None else f"{place[0] if place else 'the object store'}: {why}"


def _without_class(name: str | None, scheme: str | None) -> str:
    """Say which class Spark lacks, and what brings it."""
    if name is None:
        return (
            f"Spark knows no file system {scheme}://; docs/spark-clusters.md says what lakes in "
            "object stores take"
        )
    name = name.replace("/", ".")  # as NoClassDefFoundError has it
    package = next((each for begin, each in _PACKAGES.items() if name.startswith(begin)), None)
    brings = f"; {package}, has it" if package is not None else ""
    return (
        f"Spark lacks the class {name}{brings}: add it to spark.packages of the configuration, or "
        "give it to spark-submit by --packages (docs/spark-clusters.md, Lakes elsewhere)"
    )
