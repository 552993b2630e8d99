"""Spark looks up modules named `pyspark_*` and takes their `DefaultSource`: `kafka_group_log` without registration."""

from metadata_source.group_log.datasource import KafkaGroupLogSource as DefaultSource

__all__ = ["DefaultSource"]
