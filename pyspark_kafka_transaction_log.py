"""Spark looks up modules named `pyspark_*` and takes their `DefaultSource`: `kafka_transaction_log`
without registration.
"""

from metadata_source.logs.transaction.datasource import (
    KafkaTransactionLogSource as DefaultSource,
)

__all__ = ["DefaultSource"]
