"""The Spark data source `kafka_transaction_log`: `__transaction_state` of many clusters."""

from metadata_source.kafka_constants import TRANSACTIONS_TOPIC
from metadata_source.logs.source import LogSource


class KafkaTransactionLogSource(LogSource):
    """What transaction coordinators wrote to their log comes to (`metadata_source.options`)."""

    format = "kafka_transaction_log"
    log = f"{__package__}.log:TransactionLog"
    topic = TRANSACTIONS_TOPIC
