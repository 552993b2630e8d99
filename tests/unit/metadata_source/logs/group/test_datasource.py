"""The source `kafka_group_log`: its options, and its frame."""

import json
import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.columns.group_log import SCHEMA
from metadata_source.errors import GroupLogError, OptionsError
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.source import tasks
from metadata_source.logs.topic.positions import LogExtent, LogPosition, Span
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import parse_group_log
from metadata_source.options.table import GROUP_LOG_OPTIONS
from schemas.bronze import GROUP_LOG
from tests.support.group_log import log_of
from tests.support.log_brokers import Brokers
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


def test_what_one_log_stumbles_over_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask_extent = LogWatcher.ask_extent

    def stumbling(watcher: LogWatcher, position: LogPosition | None = None) -> LogExtent:
        if watcher._poller._cluster.alias == "odd":
            raise KeyError("partition\n7")
        return ask_extent(watcher, position)

    monkeypatch.setattr(LogWatcher, "ask_extent", stumbling)
    brokers = Brokers()
    with brokers.listening() as nodes:
        given = {"kafka.bootstrap.servers": nodes.servers}
        clusters = {"odd": given, "well": given}
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
