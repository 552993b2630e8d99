"""Records for topics, and waiting until brokers show something."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer


def until(check: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until `check` finds something, and return that."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end
        time.sleep(0.2)
    return found


def write(servers: str, topic: str, *partitions: int, records: int = 10) -> None:
    """Write so many records to each of these partitions."""
    producer = Producer({"bootstrap.servers": servers})
    for partition in partitions:
        for _ in range(records):
            producer.produce(topic, b"record", partition=partition)
    assert producer.flush(30) == 0
