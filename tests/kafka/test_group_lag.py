"""Lag of real groups, as polls ask for it: what happens to a group on a real cluster makes the rows
that it should.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as Partition

from jobs.rules.groups.fold_lag import OFFSET_COLUMNS, told_of
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Memory, Visit, fold
from jobs.rules.groups.state import to_micros
from local_cluster import LocalCluster
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.beside import ask_beside
from tests.support.topics import write
from tests.support.waiting import eventually

Row = dict[str, Any]
TOPIC, OTHER = "lag-test", "lag-test-gone"
CONSUMER, SIMPLE = "lag-consumer", "lag-simple"
MINUTE = 60_000_000


class Visits:
    """Visits of a cluster, one after the other, a minute apart, and what they make of each
    group.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._before: Visit | None = None
        self._memories: dict[str, Memory] = {}
        self._live: dict[str, Row] = {}
        self.rows: dict[str, list[Row]] = {CONSUMER: [], SIMPLE: []}
        self.removed: dict[str, list[Row]] = {CONSUMER: [], SIMPLE: []}

    def take(self) -> dict[str, Row]:
        """Ask all groups; returns the live rows afterwards."""
        options = parse(
            {
                "kafka.bootstrap.servers": self._servers,
                "groupsPattern": "lag-.*",
                "enrich": "offsets",
            }
        )
        enrich = options.polling["default"].enrich
        with Poller(options.clusters[0], options.topic_filter, 30_000) as each:
            poll = each.poll()
            assert poll.metadata is not None, poll.error
            about = subject(enrich, poll.metadata, options.topic_filter, options.groups_pattern)
            answered = ask_beside(each, about, 30_000)
        assert answered.outcomes["offsets"].startswith("ok"), answered.outcomes
        assert poll.received_at is not None
        number = 0 if self._before is None else int(self._before.poll) + 1
        seen = to_micros(poll.received_at)
        visit = Visit(
            f"{number:012}", number * MINUTE, seen, seen + 30_000_000, None, options.groups_pattern
        )
        structs = pa.concat_arrays([answered.rows["offsets"].values.flatten()])
        table = pa.Table.from_struct_array(structs)
        said = told_of(
            table.append_column("poll_id", pa.array([visit.poll] * len(table), pa.string())).select(
                OFFSET_COLUMNS
            )
        )
        for group_id in (CONSUMER, SIMPLE):
            memory, made = fold(
                Group("id", "here", group_id),
                self._memories.pop(group_id, None),
                self._live.pop(group_id, None),
                [visit],
                told=said.get(group_id, {}),
                before=self._before,
            )
            ends = {row["first_poll"]: row for row in made.lag}
            self.rows[group_id] = [
                ends.pop(row["first_poll"], row) for row in self.rows[group_id]
            ] + [*ends.values()]
            self.removed[group_id] += made.removed
            if memory is not None:
                self._memories[group_id] = memory
                self._live[group_id] = next(
                    row for row in self.rows[group_id] if row["valid_to"] is None
                )
        self._before = visit
        return self._live


def consume(servers: str, records: int) -> None:
    """A member of the group that takes so many records, commits, and leaves."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": CONSUMER,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([TOPIC])
    taken = 0

    def has_all() -> bool:
        nonlocal taken
        message = reader.poll(0.5)
        taken += message is not None and message.error() is None
        return taken == records

    eventually(has_all)
    reader.commit(asynchronous=False)
    reader.close()


def commit(admin: AdminClient, group: str, *partitions: TopicPartition) -> list[str | None]:
    """Commit; returns the errors."""
    asked = [ConsumerGroupTopicPartitions(group, list(partitions))]
    told = admin.alter_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return [each.error and each.error.name() for each in told]


def deleted(admin: AdminClient, group: str) -> bool:
    error = admin.delete_consumer_groups([group])[group].exception(30)
    return error is None or "GROUP_ID_NOT_FOUND" in str(error)


@pytest.fixture
def admin(cluster: LocalCluster, made_topic: Any) -> Iterator[AdminClient]:
    with made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3) as made:
        yield made
        for group in (CONSUMER, SIMPLE):
            eventually(lambda group=group: deleted(made, group))


def lag_of(row: Row) -> tuple[Any, ...]:
    return row["lag_min"], row["lag_max"], row["partitions"], row["partitions_without_progress"]


def test_a_consumer_stops_resumes_and_loses_what_it_committed(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    servers = cluster.bootstrap_servers
    visits = Visits(servers)
    write(servers, TOPIC, 0, 1)
    consume(servers, 20)
    assert lag_of(visits.take()[CONSUMER]) == (None, 0, 2, 0)
    assert SIMPLE not in visits.take()

    write(servers, TOPIC, 0)
    assert lag_of(visits.take()[CONSUMER]) == (0, 10, 2, 0)
    stopped = visits.take()[CONSUMER]
    assert lag_of(stopped) == (10, 10, 2, 1)
    (bad,) = stopped["not_well"]
    assert (bad["topic"], bad["partition"], bad["committed_offset"], bad["committed_after"]) == (
        TOPIC,
        0,
        10,
        None,
    )
    assert not stopped["is_simple"]

    consume(servers, 10)
    resumed = visits.take()[CONSUMER]
    assert lag_of(resumed) == (0, 0, 2, 0)
    assert resumed["committed_sum"] == 30
    assert visits.rows[CONSUMER][-2]["valid_to"] == resumed["valid_from"]

    other = KafkaAdminClient(bootstrap_servers=servers.split(","))
    other.delete_group_offsets(CONSUMER, [Partition(TOPIC, 1)])
    other.close()
    assert lag_of(visits.take()[CONSUMER])[2] == 1
    assert [
        (row["partition"], row["committed_offset"], row["is_group_gone"])
        for row in visits.removed[CONSUMER]
    ] == [(1, 10, False)]

    eventually(lambda: deleted(admin, CONSUMER))
    assert CONSUMER not in visits.take()
    assert visits.rows[CONSUMER][-1]["end_reason"] == "gone"
    assert visits.removed[CONSUMER][-1]["is_group_gone"]
    assert commit(admin, CONSUMER, TopicPartition(TOPIC, 0, 3)) == [None]
    again = visits.take()[CONSUMER]
    assert lag_of(again) == (None, 17, 1, 0)
    assert again["is_simple"], "nobody has joined it since"


def test_a_group_that_only_commits_to_a_topic_that_goes(
    cluster: LocalCluster, admin: AdminClient, made_topic: Any
) -> None:
    servers = cluster.bootstrap_servers
    visits = Visits(servers)
    with made_topic(servers, OTHER, 1, replication_factor=3):
        # As much metadata as a client can send. Commits to what is not there are refused.
        large = TopicPartition(TOPIC, 0, 0, "m" * 32_766)
        # Its coordinator may not know yet that it is.
        eventually(
            lambda: commit(admin, SIMPLE, large, TopicPartition(OTHER, 0, 0)) == [None, None]
        )
        nowhere = TopicPartition(TOPIC, 7, 5), TopicPartition("lag-test-never-made", 0, 5)
        assert commit(admin, SIMPLE, *nowhere) == ["UNKNOWN_TOPIC_OR_PART"] * 2
        row = visits.take()[SIMPLE]
        assert row["is_simple"]
        assert (row["partitions"], row["partitions_unknown"], row["lag_max"]) == (2, 0, 0)
    told = set()

    def is_removed() -> bool:
        live = visits.take()[SIMPLE]
        told.add((live["partitions"], live["partitions_unknown"], live["lag_max"]))
        return bool(live["partitions"] == 1)

    eventually(is_removed)
    assert told <= {(2, 0, 0), (2, 1, None), (1, 0, 0)}, "never a guess"
    assert [(row["topic"], row["is_group_gone"]) for row in visits.removed[SIMPLE]] == [
        (OTHER, False)
    ]


@pytest.mark.soak
def test_commits_that_expire_are_removed_and_their_group_with_them() -> None:
    properties = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    with LocalCluster(brokers=1, properties=properties) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(120)
        visits = Visits(servers)
        eventually(lambda: committed(admin))
        assert visits.take()[SIMPLE]["partitions"] == 1
        eventually(lambda: SIMPLE not in visits.take(), within=180)
        assert [row["committed_offset"] for row in visits.removed[SIMPLE]] == [5]
        assert visits.rows[SIMPLE][-1]["end_reason"] == "gone"


def committed(admin: AdminClient) -> bool:
    """Commit, but for when the coordinator is not there yet."""
    try:
        return commit(admin, SIMPLE, TopicPartition(TOPIC, 0, 5)) == [None]
    except KafkaException:
        return False
