"""A consumer of committed records, which stands still where a transaction is open, and writes down
where it stands.
"""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from truth.transactions.written import Place, Position

GROUP: Final = "truth-reader"
_POLL_SECONDS: Final = 0.2


class Reader:
    """A thread that consumes, commits and notes its positions. A context manager."""

    def __init__(self, servers: str, places: Sequence[Place]) -> None:
        self.positions: list[Position] = []
        self._stopped = threading.Event()
        self._next = dict.fromkeys(places, 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(*place, 0) for place in places])
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._commit()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(100, _POLL_SECONDS):
                if message.error() is None:
                    place = (str(message.topic()), int(message.partition() or 0))
                    self._next[place] = int(message.offset() or 0) + 1
            self._note()
            self._commit()

    def _note(self) -> None:
        """The position goes beyond markers, of which no message tells."""
        at = datetime.now(UTC)
        asked = [TopicPartition(*place) for place in self._next]
        for each in self._consumer.position(asked):
            if each.offset >= 0:
                place = (each.topic, each.partition)
                self._next[place] = max(self._next[place], each.offset)
                self.positions.append(Position(at, place, each.offset))

    def _commit(self) -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in self._next.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # its coordinator moves: the next time
