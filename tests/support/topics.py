"""Records for topics."""

from confluent_kafka import Producer


def write(servers: str, topic: str, *partitions: int, records: int = 10) -> None:
    """Write so many records to each of these partitions."""
    producer = Producer({"bootstrap.servers": servers})
    for partition in partitions:
        for _ in range(records):
            producer.produce(topic, b"record", partition=partition)
    assert producer.flush(30) == 0
