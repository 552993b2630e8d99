import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from local_cluster import LocalCluster
from metadata_source.options import parse
from metadata_source.poller import Poller

# Spark's workers have the environment that its JVM was started in.
os.environ["ALICE_PASSWORD"] = "alice-secret"  # noqa: S105


@pytest.fixture(scope="package")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers in three racks, shared: a test leaves all of them running as it found them."""
    # As much metadata as a commit can have: strings have up to 32,767 bytes.
    properties = {"offset.metadata.max.bytes": "32767"}
    with LocalCluster(brokers=3, racks=["a", "b", "c"], properties=properties) as started:
        yield started


@pytest.fixture(scope="package")
def sasl_ssl_cluster() -> Iterator[LocalCluster]:
    """One broker that also has a SASL_SSL listener and creates topics that are asked for,
    shared.
    """
    with LocalCluster(
        brokers=1, sasl_ssl=True, properties={"auto.create.topics.enable": "true"}
    ) as started:
        yield started


@contextmanager
def topic_on(servers: str, name: str, partitions: int, **more: Any) -> Iterator[AdminClient]:
    """A topic for a while, which every broker knows: `create_topics` ends when the controller does,
    brokers follow.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, **more)])[name].result(30)
    for server in servers.split(","):
        options = parse({"kafka.bootstrap.servers": server, "topicsPattern": name})
        end = time.monotonic() + 30
        known = 0
        while known < partitions:
            assert time.monotonic() < end, f"{server} does not know {name}"
            with Poller(
                options.clusters[0], options.topic_filter, options.request_timeout_ms
            ) as poller:
                answer = poller.poll().metadata
            known = 0 if answer is None else answer.partitions["topic"].to_pylist().count(name)
    yield admin
    admin.delete_topics([name])[name].result(30)


def guarded_cluster(
    brokers: int = 1, *, properties: Mapping[str, str] | None = None, **more: Any
) -> LocalCluster:
    """A cluster with an authorizer, to be started; who comes without a password may do
    everything.
    """
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    return LocalCluster(
        brokers, sasl_ssl=True, properties=authorizer | dict(properties or {}), **more
    )


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """One broker with an authorizer."""
    with guarded_cluster() as started:
        yield started


@pytest.fixture(scope="session")
def made_guarded() -> Callable[..., LocalCluster]:
    """`guarded_cluster`, for the tests' own fixtures."""
    return guarded_cluster


@pytest.fixture(scope="session")
def made_topic() -> Callable[..., AbstractContextManager[AdminClient]]:
    """`topic_on`, for the tests' own fixtures."""
    return topic_on
