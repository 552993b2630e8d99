"""librdkafka's mock cluster, polled and checked: a server that answers in its own way, and no crash
comes of it.
"""

import json
import socket

import pytest

from kafka_metadata_history.check import Checked, checked, lines
from metadata_source.options import parse
from metadata_source.poller import Poll, Poller
from metadata_source.probes import NO_LOG
from tests.support.mock_cluster import mock_cluster

TOPICS = {"orders": 4, "payments": 1}


def polled(servers: str, **more: str) -> Poll:
    options = parse({"kafka.bootstrap.servers": servers} | more)
    with Poller(options.clusters[0], options.topic_filter, 5_000) as poller:
        return poller.poll()


def check(servers: str, **more: str) -> Checked:
    clusters = {"mock": {"kafka.bootstrap.servers": servers} | more}
    (found,) = checked(
        parse({"clusters": json.dumps(clusters), "enrich": "configs,groups"}, "stream"),
        read=["groupLog"],
    )
    return found


def test_flexible_metadata_with_a_byte_too_many_is_refused_by_name_and_an_older_version_is_polled():
    """Kafka has no such byte: a decoder that passed over it would pass over a field that it does
    not know, too.
    """
    with mock_cluster(TOPICS) as servers:
        found = polled(servers)
        assert found.error_kind == "protocol"
        assert found.error.count("MetadataResponse v13: end of message at byte ") == 3, (
            "each broker is asked"
        )
        assert found.error.count(": 1 bytes are left over (read 00)") == 3
        told = list(lines(check(servers), whole=False))
        assert told[0].startswith("mock: failed: protocol: 127.0.0.1:")
        assert "try `metadataVersion: 8`" in told[1]
        assert polled(servers, metadataVersion="8").error_kind is None


def test_metadata_that_is_as_kafkas_is_polled_and_each_odd_answer_is_one_line():
    with mock_cluster(TOPICS, last_metadata=8) as servers:
        found = polled(servers)
        assert (found.error_kind, found.attempts, found.api_version) == (None, 1, 8)
        assert found.cluster_id.startswith("mockCluster")
        assert found.metadata.brokers["broker_id"].to_pylist() == [1, 2, 3]
        counts = zip(
            *found.metadata.topics.select(["topic", "partition_count"]).to_pydict().values(),
            strict=True,
        )
        assert dict(counts) == TOPICS
        seen = check(servers)
        assert (seen.problem, seen.missing, seen.is_good) == (None, [], True)
        polled_line, *rest = lines(seen, whole=False)
        assert polled_line.startswith("mock: polled in ")
        answers = dict(line.strip().split(": ", 1) for line in rest)
        assert answers["rebalance history"] == NO_LOG
        assert "has no DescribeConfigsRequest for it" in answers["min ISR"]
        assert set(answers) == {"rebalance history", "min ISR", "consumer groups"}
        assert not [line for line in lines(seen, whole=True) if "needs DESCRIBE_CONFIGS" in line]


def test_sasl_that_a_server_does_not_have_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MOCK_PASSWORD", "secret")
    security = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    user = {"kafka.sasl.username": "eve", "kafka.sasl.password": "env:MOCK_PASSWORD"}
    with mock_cluster(TOPICS, last_metadata=8) as servers:
        found = polled(servers.split(",")[0], **security, **user)
    assert found.error_kind == "authentication"
    assert found.error.endswith(
        "this server has no SASL: set kafka.security.protocol to PLAINTEXT or SSL"
    )


def test_a_mock_cluster_that_is_gone_is_unreachable():
    with mock_cluster(TOPICS) as servers:
        host, _, port = servers.split(",")[0].rpartition(":")
        socket.create_connection((host, int(port))).close()
    assert polled(servers, requestTimeout="1s").error_kind == "unreachable"
