"""Records into every topic, slowly, all the time."""

from collections.abc import Iterator, Sequence
from typing import Any

from local_cluster import traffic


class Traffic(traffic.Traffic):
    """A record to each topic five times a second, acks=all: refused while a topic has fewer in-sync
    replicas than it needs.
    """

    SETTINGS = {"acks": "all", "linger.ms": 50, "message.timeout.ms": 10_000}  # noqa: RUF012 - typed in the class above
    SECONDS_BETWEEN_ROUNDS = 0.2
    SECONDS_TO_FLUSH = 5.0

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        super().__init__(bootstrap_servers)
        self._topics = topics

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """Yield a record for each topic."""
        for topic in self._topics:
            yield {"topic": topic, "value": f"record {n}".encode(), "key": str(n).encode()}
