"""The least ISR that acks=all asks for if min.insync.replicas is above the number of replicas."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_metadata_history import check
from local_cluster import LocalCluster
from metadata_source.check import partition_troubles
from metadata_source.options import parse
from tests.support.waiting import eventually

TOPIC = "more"
REPLICAS, MIN_ISR = 2, 3
IS_BOUNDED = {"3.9.2": True, "3.3.2": False}
"""Version -> whether min ISR counts only as far as replicas exist (KAFKA-15583, from 3.7 on)."""


@pytest.fixture(scope="module", params=IS_BOUNDED)
def cluster(request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, bool]]:
    with LocalCluster(brokers=3, kafka_version=request.param) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        settings = {"min.insync.replicas": str(MIN_ISR)}
        admin.create_topics([NewTopic(TOPIC, 1, REPLICAS, config=settings)])[TOPIC].result(30)
        yield started, IS_BOUNDED[request.param]


def error_of_acks_all(cluster: LocalCluster) -> KafkaError | None:
    """What a producer with acks=all and no retries is told; None: it is written."""
    settings = {"acks": "all", "retries": 0, "message.timeout.ms": 20_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers} | settings)
    told: list[KafkaError | None] = []
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0
    return told[0]


def is_under_min_isr(cluster: LocalCluster) -> bool | None:
    """As `check` says."""
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers})
    (found,) = check.checked(options, read=())
    assert found.state is not None
    rows = partition_troubles(found.state).to_pylist()
    under: dict[str, bool | None] = {row["topic"]: row["under_min_isr"] for row in rows}
    return under.get(TOPIC)


def follower(cluster: LocalCluster) -> int:
    """The broker that follows."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    partition = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0]
    (other,) = {*partition.replicas} - {partition.leader}
    return int(other)


@pytest.mark.soak
def test_acks_all_asks_for_as_many_replicas_as_the_rule_says(
    cluster: tuple[LocalCluster, bool],
) -> None:
    started, is_bounded = cluster
    eventually(lambda: is_under_min_isr(started) is not is_bounded)
    if is_bounded:
        assert error_of_acks_all(started) is None
        started.stop(follower(started))
        eventually(lambda: is_under_min_isr(started))
    error = error_of_acks_all(started)
    assert error is not None
    assert error.code() == KafkaError.NOT_ENOUGH_REPLICAS
