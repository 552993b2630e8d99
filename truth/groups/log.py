"""The coordinators' own log, read whole and plainly."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from metadata_source.protocol.group_records import decode_records
from truth.groups.history import Row

LOG: Final = "__consumer_offsets"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS: Final = 10.0


def read_log(bootstrap_servers: str) -> list[Row]:
    """Rows of bronze.group_log, without its read rows: every record but offset commits, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        numbers = consumer.list_topics(LOG, timeout=_SECONDS).topics[LOG].partitions
        messages = [message for number in sorted(numbers) for message in _messages(consumer, number)]
    finally:
        consumer.close()
    decoded = decode_records([each.key() for each in messages], [each.value() for each in messages]).to_pylist()
    read_at = datetime.now(UTC)
    rows = [
        {
            "cluster": "truth",
            "log_partition": message.partition(),
            "offset": message.offset(),
            "record": "record",
            "cluster_id": None,
            "read_at": read_at,
            "next_offset": None,
            "timestamp": _EPOCH + timedelta(milliseconds=message.timestamp()[1]),
            "leader_epoch": message.leader_epoch(),
            **record,
        }
        for message, record in zip(messages, decoded, strict=True)
    ]
    return [row for row in rows if row["type"] not in (0, 1)]


def _messages(consumer: Consumer, number: int) -> Iterator[Message]:
    consumer.assign([TopicPartition(LOG, number, OFFSET_BEGINNING)])
    while True:
        for message in consumer.consume(1000, timeout=0.5):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name of it
                return
            else:
                raise KafkaException(error)


def topic_names(bootstrap_servers: str, topics: Sequence[str]) -> dict[str, str]:
    """Names by topic id."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_SECONDS)
    return {str(found.result(_SECONDS).topic_id): topic for topic, found in described.items()}
