"""Clusters of this machine, beside which the product is measured."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from local_cluster import LocalCluster
from truth.administration import Administration, NewTopic
from truth.scenarios import PROPERTIES, topics
from truth.setups import NEWEST
from truth.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def faulty_cluster(seed: int) -> Iterator[tuple[LocalCluster, Administration]]:
    """Give four brokers with the topics and the traffic of `truth`."""
    with LocalCluster(
        brokers=NEWEST.brokers,
        controllers=1,
        kafka_version=NEWEST.kafka_version,
        metadata_version=NEWEST.metadata_version,
        racks=NEWEST.racks,
        properties=PROPERTIES,
        isolatable=True,
    ) as cluster:
        administration = Administration(cluster)
        begun_with = topics(seed, brokers_of(cluster))
        administration.create_topics(begun_with)
        with Traffic(cluster.bootstrap_servers, [topic.name for topic in begun_with]):
            administration.await_settled(brokers_of(cluster))
            yield cluster, administration


def brokers_of(cluster: LocalCluster) -> tuple[int, ...]:
    """Return the ids of a cluster's brokers."""
    return tuple(node_id for node_id, node in cluster.nodes.items() if node.is_broker)


def new_topic(name: str, partitions: int) -> NewTopic:
    """Return a topic of three replicas, led by each of three brokers in turn."""
    return NewTopic(
        name,
        tuple(
            tuple((number + place) % 3 + 1 for place in range(3)) for number in range(partitions)
        ),
    )
