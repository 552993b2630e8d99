"""The data source in Spark: batch, stream, SQL, Spark Connect."""

import gc
import itertools
import json
import os
import signal
import tempfile
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
from metadata_source import answer_lock, attempts
from metadata_source.datasource import _DECODERS, _read_once, _tasks
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.protocol.metadata import ClusterMetadata, decode_response
from tests.support.recorders import check_numbers, recorded, recorder_of, recording
from tests.support.streams import Stream
from tests.support.waiting import eventually

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
    stream = Stream(spark, tmp_path)
    yield stream
    stream.end_recorders()


def headers_in(rows: list[dict[str, Any]]) -> int:
    return sum(row["record"] == "poll" for row in rows)


def test_a_batch_read_is_one_poll(read, cluster):
    """Not registered: found by the name of the module pyspark_kafka_metadata."""
    rows = read(cluster="east", clusterId=cluster.cluster_id).collect()
    (header,) = [row for row in rows if row.record == "poll"]
    assert (header.n, header.cluster, header.cluster_id, header.outcome) == (
        0,
        "east",
        cluster.cluster_id,
        "ok",
    )
    assert header.scheduled_at is header.interval_ms is None
    assert [broker.rack for broker in sorted(header.brokers)] == ["a", "b", "c"]
    (topic,) = [row for row in rows if row.topic == TOPIC]
    assert (topic.poll_id, topic.received_at, topic.partition_count) == (
        header.poll_id,
        header.received_at,
        2,
    )
    assert all(
        sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3]
        for partition in topic.partitions
    )


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
    assert spark.table("cluster_topics").where(f"topic = '{TOPIC}'").select(
        "partition_count"
    ).collect() == [(2,)]


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
        (
            {"pollInterval": "1s"},
            AnalysisException,
            "[KAFKA_METADATA_OPTIONS] pollInterval: not in a batch read",
        ),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1"},
            PythonException,
            "[KAFKA_METADATA_POLL] unreachable: cluster default: 127.0.0.1:1: connection refused",
        ),
        (
            {"clusterId": "another"},
            PythonException,
            "[KAFKA_METADATA_POLL] wrong_cluster: cluster default: 127.0.0.1:",
        ),
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
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" '
        'password="{}";'
    )
    (tmp_path / "jaas").write_text(jaas.format(listener.users["alice"]))
    (tmp_path / "wrong").write_text("hunter2")

    def options(credentials: str) -> dict[str, str]:
        given = {
            "env": {"kafka.sasl.username": "alice", "kafka.sasl.password": "env:ALICE_PASSWORD"},
            "file": {"kafka.sasl.jaas.config": f"file:{tmp_path}/jaas"},
            "wrong": {
                "kafka.sasl.username": "alice",
                "kafka.sasl.password": f"file:{tmp_path}/wrong",
            },
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
        available_now=True,
        **{name.replace(".", "__"): value for name, value in options.items()},
        topics="none",
    )
    assert query.awaitTermination(60)
    assert [row.outcome for row in stream.polls()] == ["ok"]
    kept = [file.read_bytes() for file in (tmp_path / "stream").rglob("*") if file.is_file()]
    frame.explain(extended=True)
    shown = capsys.readouterr().out + str(query.recentProgress)
    assert "kafka_metadata" in shown
    assert {"spool", "checkpoint", "rows"} <= {
        each.name for each in (tmp_path / "stream").iterdir()
    }
    assert b"alice-secret" not in b"".join([*kept, shown.encode()])


def test_a_password_that_is_refused_is_told_nowhere(spark, secured):
    with pytest.raises(
        PythonException, match=r"\[KAFKA_METADATA_POLL\] authentication: "
    ) as caught:
        spark.read.format("kafka_metadata").options(**secured("wrong")).load().collect()
    assert "hunter2" not in str(caught.value)


def test_columns_of_ones_own_are_refused(spark, cluster):
    reader = spark.read.format("kafka_metadata").option(
        "kafka.bootstrap.servers", cluster.bootstrap_servers
    )
    with pytest.raises(
        AnalysisException,
        match=r"\[KAFKA_METADATA_OPTIONS\] schema: kafka_metadata brings its own columns",
    ):
        reader.schema("poll_id string").load().collect()


def test_a_stream_of_other_entities_is_refused(stream, cluster):
    with pytest.raises(
        StreamingQueryException, match=r"\[KAFKA_METADATA_OPTIONS\] entity: a stream reads polls"
    ):
        stream.run_once(kafka__bootstrap__servers=cluster.bootstrap_servers, entity="topics")


def test_a_stream_has_each_poll_once_whoever_was_killed_meanwhile(stream, cluster, tmp_path):
    """Spark is away for a while, then the recorder is killed, and leaves its lock."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topicsPattern": TOPIC,
        "pollInterval": "1s",
    }
    of_stream = {name.replace(".", "__"): value for name, value in options.items()}
    spool = tmp_path / "spool"
    with recording(spool, options, "run") as recorder:
        stream.run_until_seen(
            lambda rows: headers_in(rows) >= 3, "record", recorder="run", **of_stream
        )
        committed = headers_in(stream.seen("record"))
        entries = len(recorded(spool))
        eventually(lambda: len(recorded(spool)) >= entries + 3, "polls that nobody reads")
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.wait()
        columns = ("record", "is_key_frame")

        def is_recorded_again(rows: list[dict[str, Any]]) -> bool:
            return (
                headers_in(rows) >= committed + 8
                and sum(row["is_key_frame"] is True for row in rows) == 2
            )

        stream.run_until_seen(is_recorded_again, *columns, recorder="run", **of_stream)
    polls = stream.polls()
    check_numbers(polls)
    assert len({row.stream for row in polls}) == 1
    assert len({row.poll_id for row in polls}) == len(polls)
    assert {(row.outcome, row.interval_ms) for row in polls if row.error_kind != "overlapped"} == {
        ("ok", 1000)
    }
    first, second = (place for place, row in enumerate(polls) if row.is_key_frame)
    assert (first, polls[second].topic_count) == (0, 1)
    assert second >= committed + 3, "the polls that nobody read"
    for run in (polls[:second], polls[second:]):
        steps = [later.scheduled_at - row.scheduled_at for row, later in itertools.pairwise(run)]
        assert all(abs(step - timedelta(seconds=1)) < timedelta(milliseconds=20) for step in steps)
    assert all(
        row.sent_at >= row.scheduled_at - timedelta(milliseconds=20) for row in polls if row.sent_at
    )


def test_stopping_does_not_wait_for_the_next_poll_and_ends_the_streams_own_recorder(
    stream, cluster
):
    folders = set(Path(tempfile.gettempdir()).glob("kafka-metadata-spool-*"))
    query = stream.start(
        pollInterval="1h", kafka__bootstrap__servers=cluster.bootstrap_servers, spool=None
    )
    stream.wait_for(1, query)
    (own,) = set(Path(tempfile.gettempdir()).glob("kafka-metadata-spool-*")) - folders
    recorder = recorder_of(own)
    assert recorder is not None
    begin = time.monotonic()
    query.stop()
    assert time.monotonic() - begin < 5
    recorder.wait(15)
    eventually(lambda: not own.exists(), "its folder to go")


def test_available_now_is_one_poll_after_redoing_a_batch_that_was_cut_off(stream, cluster):
    options = {
        "kafka__bootstrap__servers": cluster.bootstrap_servers,
        "pollInterval": "1h",
        "topics": TOPIC,
    }
    stream.run_once(**options)
    stream.run_once(**options)
    before = stream.polls()
    assert [row.n for row in before] == [0, 1]
    stream.cut_off()
    # The options have changed meanwhile: they hold for the new poll only. Numbers are a cluster's
    # own.
    stream.run_once(**(options | {"pollInterval": "2h", "cluster": "renamed"}))
    *again, new = sorted(stream.polls(), key=lambda row: (row.cluster, row.n))
    assert again == before, "it comes from the spool, whole: nobody polls for it"
    assert (new.n, new.cluster, new.interval_ms) == (0, "renamed", 7_200_000)
    assert recorder_of(stream.folder / "spool") is None


def test_another_machine_takes_over_and_the_first_one_comes_back(stream, cluster, tmp_path):
    """One checkpoint, and a spool on each machine."""
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topics": TOPIC,
        "pollInterval": "1s",
    }
    of_stream = {name.replace(".", "__"): value for name, value in options.items()}
    first, other = tmp_path / "first", tmp_path / "other"
    with recording(first, options, "run"):
        # No second batch begins, to be cut off: once the other machine has made it again, it has
        # other rows.
        stream.run_until_seen(
            lambda rows: headers_in(rows) >= 1,
            "record",
            recorder="run",
            spool=str(first),
            minCommitInterval="1m",
            commitInterval="1m",
            **of_stream,
        )
        committed = headers_in(stream.seen("record"))
        eventually(lambda: len(recorded(first)) >= committed + 3, "polls that are not committed")
        stream.run_once(spool=str(other), **of_stream)

    def has_come_back(rows: list) -> bool:
        """On a busy machine, a poll can fail or be overlapped."""
        headers = sorted(
            (row for row in rows if row["record"] == "poll"), key=lambda row: row["poll_id"]
        )
        outcomes = [row["outcome"] for row in headers if row["error_kind"] != "handed_over"]
        return outcomes[committed + 1 :].count("ok") >= 2

    stream.run_until_seen(
        has_come_back,
        *("record", "poll_id", "outcome", "error_kind"),
        spool=str(first),
        **of_stream,
    )
    polls = stream.polls()
    check_numbers(polls)
    assert len({row.stream for row in polls}) == 1
    (place,) = [place for place, row in enumerate(polls) if row.error_kind == "handed_over"]
    assert place == committed + 1, "after the poll of the other machine"
    assert int(polls[place].error.split()[0]) >= 3
    of_answers = [row.is_key_frame for row in polls[place - 1 :] if row.outcome == "ok"]
    assert of_answers[:3] == [True, True, False], (
        "the other machine's, and the first one's from its return"
    )


def test_a_stream_says_what_changed_and_asks_beside(read, stream, cluster, admin):
    kinds = {"configs", "reassignments", "quorum", "elr", "fenced"}
    servers, short_lived = cluster.bootstrap_servers, f"{TOPIC}-short-lived"

    def check(rows: list) -> None:
        # A poll of a stream waits for no answer: on a busy machine a later one has it.
        latest_first = sorted(rows, key=lambda row: row.n, reverse=True)
        answers = {row.kind: row.outcome for row in latest_first if row.record == "answer"}
        assert answers == dict.fromkeys(kinds, "ok")
        of_topic = (row for row in latest_first if row.topic in {TOPIC, None})
        first = {row.record: row for row in of_topic if row.record in kinds}
        assert set(first) == {"configs", "quorum", "fenced"}
        configs = {
            name: (each.value, each.source) for name, each in first["configs"].configs.items()
        }
        assert configs == {
            # With ELR the controllers keep it for all brokers (KIP-966).
            "min.insync.replicas": ("1", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
            "unclean.leader.election.enable": ("false", "DEFAULT_CONFIG"),
        }
        assert (sorted(first["quorum"].quorum.voters), first["fenced"].fenced) == ([1, 2, 3], [])

    check(read(enrich=",".join(kinds), topics=TOPIC).collect())
    query = stream.start(
        kafka__bootstrap__servers=servers,
        enrich=",".join(kinds - {"reassignments"}) + ",reassignments=2s",
        pollInterval="1s",
        topicsPattern=f"{TOPIC}.*",
    )

    def seen() -> list[bool]:
        rows = stream.seen("record", "topic", "present")
        return [
            row["present"]
            for row in rows
            if (row["record"], row["topic"]) == ("topic", short_lived)
        ]

    stream.wait_for(1, query)
    admin.create_topics([NewTopic(short_lived, 1, 1)])[short_lived].result(30)
    stream.wait(lambda: seen() != [], query)
    admin.delete_topics([short_lived])[short_lived].result(30)
    stream.wait(lambda: seen()[-1] is False, query)
    query.stop()
    rows = sorted(stream.rows().collect(), key=lambda row: row.n)
    check(rows)
    polls = stream.polls()
    check_numbers(polls)
    assert [row.n for row in polls if row.is_key_frame] == [0], polls
    # Between two polls a topic can be seen more than once as it comes up (without a leader at
    # first).
    assert [(row.topic, row.n) for row in rows if row.topic == TOPIC and row.record == "topic"] == [
        (TOPIC, 0)
    ]
    *there, gone = seen()
    assert there
    assert all(there)
    assert not gone
    digests = [bytes(row.digest) for row in polls if row.outcome == "ok"]
    assert digests[0] == digests[-1], "the topic is gone again"
    assert len(set(digests)) > 1
    answers = [row for row in rows if row.record == "answer"]
    assert all(row.asked_at <= row.answered_at for row in answers)
    assert all(row.answered_at >= polls[0].received_at for row in answers)
    assert {row.kind for row in answers if row.n} >= {"reassignments", "configs"}, (
        "at once, as the poll is news"
    )


def test_one_cluster_down_is_a_failed_poll_of_its_own(stream, cluster):
    clusters = {
        "down": {"kafka.bootstrap.servers": "127.0.0.1:1"},
        "up": {"clusterId": cluster.cluster_id},
        "wrong": {"clusterId": "another"},
    }
    stream.run_until_seen(
        lambda rows: headers_in(rows) >= 6,
        "record",
        kafka__bootstrap__servers=cluster.bootstrap_servers,
        clusters=json.dumps(clusters),
        pollInterval="1s",
        topics=TOPIC,
    )
    polls = stream.polls()
    check_numbers(polls)
    assert {
        (row.cluster, row.outcome, row.error_kind, row.is_key_frame) for row in polls if not row.n
    } == {
        ("down", "failed", "unreachable", None),
        ("up", "ok", None, True),
        ("wrong", "failed", "wrong_cluster", None),
    }
    assert {row.cluster for row in stream.rows().where("record = 'topic'").collect()} == {"up"}


@pytest.mark.parametrize("cluster_id", [None, "another"], ids=["good polls", "failed polls"])
def test_a_task_holds_few_decoded_answers_at_once(cluster, monkeypatch, cluster_id):
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

    monkeypatch.setattr(attempts, "decode_response", decode)
    monkeypatch.setattr(answer_lock, "SMALL_BYTES", 0)
    aliases = {f"c{n}": {"clusterId": cluster_id} if cluster_id else {} for n in range(16)}
    options = parse(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, "clusters": json.dumps(aliases)}
    )
    (task,) = _tasks(options, time.time_ns() // 1_000_000)
    gc.collect()
    gc.disable()  # nothing may wait for it
    try:
        with pytest.raises(PollError) if cluster_id else nullcontext():
            for _ in _read_once(task):
                time.sleep(0.01)  # a consumer that is slower than polls
    finally:
        gc.enable()
    # A good answer is checked with another broker's: nothing was known before.
    each = 1 if cluster_id else 2
    assert len(decoded) == each * len(aliases)
    assert 1 <= most <= each * _DECODERS
    assert held() == 0
