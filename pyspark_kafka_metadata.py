"""Spark looks up modules named `pyspark_*` and takes their `DefaultSource`: `kafka_metadata`
without registration.
"""

from metadata_source.datasource import KafkaMetadataSource as DefaultSource

__all__ = ["DefaultSource"]
