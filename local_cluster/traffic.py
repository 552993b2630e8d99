"""Records into a cluster's topics, all the time, for as long as something else is done to it."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from confluent_kafka import KafkaException, Producer


class Traffic:
    """A thread that produces rounds of records, one after the other. A context manager.

    Made for brokers that go away: `delivered` counts records that Kafka took, `refused` those that
    it would not take.
    """

    SETTINGS: ClassVar[Mapping[str, Any]]
    """Of the producer, beside whom it asks first."""
    SECONDS_BETWEEN_ROUNDS: ClassVar[float]
    SECONDS_TO_FLUSH: ClassVar[float]

    def __init__(self, bootstrap_servers: str) -> None:
        self.delivered = 0
        self.refused = 0
        self._stopped = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "log_level": 0, **self.SETTINGS}
        )
        self._thread = threading.Thread(target=self._produce, name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(self.SECONDS_TO_FLUSH)

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """Yield the records of round `n`, as arguments of `Producer.produce`."""
        raise NotImplementedError

    def _produce(self) -> None:
        n = 0
        while not self._stopped.wait(self.SECONDS_BETWEEN_ROUNDS):
            for record in self.records(n):
                try:
                    self._producer.produce(**record, on_delivery=self._count)
                except (BufferError, KafkaException):
                    self.refused += 1
            self._producer.poll(0)
            n += 1

    def _count(self, error: object, _message: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.refused += 1
