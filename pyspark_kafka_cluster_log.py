"""Spark looks up modules named `pyspark_*` and takes their `DefaultSource`: `kafka_cluster_log`, unregistered."""

from metadata_source.cluster_log.datasource import KafkaClusterLogSource as DefaultSource

__all__ = ["DefaultSource"]
