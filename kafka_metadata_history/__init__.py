"""The command `kafka-metadata-history`, and what it does for Python: `open` asks a lake; in a
session of Spark, `attach` names its tables, and `register` makes the data sources known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_metadata_history.names import FAILED, INTERRUPTED, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from pyspark.sql import SparkSession

    from kafka_metadata_history.reader import LakeReader

__all__ = ["FAILED", "INTERRUPTED", "NAME", "attach", "open", "register"]


def open(lake: str | PathLike[str] | Mapping[str, str]) -> LakeReader:  # noqa: A001 - as kmh.open
    """Open a lake to ask it: the file of a configuration (`*.yaml`, `*.yml`), a folder or URI, or
    {"catalog": NAME}.

    Raises ConfigError for the file, LakeError if no lake is there.
    """
    from kafka_metadata_history.reader import opened_reader  # noqa: PLC0415 - an import costs nothing

    return opened_reader(lake)


def attach(spark: SparkSession, lake: str | PathLike[str] | Mapping[str, str]) -> list[str]:
    """Put the tables and views of a lake, as `open` has it, under their names
    (silver.partitions_now, ...) in a session; return the names, in order.

    Raises ConfigError for the file, LakeError for a lake that is not ours or of a newer version.
    """
    from kafka_metadata_history.reader import lake_at  # noqa: PLC0415 - an import costs nothing
    from schemas.in_spark import attach as attach_lake  # noqa: PLC0415

    return attach_lake(spark, lake_at(lake)[0])


def register(spark: SparkSession) -> None:
    """Make the formats `kafka_metadata`, `kafka_group_log`, `kafka_transaction_log` and
    `kafka_cluster_log` known to a session, for `spark.read` and `spark.readStream`.
    """
    from metadata_source import register as register_sources  # noqa: PLC0415 - an import costs nothing

    register_sources(spark)
