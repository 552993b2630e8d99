"""The source `kafka_cluster_log`: its options, its frame, and what history makes of its rows."""

import json
import logging
import pickle
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.rules.arrow import rows_of
from jobs.rules.log.records import in_order
from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.errors import ClusterLogError, OptionsError
from metadata_source.logs import watches
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.cluster.positions import LogPosition, SnapshotId
from metadata_source.options import Cluster, parse_cluster_log
from metadata_source.options.table import CLUSTER_LOG_OPTIONS
from schemas.bronze import CLUSTER_LOG
from tests.support.cluster_records import control_value
from tests.support.controllers_log import (
    NOW,
    SERVERS,
    Follow,
    batch_read,
    options_of,
    rows_of_span,
    shown,
    told,
)
from tests.support.log_rounds import LogLake
from tests.support.quorum import CLUSTER_ID, FETCH_KEY, QUORUM_KEY, SCRAM, Entry, Quorum, topic
from tools.reference import option_table

GIVEN = {SERVERS: "host:1,host:2,host:3", "clusterId": CLUSTER_ID, "requestTimeout": "1s"}


def cluster_with(**options: str) -> Cluster:
    return parse_cluster_log(GIVEN | options).clusters[0]


def snapshot_bytes(of: SnapshotId, *names: str) -> bytes:
    """A whole snapshot of topics, with its header and its footer."""
    header, footer = ({"version": 0, "last_contained_log_timestamp": 0}, {"version": 0})
    values = [(topic(name), None) for name in names]
    values = [(control_value(3, 0, header), 3), *values, (control_value(4, 0, footer), 4)]
    return b"".join(Entry(of.epoch, *each).batch(at) for at, each in enumerate(values))


def test_the_columns_are_those_of_bronze() -> None:
    assert [
        (each.name, each.dataType.simpleString(), each.nullable)
        for each in from_arrow_schema(SCHEMA)
    ] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ","), column.nullable)
        for column in CLUSTER_LOG.columns
    ]
    assert KafkaClusterLogSource(GIVEN).schema() == from_arrow_schema(SCHEMA)


def test_controllers_have_the_security_of_brokers_unless_they_have_their_own() -> None:
    brokers = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:ALICE_PASSWORD",
        "kafka.ssl.ca.location": "/brokers.pem",
    }
    same = cluster_with(**brokers)
    assert (same.bootstrap_servers[0], same.sasl_username, same.ssl_ca_location) == (
        ("host", 1),
        "alice",
        "/brokers.pem",
    )
    own = cluster_with(
        **brokers,
        **{"kafka.controller.sasl.username": "bob", "Kafka.Controller.Ssl.Ca.Location": "/own.pem"},
    )
    assert (own.sasl_username, own.sasl_password, own.ssl_ca_location) == (
        "bob",
        "env:ALICE_PASSWORD",
        "/own.pem",
    )
    plain = cluster_with(**brokers, **{"kafka.controller.security.protocol": "PLAINTEXT"})
    assert (plain.security_protocol, plain.sasl_mechanism, plain.ssl_ca_location) == (
        "PLAINTEXT",
        None,
        None,
    )
    kerberos = cluster_with(**brokers, **{"kafka.controller.sasl.mechanism": "GSSAPI"})
    assert (kerberos.sasl_mechanism, kerberos.sasl_username, kerberos.ssl_ca_location) == (
        "GSSAPI",
        None,
        "/brokers.pem",
    )
    mutual = {
        "kafka.controller.security.protocol": "SSL",
        "kafka.controller.ssl.certificate.location": "/own.pem",
    }
    tls = cluster_with(**brokers, **mutual)
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


def test_one_cluster_s_trouble_is_not_another_s(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "PATIENCE_S", 0.3)
    clusters = {"good": {SERVERS: quorum.where(1)}, "bad": {SERVERS: quorum.where(2)}}
    quorum.apis = {2: (FETCH_KEY, QUORUM_KEY)}
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
    assert f"not_controller: cluster bad: {quorum.where(2)}: is a broker's listener" in warned
    with pytest.raises(ClusterLogError, match="not_controller: cluster bad"):
        batch_read(options)


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
        source = KafkaClusterLogSource(options_of(quorum))
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


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_history_knows_a_log_that_was_cut_off_as_it_is_now(
    quorum: Quorum, follow: Follow, has_snapshot: bool
) -> None:
    stream, lake, open_rows = follow(), LogLake(), list[dict[str, Any]]()

    def topics() -> set[str]:
        return {row["topic"] for row in lake.live["silver.topic_snapshots"]}

    def history(second: int) -> set[str]:
        """Of a batch, with the rows that could not be taken before."""
        nonlocal open_rows
        for span in stream.plan():
            found = rows_of_span(stream.cluster, span, read_at=NOW + timedelta(seconds=second))
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
