"""Records for members that work, and what they did and committed."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

from local_cluster.members import Member
from local_cluster.traffic import Traffic
from truth.dump import TruthError
from truth.model.work import Appended, Work

LEFT: Final = 50
"""Records of each partition that nobody does, at the end."""
_SECONDS: Final = 30

Topics = Mapping[str, int]
"""The number of partitions by topic."""


class Records(Traffic):
    """Ten records a second for each partition of the topics of members that work."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {"linger.ms": 0, "message.timeout.ms": 10_000}
    SECONDS_BETWEEN_ROUNDS: ClassVar[float] = 0.1
    SECONDS_TO_FLUSH: ClassVar[float] = 5.0

    def __init__(self, bootstrap_servers: str, topics: Topics) -> None:
        super().__init__(bootstrap_servers)
        self._topics = topics

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """One to each partition."""
        return _records(self._topics, n)


def _records(topics: Topics, n: int) -> Iterator[dict[str, Any]]:
    for topic, partitions in topics.items():
        for partition in range(partitions):
            yield {"topic": topic, "partition": partition, "value": str(n).encode()}


def leave_records(bootstrap_servers: str, topics: Topics) -> None:
    """Produce what nobody does. Raises TruthError when Kafka does not take it."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for record in (each for n in range(LEFT) for each in _records(topics, n)):
        producer.produce(**record)
    if producer.flush(_SECONDS):
        raise TruthError("the last records were not taken")


def work_of(members: Iterable[Member], appended: Appended, rests_from: datetime) -> Work:
    """All that the members of a group did, in order of time."""
    each_member = list(members)
    return Work(
        sorted((each for member in each_member for each in member.done), key=lambda each: each.at),
        sorted(
            (each for member in each_member for each in member.commits),
            key=lambda each: each.called,
        ),
        appended,
        rests_from,
    )


def appended(bootstrap_servers: str, topic: str, partitions: int) -> dict[int, list[datetime]]:
    """When each record was appended, by the broker's clock, which is that of this machine."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "nobody", "log_level": 0}
    consumer = Consumer(settings)
    try:
        ends = {
            n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=_SECONDS)[1]
            for n in range(partitions)
        }
        consumer.assign([TopicPartition(topic, n, 0) for n in ends])
        found: dict[int, list[datetime]] = {n: [] for n in ends}
        while any(len(found[n]) < end for n, end in ends.items()):
            for message in consumer.consume(10_000, 1):
                kind, at = message.timestamp()
                if kind != TIMESTAMP_LOG_APPEND_TIME or message.offset() != len(
                    found[message.partition()]
                ):
                    raise TruthError(f"{topic}-{message.partition()} is not as it was written")
                found[message.partition()].append(datetime.fromtimestamp(at / 1000, UTC))
    finally:
        consumer.close()
    return found
