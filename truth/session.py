"""Spark for the command lines."""

import os
import sys
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


def local_session(slots: int) -> SparkSession:
    """A session with the settings that jobs have, and a slot for each query that polls."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers have the driver's packages
    os.chdir(ROOT)  # the settings name folders of the repository
    # Polling is stopped in the middle of a batch, which Spark says much about.
    settings = default_settings() | {"spark.driver.memory": "2g", "spark.log.level": "OFF"}
    SparkSession.builder.master(f"local[{slots}]").config(map=settings).getOrCreate()
    return spark_session("truth")
