"""Kafka in, Arrow out: what a cluster's metadata says, as a Spark data source.

`register(spark)` makes it known as the format `kafka_metadata`. Importing this package loads neither a Kafka client nor
pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("kafka_metadata")` and `spark.readStream.format("kafka_metadata")` known to a session."""
    from metadata_source.datasource import KafkaMetadataSource  # noqa: PLC0415 - keeps the package light

    spark.dataSource.register(KafkaMetadataSource)
