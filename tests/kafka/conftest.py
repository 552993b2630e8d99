import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from local_cluster import LocalCluster
from metadata_source import tokens
from metadata_source.options import Cluster, TopicFilter, parse
from metadata_source.poller import Poller
from tests.support.group_log_reads import RAW, produce
from tests.support.secured import Secured, secured_broker
from tests.support.secured_clients import COMMIT, LOG, SECRETS
from tests.support.waiting import eventually

EVERY_PERMISSION = AclBindingFilter(
    *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
    *(AclOperation.ANY, AclPermissionType.ANY),
)
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
        (given,) = parse({"kafka.bootstrap.servers": server}).clusters

        def known(given: Cluster = given) -> int:
            with Poller(given, TopicFilter(pattern=name), 5_000) as poller:
                answer = poller.poll().metadata
            return 0 if answer is None else answer.partitions.num_rows

        eventually(lambda known=known: known() == partitions, f"{server} to know {name}")
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


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONTROLLERS_ASK = {
    "listener.security.protocol.map": (
        "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} username="admin" password="admin-secret" user_admin="admin-secret" '
        'user_alice="alice-secret";'
    ),
    "super.users": "User:ANONYMOUS;User:admin",
}


@pytest.fixture(scope="package")
def guarded_by_all() -> Iterator[LocalCluster]:
    """One broker and one controller with an authorizer, shared. The controller asks for a
    password, and so does one of the broker's listeners.
    """
    with guarded_cluster(controllers=1, properties=CONTROLLERS_ASK) as started:
        yield started


@pytest.fixture
def guarded(guarded_by_all: LocalCluster) -> Iterator[LocalCluster]:
    """That one. A test begins without any topic and any permission."""
    yield guarded_by_all
    admin = AdminClient({"bootstrap.servers": guarded_by_all.bootstrap_servers})
    if topics := [*admin.list_topics(timeout=30).topics]:
        for gone in admin.delete_topics(topics).values():
            gone.result(30)
    for gone in admin.delete_acls([EVERY_PERMISSION]).values():
        gone.result(30)
    eventually(lambda: not admin.list_topics(timeout=30).topics, "the topics to be gone")


@pytest.fixture(scope="session")
def made_guarded() -> Callable[..., LocalCluster]:
    """`guarded_cluster`, for the tests' own fixtures."""
    return guarded_cluster


@pytest.fixture(scope="session")
def made_topic() -> Callable[..., AbstractContextManager[AdminClient]]:
    """`topic_on`, for the tests' own fixtures."""
    return topic_on


@pytest.fixture
def raw(cluster, made_topic):
    with made_topic(cluster.bootstrap_servers, RAW, 2, replication_factor=3) as admin:
        yield admin


@pytest.fixture(scope="package")
def groups(cluster, made_topic):
    """A classic group that commits in transactions too, one that is ended by one, and a KIP-848
    group; all have ended.
    """
    servers = cluster.bootstrap_servers
    with made_topic(servers, "group-log-test", 2, replication_factor=3) as admin:
        produce(servers, [(b"k", b"v")] * 20, "group-log-test")
        for protocol in ("classic", "consumer"):
            group = f"group-log-test-{protocol}"
            member = Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": group,
                    "group.protocol": protocol,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "client.id": "group-log-test-client",
                }
            )
            member.subscribe(["group-log-test"])
            while (message := member.poll(10)) is None or message.error():
                pass
            member.commit(message, asynchronous=False)
            if protocol == "classic":
                writer = Producer(
                    {"bootstrap.servers": servers, "transactional.id": "group-log-test"}
                )
                writer.init_transactions(30)
                for end in (
                    writer.commit_transaction,
                    writer.abort_transaction,
                    writer.commit_transaction,
                ):
                    writer.begin_transaction()
                    offsets = [TopicPartition("group-log-test", 0, 1)]
                    writer.send_offsets_to_transaction(
                        offsets, member.consumer_group_metadata(), 30
                    )
                    end(30)
            member.close()
        yield servers
        for future in admin.delete_consumer_groups(
            ["group-log-test-classic", "group-log-test-consumer"]
        ).values():
            future.result(30)


@pytest.fixture(scope="package")
def secured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker with a listener for each way to connect, and one record of a group, shared."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        servers = made.cluster.bootstrap_servers
        with topic_on(servers, LOG, 1, replication_factor=1):
            producer = Producer({"bootstrap.servers": servers})
            producer.produce(LOG, struct.pack(">hqhq", 0, 7, 0, 0), COMMIT, partition=0)
            assert producer.flush(30) == 0
            yield made


@pytest.fixture
def secured(secured_cluster: Secured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    """That one. Secrets are where the references say, no token is kept, and the endpoint is itself
    again afterwards.
    """
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    tokens._kept.clear()
    endpoint = secured_cluster.tokens
    before = endpoint.lifetime_s, endpoint.signer
    endpoint.asked.clear()
    yield secured_cluster
    endpoint.lifetime_s, endpoint.signer = before
