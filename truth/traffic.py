"""Small records into every partition, all the time: a follower of an idle partition never lags."""

from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaException

from local_cluster import traffic

_ROUNDS_BETWEEN_LOOKS = 8


class Traffic(traffic.Traffic):
    """A record to each partition of some topics four times a second, acks=1.

    Topics may go, come back and grow meanwhile: the partitions are looked up every other second.
    """

    SETTINGS = {  # noqa: RUF012 - typed in the class above
        "acks": 1,
        "linger.ms": 20,
        "message.timeout.ms": 5_000,
        "socket.timeout.ms": 4_000,
        "topic.metadata.refresh.interval.ms": 2_000,
        "reconnect.backoff.max.ms": 1_000,
    }
    SECONDS_BETWEEN_ROUNDS = 0.25
    SECONDS_TO_FLUSH = 3.0

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        super().__init__(bootstrap_servers)
        self._topics = topics
        self._partitions: dict[str, int] = {}

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """Yield a record for each partition that is known."""
        if n % _ROUNDS_BETWEEN_LOOKS == 0:
            self._partitions |= self._listed()
        for topic, count in self._partitions.items():
            for partition in range(count):
                yield {"topic": topic, "value": b"x", "partition": partition}

    def _listed(self) -> dict[str, int]:
        try:
            listed = self._producer.list_topics(timeout=1.0).topics
        except KafkaException:
            return {}  # the broker asked is away: what was known goes on
        return {name: len(listed[name].partitions) for name in self._topics if name in listed}
