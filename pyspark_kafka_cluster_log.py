"""Spark looks up `pyspark_*` modules and takes their `DefaultSource`: `kafka_cluster_log` without
registration.
"""

from metadata_source.logs.cluster.datasource import KafkaClusterLogSource as DefaultSource

__all__ = ["DefaultSource"]
