"""The source `kafka_cluster_log` without Kafka: what it makes of a quorum's answers, and of
files.
"""

import itertools
import json
import logging
import pickle
import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.rules.arrow import rows_of
from jobs.rules.log.records import in_order
from metadata_source import connections
from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.errors import ClusterLogError, OptionsError
from metadata_source.logs import watches
from metadata_source.logs.cluster import positions, reader
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.cluster.log import ClusterLog
from metadata_source.logs.cluster.positions import LogPosition, SnapshotId, Span
from metadata_source.logs.cluster.watcher import LogWatcher
from metadata_source.logs.pace import Pace
from metadata_source.logs.tasks import spans
from metadata_source.options import Cluster, parse_cluster_log
from metadata_source.options.table import CLUSTER_LOG_OPTIONS
from schemas.bronze import CLUSTER_LOG
from tests.support.cluster_records import control_value
from tests.support.examples import examples
from tests.support.log_rounds import LogLake
from tests.support.quorum import (
    BEGAN_MS,
    CLUSTER_ID,
    NEWER,
    NO_OP,
    QUORUM_KEY,
    SCRAM,
    Entry,
    Quorum,
    topic,
)
from tools.reference import option_table

SERVERS = "kafka.controller.bootstrap.servers"
GIVEN = {SERVERS: "host:1,host:2,host:3", "clusterId": CLUSTER_ID, "requestTimeout": "1s"}
NOW = datetime(2026, 11, 25, tzinfo=UTC)
DENIED = 31
AT_ONCE = Pace(10**9)


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    made = Quorum()
    monkeypatch.setattr(connections, "Connection", made.connect)
    return made


def cluster_of(**options: str) -> Cluster:
    return parse_cluster_log(GIVEN | options).clusters[0]


def at(record: int) -> datetime:
    return datetime.fromtimestamp(BEGAN_MS / 1000, UTC) + record * timedelta(milliseconds=500)


def batch_read(**options: str) -> list[dict[str, Any]]:
    source = KafkaClusterLogSource(options)
    read = source.reader(source.schema())
    return shown(batch for task in read.partitions() for batch in read.read(task))


def shown(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows without nulls."""
    table = pa.Table.from_batches(list(batches), SCHEMA)
    table.validate(full=True)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What rows are: of a span its fate and ends, else the offset and the topic, or the name of the
    type.
    """
    return [
        (
            row["went"],
            row["offset"],
            row.get("next_offset"),
            *([row["snapshot_offset"]] if "snapshot_offset" in row else []),
        )
        if row["record"] == "span"
        else (row["record"], row["offset"], row.get("topic", {}).get("topic") or row.get("name"))
        for row in rows
    ]


def read_span(
    span: Span, *, read_at: datetime = NOW, pace: Pace = AT_ONCE
) -> Iterator[pa.RecordBatch]:
    """As a task reads it, at another pace."""

    class Paced(ClusterLog):
        def rows(
            self, cluster: Cluster, spans: Any, read_at: datetime, wait: Any
        ) -> Iterator[pa.RecordBatch]:
            for each in spans:
                yield from reader.read_span(
                    cluster, each, read_at=read_at, timeout_ms=300, pace=pace
                )

    return Paced(parse_cluster_log(GIVEN)).of_spans("default", [span], read_at, time.sleep)


class Stream:
    """The stream of one cluster: each call is a batch, by a watcher that lives and a reader of its
    own.
    """

    def __init__(self, starting: Any = "earliest") -> None:
        self.watcher = LogWatcher(cluster_of(), starting, 1_000)
        self.position: LogPosition | None = None

    def plan(self) -> list[Span]:
        before, seen = self.position, self.watcher.ask_extent(self.position)
        self.position = seen.first if before is None else positions.following(before, seen)
        self.position = LogPosition.from_json(json.loads(json.dumps(self.position.to_json())))
        return [] if before is None else list(spans({"c": before}, {"c": self.position}))

    def read(self, planned: list[Span]) -> list[dict[str, Any]]:
        return [row for span in planned for row in shown(read_span(span))]

    def batch(self) -> list[dict[str, Any]]:
        return self.read(self.plan())


def test_the_columns_are_those_of_bronze() -> None:
    assert [
        (each.name, each.dataType.simpleString(), each.nullable)
        for each in from_arrow_schema(SCHEMA)
    ] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ","), column.nullable)
        for column in CLUSTER_LOG.columns
    ]
    assert KafkaClusterLogSource(GIVEN).schema() == from_arrow_schema(SCHEMA)


# --- options ---


def test_controllers_have_the_security_of_brokers_unless_they_have_their_own() -> None:
    brokers = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:ALICE_PASSWORD",
        "kafka.ssl.ca.location": "/brokers.pem",
    }
    same = cluster_of(**brokers)
    assert (same.bootstrap_servers[0], same.sasl_username, same.ssl_ca_location) == (
        ("host", 1),
        "alice",
        "/brokers.pem",
    )
    own = cluster_of(
        **brokers,
        **{"kafka.controller.sasl.username": "bob", "Kafka.Controller.Ssl.Ca.Location": "/own.pem"},
    )
    assert (own.sasl_username, own.sasl_password, own.ssl_ca_location) == (
        "bob",
        "env:ALICE_PASSWORD",
        "/own.pem",
    )
    plain = cluster_of(**brokers, **{"kafka.controller.security.protocol": "PLAINTEXT"})
    assert (plain.security_protocol, plain.sasl_mechanism, plain.ssl_ca_location) == (
        "PLAINTEXT",
        None,
        None,
    )
    kerberos = cluster_of(**brokers, **{"kafka.controller.sasl.mechanism": "GSSAPI"})
    assert (kerberos.sasl_mechanism, kerberos.sasl_username, kerberos.ssl_ca_location) == (
        "GSSAPI",
        None,
        "/brokers.pem",
    )
    mutual = {
        "kafka.controller.security.protocol": "SSL",
        "kafka.controller.ssl.certificate.location": "/own.pem",
    }
    tls = cluster_of(**brokers, **mutual)
    assert (tls.sasl_mechanism, tls.ssl_certificate_location) == (None, "/own.pem")


def test_what_is_asked_for() -> None:
    clusters = {"a": {SERVERS: "one:1", "clusterId": "x"}, "b": {"clusterId": "y"}}
    options = parse_cluster_log(
        {"clusters": json.dumps(clusters), SERVERS: "two:2", "startingOffsets": "Snapshot"},
        "stream",
    )
    assert [(each.alias, each.bootstrap_servers, each.cluster_id) for each in options.clusters] == [
        ("a", (("one", 1),), "x"),
        ("b", (("two", 2),), "y"),
    ]
    assert (options.starting, options.request_timeout_ms) == ("snapshot", 30_000)
    assert (options.max_bytes_per_second, parse_cluster_log(GIVEN).starting) == (
        5_000_000,
        "earliest",
    )
    assert (
        parse_cluster_log(GIVEN | {"maxBytesPerSecond": "1000000"}).max_bytes_per_second
        == 1_000_000
    )


@pytest.mark.parametrize(
    ("mode", "given", "said"),
    [
        (None, {}, f"{SERVERS}: missing"),
        (None, {"kafka.bootstrap.servers": "broker:9092", "clusterId": "x"}, f"{SERVERS}: missing"),
        (None, {SERVERS: "host:1"},
         "clusterId: missing: it keeps another cluster's log out. Give it (kafka-cl"),
        (None, {"clusters": json.dumps({"a": {SERVERS: "host:1"}})},
         "clusters['a']: clusterId: missing"),
        (None, GIVEN | {SERVERS: "host"},
         "controllers: kafka.bootstrap.servers: 'host' is not host:port"),
        (None, GIVEN | {"startingOffsets": "latest"},
         "startingOffsets: 'latest' is none of earliest, snapshot"),
        (None, GIVEN | {"kafka.controller.bootstrap.server": "x:1"}, f"did you mean '{SERVERS}'?"),
        (None, GIVEN | {"kafka.controller.sasl.password": "hunter2"},
         "controller.sasl.password: not a reference"),
        (None, GIVEN | {"clientHashKey": "env:KEY"}, "unknown option 'clientHashKey'"),
        (None, GIVEN | {"maxBytesPerSecond": "1"},
         "maxBytesPerSecond: '1' is not a whole number from 10000 to 2"),
        ("stream", {"path": "/logs"}, "path: not in a stream read, which follows controllers"),
        ("batch", GIVEN | {"path": "/logs"},
         "contradicts path: files are read whole, and nobody is asked"),
        ("batch", {"path": "/logs", "cluster": "a b"}, "the alias 'a b' is not"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(mode: Any, given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionsError) as raised:
        parse_cluster_log(given, mode)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_table_shows_every_option_once() -> None:
    lines = option_table(CLUSTER_LOG_OPTIONS).splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [
        option.name for option in CLUSTER_LOG_OPTIONS
    ]


# --- rows ---


def test_a_log_is_read_from_its_beginning(quorum: Quorum) -> None:
    quorum.write(topic("a"), NO_OP, SCRAM, NEWER, topic("b"))
    rows = batch_read(**GIVEN)
    assert told(rows) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("record", 4, None),
        ("record", 5, "b"),
        ("read", 0, 6),
    ]
    *_, unknown, record, span = rows
    assert (unknown["error"], unknown["type"], unknown["size"]) == (
        "unknown record type 99",
        99,
        len(NEWER),
    )
    assert "hunter2" not in str(rows)
    assert record == {
        "cluster": "default",
        "cluster_id": CLUSTER_ID,
        "record": "record",
        "read_at": record["read_at"],
        "day": record["read_at"].date(),
        "offset": 5,
        "leader_epoch": 1,
        "timestamp": at(5),
        "is_control": False,
        "type": 2,
        "version": 0,
        "name": "TopicRecord",
        "size": len(topic("b")),
        "topic": {"topic": "b", "topic_id": "AAAAAAAAAAAAAAAAAAAABw"},
    }
    assert {
        name: span[name] for name in span if name not in {"cluster", "cluster_id", "read_at", "day"}
    } == {
        "record": "span",
        "went": "read",
        "offset": 0,
        "next_offset": 6,
        "records": 4,
        "no_ops": 1,
        "counted": 1,
        "silence_from": at(0),
        "silence_to": at(1),
        "timestamp": at(5),
        "leader_epoch": 1,
    }


def test_only_what_is_committed_is_read(quorum: Quorum) -> None:
    quorum.write(topic("a"), topic("b"), topic("c"))
    quorum.committed = 2
    assert told(batch_read(**GIVEN))[-2:] == [("record", 1, "a"), ("read", 0, 2)]
    quorum.committed = -1
    with pytest.raises(
        ClusterLogError, match=r"no_leader: cluster default: .* does not know yet what is committed"
    ):
        batch_read(**GIVEN)


def test_offset_0_cannot_be_read_once_there_is_a_snapshot(quorum: Quorum) -> None:
    quorum.write(topic("a"))
    quorum.snapshot(topic("a"))
    quorum.write(topic("b"))
    assert told(batch_read(**GIVEN)) == [("record", 1, "a"), ("record", 2, "b"), ("read", 1, 3)]


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
def test_a_log_that_has_lost_its_beginning_is_read_after_the_snapshot_there(
    quorum: Quorum, starting: str
) -> None:
    quorum.write(topic("a"))
    quorum.elect(2, epochs=5)
    quorum.snapshot(topic("a"), topic("gone"))
    quorum.trim()
    quorum.write(topic("b"))
    quorum.elect(3, epochs=7)
    quorum.snapshot(topic("a"), topic("b"))
    quorum.write(topic("c"))
    snapshot = [("snapshot", 0, "a"), ("snapshot", 1, "gone"), ("read", 0, 2, 3)]
    log = [
        ("record", 3, "b"),
        ("record", 4, "LeaderChangeMessage"),
        ("record", 5, "c"),
        ("read", 3, 6),
    ]
    if starting == "snapshot":
        snapshot, log = (
            [("snapshot", 0, "a"), ("snapshot", 1, "b"), ("read", 0, 2, 5)],
            [log[2], ("read", 5, 6)],
        )
    rows = batch_read(**GIVEN, startingOffsets=starting)
    assert told(rows) == snapshot + log
    assert {row.get("snapshot_epoch") for row in rows} == {
        None,
        6 if starting == "earliest" else 13,
    }


def test_without_a_snapshot_the_log_is_read_whole(quorum: Quorum) -> None:
    quorum.write(topic("a"))
    assert told(batch_read(**GIVEN, startingOffsets="snapshot"))[-1] == ("read", 0, 2)


def test_what_is_gone_before_it_is_read_is_said_and_the_state_follows(quorum: Quorum) -> None:
    quorum.write(topic("a"), topic("b"))
    stream = Stream()
    stream.plan()
    planned = stream.plan()
    quorum.write(topic("c"))
    quorum.snapshot(topic("c"))
    quorum.trim()
    # All that was planned is gone, and more than that.
    assert told(stream.read(planned)) == [("lost", 0, 3)]
    quorum.write(topic("d"))
    rows = [
        ("lost", 3, 4),
        ("snapshot", 0, "c"),
        ("read", 0, 1, 4),
        ("record", 4, "d"),
        ("read", 4, 5),
    ]
    assert told(stream.batch()) == rows


def test_a_snapshot_that_is_gone_before_it_is_read(quorum: Quorum) -> None:
    quorum.write(topic("a"))
    quorum.snapshot(topic("a"))
    stream = Stream("snapshot")
    stream.plan()
    quorum.write(topic("b"))
    quorum.snapshot(topic("b"))
    quorum.trim()
    assert told(stream.batch()) == [("lost", 2, 3), ("snapshot", 0, "b"), ("read", 0, 1, 3)]


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_snapshot_that_the_next_active_controller_does_not_have(
    quorum: Quorum, trimmed: bool
) -> None:
    """Each makes its own: what is to be read begins with the one at which its log does, or with its
    first record.
    """
    quorum.write(topic("a"), topic("b"))
    older = quorum.snapshot(topic("s"))
    quorum.write(topic("c"))
    made = quorum.snapshot(topic("t"))
    stream = Stream("snapshot")
    stream.plan()
    assert stream.position is not None
    assert stream.position.snapshot == made
    quorum.elect(2)
    quorum.write(topic("d"))
    quorum.snapshots = {older: quorum.snapshots[older]}
    if trimmed:
        quorum.trim()
    records = [("record", 3, "c"), ("record", 4, "LeaderChangeMessage"), ("record", 5, "d")]
    assert told(stream.batch()) == (
        [("snapshot", 0, "s"), ("read", 0, 1, 3), *records, ("read", 3, 6)]
        if trimmed
        else [("lost", 0, 1), ("record", 1, "a"), ("record", 2, "b"), *records, ("read", 1, 6)]
    )


def test_a_log_that_was_made_again_by_hand_is_said_and_read_from_its_begin_on(
    quorum: Quorum,
) -> None:
    quorum.write(topic("a"))
    quorum.elect(2)
    quorum.write(topic("b"), topic("c"))
    stream = Stream()
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 5)
    # A controller takes over that never had what the others had committed, and has passed it again.
    del quorum.log[2:]
    quorum.epoch = 7
    quorum.write(*map(topic, "defgh"))
    assert told(stream.batch()) == [("truncated", 5, 2)]
    assert told(stream.batch()) == [
        ("record", 0, "LeaderChangeMessage"),
        *(("record", offset, name) for offset, name in enumerate("adefgh", 1)),
        ("read", 0, 7),
    ]
    assert stream.batch() == []
    # And one that has less.
    del quorum.log[4:]
    assert told(stream.batch()) == [("truncated", 7, 4)]
    assert told(stream.batch())[-1] == ("read", 0, 4)
    assert stream.batch() == []


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
@pytest.mark.parametrize(
    "covered", [1, 3, 8], ids=["what both have", "what is new", "more than was read"]
)
def test_after_a_log_was_cut_off_its_newest_snapshot_comes_and_the_log_from_there(
    quorum: Quorum, starting: str, covered: int
) -> None:
    quorum.snapshot(
        topic("old")
    )  # of before both: a controller knows the epochs since its oldest one
    quorum.write(topic("a"))
    quorum.elect(2)
    quorum.write(topic("b"), topic("c"))
    stream = Stream(starting)
    stream.plan()
    stream.batch()
    del quorum.log[2:]
    if covered == 1:
        made = quorum.snapshot(topic("s"))
    quorum.epoch = 7
    quorum.write(*(topic(f"t{offset}") for offset in range(2, covered + 1)))
    if covered > 1:
        made = quorum.snapshot(topic("s"))
    quorum.write(topic("last"))
    assert told(stream.batch()) == [("truncated", 5, 2)]
    planned = stream.plan()
    log = [("record", offset, f"t{offset}") for offset in range(made.offset, len(quorum.log) - 1)]
    expected = [
        *(("snapshot", 0, "s"), ("read", 0, 1, made.offset)),
        *(*log, ("record", len(quorum.log) - 1, "last")),
        ("read", made.offset, len(quorum.log)),
    ]
    assert told(stream.read(planned)) == expected
    assert told(stream.read(planned)) == expected, "a batch that is done again is the same"
    assert stream.batch() == []


def test_a_log_that_is_cut_off_twice_before_its_snapshot_was_read(quorum: Quorum) -> None:
    quorum.snapshot(topic("old"))
    quorum.write(*map(topic, "abcd"))
    stream = Stream()
    stream.plan()
    stream.batch()
    del quorum.log[3:]
    quorum.elect(2)
    quorum.write(*map(topic, "ef"))
    quorum.snapshot(topic("gone"))
    assert told(stream.batch()) == [("truncated", 5, 3)]
    del quorum.log[1:]
    quorum.snapshots.clear()
    quorum.elect(3)
    quorum.write(*map(topic, "gh"))
    assert told(stream.batch()) == [("truncated", 6, 1)]
    assert told(stream.batch())[-3:] == [("record", 2, "g"), ("record", 3, "h"), ("read", 0, 4)]
    assert stream.batch() == []


@pytest.mark.parametrize(
    ("covered", "trimmed"), [(3, False), (6, False), (2, True), (3, True), (4, True), (6, True)]
)
def test_a_log_that_was_made_again_is_no_other_log_s_though_they_have_no_epoch_in_common(
    quorum: Quorum, covered: int, trimmed: bool
) -> None:
    """Of epochs before its oldest snapshot's a leader tells nothing: the record before the position
    has another epoch, or the snapshot that the log begins with.
    """
    quorum.write(*map(topic, "abc"))
    stream = Stream()
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 4)
    del quorum.log[1:]
    quorum.elect(2, epochs=5)
    quorum.write(*(topic(f"t{offset}") for offset in range(2, covered)))
    made = quorum.snapshot(topic("s"))
    quorum.write(*(topic(f"t{offset}") for offset in range(covered, 8)))
    if trimmed:
        quorum.trim()
    snapshot = [("snapshot", 0, "s"), ("read", 0, 1, made.offset)]
    log = [
        *(("record", offset, f"t{offset}") for offset in range(made.offset, 8)),
        ("read", made.offset, 8),
    ]
    rows = told(stream.batch())
    if trimmed and covered > 4:
        assert rows == [("lost", 4, made.offset), *snapshot, *log]
    else:
        assert rows == [("truncated", 4, 0)]
        assert told(stream.batch()) == snapshot + log
    assert stream.batch() == []


@pytest.mark.parametrize(("covered", "trimmed"), [(3, False), (6, False), (3, True), (4, True)])
def test_a_log_whose_oldest_snapshot_is_newer_than_the_place_is_read_on(
    quorum: Quorum, covered: int, trimmed: bool
) -> None:
    quorum.write(*map(topic, "abc"))
    stream = Stream()
    stream.plan()
    stream.batch()
    if covered == 3:  # The record that a snapshot ends with has the epoch of the position.
        quorum.snapshots[SnapshotId(3, 1)] = b""
    quorum.elect(2, epochs=5)
    quorum.write(*map(topic, "def"))
    if covered == 4:
        quorum.snapshots[SnapshotId(4, 1)] = b""
    elif covered == 6:
        quorum.snapshot()
    if trimmed:
        quorum.trim()
    records = [
        ("record", 4, "LeaderChangeMessage"),
        *(("record", 5 + at, name) for at, name in enumerate("def")),
    ]
    assert told(stream.batch()) == [*records, ("read", 4, 8)]
    assert stream.batch() == []


def test_history_knows_a_log_that_comes_back_after_a_part_of_it_was_lost(quorum: Quorum) -> None:
    """Its cluster was taken out of the configuration while a batch was to be done again."""
    lake, read_at = LogLake(), NOW

    def taken(rows: Iterator[pa.RecordBatch]) -> None:
        nonlocal read_at
        read_at += timedelta(seconds=1)
        found = pa.Table.from_batches(list(rows), SCHEMA)
        if len(found):
            lake.take([row | {"read_at": read_at} for row in rows_of(in_order(found))])

    def run(begin: dict[str, Any], batches: int) -> dict[str, Any]:
        source = KafkaClusterLogSource(GIVEN)
        stream = source.streamReader(source.schema())
        for _ in range(batches):
            end = stream.latestOffset(begin, None)
            taken(batch for task in stream.partitions(begin, end) for batch in stream.read(task))
            begin = end
        stream.stop()
        return begin

    quorum.write(topic("a"), topic("b"))
    start = run({}, 2)
    quorum.write(topic("gone"))
    end = {"default": LogPosition.from_json(start["default"]).to_json() | {"next": 4}}
    others = KafkaClusterLogSource(
        {"clusters": json.dumps({"other": {SERVERS: "host:1", "clusterId": "x"}})}
    )
    stream = others.streamReader(others.schema())
    taken(batch for task in stream.partitions(start, end) for batch in stream.read(task))
    assert lake.state is not None
    assert not lake.state.is_whole
    quorum.write(topic("c"))
    made = quorum.snapshot()
    quorum.snapshots[made] = snapshot_bytes(made, *"abc")
    quorum.write(topic("d"))
    run(end, 2)
    assert lake.state.is_whole
    assert {row["topic"] for row in lake.live["silver.topic_snapshots"]} == {*"abcd"}


def snapshot_bytes(of: SnapshotId, *names: str) -> bytes:
    """A whole snapshot of topics, with its header and its footer."""
    header, footer = ({"version": 0, "last_contained_log_timestamp": 0}, {"version": 0})
    values = [(topic(name), None) for name in names]
    values = [(control_value(3, 0, header), 3), *values, (control_value(4, 0, footer), 4)]
    return b"".join(Entry(of.epoch, *each).batch(at) for at, each in enumerate(values))


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_history_knows_a_log_that_was_cut_off_as_it_is_now(
    quorum: Quorum, has_snapshot: bool
) -> None:
    stream, lake, open_rows = Stream(), LogLake(), list[dict[str, Any]]()

    def topics() -> set[str]:
        return {row["topic"] for row in lake.live["silver.topic_snapshots"]}

    def history(second: int) -> set[str]:
        """Of a batch, with the rows that could not be taken before."""
        nonlocal open_rows
        for span in stream.plan():
            found = read_span(span, read_at=NOW + timedelta(seconds=second))
            open_rows += rows_of(in_order(pa.Table.from_batches(found, SCHEMA)))
        lake.take(open_rows)
        assert lake.state is not None
        open_rows = open_rows if lake.state.is_open else []
        return topics()

    def snapshot(*names: str) -> None:
        made = quorum.snapshot()
        quorum.snapshots[made] = snapshot_bytes(made, *names)

    if has_snapshot:
        snapshot()  # a controller knows the epochs since its oldest one
    quorum.write(*map(topic, "abc"))
    history(0)
    assert history(1) == {"a", "b", "c"}
    for second, (kept, names) in enumerate([(-2, {"a", "x"}), (-1, {"a", "x", "y"})], 1):
        del quorum.log[kept:]
        quorum.elect(second + 1)
        quorum.write(*map(topic, sorted(names)), SCRAM)
        if has_snapshot:
            snapshot(*names)
        quorum.write(topic("z"))
        before = topics()
        assert history(10 * second) == before, "where it was cut off is all that is known"
        assert history(10 * second + 1) == names | {"z"}
        quorum.write(topic("later"))
        assert history(10 * second + 2) == names | {"z", "later"}
        assert lake.state is not None
        assert (lake.state.is_whole, lake.state.next_offset) == (True, len(quorum.log))


def test_a_log_that_is_cut_off_is_not_read_from_where_bronze_ends(quorum: Quorum) -> None:
    """`resumeAt` says where a lost checkpoint stood, and nothing about the log of today."""
    quorum.write(*map(topic, "abc"))
    watcher = LogWatcher(cluster_of(), "earliest", 1_000, resume_at=4)
    position = watcher.ask_extent(None).first
    assert position == LogPosition(CLUSTER_ID, 4)
    del quorum.log[2:]
    assert positions.following(position, watcher.ask_extent(position)) == LogPosition(
        CLUSTER_ID, 0, cut=2
    )


def test_what_a_log_has_lost_since_it_was_planned_is_lost(quorum: Quorum) -> None:
    quorum.write(topic("a"), topic("b"))
    stream = Stream()
    stream.plan()
    planned = stream.plan()
    del quorum.log[2:]
    assert told(stream.read(planned))[-2:] == [("read", 0, 2), ("lost", 2, 3)]
    # Its new records are not known before the log is read as it is now.
    assert told(stream.batch()) == [("truncated", 3, 2)]
    assert told(stream.batch()) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("read", 0, 2),
    ]


def test_a_silence_may_begin_before_the_span(quorum: Quorum) -> None:
    quorum.write(topic("a"), NO_OP)
    stream = Stream()
    stream.plan()
    stream.batch()
    quorum.now_ms += 20_000
    quorum.write(topic("b"), NO_OP, topic("c"))
    *_, span = stream.batch()
    assert (span["offset"], span["silence_from"], span["silence_to"]) == (3, at(2), at(43))
    assert span["timestamp"] == at(45)


@dataclass
class Waited:
    """A clock that nothing but waiting moves."""

    at: float = 0.0
    waits: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds

    def pace(self, bytes_a_second: int) -> Pace:
        return Pace(bytes_a_second, self.wait, lambda: self.at)


def test_whoever_reads_keeps_to_the_pace_and_waits_no_longer_than_that() -> None:
    clock = Waited()
    pace = clock.pace(100)
    assert pace.hold() == 0
    pace.took(50)
    pace.took(100)
    clock.at = 0.25
    assert pace.hold() == 1.25
    assert pace.hold() == 0
    clock.at = 60
    pace.took(10)  # The time in which nothing came is nobody's to make up for.
    assert (pace.hold(), clock.waits) == (pytest.approx(0.1), [1.25, pytest.approx(0.1)])


def test_a_log_and_its_snapshots_are_read_at_one_pace(quorum: Quorum) -> None:
    quorum.write(*(topic(f"t{number}") for number in range(30)))
    made = quorum.snapshot(*(topic(f"t{number}") for number in range(30)))
    quorum.write(*(topic(f"u{number}") for number in range(30)))
    clock, end = Waited(), len(quorum.log)
    span = Span("c", CLUSTER_ID, made.offset, end, made, 1)
    # Longer than the timeout, which bounds what controllers take.
    rows = shown(read_span(span, pace=clock.pace(10)))
    assert told(rows)[-1] == ("read", made.offset, end)
    asked = [request for _, request, _ in quorum.asked]
    assert {*asked} == {"Fetch", "FetchSnapshot"}
    size = len(quorum.snapshots[made]) + len(quorum.bytes_of(made.offset - 1, end))
    last = len(quorum.bytes_of(end - 1, end))
    assert clock.at == pytest.approx((size - last) / 10)


def test_a_read_that_nobody_takes_any_more_does_not_wait_for_its_pace(quorum: Quorum) -> None:
    quorum.write(*(topic("a" * 10_000) for _ in range(30)))
    source = KafkaClusterLogSource(GIVEN | {"maxBytesPerSecond": "10000"})
    read = source.reader(source.schema())
    (task,) = read.partitions()
    rows = iter(read.read(task))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert (
        len([offset for _, request, offset in quorum.asked if request == "Fetch" and offset < 30])
        < 5
    )


def happen(quorum: Quorum, chance: random.Random) -> None:
    match chance.randrange(6):
        case 0 | 1 | 2:
            quorum.write(
                *(
                    chance.choice((NO_OP, SCRAM, topic(f"t{len(quorum.log)}")))
                    for _ in range(chance.randrange(9))
                )
            )
        case 3:
            quorum.elect(chance.choice((1, 2, 3)), epochs=chance.randrange(1, 4))
        case 4:
            quorum.snapshot(topic("state"))
        case 5 if quorum.snapshots:
            quorum.trim()
    quorum.a_time = chance.randrange(1, 9)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_each_offset_is_read_or_lost_once_whatever_happens(quorum: Quorum, seed: int) -> None:
    chance = random.Random(seed)
    quorum.newest = chance.choice((13, 17))
    for _ in range(chance.randrange(9)):
        happen(quorum, chance)
    stream, rows = Stream(chance.choice(("earliest", "snapshot"))), []
    stream.plan()
    for _ in range(12):
        planned = stream.plan()
        for _ in range(chance.randrange(3)):
            happen(quorum, chance)
        rows += stream.read(planned)
    fates = [row for row in rows if row["record"] == "span" and "snapshot_offset" not in row]
    assert {row["went"] for row in fates} <= {"read", "lost"}
    assert all(one["next_offset"] == next_["offset"] for one, next_ in itertools.pairwise(fates))
    read = [
        offset
        for row in fates
        if row["went"] == "read"
        for offset in range(row["offset"], row["next_offset"])
    ]
    expected = [offset for offset in read if quorum.log[offset].value not in {NO_OP, SCRAM}]
    assert [row["offset"] for row in rows if row["record"] == "record"] == expected
    assert sum(
        row["records"] + row["no_ops"] + row["counted"] for row in fates if row["went"] == "read"
    ) == len(read)
    for row in fates:
        if row["went"] == "lost" and row["next_offset"] > 1:
            after = rows[rows.index(row) + 1 :]
            assert not after or (after[0]["record"], after[0].get("snapshot_offset")) in {
                ("snapshot", row["next_offset"]),
                ("span", None),
            }


@pytest.mark.parametrize("seed", range(examples(20)))
def test_after_each_truncation_the_log_is_read_as_one_that_was_just_found(
    quorum: Quorum, seed: int
) -> None:
    """Whatever happens between: up to its end nothing is left out, and a batch that is done again
    is the same.
    """
    chance = random.Random(seed)
    for _ in range(chance.randrange(9)):
        happen(quorum, chance)
    stream, rows = Stream(chance.choice(("earliest", "snapshot"))), list[dict[str, Any]]()
    stream.plan()
    for step in range(12):
        if chance.random() < 0.3:
            cut_off(quorum, chance)
        elif step < 11:
            happen(quorum, chance)
        planned = stream.plan()
        rows += stream.read(planned)
        assert stream.read(planned) == stream.read(planned)
    for _ in range(2):
        rows += stream.batch()
    assert stream.plan() == []
    since = max(
        (position for position, row in enumerate(rows) if row.get("went") == "truncated"),
        default=None,
    )
    if since is not None:
        known = -1
        for row in rows[since + 1 :]:
            if row["record"] == "span":
                is_begin = "snapshot_offset" in row or row["offset"] < 2
                assert is_begin or row["went"] == "lost" or known >= row["offset"]
                known = row.get(
                    "snapshot_offset", row["next_offset"] if row["went"] == "read" else -1
                )
        assert known == len(quorum.log)


def cut_off(quorum: Quorum, chance: random.Random) -> None:
    """Other controllers take over, which have less."""
    end = chance.randrange(max(quorum.begin, 1), len(quorum.log) + 1)
    del quorum.log[end:]
    quorum.snapshots = {
        made: content for made, content in quorum.snapshots.items() if made.offset <= end
    }
    quorum.elect(chance.choice((1, 2, 3)), epochs=chance.randrange(1, 4))
    if quorum.begin == 0 and chance.random() < 0.3:
        quorum.snapshots.clear()
        quorum.snapshot(topic("state"))


# --- whom to ask ---


@pytest.mark.parametrize("newest", [13, 17])
def test_the_active_controller_is_followed(quorum: Quorum, newest: int) -> None:
    quorum.newest = newest
    stream = Stream()
    stream.plan()
    stream.batch()
    for leader, dead in ((2, {1}), (3, {2}), (1, set())):
        quorum.elect(leader, epochs=2)
        quorum.dead = dead
        (change, span) = stream.batch()
        assert (change["leader_change"]["leader"], change["leader_epoch"]) == (leader, quorum.epoch)
        assert span["records"] == 1


def test_an_active_controller_that_is_not_given_is_found_by_what_others_say(quorum: Quorum) -> None:
    quorum.elect(3)
    assert told(batch_read(**GIVEN | {SERVERS: "host:1"}))[-1] == ("read", 0, 2)
    quorum.newest = 13
    with pytest.raises(
        ClusterLogError, match=r"no_leader: cluster default: host:1: is not the active controller"
    ):
        batch_read(**GIVEN | {SERVERS: "host:1"})


def test_a_controller_that_does_not_know_that_it_is_active_no_more_is_left(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut off from the others, and answers as it did."""
    cut_off, watcher = Quorum(), LogWatcher(cluster_of(), "earliest", 1_000)
    monkeypatch.setattr(
        connections,
        "Connection",
        lambda cluster, address, *_: (cut_off if address[1] == 1 else quorum).connect(
            cluster, address
        ),
    )
    position = LogPosition(CLUSTER_ID, 1)
    with closing(watcher):
        watcher._controllers._active = ("host", 1)
        assert watcher.ask_extent(position).end == 1
        quorum.elect(2)
        ends = [watcher.ask_extent(position).end for _ in range(5)]
    assert 2 in ends


def test_where_nothing_comes_another_controller_is_asked(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is asked is cut off from the others."""
    cut_off, watcher = Quorum(), LogWatcher(cluster_of(), "earliest", 1_000)
    monkeypatch.setattr(
        connections,
        "Connection",
        lambda cluster, address, *_: (cut_off if address[1] == 1 else quorum).connect(
            cluster, address
        ),
    )
    position = LogPosition(CLUSTER_ID, 1)
    with closing(watcher):
        watcher._controllers._active = ("host", 1)
        watcher.ask_extent(position)
        quorum.elect(2)
        assert watcher.wait(position, 0.2) is None
        with pytest.raises(
            ClusterLogError, match="no_leader: the log has moved on under another leader epoch"
        ):
            watcher.wait(position, 0.2)
        assert watcher.ask_extent(position).end == 2


def test_a_controller_that_was_active_before_takes_nothing_back(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was held for a while, and has not heard yet of who came after it."""
    held = Quorum()
    quorum.elect(2)
    quorum.write(topic("a"))
    stream = Stream()
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 3)
    quorum.write(topic("b"))
    planned = stream.plan()
    monkeypatch.setattr(connections, "Connection", held.connect)
    for again in (
        lambda: LogWatcher(cluster_of(), "earliest", 500).ask_extent(stream.position),
        lambda: stream.read(planned),
    ):
        with pytest.raises(
            ClusterLogError,
            match=r"no_leader: .*host:\d: knows of leader epoch 1, and 2 has been seen",
        ):
            again()


def test_records_that_are_none_are_one_line(quorum: Quorum) -> None:
    stream = Stream()
    stream.plan()
    quorum.write(topic("a"))
    planned = stream.plan()
    quorum.damaged = True
    with pytest.raises(
        ClusterLogError, match=r"protocol: RecordBatch v2: crc at byte \d+: not that of the bytes"
    ):
        stream.read(planned)
    quorum.damaged = False
    quorum.write(topic("b"))
    quorum.damaged = True
    stream.plan()  # or nobody would come to read it, and to say what is wrong


@pytest.mark.parametrize("a_time", [1, 3, 9])
def test_a_bad_batch_is_lost_once_a_snapshot_has_what_it_said(quorum: Quorum, a_time: int) -> None:
    quorum.a_time = a_time
    quorum.write(topic("a"))
    stream = Stream()
    stream.plan()
    stream.batch()
    quorum.write(topic("b"), topic("bad"), topic("c"))
    quorum.bad, before = {3}, stream.position
    planned = stream.plan()
    with pytest.raises(
        ClusterLogError, match=r"protocol: RecordBatch v2: crc at byte \d+: not that of the bytes"
    ):
        stream.read(planned)
    quorum.snapshot(topic("bad"))
    quorum.write(topic("d"))
    # The job plans the batch again.
    stream.position = before
    rows = stream.batch()
    assert told(rows) == [
        ("record", 2, "b"),
        ("read", 2, 3),
        ("lost", 3, 5),
        ("snapshot", 0, "bad"),
        ("read", 0, 1, 5),
        ("record", 5, "d"),
        ("read", 5, 6),
    ]
    (lost,) = (row for row in rows if row.get("went") == "lost")
    assert lost["error"] == "crc: not that of the bytes"


def test_a_bad_batch_that_came_so_by_its_way_is_read(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream()
    stream.plan()
    quorum.write(topic("a"))
    planned = stream.plan()
    records_from = Quorum._records_from

    def noisy(self: Quorum, offset: int, last: int) -> dict[str, Any]:
        self.damaged = len(self.asked) % 2 == 0
        return records_from(self, offset, last)

    monkeypatch.setattr(Quorum, "_records_from", noisy)
    rows = [("record", 0, "LeaderChangeMessage"), ("record", 1, "a"), ("read", 0, 2)]
    assert told(stream.read(planned)) == rows


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            {"apis": {1: (FETCH := 1, QUORUM_KEY)}},
            (
                "not_controller: cluster default: host:1: is a broker's listener: give "
                "kafka.controller.bootstrap.servers"
            ),
        ),
        (
            {"apis": {1: (FETCH,)}},
            "not_controller: cluster default: host:1: is a broker of a cluster with ZooKeeper",
        ),
        (
            {"error": DENIED},
            (
                "not_allowed: cluster default: host:1: CLUSTER_ACTION on the cluster is missing "
                "(kafka-acls"
            ),
        ),
        ({"error": 42}, "broker_error: cluster default: host:1: error 42 (InvalidRequestError)"),
        ({"dead": {1}}, "unreachable: cluster default: host:1: connection refused"),
        (
            {"newest": 12},
            (
                "unsupported_version: cluster default: host:1: this broker's version has no "
                "FetchRequest"
            ),
        ),
    ],
)
def test_what_is_wrong_is_one_line(quorum: Quorum, broken: dict[str, Any], said: str) -> None:
    for name, value in broken.items():
        setattr(quorum, name, value)
    with pytest.raises(ClusterLogError) as raised:
        batch_read(**GIVEN | {SERVERS: "host:1"})
    assert str(raised.value).startswith(f"[KAFKA_METADATA_CLUSTER_LOG] {said}")
    assert "\n" not in str(raised.value)


def test_the_same_problem_of_all_addresses_is_said_once(quorum: Quorum) -> None:
    quorum.apis = {1: (1, QUORUM_KEY), 2: (1, QUORUM_KEY)}
    quorum.dead = {3}
    with pytest.raises(ClusterLogError) as raised:
        batch_read(**GIVEN)
    said = str(raised.value)
    assert said.startswith("[KAFKA_METADATA_CLUSTER_LOG] not_controller: cluster default: ")
    assert len(said) < 300
    assert said.count("broker's listener") == 1
    assert all(f"host:{port}" in said for port in (1, 2, 3))


def test_another_cluster_is_not_read(quorum: Quorum) -> None:
    with pytest.raises(
        ClusterLogError,
        match=r"wrong_cluster: .* host:\d: is not of cluster other, as clusterId says",
    ):
        batch_read(**GIVEN | {"clusterId": "other"})
    watcher = LogWatcher(cluster_of(), "earliest", 1_000)
    with pytest.raises(
        ClusterLogError, match="wrong_cluster: its place is in the log of cluster other"
    ):
        watcher.ask_extent(LogPosition("other", 5))


def test_one_address_that_is_no_controller_s_does_no_harm(quorum: Quorum) -> None:
    quorum.apis = {1: (1, QUORUM_KEY)}
    quorum.dead = {3}
    quorum.elect(2)
    assert told(batch_read(**GIVEN))[-1] == ("read", 0, 2)


def test_one_cluster_s_trouble_is_not_another_s(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "PATIENCE_S", 0.3)
    clusters = {"good": {SERVERS: "host:1"}, "bad": {SERVERS: "host:4"}}
    quorum.apis = {4: (1, QUORUM_KEY)}
    options = {
        "clusters": json.dumps(
            {name: own | {"clusterId": CLUSTER_ID} for name, own in clusters.items()}
        )
    }
    source = KafkaClusterLogSource(options | {"minCommitInterval": "100ms"})
    stream = source.streamReader(source.schema())
    start = stream.initialOffset()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            start, before = stream.latestOffset(start, None), start
            rows = shown(
                batch for task in stream.partitions(before, start) for batch in stream.read(task)
            )
            quorum.write(topic("a"))
    stream.stop()
    assert told(rows) == [("record", 1, "a"), ("record", 2, "a"), ("read", 1, 3)]
    assert start.keys() == {"good"}
    (warned,) = [each.message for each in caplog.records]
    assert "not_controller: cluster bad: host:4: is a broker's listener" in warned
    with pytest.raises(ClusterLogError, match="not_controller: cluster bad"):
        batch_read(**options)


def test_what_a_cluster_that_is_no_longer_configured_had_to_come_is_lost() -> None:
    source = KafkaClusterLogSource(GIVEN)
    stream = source.streamReader(source.schema())
    start, end = ({"gone": LogPosition(CLUSTER_ID, offset).to_json()} for offset in (3, 9))
    for since, until, went in ((start, end, ("lost", 3, 9)), (end, start, ("truncated", 9, 3))):
        assert told(
            shown(batch for task in stream.partitions(since, until) for batch in stream.read(task))
        ) == [went]
    assert list(stream.read(None)) == []  # Spark's own, for a batch without tasks


def test_readers_and_errors_pickle() -> None:
    source = KafkaClusterLogSource(GIVEN)
    for each in (source.reader(source.schema()), source.streamReader(source.schema())):
        assert vars(pickle.loads(pickle.dumps(each))) == vars(each)  # noqa: S301 - our own bytes
    error = ClusterLogError("timeout", "nothing came")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)  # noqa: S301


# --- files ---


def write_folder(quorum: Quorum, folder: Path) -> None:
    """As a controller has it: two segments, a snapshot, and what is neither."""
    quorum.write(*map(topic, "ab"), NO_OP, SCRAM, topic("c"))
    made = quorum.snapshot(topic("a"), SCRAM)
    (folder / f"{0:020}.log").write_bytes(quorum.bytes_of(0, 3))
    (folder / f"{3:020}.log").write_bytes(quorum.bytes_of(3, 6))
    (folder / f"{6:020}.log").touch()
    (folder / f"{made.offset:020}-{made.epoch:010}.checkpoint").write_bytes(quorum.snapshots[made])
    for other in (f"{0:020}.index", f"{9:020}-{1:010}.checkpoint.part", "quorum-state"):
        (folder / other).write_bytes(b"x")


def test_the_files_of_a_controller(tmp_path: Path) -> None:
    write_folder(Quorum(), tmp_path)
    rows = batch_read(path=str(tmp_path), cluster="here", clusterId="x")
    assert told(rows) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("record", 2, "b"),
        ("read", 0, 3),
        *(("record", 5, "c"), ("read", 3, 6)),
        *(("snapshot", 0, "a"), ("read", 0, 2, 6)),
    ]
    assert {(row["cluster"], row["cluster_id"]) for row in rows} == {("here", "x")}
    assert [(row["no_ops"], row["counted"]) for row in rows if row["record"] == "span"] == [
        (0, 0),
        (1, 1),
        (0, 1),
    ]
    one = batch_read(path=str(tmp_path / f"{3:020}.log"))
    assert (told(one), one[0].get("cluster_id")) == ([("record", 5, "c"), ("read", 3, 6)], None)


def test_a_file_that_is_cut_off_has_its_whole_batches_and_says_so(tmp_path: Path) -> None:
    quorum, file = Quorum(), tmp_path / f"{0:020}.log"
    quorum.write(*map(topic, "ab"))
    ends = [len(quorum.bytes_of(0, count)) for count in range(4)]
    whole = quorum.bytes_of(0, 3)
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        count = sum(end <= size for end in ends) - 1
        rows = told(batch_read(path=str(file)))
        assert [row[1] for row in rows if row[0] == "record"] == list(range(count))
        assert [row for row in rows if row[0] != "record"] == [
            *([("read", 0, count)] if count else []),
            *([("cut_off", count, None)] if size not in ends else []),
        ]


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    quorum, file = Quorum(), tmp_path / f"{0:020}.log"
    quorum.write(topic("a"))
    damaged = bytearray(quorum.bytes_of(0, 2))
    damaged[-3] ^= 1
    for path, said in (
        (tmp_path / "none", "path: .*none: no such file or directory"),
        (
            tmp_path,
            (
                "path: .*: no segment .* and no snapshot .* give the folder __cluster_metadata-0 "
                "of a controller"
            ),
        ),
    ):
        with pytest.raises(ClusterLogError, match=f"options: {said}"):
            batch_read(path=str(path))
    file.write_bytes(damaged)
    with pytest.raises(
        ClusterLogError,
        match=r"protocol: .*\.log: from offset 0 on: RecordBatch v2: crc at byte 81",
    ):
        batch_read(path=str(file))


def test_a_place_survives_its_json() -> None:
    position = LogPosition(CLUSTER_ID, 7, ((1, 3), (4, 7)), SnapshotId(7, 4), 5)
    assert LogPosition.from_json(json.loads(json.dumps(position.to_json()))) == position
