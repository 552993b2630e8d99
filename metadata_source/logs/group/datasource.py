"""The Spark data source `kafka_group_log`: `__consumer_offsets` of many clusters, by offset."""

from metadata_source.kafka_constants import OFFSETS_TOPIC
from metadata_source.logs.source import LogSource


class KafkaGroupLogSource(LogSource):
    """The records that group coordinators wrote to their log (`metadata_source.options`)."""

    format = "kafka_group_log"
    log = f"{__package__}.log:GroupLog"
    topic = OFFSETS_TOPIC
