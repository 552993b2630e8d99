"""The rules of a loss foretell the effects of a stop, and of a kill, of a real broker."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_metadata_history.answers.whatif.asked import state_of
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes
from kafka_metadata_history.answers.whatif.rules import WhatIf, what_if
from kafka_metadata_history.answers.whatif.state import Cluster
from kafka_metadata_history.answers.whatif.verdict import ACCEPTABLE
from kafka_metadata_history.command import exit_status
from local_cluster import LocalCluster
from metadata_source.kinds import KAFKA
from metadata_source.now import ask_now
from metadata_source.options import parse
from tests.support.waiting import eventually

MIN_ISR = {"two": "2", "all": "3", "alone": "1"}
"""Topic -> min.insync.replicas. `alone` has one replica in each partition."""
PARTITIONS = 6


class Standing(NamedTuple):
    """Of a partition: its leader, and whether it is offline or under min ISR."""

    leader: int | None
    offline: bool | None
    under_min_isr: bool | None


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, kafka_version=request.param) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        new = [
            NewTopic(
                name, PARTITIONS, 1 if name == "alone" else 3, config={"min.insync.replicas": n}
            )
            for name, n in MIN_ISR.items()
        ]
        for made in admin.create_topics(new).values():
            made.result(30)
        yield started


def state(cluster: LocalCluster) -> tuple[Cluster, list[str]]:
    (given,) = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers}).clusters
    return state_of("local", KAFKA, ask_now(given, 10_000))


def foretold(found: WhatIf) -> dict[str, Standing]:
    return {
        each.of.name: Standing(each.election.leader, each.after.offline, each.after.under_min_isr)
        for each in found.effects
    }


def stands(of: Cluster, names: Any) -> dict[str, Standing]:
    """How these partitions stand, by what brokers say afterwards."""
    found = {}
    for each in of.partitions:
        if each.name in names:
            assert each.isr is not None
            assert each.min_isr is not None
            is_offline = each.leader == -1
            is_under = not is_offline and len(each.isr) < each.min_isr
            found[each.name] = Standing(each.leader, is_offline, is_under)
    return found


def may_stop(cluster: LocalCluster, *arguments: str) -> int:
    return exit_status(["may-stop", "--bootstrap", cluster.bootstrap_servers, *arguments])


def writes(cluster: LocalCluster, topic: str, partition: int) -> bool:
    """Whether acks=all is answered."""
    settings = {"acks": "all", "message.timeout.ms": 4_000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers} | settings)
    good: list[bool] = []

    def done(error: object, _: object) -> None:
        good.append(error is None)

    producer.produce(topic, b"x", partition=partition, on_delivery=done)
    assert producer.flush(20) == 0
    return good == [True]


@pytest.mark.soak
@pytest.mark.parametrize(("way", "broker"), [("stop", 2), ("kill", 3)])
def test_a_loss_does_as_was_said(
    cluster: LocalCluster, way: str, broker: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # RF 1, and RF 3 with min ISR 3, are hurt by any stop.
    accept = ("--accept", "rf1,rf-at-most-min-isr")
    assert may_stop(cluster, str(broker), *accept, "--wait", "2m") == 0, capsys.readouterr()
    assert may_stop(cluster, str(broker)) == 3
    before, lacks = state(cluster)
    assert lacks == []
    found = what_if(before, loss_of_nodes(before, [broker]))
    said = foretold(found)
    kinds = {(name.rpartition("-")[0], each[1:]) for name, each in said.items()}
    assert kinds >= {
        ("two", (False, False)),
        ("all", (False, True)),
        ("alone", (True, False)),
    }
    assert any(each.moves for each in found.effects)
    getattr(cluster, way)(broker)
    try:
        eventually(lambda: stands(state(cluster)[0], said) == said, lambda: f"{said}")
        hurt = {name: each for name, each in said.items() if each.under_min_isr}
        topic, _, number = min(hurt).rpartition("-")
        assert not writes(cluster, topic, int(number))
        assert writes(cluster, "two", 0)
        # The next one would take the quorum, and topic `two` under min ISR.
        other = 1 if broker != 1 else 2
        assert may_stop(cluster, str(other), "--accept", ",".join(ACCEPTABLE)) == 3
    finally:
        cluster.start(broker)
