"""What is asked beside metadata, of a real cluster: against what was done to it. Who may ask:
test_permissions.py.
"""

import time

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from local_cluster.controllers import active_controller
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.poller import Poller
from metadata_source.questions import Question
from metadata_source.transport import Connection
from tests.support.beside import Beside, ask_beside
from tests.support.waiting import eventually

TOPIC = "enrichment-test"
MOVED = "enrichment-test-moved"
DEFAULTS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


@pytest.fixture(scope="module")
def topics(cluster, made_topic):
    """One that has eligible leaders as soon as a broker is down, and one of a single replica."""
    config = {"min.insync.replicas": "3", "unclean.leader.election.enable": "true"}
    with (
        made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3, config=config),
        made_topic(cluster.bootstrap_servers, MOVED, 1, replica_assignment=[[1]]) as admin,
    ):
        yield admin


def ask(servers: str, *kinds: str, **more: str) -> Beside:
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": "8s"} | more)
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as each:
        poll = each.poll()
        assert poll.error_kind is None, poll.error
        assert poll.active_controller_id is None, "Metadata names any live broker"
        about = subject(kinds or ENRICHMENTS, poll.metadata)
        return ask_beside(each, about)


def by_topic(enrichment: Beside, kind: str) -> dict[str, object]:
    assert enrichment.outcomes[kind] == "ok", enrichment.outcomes
    rows = enrichment.rows[kind]
    return dict(zip(rows.topics, rows.values, strict=True))


def one(enrichment: Beside, kind: str):
    assert enrichment.outcomes[kind] == "ok", enrichment.outcomes
    (value,) = enrichment.rows[kind].values
    return value


def test_configs_are_the_effective_ones(cluster, topics):
    for server in cluster.bootstrap_servers.split(","):
        answered = ask(server, "configs", topicsPattern=f"{TOPIC}.*")
        configs = {name: dict(values) for name, values in by_topic(answered, "configs").items()}
        assert {
            topic: {name: each["value"] for name, each in of.items()}
            for topic, of in configs.items()
        } == {
            TOPIC: {"min.insync.replicas": "3", "unclean.leader.election.enable": "true"},
            MOVED: DEFAULTS,
        }
        assert {each["source"] for each in configs[TOPIC].values()} == {"DYNAMIC_TOPIC_CONFIG"}
        # With ELR the controllers keep the least of replicas in sync for all brokers (KIP-966).
        sources = {name: each["source"] for name, each in configs[MOVED].items()}
        assert sources["min.insync.replicas"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        assert sources["unclean.leader.election.enable"] in {
            "STATIC_BROKER_CONFIG",
            "DEFAULT_CONFIG",
        }


def test_every_broker_knows_the_active_controller(cluster):
    for server in cluster.bootstrap_servers.split(","):
        answered = ask(server, "quorum")
        quorum = one(answered, "quorum")
        assert (quorum["leader_epoch"], quorum["leader_id"]) == active_controller(cluster)
        assert (sorted(quorum["voters"]), quorum["observers"]) == ([1, 2, 3], [])
        (replicas,) = answered.rows["quorum"].beside["quorum_replicas"]
        told = [(each["replica_id"], each["is_voter"], each["is_behind"]) for each in replicas]
        assert told == [(n, True, False) for n in (1, 2, 3)]
        assert all(each["log_end_offset"] > 0 and each["last_caught_up_at"] for each in replicas)


def test_a_controller_that_hangs_is_behind(cluster):
    _, active = active_controller(cluster)
    other = next(n for n in (1, 2, 3) if n != active)
    server = cluster.bootstrap_servers.split(",")[active - 1]
    cluster.pause(other)
    try:
        eventually(
            lambda: ask(server, "quorum").rows["quorum"].stands_out == ([other, True],), within=30
        )
    finally:
        cluster.resume(other)
    eventually(lambda: ask(server, "quorum").rows["quorum"].stands_out == (), within=30)


def reassign(server: str, topic: str, replicas: list[int]) -> None:
    request = AlterPartitionReassignmentsRequest
    moved = request.ReassignableTopic
    partition = moved.ReassignablePartition(partition_index=0, replicas=replicas)
    deadline = time.monotonic() + 20
    cluster = parse({"kafka.bootstrap.servers": server}).clusters[0]
    connection = Connection(cluster, cluster.bootstrap_servers[0], deadline)
    fields = {"timeout_ms": 10_000, "topics": [moved(name=topic, partitions=[partition])]}
    answer = Question(request, fields, highest=0).ask(connection, deadline)
    connection.close()
    assert [part.error_code for each in answer.responses for part in each.partitions] == [0]


def test_a_stopped_broker_is_fenced_eligible_and_awaited_by_a_reassignment(cluster, topics):
    servers = cluster.bootstrap_servers.split(",")
    host, port = servers[2].rsplit(":", 1)
    before = ask(servers[0], topicsPattern=f"{TOPIC}.*")
    assert (by_topic(before, "reassignments"), by_topic(before, "elr"), one(before, "fenced")) == (
        {},
        {},
        [],
    )
    cluster.stop(3)
    try:
        reassign(servers[0], MOVED, [1, 3])
        eventually(lambda: by_topic(ask(servers[1], "elr"), "elr").keys() == {TOPIC}, within=30)
        for server in servers[:2]:
            answered = ask(server, topicsPattern=f"{TOPIC}.*")
            assert by_topic(answered, "elr") == {
                TOPIC: [{"partition": n, "elr": [3], "last_known_elr": []} for n in (0, 1)]
            }
            assert one(answered, "fenced") == [
                {"broker_id": 3, "host": host, "port": int(port), "rack": "c"}
            ]
            assert by_topic(answered, "reassignments") == {
                MOVED: [{"partition": 0, "adding": [3], "removing": []}]
            }
            assert by_topic(ask(server, "reassignments", topics=TOPIC), "reassignments") == {}
            quorum = one(answered, "quorum")
            assert (quorum["leader_epoch"], quorum["leader_id"]) == active_controller(cluster)
    finally:
        cluster.start(3)

    def well() -> bool:
        after = ask(servers[0], topicsPattern=f"{TOPIC}.*")
        return (by_topic(after, "reassignments"), by_topic(after, "elr"), one(after, "fenced")) == (
            {},
            {},
            [],
        )

    eventually(well, within=30)
