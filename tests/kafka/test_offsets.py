"""A real cluster answers for the offsets of groups as it answers an admin client."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from local_cluster import LocalCluster
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.beside import Beside, ask_beside
from tests.support.topics import write
from tests.support.waiting import eventually

TOPIC, GONE = "offsets-test", "offsets-test-gone"
GROUPS = ("offsets-classic", "offsets-consumer", "offsets-simple")
PARTITIONS = 3
STILL = 2
"""A partition to which nobody writes any more."""


def ask(servers: str, between: Callable[[], Any] = lambda: None) -> Beside:
    """Poll, call `between`, then ask for offsets."""
    options = parse(
        {
            "kafka.bootstrap.servers": servers,
            "groupsPattern": "offsets-.*",
            "enrich": "groups,offsets",
        }
    )
    polling = options.polling["default"]
    with Poller(options.clusters[0], options.topic_filter, 30_000) as each:
        poll = each.poll()
        assert poll.metadata is not None, poll.error
        between()
        about = subject(polling.enrich, poll.metadata, options.topic_filter, options.groups_pattern)
        return ask_beside(each, about, 30_000)


def told(enrichment: Beside) -> list[dict[str, Any]]:
    assert "offsets" in enrichment.rows, enrichment.outcomes
    return [each for row in enrichment.rows["offsets"].values.to_pylist() for each in row]


def consume(servers: str, group: str, protocol: str, committed: int) -> Consumer:
    """A member of a group that reads all and commits one offset for each partition."""
    own = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        | own
    )
    reader.subscribe([TOPIC])

    def has_all() -> bool:
        reader.poll(0.1)
        return len(reader.assignment()) == PARTITIONS

    eventually(has_all)
    reader.commit(
        offsets=[TopicPartition(TOPIC, n, committed + n) for n in range(PARTITIONS)],
        asynchronous=False,
    )
    return reader


@pytest.fixture
def groups(cluster: LocalCluster, made_topic: Any) -> Iterator[AdminClient]:
    servers = cluster.bootstrap_servers
    with made_topic(servers, TOPIC, PARTITIONS, replication_factor=3) as admin:
        write(servers, TOPIC, *range(PARTITIONS))
        admin.delete_records([TopicPartition(TOPIC, 0, 3)])[TopicPartition(TOPIC, 0)].result(30)
        readers = [
            consume(servers, group, group.removeprefix("offsets-"), n + 3)
            for n, group in enumerate(GROUPS[:2])
        ]
        simple = [TopicPartition(TOPIC, STILL, 10, "anything")]
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("offsets-simple", simple)]
        )["offsets-simple"].result(30)
        yield admin
        for reader in readers:
            reader.close()
        for group in GROUPS:
            eventually(lambda group=group: deleted(admin, group))


def deleted(admin: AdminClient, group: str) -> bool:
    error = admin.delete_consumer_groups([group])[group].exception(30)
    return error is None or "GROUP_ID_NOT_FOUND" in str(error)


def as_an_admin_says(admin: AdminClient) -> set[tuple[Any, ...]]:
    """Group, partition, committed offset, first offset and end."""
    partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
    first, end = (
        {
            each.partition: future.result(30).offset
            for each, future in admin.list_offsets(dict.fromkeys(partitions, spec)).items()
        }
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    found = set()
    for group in GROUPS:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[
            group
        ].result(30)
        for each in asked.topic_partitions:
            found.add(
                (group, each.partition, each.offset, first[each.partition], end[each.partition])
            )
    return found


def of_topic(rows: list[dict[str, Any]], topic: str = TOPIC) -> set[tuple[Any, ...]]:
    names = ("group_id", "partition", "committed_offset", "log_start", "log_end")
    return {tuple(each[name] for name in names) for each in rows if each["topic"] == topic}


def test_offsets_are_those_that_an_admin_client_is_told(
    cluster: LocalCluster, groups: AdminClient
) -> None:
    for server in cluster.bootstrap_servers.split(","):
        enrichment = ask(server)
        rows = told(enrichment)
        assert of_topic(rows) == as_an_admin_says(groups)
        assert {each["error"] for each in rows} == {None}
        assert enrichment.outcomes["offsets"] == "ok"
    assert ("offsets-classic", 0, 3, 3, 10) in of_topic(rows)
    assert ("offsets-consumer", STILL, 6, 0, 10) in of_topic(rows)
    assert ("offsets-simple", STILL, 10, 0, 10) in of_topic(rows), "a group that only commits"

    write(cluster.bootstrap_servers, TOPIC, 0, 1, records=5)
    rows = told(ask(cluster.bootstrap_servers))
    assert of_topic(rows) == as_an_admin_says(groups)
    assert {each["log_end"] for each in rows if each["topic"] == TOPIC} == {15, 10}
    for each in rows:
        times = [
            each[f"{what}_read_{bound}"]
            for what in ("commit", "ends")
            for bound in ("after", "before")
        ]
        assert times == sorted(times)


def test_groups_and_topics_that_are_gone(
    cluster: LocalCluster, groups: AdminClient, made_topic: Any
) -> None:
    servers = cluster.bootstrap_servers
    assert deleted(groups, "offsets-simple")
    rows = told(ask(servers))
    assert {each["group_id"] for each in rows} == set(GROUPS[:2])
    assert of_topic(rows) == {row for row in as_an_admin_says(groups) if row[0] != "offsets-simple"}

    with made_topic(servers, GONE, 1, replication_factor=3):
        commits = [TopicPartition(GONE, 0, 7)]
        groups.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("offsets-simple", commits)]
        )["offsets-simple"].result(30)
        assert of_topic(told(ask(servers)), GONE) == {("offsets-simple", 0, 7, 0, 0)}
        groups.delete_topics([GONE])[GONE].result(30)
        seen = set()
        # Brokers take leave of it one after the other; the coordinator removes the commits when it
        # hears of it.
        eventually(lambda: not (now := of_topic(told(ask(servers)), GONE)) or seen.update(now))
        assert seen <= {("offsets-simple", 0, 7, None, None), ("offsets-simple", 0, 7, 0, 0)}, (
            "never a guess"
        )
        groups.create_topics([NewTopic(GONE, 1)])[GONE].result(30)
