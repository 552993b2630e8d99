"""What `check` says of real clusters: in good health, with a broker down, and to a user who may ask
little.
"""

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kafka_metadata_history.command import exit_status
from local_cluster import LocalCluster
from tests.support.waiting import eventually

TOPIC = "check-test"
PRINCIPAL = "User:alice"


@pytest.fixture(scope="module")
def topic(cluster, made_topic):
    with made_topic(
        cluster.bootstrap_servers,
        TOPIC,
        6,
        replication_factor=3,
        config={"min.insync.replicas": "2"},
    ):
        yield TOPIC


def check(capsys, bootstrap: str, config: Path | None = None) -> tuple[int, str, str]:
    status = exit_status(
        ["check", "--bootstrap", bootstrap, *(["--client", str(config)] if config else [])]
    )
    return status, *capsys.readouterr()


def line(output: str, start: str) -> list[str]:
    (found,) = (text for text in output.splitlines() if text.strip().startswith(start))
    return found.split()


def topic_config(folder: Path, **more: str) -> Path:
    config = folder / "client.yaml"
    config.write_text(
        "".join(f"{name}: {value}\n" for name, value in {"topics": TOPIC, **more}.items())
    )
    return config


def once(capsys, cluster: LocalCluster, config: Path, text: str) -> str:
    """Await a text in the output of the check; return the output."""

    def output() -> str:
        printed = check(capsys, cluster.bootstrap_servers, config)[1]
        return printed if text in printed else ""

    return eventually(output, text)


def test_health_and_a_stopped_broker(cluster, topic, tmp_path, capsys):
    config = topic_config(tmp_path)
    healthy = once(capsys, cluster, config, "1 topic, 6 partitions")
    assert cluster.cluster_id in healthy
    assert [
        line(healthy, name)[-1]
        for name in ("offline", "under min", "at min", "under-rep", "not led by")
    ] == ["0"] * 5
    # Leaders spread over three brokers, six partitions on each.
    assert [line(healthy, f"{broker}  127.0.0.1:")[2:] for broker in (1, 2, 3)] == [
        [rack, "2", "2", "6"] for rack in "abc"
    ]
    assert "in trouble" not in healthy
    assert "kind kafka: Apache Kafka" in healthy
    assert "missing" not in healthy
    assert "counts of leader changes: exact" in healthy
    assert "migrating" not in healthy
    assert line(healthy, "controller quorum")[-1] == "allowed"
    cluster.stop(2)
    try:
        down = once(capsys, cluster, config, "in trouble")
    finally:
        cluster.start(2)
    assert "not listed: down or fenced" in down
    assert "warning" not in healthy + down
    assert [
        line(down, name)[-1]
        for name in ("offline", "under min", "at min", "under-rep", "not led by")
    ] == ["0", "0", "6", "6", "2"]
    assert line(down, TOPIC) == [TOPIC, "0", "0", "6", "6", "2"]


def secure_config(cluster: LocalCluster, folder: Path, monkeypatch, password: str) -> Path:
    monkeypatch.setenv("LOOK_TEST_PASSWORD", password)
    options = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:LOOK_TEST_PASSWORD",
        "kafka.ssl.ca.location": str(cluster.sasl_ssl.ca_file),
    }
    config = folder / "secure.yaml"
    config.write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
    return config


def test_missing_permissions_are_named(guarded, tmp_path, monkeypatch, capsys):
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    config = secure_config(guarded, tmp_path, monkeypatch, guarded.sasl_ssl.users["alice"])
    status, output, errors = check(capsys, guarded.sasl_ssl.bootstrap_servers, config)
    assert (status, errors) == (0, "")
    assert "no topics: an empty cluster, or none that this user may see" in output
    for feature, needs in {
        "reassignments": "DESCRIBE on the cluster",
        "controller quorum": "DESCRIBE on the cluster",
        "consumer groups": "DESCRIBE on the groups",
        "rebalance history": "READ on topic __consumer_offsets",
        "transactions": "READ on topic __transaction_state",
        "open transactions": "DESCRIBE on the transactional ids",
        "hanging transactions": "READ on the topics",
        "log directories": "DESCRIBE on the cluster",
    }.items():
        assert " ".join(line(output, f"{feature}  ")).endswith(f"missing: {needs}"), output
    for acl in (
        "Read --topic __consumer_offsets",
        "Read --topic __transaction_state",
        "Describe --transactional-id '*'",
        "Read --topic '*'",
        "Describe --cluster",
    ):
        assert f"--add --allow-principal User:alice --operation {acl}" in output

    def allow(kind: ResourceType, name: str, operation: AclOperation) -> None:
        acl = AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            PRINCIPAL,
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        admin.create_acls([acl])[acl].result(30)

    allow(ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE)
    allow(ResourceType.TOPIC, "__consumer_offsets", AclOperation.READ)
    allow(ResourceType.GROUP, "*", AclOperation.DESCRIBE)
    output = check(capsys, guarded.sasl_ssl.bootstrap_servers, config)[1]
    assert "1 topic, 1 partition" in output
    assert line(output, "under min ISR")[3] == line(output, "at min ISR")[3] == "unknown"
    assert "missing: DESCRIBE_CONFIGS on 1 of 1 topics" in output
    assert line(output, "consumer groups")[-1] == "allowed"
    assert "nothing to read: there is no topic __consumer_offsets" in output
    assert "missing: DESCRIBE on the cluster" in output
    allow(ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE_CONFIGS)
    allow(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    allow(ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE)
    allow(ResourceType.TOPIC, "*", AclOperation.READ)
    assert "missing" not in check(capsys, guarded.sasl_ssl.bootstrap_servers, config)[1]
    # Questions make nothing: reading permission on a topic that does not exist is known without it.
    assert set(admin.list_topics(timeout=10).topics) == {TOPIC}


def test_an_unreachable_broker_and_a_wrong_password_are_one_line(
    guarded, tmp_path, monkeypatch, capsys
):
    status, output, errors = check(capsys, "127.0.0.1:1")
    assert (status, output, errors) == (
        3,
        "127.0.0.1:1: failed: unreachable: 127.0.0.1:1: connection refused\n",
        "",
    )
    config = secure_config(guarded, tmp_path, monkeypatch, "wrong")
    status, output, errors = check(capsys, guarded.sasl_ssl.bootstrap_servers, config)
    assert (status, errors) == (3, "")
    assert ": failed: authentication: " in output
    assert output.count("\n") == 1
    assert "wrong" not in output
