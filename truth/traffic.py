"""Small records into every partition, all the time: a follower of an idle partition never lags."""

import threading
from collections.abc import Sequence
from typing import Self

from confluent_kafka import KafkaException, Producer

_SECONDS_BETWEEN_ROUNDS = 0.25
_SECONDS_TO_FLUSH = 3.0


class Traffic:
    """A thread that produces a record to each partition of some topics four times a second, acks=1. A context manager.

    Topics may go, come back and grow meanwhile: the partitions are looked up every other second.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        self.delivered = 0
        self.refused = 0
        self._topics = topics
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": 1,
                "linger.ms": 20,
                "message.timeout.ms": 5_000,
                "socket.timeout.ms": 4_000,
                "topic.metadata.refresh.interval.ms": 2_000,
                "reconnect.backoff.max.ms": 1_000,
                "log_level": 0,  # brokers go away here on purpose
            }
        )
        self._thread = threading.Thread(target=self._produce, name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(_SECONDS_TO_FLUSH)

    def _produce(self) -> None:
        partitions: dict[str, int] = {}
        rounds = 0
        while not self._stopped.wait(_SECONDS_BETWEEN_ROUNDS):
            if rounds % 8 == 0:
                partitions |= self._partitions()
            rounds += 1
            for topic, count in partitions.items():
                for partition in range(count):
                    try:
                        self._producer.produce(topic, b"x", partition=partition, on_delivery=self._count)
                    except (BufferError, KafkaException):
                        self.refused += 1
            self._producer.poll(0)

    def _partitions(self) -> dict[str, int]:
        try:
            listed = self._producer.list_topics(timeout=1.0).topics
        except KafkaException:
            return {}  # the broker asked is away: what was known goes on
        return {name: len(listed[name].partitions) for name in self._topics if name in listed}

    def _count(self, error: object, _message: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.refused += 1
