"""The source `kafka_group_log` without Kafka: its options, and what lies between two positions in
logs.
"""

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import GroupLogError, OptionsError
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.source import tasks
from metadata_source.logs.tasks import CLUSTERS_A_TASK, OFFSETS_A_TASK, grouped, spans
from metadata_source.logs.topic.positions import LogExtent, LogPosition, Span, advance
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import parse_group_log
from metadata_source.options.table import GROUP_LOG_OPTIONS
from schemas.bronze import GROUP_LOG
from tests.support.group_log import log_of
from tools.reference import option_table

BOOTSTRAP = {"kafka.bootstrap.servers": "one:9092"}


def test_the_columns_are_those_of_bronze():
    assert [
        (each.name, each.dataType.simpleString(), each.nullable)
        for each in from_arrow_schema(SCHEMA)
    ] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ","), column.nullable)
        for column in GROUP_LOG.columns
    ]
    assert KafkaGroupLogSource(BOOTSTRAP).schema() == from_arrow_schema(SCHEMA)


@pytest.mark.parametrize(
    ("given_text", "starting"),
    [
        (None, "earliest"),
        ("Latest", "latest"),
        ("1763802000000", 1763802000000),
        ("2025-11-22T09:00:00Z", 1763802000000),
        ("2025-11-22T10:00:00.500+01:00", 1763802000500),
    ],
)
def test_where_a_log_begins(given_text, starting):
    assert (
        parse_group_log(
            BOOTSTRAP | ({"startingoffsets": given_text} if given_text else {})
        ).starting
        == starting
    )


def test_what_is_asked_for():
    options = parse_group_log(
        {
            "clusters": json.dumps({"a": BOOTSTRAP, "b": BOOTSTRAP | {"clusterId": "x"}}),
            "MAXRECORDSPERBATCH": "7",
            "requestTimeout": "5s",
            "commitInterval": "30s",
            "minCommitInterval": "500ms",
            "clientHashKey": "env:HASH_KEY",
            "groupsPattern": "orders.*",
        },
        "stream",
    )
    assert [cluster.alias for cluster in options.clusters] == ["a", "b"]
    assert (options.max_records, options.request_timeout_ms, options.client_hash_key) == (
        7,
        5_000,
        "env:HASH_KEY",
    )
    assert options.groups_pattern == r"\A(?:orders.*)\z"
    assert (options.commit_interval_ms, options.min_commit_interval_ms) == (30_000, 500)
    options = parse_group_log(BOOTSTRAP, "stream")
    assert (options.commit_interval_ms, options.min_commit_interval_ms) == (60_000, 1_000)


@pytest.mark.parametrize(
    ("mode", "given_options", "said"),
    [
        (None, {}, "kafka.bootstrap.servers: missing"),
        (
            None,
            BOOTSTRAP | {"startingOffset": "earliest"},
            "unknown option 'startingOffset': did you mean 'startingOffsets'?",
        ),
        (None, BOOTSTRAP | {"pollInterval": "1s"}, "unknown option 'pollInterval'"),
        (
            None,
            BOOTSTRAP | {"startingOffsets": "yesterday"},
            "'yesterday' is neither earliest, latest, a time such as",
        ),
        (
            None,
            BOOTSTRAP | {"startingOffsets": "2025-11-22T09:00:00"},
            "has no zone: end it with Z or an offset",
        ),
        (
            None,
            BOOTSTRAP | {"maxRecordsPerBatch": "0"},
            "maxRecordsPerBatch: '0' is not a whole number from 1",
        ),
        (
            "batch",
            BOOTSTRAP | {"maxRecordsPerBatch": "9"},
            "not in a batch read, which reads all there is",
        ),
        (None, BOOTSTRAP | {"clientHashKey": "hunter2"}, "clientHashKey: not a reference"),
        (
            None,
            BOOTSTRAP | {"groupsPattern": "a)|(b"},
            "groupsPattern: 'a)|(b' is not a regular expression of RE2",
        ),
        ("batch", BOOTSTRAP | {"resumeAt": "{}"}, "resumeAt: not in a batch read"),
        ("batch", BOOTSTRAP | {"commitInterval": "5s"}, "commitInterval: not in a batch read"),
        (
            None,
            BOOTSTRAP | {"commitInterval": "1ms"},
            "commitInterval: '1ms' is not between 1000 ms and 24 hours",
        ),
        *(
            (
                None,
                BOOTSTRAP | {"resumeAt": text},
                'resumeAt: not JSON such as {"alias": {"0": 42}}',
            )
            for text in ("here", "[]", '{"a": 4}', '{"a": {"x": 4}}', '{"a": {"0": null}}')
        ),
        (
            None,
            {"clusters": '{"a": {"startingOffsets": "latest"}}'},
            "startingOffsets: one for the whole read",
        ),
    ],
)
def test_what_cannot_be_meant(mode, given_options, said):
    with pytest.raises(OptionsError) as raised:
        parse_group_log(given_options, mode)
    assert said in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_table_shows_every_option_once():
    lines = option_table(GROUP_LOG_OPTIONS).splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [
        option.name for option in GROUP_LOG_OPTIONS
    ]


def test_msk_takes_tokens_by_oauthbearer():
    sasl = BOOTSTRAP | {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "aws_msk_iam",
    }
    (cluster,) = parse_group_log(sasl).clusters
    assert (cluster.sasl_mechanism, cluster.sent_mechanism) == ("AWS_MSK_IAM", "OAUTHBEARER")


OFFSETS = st.integers(0, 1_000)


@st.composite
def logs(draw: st.DrawFn) -> LogExtent:
    begins = draw(st.dictionaries(st.integers(0, 5), OFFSETS, min_size=1))
    ends = {partition: begin + draw(OFFSETS) for partition, begin in begins.items()}
    return LogExtent("cluster", "topic", frozenset(begins), begins, ends)


@given(logs(), st.data(), st.integers(1, 500))
def test_bounded_batches_go_through_every_offset_once_and_come_to_the_end(seen, data, limit):
    """From positions before, in and at the end of the log: what comes between two positions,
    joined, is all there was to come.
    """
    known = data.draw(st.sets(st.sampled_from(sorted(seen.partitions))))
    start = {partition: data.draw(st.integers(0, seen.ends[partition])) for partition in known}
    position = LogPosition("cluster", "topic", start)
    at = dict(start)
    for _ in range(2_100):
        following = advance(position, seen, limit)
        between = list(spans({"c": position}, {"c": following}))
        assert not any(span.truncated for span in between)
        readable = [span.end - max(span.start, seen.begins[span.partition]) for span in between]
        assert sum(readable) <= limit + len(seen.partitions)
        for span in between:
            assert span.start == at[span.partition]
            at[span.partition] = span.end
        assert LogPosition.from_json(json.loads(json.dumps(following.to_json()))) == following
        if following == position:
            break
        at = {
            partition: at.get(partition, following.next[partition]) for partition in following.next
        }
        position = following
    assert position.next == seen.ends == at


def test_a_partition_that_is_new_begins_with_its_first_record():
    position = LogPosition("cluster", "topic", {0: 10})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 3}, {0: 12, 1: 9})
    following = advance(position, seen)
    assert following.next == {0: 12, 1: 3}
    assert list(spans({"c": position}, {"c": following})) == [
        Span("c", "cluster", "topic", 0, 10, 12)
    ]
    assert advance(following, seen).next == {0: 12, 1: 9}


def test_without_a_leader_a_partition_keeps_its_place():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0}, {0: 12})
    assert not seen.whole
    assert advance(position, seen).next == {0: 12, 1: 4}
    gone = LogExtent("cluster")
    assert advance(position, gone) == position


def test_a_log_that_ends_before_its_place_was_truncated():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    seen = LogExtent("cluster", "topic", frozenset({0, 1}), {0: 0, 1: 0}, {0: 7, 1: 4})
    following = advance(position, seen, 1)
    (span,) = spans({"c": position}, {"c": following})
    assert (span.start, span.end, span.truncated) == (10, 7, True)
    assert advance(following, seen, 1) == following


def test_a_topic_that_was_made_again_is_read_from_its_beginning():
    position = LogPosition("cluster", "topic", {0: 10, 1: 4})
    again = LogExtent("cluster", "another", frozenset({0, 1}), {0: 0, 1: 0}, {0: 300, 1: 4})
    leaderless = replace(again, begins={0: 0}, ends={0: 300})
    assert advance(position, leaderless) == position
    following = advance(position, again)
    assert following == LogPosition("cluster", "another", {0: 0, 1: 0})
    assert [
        (span.start, span.end, span.truncated) for span in spans({"c": position}, {"c": following})
    ] == [
        (10, 0, True),
        (4, 0, True),
    ]
    assert advance(following, again).next == {0: 300, 1: 4}


def test_a_cluster_that_is_found_has_a_batch_without_rows():
    position = LogPosition("cluster", "topic", {0: 10})
    assert list(spans({}, {"c": position})) == []
    assert list(spans({"c": LogPosition("cluster", None, {})}, {"c": position})) == []


def test_a_log_whose_place_was_lost_is_read_from_where_it_was_read_up_to(monkeypatch):
    """Though it is to begin at its end, and some of it is gone by now: that is a span, whose rows
    say so.
    """
    seen = LogExtent(
        "cluster",
        "topic",
        frozenset(range(4)),
        {0: 7, 1: 0, 2: 0, 3: 0},
        {0: 90, 1: 90, 2: 90, 3: 90},
    )
    monkeypatch.setattr(LogWatcher, "ask_extent", lambda *_: seen)
    options = {
        "resumeAt": json.dumps({"default": {"0": 3, "1": 40, "2": 95}}),
        "startingOffsets": "latest",
    }
    source = KafkaGroupLogSource(BOOTSTRAP | options)
    reader = source.streamReader(source.schema())
    start = reader.latestOffset(reader.initialOffset(), None)
    end = reader.latestOffset(start, None)
    (task,) = reader.partitions(start, end)
    found = {
        span.partition: (span.start, span.end, span.truncated) for span in task.spans["default"]
    }
    assert found == {0: (3, 90, False), 1: (40, 90, False), 2: (95, 90, True), 3: (0, 90, False)}
    reader.stop()


def test_a_topic_that_is_not_there_is_said_once_and_once_when_it_is(monkeypatch, caplog):
    first = LogExtent("cluster", "t", frozenset({0}), {0: 0}, {0: 5})
    looks = iter([LogExtent("cluster"), LogExtent("cluster"), first, first])
    monkeypatch.setattr(LogWatcher, "ask_extent", lambda *_: next(looks))
    source = KafkaGroupLogSource(BOOTSTRAP)
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    for _ in range(4):
        reader._available = None
        offset = reader.latestOffset(offset, None)
    reader.stop()
    assert [record.getMessage() for record in caplog.records] == [
        f"cluster default: topic __consumer_offsets {says}"
        for says in (
            "is not there: nothing is read of it until it is (Kafka makes it for the first group)",
            "is there now, and is read",
        )
    ]


def test_what_one_log_stumbles_over_costs_no_other(monkeypatch, caplog):
    def ask_extent(watcher, _):
        if watcher._poller._cluster.alias == "odd":
            raise KeyError("partition\n7")
        return LogExtent("cluster", "t", frozenset({0}), {0: 0}, {0: 5})

    monkeypatch.setattr(LogWatcher, "ask_extent", ask_extent)
    clusters = {alias: {"kafka.bootstrap.servers": f"{alias}:9092"} for alias in ("odd", "well")}
    source = KafkaGroupLogSource({"clusters": json.dumps(clusters)})
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    assert set(reader.latestOffset(reader.initialOffset(), None)) == {"well"}
    reader.stop()
    (said,) = (record.getMessage() for record in caplog.records)
    assert (
        "protocol: cluster odd: this program stumbled over what the broker answered (KeyError"
        in said
    )
    assert "\n" not in said


def test_what_a_cluster_that_is_no_longer_configured_had_to_come_is_lost():
    source = KafkaGroupLogSource(BOOTSTRAP)
    # That a log had been truncated is known already, and said.
    for start, end, became in (3, 9, "lost"), (9, 3, "truncated"):
        (task,) = tasks([Span("gone", "cluster", "topic", 0, start, end)])
        (batch,) = source.streamReader(source.schema()).read(task)
        (row,) = batch.to_pylist()
        assert (row["cluster"], row["record"], row["offset"], row["next_offset"]) == (
            "gone",
            became,
            start,
            end,
        )
    assert (
        list(source.streamReader(source.schema()).read(None)) == []
    )  # Spark's own, for a batch without tasks


def test_a_key_that_is_not_there_is_no_fault_of_the_log(monkeypatch):
    monkeypatch.delenv("HASH_KEY", raising=False)
    source = KafkaGroupLogSource(BOOTSTRAP | {"clientHashKey": "env:HASH_KEY"})
    (task,) = tasks([Span("default", "cluster", "topic", 0, 3, 9)])
    with pytest.raises(OptionsError, match="HASH_KEY"):
        list(source.streamReader(source.schema()).read(task))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2 * OFFSETS_A_TASK)), max_size=80),
)
def test_each_span_is_read_by_one_task_and_a_task_takes_no_more_than_it_may(sizes):
    between = [
        Span(f"c{cluster}", None, None, n, 0, size) for n, (cluster, size) in enumerate(sizes)
    ]
    found = list(grouped(between))
    assert (
        sorted(
            (span for task in found for spans_ in task.values() for span in spans_),
            key=lambda span: span.partition,
        )
        == between
    )
    for task in found:
        assert len(task) <= CLUSTERS_A_TASK
        assert {span.cluster for spans_ in task.values() for span in spans_} == set(task)
        *others, _ = sorted(
            (span for spans_ in task.values() for span in spans_), key=lambda span: span.partition
        )
        assert sum(span.end for span in others) < OFFSETS_A_TASK


def test_many_clusters_with_little_news_are_few_tasks():
    between = [
        Span(f"c{cluster}", None, None, n, 0, 20) for cluster in range(300) for n in range(50)
    ]
    assert len(list(grouped(between))) == 19


def test_rows_of_spans_have_the_columns_and_readers_pickle():
    (rows,) = log_of("topic").unread(Span("c", None, None, 0, 1, 2), "lost", datetime.now(UTC))
    assert rows.schema == SCHEMA
    source = KafkaGroupLogSource(BOOTSTRAP)
    for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
        copied = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
        assert vars(copied) == vars(reader)
    error = GroupLogError("timeout", "nothing came")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)  # noqa: S301


def test_a_reader_goes_to_its_workers_without_secrets_and_connections(monkeypatch):
    """Spark pickles it with what it has looked at."""
    monkeypatch.setenv("GROUP_LOG_PASSWORD", "passMk7Qz2Wn4")
    monkeypatch.setenv("HASH_KEY", "hashMk4Ns7Fd2")
    source = KafkaGroupLogSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "env:GROUP_LOG_PASSWORD",
            "clientHashKey": "env:HASH_KEY",
            "requestTimeout": "1s",
        }
    )
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    try:
        assert reader.latestOffset({}, None) == {}
        assert reader._watches is not None
        pickled = pickle.dumps(reader)
    finally:
        reader.stop()
    assert b"env:GROUP_LOG_PASSWORD" in pickled
    assert not [mark for mark in (b"passMk7Qz2Wn4", b"hashMk4Ns7Fd2") if mark in pickled]
    assert pickle.loads(pickled)._watches is None  # noqa: S301 - our own bytes
