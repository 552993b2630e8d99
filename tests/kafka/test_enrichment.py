"""What is asked beside metadata, of a real cluster: against what was done to it. Who may ask: test_permissions.py."""

import json
import time
from collections.abc import Callable
from contextlib import contextmanager

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from local_cluster import LocalCluster
from local_cluster.controllers import active_controller
from metadata_source import poller as poller_module
from metadata_source.datasource import _read_on_schedule, _tasks
from metadata_source.enrichment import Rows, subject
from metadata_source.options import parse
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.poller import Poller
from metadata_source.questions import Question
from metadata_source.schedule import Offset, plan
from metadata_source.transport import Connection
from tests.support.beside import Beside, beside, outcomes_of

TOPIC = "enrichment-test"
MOVED = "enrichment-test-moved"
DEFAULTS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    monkeypatch.setattr(poller_module, "_memories", {})


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
        about = subject(kinds or ENRICHMENTS, poll.metadata)
        return beside(each.ask_beside(about, float("inf")))


def by_topic(enrichment: Beside, kind: str) -> dict[str, object]:
    assert enrichment.outcomes[kind] == "ok", enrichment.outcomes
    rows = enrichment.rows[kind]
    return dict(zip(rows.topics, rows.values, strict=True))


def one(enrichment: Beside, kind: str):
    assert enrichment.outcomes[kind] == "ok", enrichment.outcomes
    (value,) = enrichment.rows[kind].values
    return value


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_configs_are_the_effective_ones(cluster, topics):
    for server in cluster.bootstrap_servers.split(","):
        answered = ask(server, "configs", topicsPattern=f"{TOPIC}.*")
        configs = {name: dict(values) for name, values in by_topic(answered, "configs").items()}
        assert {topic: {name: each["value"] for name, each in of.items()} for topic, of in configs.items()} == {
            TOPIC: {"min.insync.replicas": "3", "unclean.leader.election.enable": "true"},
            MOVED: DEFAULTS,
        }
        assert {each["source"] for each in configs[TOPIC].values()} == {"DYNAMIC_TOPIC_CONFIG"}
        # With ELR the controllers keep the least of replicas in sync for all brokers (KIP-966).
        sources = {name: each["source"] for name, each in configs[MOVED].items()}
        assert sources["min.insync.replicas"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        assert sources["unclean.leader.election.enable"] in {"STATIC_BROKER_CONFIG", "DEFAULT_CONFIG"}


def test_every_broker_knows_the_active_controller(cluster):
    for server in cluster.bootstrap_servers.split(","):
        quorum = one(ask(server, "quorum"), "quorum")
        assert (quorum["leader_epoch"], quorum["leader_id"]) == active_controller(cluster)
        assert (sorted(quorum["voters"]), quorum["observers"]) == ([1, 2, 3], [])


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
    assert (by_topic(before, "reassignments"), by_topic(before, "elr"), one(before, "fenced")) == ({}, {}, [])
    cluster.stop(3)
    try:
        reassign(servers[0], MOVED, [1, 3])
        until(lambda: by_topic(ask(servers[1], "elr"), "elr").keys() == {TOPIC})
        for server in servers[:2]:
            answered = ask(server, topicsPattern=f"{TOPIC}.*")
            assert by_topic(answered, "elr") == {
                TOPIC: [{"partition": n, "elr": [3], "last_known_elr": []} for n in (0, 1)]
            }
            assert one(answered, "fenced") == [{"broker_id": 3, "host": host, "port": int(port), "rack": "c"}]
            assert by_topic(answered, "reassignments") == {MOVED: [{"partition": 0, "adding": [3], "removing": []}]}
            assert by_topic(ask(server, "reassignments", topics=TOPIC), "reassignments") == {}
            quorum = one(answered, "quorum")
            assert (quorum["leader_epoch"], quorum["leader_id"]) == active_controller(cluster)
    finally:
        cluster.start(3)

    def well() -> bool:
        after = ask(servers[0], topicsPattern=f"{TOPIC}.*")
        return (by_topic(after, "reassignments"), by_topic(after, "elr"), one(after, "fenced")) == ({}, {}, [])

    until(well)


def test_a_lost_quorum_takes_no_poll_its_time(cluster, topics):
    """Brokers answer Metadata themselves, and wait for the active controller with what they forward."""
    _, active = active_controller(cluster)
    asked = active % 3 + 1
    options = parse(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers.split(",")[asked - 1],
            "pollInterval": "2s",
            "pollsPerBatch": "6",
            "topics": TOPIC,
            "enrich": "quorum=4s,reassignments=2s,fenced=2s",
        }
    )
    with paused(cluster, *({1, 2, 3} - {asked})):
        (task,) = _tasks(options, plan(Offset(), time.time_ns() // 1_000_000, options.beat_ms, 6, {}))
        rows = [row for batch in _read_on_schedule(task) for row in batch.to_pylist()]
    headers = [row for row in rows if row["record"] == "poll"]
    assert [row["error_kind"] for row in headers] == [None] * 6, json.dumps(headers, default=str)
    late = [(row["sent_at"] - row["scheduled_at"]).total_seconds() for row in headers]
    assert max(late) < 0.4
    said = list(outcomes_of(rows).values())
    assert len(said) == len(headers)
    assert {each["fenced"] for each in said} == {"ok"}
    # One of the two takes all of the time: they take turns.
    for kind in ("reassignments", "quorum"):
        timed_out = [each[kind].startswith("failed: 127.0.0.1:") for each in said]
        assert 2 <= sum(timed_out) <= 4, said
        assert {each[kind] for each, was_asked in zip(said, timed_out, strict=True) if not was_asked} == {
            "failed: put off: no time is left before the next poll"
        }


@contextmanager
def paused(cluster: LocalCluster, *nodes: int):
    for node in nodes:
        cluster.pause(node)
    try:
        yield
    finally:
        for node in nodes:
            cluster.resume(node)
    # The quorum is whole again, and whoever was fenced meanwhile is not any more.
    for server in cluster.bootstrap_servers.split(","):
        until(lambda server=server: ask(server, "quorum", "fenced").rows.get("fenced") == Rows([[]]))
        until(lambda server=server: ask(server, "quorum").outcomes == {"quorum": "ok"})
