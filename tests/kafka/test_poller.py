"""One cluster, polled: versions, retries, other brokers, throttling."""

import gc
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import pytest
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

from local_cluster import LocalCluster
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import encode_request
from metadata_source.transport import Connection
from tests.support.beside import ask_beside
from tests.support.for_each import for_each
from tests.support.handles import come_to, settled
from tests.support.waiting import eventually

METADATA = 3
TOPIC = "poller-test"


@pytest.fixture(scope="module")
def topic(cluster, made_topic) -> Iterator[str]:
    with made_topic(cluster.bootstrap_servers, TOPIC, 4, replication_factor=3):
        yield TOPIC


def poller(servers: str, **more: str) -> Poller:
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": "8s"} | more)
    return Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms)


def poll(servers: str, **more: str):
    with poller(servers, **more) as each:
        return each.poll()


def servers_of(cluster: LocalCluster) -> list[str]:
    return cluster.bootstrap_servers.split(",")


@for_each("version", range(14))
def test_each_version_can_be_pinned(cluster, topic, version):
    result = poll(cluster.bootstrap_servers, metadataVersion=str(version), topicsPattern=topic)
    assert (result.error_kind, result.api_version, result.attempts) == (None, version, 1)
    assert result.metadata.brokers.num_rows == 3
    assert result.metadata.cluster_id == (cluster.cluster_id if version >= 2 else None)
    names = result.metadata.partitions["topic"].to_pylist()
    assert names.count(topic) == 4


def test_a_poll_records_how_it_went(cluster):
    result = poll(cluster.bootstrap_servers, clusterId=cluster.cluster_id)
    assert (result.error_kind, result.error, result.api_version) == (None, None, 13)
    assert servers_of(cluster)[result.broker_id - 1] == result.broker
    assert result.response_bytes > 100
    assert result.throttle_time_ms == 0
    assert result.metadata_version_level >= 25
    assert result.elr_version_level in {0, 1}
    took_ms = (result.received_at - result.sent_at).total_seconds() * 1000
    assert 0 < result.latency_ms == pytest.approx(took_ms, abs=5)


def test_polls_go_round_the_brokers_over_connections_that_are_kept(cluster):
    with poller(cluster.bootstrap_servers) as each:
        answered = [each.poll().broker for _ in range(3)]
        connections = dict(each._connections._kept)
        assert [each.poll().broker for _ in range(3)] == answered
        assert set(answered) == set(servers_of(cluster))
        assert each._connections._kept == connections


def test_bootstrap_servers_are_tried_in_random_order(cluster):
    answered = set()
    for _ in range(40):
        answered.add(poll(cluster.bootstrap_servers).broker)
    assert answered == set(servers_of(cluster))


def test_nobody_reachable_names_every_address_once():
    result = poll("127.0.0.1:1,127.0.0.1:2")
    assert (result.error_kind, result.sent_at, result.broker) == ("unreachable", None, None)
    assert sorted(result.error.split("; ")) == [
        "127.0.0.1:1: connection refused",
        "127.0.0.1:2: connection refused",
    ]
    assert result.attempts == 6  # three rounds


def test_a_poll_with_its_retries_ends_in_time():
    begin = time.monotonic()
    assert poll("127.0.0.1:1", requestTimeout="250ms").error_kind == "unreachable"
    assert time.monotonic() - begin < 0.4


def test_a_broker_that_is_down_is_passed_over(cluster):
    down = servers_of(cluster)[1]
    with poller(down) as each:
        assert each.poll().broker == down
        cluster.stop(2)
        try:
            # The kept connection is gone; the brokers that the answer named are not.
            results = [each.poll() for _ in range(4)]
            assert {result.error_kind for result in results} == {None}
            assert {result.broker for result in results} == set(servers_of(cluster)) - {down}
            assert {result.metadata.brokers.num_rows for result in results} == {2}
        finally:
            cluster.start(2)


def test_an_address_that_no_broker_is_known_by_is_left_for_one_that_was_learnt(cluster):
    """Behind a service's name nobody knows who answers."""
    service = servers_of(cluster)[0].replace("127.0.0.1", "localhost")

    def polls():
        with poller(service) as each:
            found = [each.poll() for _ in range(3)]
        # While the cluster changes, another broker may know more than the first one that was asked.
        return found if found[0].broker == service else None

    first, *others = eventually(polls)
    assert first.broker_id is None
    for later in others:
        assert servers_of(cluster)[later.broker_id - 1] == later.broker


def test_another_cluster_at_a_remembered_address_is_not_the_end(cluster, sasl_ssl_cluster):
    moved = servers_of(sasl_ssl_cluster)[0]
    with poller(cluster.bootstrap_servers, clusterId=cluster.cluster_id) as each:
        each.brokers.learnt = {("127.0.0.1", int(moved.partition(":")[2])): 1}
        result = each.poll()
        assert (result.error_kind, result.attempts) == (None, 2)
        assert each.poll().attempts == 1


def test_polls_leave_no_file_open(cluster):
    """Whatever they come to, and without waiting for the garbage collector."""
    failing = (
        {"clusterId": "another"},
        {"maxResponseBytes": "300"},
        {"kafka.security.protocol": "SSL"},
        {"kafka.bootstrap.servers": "127.0.0.1:1", "requestTimeout": "250ms"},
        {"kafka.bootstrap.servers": "a..b:1", "requestTimeout": "250ms"},
    )
    servers = cluster.bootstrap_servers

    def polls() -> None:
        for more in failing:
            assert poll(servers, **more).error_kind is not None
        with poller(servers) as each:
            assert [each.poll().error_kind for _ in failing] == [None] * len(failing)

    polls()
    gc.collect()
    gc.disable()
    try:
        before = settled()
        for _ in range(5):
            polls()
        assert come_to(before) == before
    finally:
        gc.enable()


def test_a_broker_that_hangs_leaves_time_for_another(cluster):
    hanging = servers_of(cluster)[2]
    with poller(hanging, requestTimeout="2s") as each:
        assert each.poll().broker == hanging
        cluster.pause(3)
        try:
            results = [each.poll() for _ in range(4)]
        finally:
            cluster.resume(3)
    assert {result.error_kind for result in results} == {None}
    assert hanging not in {result.broker for result in results}
    assert max(result.attempts for result in results) == 2, "it is tried once in four"


def test_another_cluster_under_the_alias_is_a_failed_poll(cluster):
    result = poll(cluster.bootstrap_servers, clusterId="another")
    assert (result.error_kind, result.attempts) == ("wrong_cluster", 1)
    assert f"belongs to cluster {cluster.cluster_id}, clusterId is another" in result.error
    assert result.received_at is not None


def test_too_large_an_answer_is_not_asked_for_again(cluster):
    result = poll(cluster.bootstrap_servers, maxResponseBytes="300")
    assert (result.error_kind, result.attempts) == ("too_large", 1)


def test_asking_for_a_topic_never_creates_it(sasl_ssl_cluster):
    """Not even where brokers create what is asked for."""
    server = sasl_ssl_cluster.bootstrap_servers

    def topics() -> list[str]:
        return poll(server).metadata.topics["topic"].to_pylist()

    before = topics()
    for version in (1, 3, 4, 13):
        asked = poll(server, topics="never-made", metadataVersion=str(version))
        assert asked.error_kind is None
        if version >= 4:
            assert asked.metadata.topics.select(["topic", "error_code"]).to_pylist() == [
                {"topic": "never-made", "error_code": 3}
            ]
    ask_as_old_clients_do(server, "made")
    eventually(lambda: "made" in topics(), "a topic that brokers create")
    assert sorted(topics()) == sorted(["made", *before])
    admin = AdminClient(
        {"bootstrap.servers": server}
    )  # which must live as long as it is waited for
    admin.delete_topics(["made"])["made"].result(30)


def ask_as_old_clients_do(server: str, topic: str) -> None:
    """Ask by name in a version that cannot say that nothing is to be created."""
    given = parse({"kafka.bootstrap.servers": server}).clusters[0]
    deadline = time.monotonic() + 20
    with closing(Connection(given, given.bootstrap_servers[0], deadline)) as connection:
        connection.request(
            METADATA, 1, encode_request(1, [topic]), flexible=False, deadline=deadline
        )


def test_throttling_is_obeyed(cluster):
    until: dict[str, float] = {}
    asked_after_throttling = 0
    with (
        quota(cluster, "throttled-test") as client,
        poller(servers_of(cluster)[0], **client) as each,
    ):
        for _ in range(50):
            result = each.poll()
            assert result.error_kind is None
            if result.broker in until:
                # The broker's time runs from its answer, which left it before it was received here.
                assert result.sent_at.timestamp() >= until[result.broker] - 0.005
                asked_after_throttling += 1
            if result.throttle_time_ms:
                until[result.broker] = (
                    result.received_at.timestamp() + result.throttle_time_ms / 1000
                )
            if asked_after_throttling >= 2:
                break
            time.sleep(0.05)  # until the quota has come to the brokers
    assert asked_after_throttling >= 2


def test_a_wait_for_throttling_comes_before_sending(cluster):
    """A broker throttles what goes before the Metadata request too, on a new connection."""
    waits = 0.0
    with quota(cluster, "throttled-before") as client:
        given = parse({"kafka.bootstrap.servers": servers_of(cluster)[0]} | client).clusters[0]
        for _ in range(50):
            deadline = time.monotonic() + 20
            with closing(Connection(given, given.bootstrap_servers[0], deadline)) as connection:
                begin, wall = time.monotonic(), datetime.now(UTC)
                waits = connection._connection._throttle_time - begin
                answer = connection.request(
                    METADATA, 13, encode_request(13), flexible=True, deadline=deadline
                )
                took = time.monotonic() - begin
            if waits > 0.1:
                break
        assert waits > 0.1
    assert (connection.sent_at - wall).total_seconds() >= waits - 0.005
    assert answer.latency_ms / 1000 <= took - waits + 0.005


@contextmanager
def quota(cluster: LocalCluster, client_id: str) -> Iterator[dict[str, str]]:
    """The option of a client that is throttled."""
    server = servers_of(cluster)[0]
    _set_request_quota(server, client_id, 0.001)
    try:
        yield {"kafka.client.id": client_id}
    finally:
        _set_request_quota(server, client_id, None)


def _set_request_quota(server: str, client_id: str, percentage: float | None) -> None:
    entity, operation = (
        AlterClientQuotasRequest.EntryData.EntityData,
        AlterClientQuotasRequest.EntryData.OpData,
    )
    request = AlterClientQuotasRequest(
        version=1,
        entries=[
            AlterClientQuotasRequest.EntryData(
                version=1,
                entity=[entity(version=1, entity_type="client-id", entity_name=client_id)],
                ops=[
                    operation(
                        version=1,
                        key="request_percentage",
                        value=percentage or 0.0,
                        remove=percentage is None,
                    )
                ],
            )
        ],
        validate_only=False,
    )
    cluster = parse({"kafka.bootstrap.servers": server}).clusters[0]
    deadline = time.monotonic() + 20
    connection = Connection(cluster, cluster.bootstrap_servers[0], deadline)
    answer = connection.request(49, 1, request.encode(), flexible=True, deadline=deadline)
    connection.close()
    assert [
        entry.error_code
        for entry in AlterClientQuotasResponse.decode(answer.body, version=1).entries
    ] == [0]


@pytest.mark.soak
def test_an_older_broker_is_asked_in_its_own_version():
    with LocalCluster(brokers=1, kafka_version="3.9.2") as older:
        result = poll(older.bootstrap_servers)
        assert (result.error_kind, result.api_version, result.elr_version_level) == (None, 12, 0)
        with poller(older.bootstrap_servers) as each:
            about = subject(ENRICHMENTS, each.poll().metadata)
            outcomes = ask_beside(each, about).outcomes
        lacking = outcomes.pop("fenced")
        assert (lacking, set(outcomes.values())) == ("not_supported", {"ok"})
        pinned = poll(older.bootstrap_servers, metadataVersion="13")
        assert (pinned.error_kind, pinned.attempts) == ("unsupported_version", 1)
        assert "has Metadata v0 to v12, metadataVersion pins v13" in pinned.error
