"""Kafka in, Arrow out: what metadata, the logs of coordinators and the controllers' log say, as
Spark data sources.

`register(spark)` makes them known as the formats `kafka_metadata`, `kafka_group_log`,
`kafka_transaction_log` and `kafka_cluster_log`. Importing this package loads neither a Kafka client
nor pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the formats `kafka_metadata`, `kafka_group_log`, `kafka_transaction_log` and
    `kafka_cluster_log` known to a session, for `spark.read` and `spark.readStream`.
    """
    from metadata_source.datasource import KafkaMetadataSource  # noqa: PLC0415 - keeps the package light
    from metadata_source.logs.cluster.datasource import KafkaClusterLogSource  # noqa: PLC0415
    from metadata_source.logs.group.datasource import KafkaGroupLogSource  # noqa: PLC0415
    from metadata_source.logs.transaction.datasource import (  # noqa: PLC0415
        KafkaTransactionLogSource,
    )

    spark.dataSource.register(KafkaMetadataSource)
    spark.dataSource.register(KafkaGroupLogSource)
    spark.dataSource.register(KafkaTransactionLogSource)
    spark.dataSource.register(KafkaClusterLogSource)
