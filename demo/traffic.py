"""Records into every topic, slowly, all the time."""

import threading
from collections.abc import Sequence
from typing import Self

from confluent_kafka import KafkaException, Producer

_SECONDS_BETWEEN_ROUNDS = 0.2
_ROUNDS_TO_FLUSH = 5.0


class Traffic:
    """A thread that produces a record to each topic five times a second, acks=all. A context manager.

    `delivered` counts records that all in-sync replicas have; `refused` those that Kafka would not take, as while a
    topic has fewer in-sync replicas than it needs.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        self.delivered = 0
        self.refused = 0
        self._topics = topics
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "linger.ms": 50,
                "message.timeout.ms": 10_000,
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
        self._producer.flush(_ROUNDS_TO_FLUSH)

    def _produce(self) -> None:
        n = 0
        while not self._stopped.wait(_SECONDS_BETWEEN_ROUNDS):
            for topic in self._topics:
                try:
                    self._producer.produce(topic, f"record {n}".encode(), key=str(n).encode(), on_delivery=self._count)
                except (BufferError, KafkaException):
                    self.refused += 1
            self._producer.poll(0)
            n += 1

    def _count(self, error: object, _message: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.refused += 1
