"""The section `spark`: jars and settings for Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.configuration.reading import as_mapping, as_text

COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+(:[\w.-]+)?")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
OURS = {
    "spark.driver.extraClassPath": "name jars under spark.packages",
    "spark.jars": "name jars under spark.packages",
    "spark.jars.packages": "name jars under spark.packages",
    "spark.driver.memory": "give --memory",
    "spark.master": "the command starts Spark on this machine: docs/spark-clusters.md has others",
    "spark.pyspark.python": "Python is that of the command",
    "spark.sql.extensions": "Delta needs its own",
    "spark.sql.catalog.spark_catalog": "Delta needs its own",
    "spark.sql.session.timeZone": "times are kept and shown in UTC",
}
"""Settings that a command makes itself -> what to do in place of setting them."""


@dataclass(frozen=True)
class SparkSection:
    """`packages`: Maven coordinates (GROUP:ARTIFACT:VERSION[:CLASSIFIER]) -> SHA-256 in hex, lower
    case, of that one jar; empty where nobody knows it yet. `settings`: names (spark.*) -> values.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


NOTHING = SparkSection()


def jar_of(coordinate: str) -> str:
    """Return the name of a coordinate's file: ARTIFACT-VERSION[-CLASSIFIER].jar."""
    return f"{'-'.join(coordinate.split(':')[1:])}.jar"


def packages_of(name: str, value: Any) -> dict[str, str]:
    """Coordinates with checksums. Raises ValueError for one that is neither."""
    found = {}
    for coordinate, checksum in as_mapping(name, value or {}).items():
        if not COORDINATE.fullmatch(coordinate):
            raise ValueError(f"{name}: {coordinate!r} is not GROUP:ARTIFACT:VERSION[:CLASSIFIER]")
        text = as_text(f"{name}.{coordinate}", checksum).strip()
        if text and not SHA256.fullmatch(text):
            raise ValueError(f"{name}.{coordinate}: {text!r} is not a SHA-256, 64 hex digits")
        found[coordinate] = text.lower()
    return found


def settings_of(name: str, value: Any) -> dict[str, str]:
    """Settings of Spark. Raises ValueError for those that are none, or a command's own."""
    found = {}
    for setting, given in as_mapping(name, value or {}).items():
        if not setting.startswith("spark."):
            raise ValueError(f"{name}.{setting}: settings of Spark begin with spark.")
        if setting in OURS:
            raise ValueError(f"{name}.{setting}: {OURS[setting]}")
        found[setting] = as_text(f"{name}.{setting}", given)
    return found


SPARK: Mapping[str, Any] = {
    "packages": (
        packages_of,
        (
            "Jars for the Spark that a command starts: GROUP:ARTIFACT:VERSION[:CLASSIFIER], and "
            "its SHA-256. Default: none."
        ),
    ),
    "settings": (
        settings_of,
        "Settings (spark.*) of Spark. Default: those that it is started with.",
    ),
}
"""Each key -> the reader of its value, and its meaning."""
