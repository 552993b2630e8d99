"""The data source in Spark: batch, stream, SQL, Spark Connect."""

import gc
import itertools
import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql.functions import size

import metadata_source
from metadata_source import poller
from metadata_source.datasource import _DECODERS, _read_on_schedule, _read_once, _tasks
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.protocol.metadata import ClusterMetadata, decode_response
from metadata_source.schedule import Offset, plan
from tests.support.beside import outcomes_of
from tests.support.streams import Stream
from tests.worker import SMALL_JVM, worker_python

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "datasource-test"


@pytest.fixture(scope="module")
def admin(cluster, made_topic):
    with made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3) as admin:
        yield admin


@pytest.fixture
def read(spark, cluster, admin):
    def load(**options: str):
        given = {"kafka.bootstrap.servers": cluster.bootstrap_servers} | options
        return spark.read.format("kafka_metadata").options(**given).load()

    return load


@pytest.fixture
def stream(spark, cluster, admin, tmp_path):
    return Stream(spark, tmp_path)


def test_a_batch_read_is_one_poll(read, cluster):
    """Not registered: found by the name of the module pyspark_kafka_metadata."""
    rows = read(cluster="east", clusterId=cluster.cluster_id).collect()
    (header,) = [row for row in rows if row.record == "poll"]
    assert (header.n, header.cluster, header.cluster_id, header.outcome) == (0, "east", cluster.cluster_id, "ok")
    assert header.scheduled_at is header.interval_ms is None
    assert [broker.rack for broker in sorted(header.brokers)] == ["a", "b", "c"]
    (topic,) = [row for row in rows if row.topic == TOPIC]
    assert (topic.poll_id, topic.received_at, topic.partition_count) == (header.poll_id, header.received_at, 2)
    assert all(sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3] for partition in topic.partitions)


def test_entities_are_plain_rows(read):
    brokers = read(entity="brokers").orderBy("broker_id").collect()
    assert [row.broker_id for row in brokers] == [1, 2, 3]
    (topic,) = read(entity="topics", topics=TOPIC).collect()
    assert (topic.topic, topic.error_code, topic.partition_count) == (TOPIC, 0, 2)
    partitions = read(entity="partitions", topicsPattern=f"{TOPIC}|x")
    assert partitions.select("topic", "partition", size("isr")).orderBy("partition").collect() == [
        (TOPIC, 0, 3),
        (TOPIC, 1, 3),
    ]


def test_a_view_in_sql(spark, cluster, admin):
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW cluster_topics USING kafka_metadata OPTIONS "
        f"(`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', entity 'topics')"
    )
    assert spark.table("cluster_topics").where(f"topic = '{TOPIC}'").select("partition_count").collect() == [(2,)]


def test_registration_by_one_call(spark, read):
    metadata_source.register(spark)
    assert read(entity="brokers").count() == 3


@pytest.mark.parametrize(
    ("given", "raised", "said"),
    [
        (
            {"entitty": "topics"},
            AnalysisException,
            "[KAFKA_METADATA_OPTIONS] unknown option 'entitty': did you mean 'entity'?",
        ),
        ({"pollInterval": "1s"}, AnalysisException, "[KAFKA_METADATA_OPTIONS] pollInterval: not in a batch read"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1"},
            PythonException,
            "[KAFKA_METADATA_POLL] unreachable: cluster default: 127.0.0.1:1: connection refused",
        ),
        ({"clusterId": "another"}, PythonException, "[KAFKA_METADATA_POLL] wrong_cluster: cluster default: 127.0.0.1:"),
    ],
)
def test_a_batch_read_that_cannot_be_raises_one_clear_line(read, given, raised, said):
    with pytest.raises(raised) as caught:
        read(**given).collect()
    (line,) = [line for line in str(caught.value).splitlines() if "[KAFKA_METADATA_" in line]
    assert said in line


@pytest.fixture
def secured(sasl_ssl_cluster, tmp_path) -> Callable[[str], dict[str, str]]:
    listener = sasl_ssl_cluster.sasl_ssl
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
    (tmp_path / "jaas").write_text(jaas.format(listener.users["alice"]))
    (tmp_path / "wrong").write_text("hunter2")

    def options(credentials: str) -> dict[str, str]:
        given = {
            "env": {"kafka.sasl.username": "alice", "kafka.sasl.password": "env:ALICE_PASSWORD"},
            "file": {"kafka.sasl.jaas.config": f"file:{tmp_path}/jaas"},
            "wrong": {"kafka.sasl.username": "alice", "kafka.sasl.password": f"file:{tmp_path}/wrong"},
        }
        return given[credentials] | {
            "kafka.bootstrap.servers": listener.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.ssl.ca.location": str(listener.ca_file),
        }

    return options


@pytest.mark.parametrize("credentials", ["env", pytest.param("file", marks=pytest.mark.soak)])
def test_secrets_stay_references(spark, secured, tmp_path, capsys, credentials):
    options = secured(credentials)
    frame = spark.read.format("kafka_metadata").options(**options).load()
    assert [row.outcome for row in frame.where("record = 'poll'").collect()] == ["ok"]
    stream = Stream(spark, tmp_path / "stream")
    query = stream.start(
        available_now=True, **{name.replace(".", "__"): value for name, value in options.items()}, topics="none"
    )
    assert query.awaitTermination(60)
    assert [row.outcome for row in stream.polls()] == ["ok"]
    (offset,) = (tmp_path / "stream" / "checkpoint" / "offsets").glob("0")
    assert f'"{credentials}:' in offset.read_text()
    kept = [file.read_bytes() for file in (tmp_path / "stream").rglob("*") if file.is_file()]
    frame.explain(extended=True)
    shown = capsys.readouterr().out + str(query.recentProgress)
    assert "kafka_metadata" in shown
    assert b"alice-secret" not in b"".join([*kept, shown.encode()])


def test_a_password_that_is_refused_is_told_nowhere(spark, secured):
    with pytest.raises(PythonException, match=r"\[KAFKA_METADATA_POLL\] authentication: ") as caught:
        spark.read.format("kafka_metadata").options(**secured("wrong")).load().collect()
    assert "hunter2" not in str(caught.value)


def test_columns_of_ones_own_are_refused(spark, cluster):
    reader = spark.read.format("kafka_metadata").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    with pytest.raises(
        AnalysisException, match=r"\[KAFKA_METADATA_OPTIONS\] schema: kafka_metadata brings its own columns"
    ):
        reader.schema("poll_id string").load().collect()


def test_a_stream_of_other_entities_is_refused(stream, cluster):
    with pytest.raises(StreamingQueryException, match=r"\[KAFKA_METADATA_OPTIONS\] entity: a stream reads polls"):
        stream.run_once(kafka__bootstrap__servers=cluster.bootstrap_servers, entity="topics")


def test_a_stream_polls_on_its_schedule(stream, cluster):
    options = {"kafka__bootstrap__servers": cluster.bootstrap_servers, "topicsPattern": TOPIC, "requestTimeout": "10s"}
    stream.run_until(4, pollInterval="1s", **options)
    stream.run_until(6, pollInterval="1s", **options)  # a restart goes on where the checkpoint is
    polls = stream.polls()
    assert [row.n for row in polls] == list(range(len(polls)))
    assert len({row.poll_id for row in polls}) == len(polls)
    assert len({row.stream for row in polls}) == 1
    assert {(row.outcome, row.is_key_frame, row.interval_ms, row.topic_count) for row in polls} == {
        ("ok", True, 1000, 1)
    }
    steps = [(later.scheduled_at - row.scheduled_at) / timedelta(seconds=1) for row, later in itertools.pairwise(polls)]
    assert all(step >= 1 and step == int(step) for step in steps)
    assert all(row.sent_at >= row.scheduled_at for row in polls)


def test_stopping_does_not_wait_for_the_next_poll(stream, cluster):
    query = stream.start(pollInterval="1h", kafka__bootstrap__servers=cluster.bootstrap_servers)
    stream.wait_for(1, query)
    time.sleep(1)
    begin = time.monotonic()
    query.stop()
    assert time.monotonic() - begin < 5


def test_available_now_is_one_new_batch_after_redoing_one_that_was_cut_off(stream, cluster):
    options = {"kafka__bootstrap__servers": cluster.bootstrap_servers, "pollInterval": "1h", "topics": TOPIC}
    stream.run_once(**options)
    stream.run_once(**options)
    before = stream.polls()
    assert [row.n for row in before] == [0, 1]
    stream.cut_off()
    # The options have changed meanwhile: they hold for the new batch only.
    stream.run_once(**(options | {"pollInterval": "2h", "cluster": "renamed"}))
    after = stream.polls()
    assert [(row.n, row.cluster, row.interval_ms) for row in after] == [
        (0, "default", 3_600_000),
        (1, "default", 3_600_000),
        (2, "renamed", 7_200_000),
    ]
    assert [row.poll_id for row in after[:2]] == [row.poll_id for row in before]
    assert after[1].scheduled_at == before[1].scheduled_at
    assert after[1].sent_at > before[1].sent_at  # polled again: polls cannot be replayed


def test_several_polls_in_a_batch_say_what_changed(stream, cluster, admin):
    options = {"kafka__bootstrap__servers": cluster.bootstrap_servers, "topicsPattern": f"{TOPIC}.*"}
    short_lived = f"{TOPIC}-short-lived"
    # The first poll connects: it may take its time before the next one is due.
    query = stream.start(available_now=True, pollInterval="6s", pollsPerBatch="4", **options)
    stream.wait_for_plan(query)
    time.sleep(4)
    admin.create_topics([NewTopic(short_lived, 1, 1)])[short_lived].result(30)
    time.sleep(6.5)
    admin.delete_topics([short_lived])[short_lived].result(30)
    assert query.awaitTermination(60)
    polls = stream.polls()
    assert [(row.n, row.outcome) for row in polls] == [(n, "ok") for n in range(4)]
    assert [row.is_key_frame for row in polls] == [True] + [False] * 3
    late = [(row.sent_at - row.scheduled_at) / timedelta(milliseconds=1) for row in polls[1:]]
    assert min(late) >= -5
    rows = stream.rows().where("record = 'topic'").orderBy("n", "topic").collect()
    # Between two polls a topic can be seen more than once as it comes up (without a leader at first).
    assert [(row.topic, row.n) for row in rows if row.topic == TOPIC] == [(TOPIC, 0)]
    seen = [row.present for row in rows if row.topic == short_lived]
    assert seen[-1] is False
    assert len(seen) >= 2
    assert all(seen[:-1])
    digests = [row.digest for row in polls]
    assert digests[0] == digests[3], "the topic is gone again"
    assert len(set(digests)) > 1


def test_enrichments_are_records_of_their_own(read, stream, cluster):
    kinds = {"configs", "reassignments", "quorum", "elr", "fenced"}

    def check(rows: list) -> None:
        outcomes = [found for _, found in sorted(outcomes_of(rows).items())]
        assert outcomes[0] == dict.fromkeys(kinds, "ok")
        assert {tuple(found) for found in outcomes[1:]} <= {("reassignments",)}
        polls = {row.n: row for row in rows if row.record == "poll"}
        for row in (row for row in rows if row.record == "answer"):
            assert polls[row.n].received_at <= row.asked_at <= row.answered_at
        first = {row.record: row for row in rows if row.n == 0 and row.record in kinds}
        assert set(first) == {"configs", "quorum", "fenced"}
        assert first["configs"].topic == TOPIC
        configs = {name: (each.value, each.source) for name, each in first["configs"].configs.items()}
        assert configs == {
            # With ELR the controllers keep it for all brokers (KIP-966).
            "min.insync.replicas": ("1", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            "unclean.leader.election.enable": ("false", "DEFAULT_CONFIG"),
        }
        assert (sorted(first["quorum"].quorum.voters), first["fenced"].fenced) == ([1, 2, 3], [])

    check(read(enrich=",".join(kinds), topics=TOPIC).collect())
    stream.run_once(
        kafka__bootstrap__servers=cluster.bootstrap_servers,
        enrich=",".join(kinds - {"reassignments"}) + ",reassignments=2s",
        pollInterval="2s",
        pollsPerBatch="3",
        topics=TOPIC,
    )
    check(stream.rows().collect())
    assert [row.outcome for row in stream.polls()] == ["ok"] * 3
    assert len({row.digest for row in stream.polls()}) == 1, "nothing happened"
    answers = stream.rows().where("record = 'answer'").orderBy("n").collect()
    assert len({bytes(row.digest) for row in answers if row.kind == "reassignments"}) == 1
    assert [(row.n, row.kind) for row in answers if row.n] == [(1, "reassignments"), (2, "reassignments")]


def test_one_cluster_down_is_a_failed_poll_of_its_own(stream, cluster):
    clusters = {
        "down": {"kafka.bootstrap.servers": "127.0.0.1:1"},
        "up": {"clusterId": cluster.cluster_id},
        "wrong": {"clusterId": "another"},
    }
    stream.run_until(
        3,
        kafka__bootstrap__servers=cluster.bootstrap_servers,
        clusters=json.dumps(clusters),
        pollInterval="1s",
        topics=TOPIC,
    )
    polls = stream.polls()
    assert [row.cluster for row in polls[:6]] == ["down", "up", "wrong"] * 2
    outcome = {(row.cluster, row.outcome, row.error_kind, row.is_key_frame) for row in polls}
    assert outcome == {
        ("down", "failed", "unreachable", None),
        ("up", "ok", None, True),
        ("wrong", "failed", "wrong_cluster", None),
    }
    assert {row.cluster for row in stream.rows().where("record = 'topic'").collect()} == {"up"}


def test_polls_that_fall_due_while_one_runs_are_overlapped(stream, cluster):
    """A broker that hangs holds its own polls up, and nobody else's."""
    hanging = cluster.bootstrap_servers.split(",")[2]
    clusters = {
        "hanging": {"kafka.bootstrap.servers": hanging},
        "well": {"kafka.bootstrap.servers": cluster.bootstrap_servers.split(",")[0]},
    }
    cluster.pause(3)
    try:
        stream.run_once(
            clusters=json.dumps(clusters),
            pollInterval="2s",
            pollsPerBatch="6",
            requestTimeout="4800ms",
            topics=TOPIC,
        )
    finally:
        cluster.resume(3)
    kinds = {alias: [row.error_kind for row in stream.polls() if row.cluster == alias] for alias in ("hanging", "well")}
    assert kinds["well"] == [None] * 6
    assert set(kinds["hanging"]) == {"timeout", "overlapped"}
    assert kinds["hanging"][:2] == ["timeout", "overlapped"]


@pytest.mark.parametrize("cluster_id", [None, "another"], ids=["good polls", "failed polls"])
@pytest.mark.parametrize("read", [_read_once, _read_on_schedule])
def test_a_task_holds_few_decoded_answers_at_once(cluster, monkeypatch, read, cluster_id):
    decoded: list[weakref.ref] = []
    most = 0

    def held() -> int:
        return sum(table() is not None for table in decoded)

    def decode(body: bytes, version: int, **more: Any) -> ClusterMetadata:
        nonlocal most
        metadata = decode_response(body, version, **more)
        decoded.append(weakref.ref(metadata.partitions))
        most = max(most, held())
        return metadata

    monkeypatch.setattr(poller, "decode_response", decode)
    monkeypatch.setattr(poller, "_SMALL_BYTES", 0)
    monkeypatch.setattr(poller, "_memories", {})
    aliases = {f"c{n}": {"clusterId": cluster_id} if cluster_id else {} for n in range(16)}
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, "clusters": json.dumps(aliases)})
    (task,) = _tasks(options, plan(Offset(), time.time_ns() // 1_000_000, options.beat_ms, 1, {}))
    gc.collect()
    gc.disable()  # nothing may wait for it
    try:
        with pytest.raises(PollError) if cluster_id and read is _read_once else nullcontext():
            for _ in read(task):
                time.sleep(0.01)  # a consumer that is slower than polls
    finally:
        gc.enable()
    # A good answer is checked with another broker's: nothing was known before.
    each = 1 if cluster_id else 2
    assert len(decoded) == each * len(aliases)
    assert 1 <= most <= each * _DECODERS
    assert held() == 0


@pytest.mark.soak
def test_over_spark_connect(cluster, admin, tmp_path):
    """A session of its own process: classic and Connect sessions do not go together in one."""
    script = f"""
import metadata_source
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
metadata_source.register(spark)
options = {{"kafka.bootstrap.servers": {cluster.bootstrap_servers!r}, "topics": {TOPIC!r}}}
(topic,) = spark.read.format("kafka_metadata").options(entity="topics", **options).load().collect()
assert topic.partition_count == 2, topic
stream = spark.readStream.format("kafka_metadata").options(**options).load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", "{tmp_path}/checkpoint")
assert writer.trigger(availableNow=True).start("{tmp_path}/rows").awaitTermination(90)
rows = spark.read.parquet("{tmp_path}/rows").collect()
assert sorted(row.record for row in rows) == ["poll", "topic"], rows
print("connected")
spark.stop()
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=ROOT,
        # As if it were installed on the server: classes go there by name.
        env=environment | {"PYSPARK_PYTHON": worker_python(), "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": SMALL_JVM},
        check=False,
    )
    assert done.stdout.endswith("connected\n"), done.stderr[:3000]
