"""Jobs in a session of Spark that this process starts, with conf/spark-defaults.conf."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from jobs import job
from jobs.configuration.spark import NOTHING, OURS, SparkSection
from jobs.run.driver import exit_on
from jobs.run.session import SessionError
from kafka_metadata_history.jars import delta, packages
from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.fetch import JARS
from kafka_metadata_history.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOGGING: Final = Path(__file__).resolve().with_name("log4j2.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_WAREHOUSE: Final = "spark.sql.warehouse.dir"
_ARCHIVE: Final = re.compile(r" -XX:SharedArchiveFile=\S+")


def run_job(name: str, arguments: Sequence[str], memory: str, added: SparkSection) -> int:
    """Run jobs/NAME.py with these arguments, and return its exit status. SIGTERM ends it with 143.
    `added`: the configuration's jars and settings.
    Raises SessionError if Spark cannot be started.
    """
    _open_as_many_files_as_may_be()
    prepare(memory, added)
    signal.signal(signal.SIGTERM, exit_on)
    return job(name)(arguments)


def _open_as_many_files_as_may_be() -> None:
    """Raise the limit of open files, also of child processes: a connection to a broker is four."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS calls it endless, and refuses that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def prepare(memory: str, added: SparkSection = NOTHING) -> None:
    """Say how the JVM of this process will start, and fetch Delta's jars and those of
    the configuration (`added`) unless they are there.

    If PYSPARK_SUBMIT_ARGS or SPARK_REMOTE is set, the user says how Spark starts: its session takes
    of `added` what it still can (jobs/run/added.py). Raises SessionError if the jars cannot be had.
    """
    if {"PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"} & os.environ.keys():
        return
    if not JARS.is_absolute():
        raise SessionError(
            "this user has no home folder to keep Delta's jars in: set HOME, or XDG_CACHE_HOME"
        )
    try:
        delta.main()
        jars = packages.fetched(added.packages)
    except JarsError as error:
        raise SessionError(str(error)) from error
    except OSError as error:
        raise SessionError(
            f"Spark's jars cannot be kept in {JARS}: {error.strerror}: set XDG_CACHE_HOME"
        ) from error
    ours, conf = settings(), _user_s()
    found = merged(ours, {name: conf[name] for name in conf.keys() & ours.keys()}, added.settings)
    check_warehouse({**conf, **found}, ours[_WAREHOUSE])
    found["spark.driver.extraClassPath"] = ":".join(
        [found["spark.driver.extraClassPath"], *map(str, jars)]
    )
    found[_JAVA_OPTIONS] += f" -Djava.io.tmpdir={quote(str(scratch_folder()))}"
    given = (f"--conf {quote(f'{key}={value}')}" for key, value in found.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
        (*given, f"--driver-memory {quote(memory)}", "pyspark-shell")
    )


def merged(ours: Mapping[str, str], *given: Mapping[str, str]) -> dict[str, str]:
    """Return settings of which later ones count more, but for those that a command makes itself.
    Java's options are added to ours.
    """
    found = {**ours}
    for each in given:
        for name, value in each.items():
            if name == _JAVA_OPTIONS:
                found[name] = f"{found[name]} {value}"
            elif name not in OURS:
                found[name] = value
    return found


def _user_s() -> dict[str, str]:
    """Return the settings of the file of SPARK_CONF_DIR. Spark adds those by itself that a command
    does not have.
    """
    file = Path(os.environ.get("SPARK_CONF_DIR") or os.devnull) / "spark-defaults.conf"
    return _read(file) if file.exists() else {}


def check_warehouse(found: Mapping[str, str], ours: str) -> None:
    """Raise SessionError if settings name Hive's metastore, and no place for the schemas that are
    made there: they would lie in the cache of jars (`ours`).
    """
    if found.get("spark.sql.catalogImplementation") == "hive" and found[_WAREHOUSE] == ours:
        raise SessionError(
            f"spark.sql.catalogImplementation is hive: set {_WAREHOUSE}, too, the folder or URI in "
            "which schemas are made (docs/catalogs.md)"
        )


def _read(file: Path) -> dict[str, str]:
    """Return the settings of a file as Spark reads it: a name, blanks or `=`, a value."""
    lines = (line.strip() for line in file.read_text("utf-8").splitlines())
    pairs = (
        re.split(r"\s*=\s*|\s+", line, maxsplit=1)
        for line in lines
        if line[:1] not in {"", "#", "!"}
    )
    return {name: "".join(value) for name, *value in pairs}


def settings() -> dict[str, str]:
    """Return conf/spark-defaults.conf with the jars and the interpreter of this installation."""
    found = _read(_file())
    archive = JARS / "spark.jsa"
    found["spark.driver.extraClassPath"] = f"{JARS}/delta/*"
    found["spark.pyspark.python"] = sys.executable
    # Spark makes this folder, and would leave it wherever the command was run.
    found[_WAREHOUSE] = str(JARS / "warehouse")
    options = _JAVA_OPTIONS
    found[options] = _ARCHIVE.sub(
        f" -XX:SharedArchiveFile={archive}" if archive.exists() else "", found[options]
    )
    found[options] += f" -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    return found


def _file() -> Path:
    """In an installed package the file lies beside this one, in a checkout it has a folder."""
    here = Path(__file__).resolve().parent
    name = "spark-defaults.conf"
    return file if (file := here / name).exists() else here.parent / "conf" / name
