"""Spark looks up modules named `pyspark_*` and takes their `DefaultSource`: `kafka_group_log`
without registration.
"""

from metadata_source.logs.group.datasource import KafkaGroupLogSource as DefaultSource

__all__ = ["DefaultSource"]
