"""Spark as this command starts it: the settings of conf/spark-defaults.conf, in any folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from jobs.common.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY: Final = "1g"
"""Of the driver, which is all of Spark here."""


def session(name: str, memory: str = MEMORY) -> SparkSession:
    """Return a session for a job, in a JVM that this starts.

    If PYSPARK_SUBMIT_ARGS or SPARK_REMOTE is set, it is the user's, and so are all settings.
    """
    if not {"PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"} & os.environ.keys():
        # Before the JVM starts, or they are not heard.
        os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
            [
                *(f"--conf {quote(f'{key}={value}')}" for key, value in settings().items()),
                f"--driver-memory {memory}",
                "pyspark-shell",
            ]
        )
    return spark_session(name)


def settings() -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf, with jars and interpreter of this installation."""
    lines = (
        line.split(None, 1) for line in _file().read_text("utf-8").splitlines() if line and not line.startswith("#")
    )
    found = {key: value.strip() for key, value in lines}
    return found | {"spark.pyspark.python": sys.executable}


def _file() -> Path:
    here = Path(__file__).resolve().parent
    return next(
        file for file in (here / "spark-defaults.conf", here.parent / "conf" / "spark-defaults.conf") if file.exists()
    )
