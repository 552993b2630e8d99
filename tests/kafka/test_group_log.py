"""The source `kafka_group_log` against real logs: of real groups, and of topics in their layout to
which things are done.
"""

import itertools
import struct
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from jobs.rules.groups.partition import log_partition
from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import LogError
from metadata_source.kafka_constants import OFFSETS_TOPIC as TOPIC
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.tasks import spans
from metadata_source.logs.topic.positions import LogPosition, Span, advance, found
from metadata_source.logs.topic.watcher import LogWatcher
from tests.support.group_log import log_of
from tests.support.group_log_reads import (
    COMMIT,
    GROUP,
    RAW,
    look,
    only,
    position,
    produce,
    reach,
    rows_of,
    rows_of_span,
    rows_of_spans,
    summary,
    without_commits,
)
from tests.support.waiting import eventually


def plainly_read(servers: str, partition: int, end: int) -> dict[int, int]:
    """Offset -> record type, by a consumer that looks at each message."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": "read_uncommitted"}
    )
    reader.assign([TopicPartition(TOPIC, partition, 0)])
    types, idle = {}, 0
    while idle < 4 and max(types, default=-1) + 1 < end:
        message = reader.poll(0.5)
        idle = idle + 1 if message is None else 0
        if message is not None and not message.error() and message.offset() < end:
            types[message.offset()] = int.from_bytes(message.key()[:2])
    reader.close()
    return types


def test_the_log_of_real_groups_is_read_whole(groups):
    cluster = reach(groups)
    seen = look(cluster, TOPIC)
    start = position(seen, **dict.fromkeys((f"p{partition}" for partition in seen.partitions), 0))
    kinds: dict[str, Counter] = {
        "group-log-test-classic": Counter(),
        "group-log-test-consumer": Counter(),
    }
    holes = 0
    between = list(spans({"default": start}, {"default": advance(start, seen)}))
    together = rows_of_spans(cluster, between, TOPIC)
    for span in between:
        rows = rows_of_span(cluster, span, TOPIC)
        assert rows == [row for row in together if row["log_partition"] == span.partition]
        plain = plainly_read(groups, span.partition, span.end)
        records, read = only(rows, "record"), rows[-1]
        assert {row["offset"]: row["type"] for row in records} == {
            at: kind for at, kind in plain.items() if kind > 1
        }
        assert (read["record"], read["offset"], read["next_offset"]) == (
            "read",
            0,
            seen.ends[span.partition],
        )
        assert read["commits"] == sum(kind <= 1 for kind in plain.values())
        assert read["records"] == len(records)
        assert read["holes"] == span.end - len(plain)
        holes += read["holes"]
        for row in records:
            assert row["error"] is None, row
            if row["group_id"] in kinds:
                kinds[row["group_id"]][row["type"]] += 1
    assert holes >= 3  # a marker for each transaction
    classic, consumer = kinds.values()
    assert classic.keys() == {2}
    assert {3, 5, 6, 7, 8} <= consumer.keys()


def test_commits_of_real_members(cluster, made_topic):
    """Plain ones, in transactions that are committed, aborted and open while the group changes, and
    a group that is deleted and made again. Its metadata is a megabyte.
    """
    servers, name, group = cluster.bootstrap_servers, "group-log-commits", "group-log-commits"
    one = reach(servers)

    def log_end() -> int:
        return look(one, TOPIC).ends[of_group]

    def committed(entry: dict) -> tuple:
        named = ("partition", "commits", "first_committed", "last_committed", "falls", "fallen")
        return (*(entry[name] for name in named), entry["removed_offset"] is not None)

    with made_topic(servers, name, 30, replication_factor=3) as admin:
        settings = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False}
        with closing(Consumer(settings)) as member:
            # This makes the log, if it is not there.
            member.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
            seen = look(one, TOPIC)
            of_group = log_partition(group, len(seen.partitions))
            start = seen.ends[of_group]
            large = [TopicPartition(name, partition, 5, "x" * 32_000) for partition in range(30)]
            member.commit(offsets=large, asynchronous=False)
            member.commit(offsets=[TopicPartition(name, 0, 3)], asynchronous=False)
            writer = Producer({"bootstrap.servers": servers, "transactional.id": name})
            writer.init_transactions(30)
            for offset, end in (
                (7, writer.commit_transaction),
                (99, writer.abort_transaction),
                (8, None),
            ):
                writer.begin_transaction()
                offsets = [TopicPartition(name, 1, offset)]
                writer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 30)
                if end is not None:
                    end(30)
            member.subscribe([name])
            while (
                not member.assignment()
            ):  # it gets no offsets, and no records, as long as one is not settled
                member.poll(0.1)
            middle = log_end()
            writer.commit_transaction(30)
        admin.delete_consumer_groups([group])[group].result(30)
        with closing(Consumer(settings)) as member:
            member.commit(offsets=[TopicPartition(name, 0, 2)], asynchronous=False)
        end = log_end()
        admin.delete_consumer_groups([group])[group].result(30)
    span = Span("c", "id", seen.topic_id, of_group, start, middle)
    open_, after = (
        [
            row
            for row in rows_of_span(one, each, TOPIC)
            if row["group_id"] == group or row["record"] == "marker"
        ]
        for each in (span, replace(span, start=middle, end=end))
    )
    assert any(row["type"] == 2 and row["classic"]["members"] for row in only(open_, "record")), (
        "nothing held it up"
    )
    first, *_ = only(open_, "commits")
    assert [committed(each) for each in first["offset_commits"] if each["partition"] < 3] == [
        (0, 2, 5, 3, 1, 2, False),
        (
            1,
            2,
            5,
            7,
            0,
            0,
            False,
        ),  # in a transaction too, of which coordinators note the topic's id (KIP-1319)
        (2, 1, 5, 5, 0, 0, False),
    ]
    assert len({each["topic_id"] for each in first["offset_commits"]} - {None}) == 1
    assert len(first["offset_commits"]) == 30
    assert len(str(first)) < 30_000, "metadata is not kept"
    (pending,) = [row for row in only(open_, "commits") if row["producer_id"] is not None]
    assert [committed(each) for each in pending["offset_commits"]] == [(1, 1, 8, 8, 0, 0, False)]
    (marker,) = only(after, "marker")
    assert (marker["producer_id"], marker["is_committed"]) == (pending["producer_id"], True)
    entries = [
        each
        for row in only(after, "commits")
        for each in row["offset_commits"]
        if each["partition"] == 0
    ]
    assert [committed(each) for each in entries] == [
        (0, 0, None, None, 0, 0, True),
        (0, 1, 2, 2, 0, 0, False),
    ]


def test_a_span_is_read_from_offset_to_offset(raw, cluster):
    servers = cluster.bootstrap_servers
    newer = (struct.pack(">h", 99) + b"from a newer Kafka", b"\0\7bytes")
    produce(servers, [COMMIT, GROUP, newer, COMMIT, (GROUP[0], None), COMMIT])
    one = reach(servers)
    seen = look(one)
    whole = without_commits(rows_of(one, 0, 6))
    assert [(row["offset"], row["type"], row["is_tombstone"]) for row in whole[:-1]] == [
        (1, 3, False),
        (2, 99, False),
        (4, 3, True),
    ]
    assert whole[0]["group_epoch"]["epoch"] == 7
    assert (whole[1]["error"], whole[1]["key"], whole[1]["value"]) == (
        "unknown record type 99",
        *newer,
    )
    for start, end in itertools.combinations(range(7), 2):
        *records, read = without_commits(rows_of(one, start, end))
        assert records == [row for row in whole[:-1] if start <= row["offset"] < end]
        assert (read["offset"], read["next_offset"], read["holes"]) == (start, end, 0)
        assert read["commits"] + read["records"] == end - start
    assert seen.ends == {0: 6, 1: 0}


def test_a_time_to_start_at(raw, cluster):
    servers = cluster.bootstrap_servers
    since = time.time_ns() // 1_000_000
    produce(servers, [COMMIT] * 3, at_ms=since - 1)
    produce(servers, [COMMIT] * 2, at_ms=since)
    with closing(LogWatcher(reach(servers), RAW, 10_000)) as watcher:
        seen = watcher.ask_extent()
        assert watcher.starting(seen, since) == {0: 3, 1: 0}
        assert (
            watcher.starting(seen, since + 60_000)
            == watcher.starting(seen, "latest")
            == {0: 5, 1: 0}
        )
        assert watcher.starting(seen, 0) == watcher.starting(seen, "earliest") == {0: 0, 1: 0}


def test_what_is_gone_before_it_is_read_is_recorded(raw, cluster):
    servers = cluster.bootstrap_servers
    one = reach(servers)
    produce(servers, [COMMIT, GROUP] * 5)
    raw.delete_records([TopicPartition(RAW, 0, 4)])
    eventually(lambda: look(one).begins == {0: 4, 1: 0}, "the records to be gone")
    assert summary(rows_of(one, 1, 10)) == [("lost", 1, 4), ("read", 4, 10)]
    assert summary(rows_of(one, 1, 3)) == [("lost", 1, 3)]
    # Planned, and gone with all that came before the reading began.
    raw.delete_records([TopicPartition(RAW, 0, 10)])
    eventually(lambda: look(one).begins == {0: 10, 1: 0}, "the records to be gone")
    assert summary(rows_of(one, 4, 10)) == [("lost", 4, 10)]


def test_a_log_that_ends_before_what_was_planned(raw, cluster):
    """Nobody waits for it for ever, and what had been planned is recorded as gone."""
    produce(cluster.bootstrap_servers, [GROUP] * 2)
    rows = rows_of(reach(cluster.bootstrap_servers), 0, 5, timeout_ms=1_500)
    assert summary(rows) == [("read", 0, 2), ("lost", 2, 5)]


def test_markers_at_the_end_of_a_span_are_holes(raw, cluster):
    writer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "group-log-raw"}
    )
    writer.init_transactions(30)
    for end in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        writer.produce(RAW, GROUP[1], GROUP[0], partition=0)
        writer.flush(30)
        end(30)
    one = reach(cluster.bootstrap_servers)
    assert look(one).ends[0] == 4
    for end in range(1, 5):
        rows = rows_of(one, 0, end)
        records, read = only(rows, "record"), rows[-1]
        assert [row["offset"] for row in records] == [at for at in (0, 2) if at < end]
        assert [row["is_committed"] for row in only(rows, "marker")] == [True] * (end > 1)
        assert (read["next_offset"], read["records"], read["holes"]) == (
            end,
            (end + 1) // 2,
            end // 2,
        )


def test_a_leader_that_goes_while_it_is_read(cluster, made_topic):
    servers = cluster.bootstrap_servers
    records = [GROUP if at % 20 == 0 else COMMIT for at in range(300_000)]
    alone = f"{RAW}-alone"
    with (
        made_topic(servers, RAW, 1, replica_assignment=[[1, 2, 3]]),
        made_topic(servers, alone, 2, replica_assignment=[[1], [2]]),
    ):
        produce(servers, records)
        for partition in range(2):
            produce(servers, [COMMIT] * 3, alone, partition)
        one = reach(servers)
        whole = look(one, alone)
        span = Span("c", "id", look(one).topic_id, 0, 0, 300_000)
        batches = log_of(RAW, 30_000).rows(one, [span], datetime.now(UTC), time.sleep)
        taken = [next(batches)]
        cluster.stop(1)
        try:
            taken += batches
            # The partition whose only replica is down: its offsets are not known, and that is no
            # truncation.
            without = look(one, alone)
            assert (without.partitions, without.ends) == ({0, 1}, {1: 3})
            assert advance(position(whole, p0=3, p1=3), without).next == {0: 3, 1: 3}
            # All there is, for one trigger: of the other, and nothing of a cluster where it is not
            # known where to begin.
            source = type("Source", (KafkaGroupLogSource,), {"topic": alone})(
                {"kafka.bootstrap.servers": servers}
            )
            reader = source.streamReader(source.schema())
            reader.prepareForTriggerAvailableNow()
            behind, ahead = (position(whole, p0=2, p1=end) for end in (2, 3))
            following = reader.latestOffset({"default": behind.to_json()}, None)["default"]
            assert LogPosition.from_json(following).next == ahead.next
            assert reader.latestOffset({}, None) == {}
            reader.stop()
            with pytest.raises(
                LogError, match=r"timeout: partition 0 of .*: nothing came from offset 0 on"
            ):
                rows_of(one, 0, 3, alone, timeout_ms=2_000)
        finally:
            cluster.start(1)
        columns = ["offset", "record", "next_offset", "commits"]
        rows = pa.Table.from_batches(taken, SCHEMA).select(columns).to_pylist()
        *records, read = without_commits(rows)
        assert [row["offset"] for row in records] == list(range(0, 300_000, 20))
        assert (read["record"], read["next_offset"], read["commits"]) == ("read", 300_000, 285_000)
        assert summary(rows_of(one, 0, 3, alone)) == [("read", 0, 3)]


def test_a_log_that_an_unclean_election_cut_off_and_that_has_grown_again(cluster, made_topic):
    """Its end says nothing: before the next look it is beyond the position again."""
    servers = cluster.bootstrap_servers
    one = reach(servers)
    unclean = {"unclean.leader.election.enable": "true"}
    with (
        made_topic(servers, RAW, 1, replica_assignment=[[1, 2]], config=unclean),
        closing(LogWatcher(one, RAW, 10_000)) as watcher,
    ):
        produce(servers, [GROUP] * 5)
        cluster.stop(2)
        try:
            produce(servers, [GROUP] * 5)
            begun = watcher.ask_extent()
            done = advance(found(begun, {0: 0}), begun)
            assert done.next == {0: 10}
        finally:
            cluster.stop(1)
            cluster.start(2)
        try:
            produce(servers, [GROUP] * 7)
        finally:
            cluster.start(1)
        seen = watcher.ask_extent(done)
        assert seen.ends == {0: 12}
        following = advance(done, seen)
        (cut,) = spans({"c": done}, {"c": following})
        assert (cut.truncated, cut.start, cut.end) == (True, 10, 5)
        (rest,) = spans({"c": following}, {"c": advance(following, seen)})
        assert summary(rows_of_span(one, rest)) == [("read", 5, 12)]


def test_a_topic_that_is_made_again(cluster, made_topic):
    servers = cluster.bootstrap_servers
    one = reach(servers)
    with made_topic(servers, RAW, 1, replication_factor=3):
        produce(servers, [GROUP] * 3)
        seen = look(one)
        done = position(seen, p0=3)
    with made_topic(servers, RAW, 1, replication_factor=3):
        produce(servers, [GROUP] * 5)
        again = look(one)
        following = advance(done, again)
        (span,) = spans({"c": done}, {"c": following})
        assert (span.truncated, span.start, span.end) == (True, 3, 0)
        (rest,) = spans({"c": following}, {"c": advance(following, again)})
        assert summary(rows_of_span(one, rest)) == [("read", 0, 5)]


def test_what_is_not_there_yet_and_what_may_not_be_read(guarded, monkeypatch):
    monkeypatch.setenv("GROUP_LOG_PASSWORD", guarded.sasl_ssl.users["alice"])
    alice = reach(
        guarded.sasl_ssl.bootstrap_servers,
        kafka__security__protocol="SASL_SSL",
        kafka__sasl__mechanism="SCRAM-SHA-512",
        kafka__sasl__username="alice",
        kafka__sasl__password="env:GROUP_LOG_PASSWORD",  # noqa: S106 - a reference
        kafka__ssl__ca__location=str(guarded.sasl_ssl.ca_file),
    )
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    anyone = reach(guarded.bootstrap_servers)
    # No group has been there yet: nothing to read, and asking makes no log.
    assert look(anyone).topic_id is look(anyone, TOPIC).topic_id is None
    assert set(admin.list_topics(timeout=10).topics) == set()

    admin.create_topics([NewTopic(RAW, 1, 1)])[RAW].result(30)
    produce(guarded.bootstrap_servers, [GROUP])
    with pytest.raises(LogError, match="not_allowed"):
        look(alice)
    described = (
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    acl = AclBinding(ResourceType.TOPIC, RAW, *described)
    admin.create_acls([acl])[acl].result(30)
    with pytest.raises(LogError, match=f"not_allowed: READ on topic {RAW} is missing"):
        look(alice)
    with pytest.raises(LogError, match=f"not_allowed: READ on topic {RAW} is missing"):
        rows_of_span(alice, Span("c", None, None, 0, 0, 1))
    monkeypatch.setenv("GROUP_LOG_PASSWORD", "wrong")
    with pytest.raises(LogError, match="authentication: "):
        look(alice, timeout_ms=3_000)


def test_nobody_there_and_somebody_else():
    with pytest.raises(LogError, match=r"unreachable|timeout"):
        look(reach("localhost:1"), timeout_ms=1_000)
