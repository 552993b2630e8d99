"""Open transactions of a real cluster: one that its producer leaves open, one that hangs since its
records came without the coordinator, and a group that waits for both.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local_cluster import LocalCluster
from metadata_source import transactions
from metadata_source.asking import Asking
from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.beside import beside
from tests.support.waiting import eventually
from truth.transactions import hanging
from truth.transactions.hanging import PRODUCER_ID, write_alone

TOPIC, ID, GROUP = "open-transactions-test", "open-transactions-test-app", "open-transactions-test"
KNOWN, HANGS = 0, 1
"""Partitions."""


@pytest.fixture
def topic(
    cluster: LocalCluster, made_topic: Callable[..., AbstractContextManager[AdminClient]]
) -> Iterator[AdminClient]:
    with made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3) as admin:
        yield admin


@pytest.fixture
def unverified(topic: AdminClient) -> Iterator[None]:
    with hanging.unverified(topic, brokers=3):
        yield


@pytest.fixture
def poller(cluster: LocalCluster) -> Iterator[Poller]:
    options = parse(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, "requestTimeout": "8s"}, "batch"
    )
    made = Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms)
    with made as each:
        yield each


def leave_open(servers: str) -> Producer:
    """Write a record in a transaction, and none after it."""
    made = Producer({"bootstrap.servers": servers, "transactional.id": ID})
    made.init_transactions(30)
    made.begin_transaction()
    made.produce(TOPIC, b"v", partition=KNOWN)
    made.flush(30)
    return made


def read_from_the_start(servers: str) -> None:
    """Commit the first offset of both partitions: the group is behind on both."""
    member = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    first = [TopicPartition(TOPIC, number, 0) for number in (KNOWN, HANGS)]
    member.commit(offsets=first, asynchronous=False)
    member.close()


def asked(poller: Poller, asking: Asking) -> dict[str, list[dict[str, Any]]]:
    """What both questions tell of the topic."""
    metadata = poller.poll().metadata
    assert metadata is not None
    assert poller.answerer is not None
    about = subject(("offsets", "transactions"), metadata)
    answers = beside(asking.answers(about, poller.answerer))
    assert answers.outcomes == {"offsets": "ok", "transactions": "ok"}
    return {
        kind: [
            each
            for row in pa.array(rows.values, POLLS.field(kind).type).to_pylist()
            for each in row
        ]
        for kind, rows in answers.rows.items()
    }


def test_a_transaction_is_told_by_its_coordinator_and_one_that_hangs_by_the_leader(
    cluster: LocalCluster, unverified: None, poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LONG", timedelta(seconds=1))
    monkeypatch.setattr(transactions, "_LISTED_AFTER_MS", 1_000)
    servers = cluster.bootstrap_servers
    writer = leave_open(servers)
    with closing(poller.asking(8_000)) as asking:
        eventually(lambda: write_alone(poller, asking, (TOPIC, HANGS)) == 0, "the batch is taken")
        found: dict[tuple[bool, str], dict[str, Any]] = {}

        def both() -> bool:
            told = asked(poller, asking)
            found.clear()
            for each in told["transactions"]:
                partitions = [
                    place for place in each["partitions"] or () if place["topic"] == TOPIC
                ]
                if partitions:
                    found[each["is_hanging"], each["transactional_id"]] = each
            return len(found) == 2

        # No group is behind there: all partitions are looked at.
        eventually(both, "both transactions")
        read_from_the_start(servers)
        known, hangs = found[False, ID], found[True, None]
        assert (known["state"], known["error"], known["producer_epoch"]) == ("Ongoing", None, 0)
        assert known["partitions"] == [{"topic": TOPIC, "partition": KNOWN}]
        assert (known["timeout_ms"], known["coordinator"] is None) == (60_000, False)
        assert (hangs["producer_id"], hangs["producer_epoch"]) == (PRODUCER_ID, 0)
        assert hangs["partitions"] == [{"topic": TOPIC, "partition": HANGS}]
        assert hangs["start_offset"] == 0
        offsets = {
            each["partition"]: (each["last_stable"], each["log_end"])
            for each in asked(poller, asking)["offsets"]
            if each["group_id"] == GROUP
        }
        assert offsets == {KNOWN: (0, 1), HANGS: (0, 1)}

        writer.abort_transaction(30)
        eventually(lambda: not both() and (False, ID) not in found, "the known one is over")
        assert found.keys() == {(True, None)}
