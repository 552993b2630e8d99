"""The source `kafka_transaction_log`: its options, its rows, and what is news."""

import itertools
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.columns.transaction_log import RECORDS as DECODED
from metadata_source.columns.transaction_log import ROWS, SCHEMA, STATE
from metadata_source.errors import OptionsError, TransactionLogError
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.transaction.datasource import KafkaTransactionLogSource
from metadata_source.logs.transaction.log import TransactionLog
from metadata_source.options import parse_transaction_log
from metadata_source.protocol.record_batches import RECORDS
from metadata_source.protocol.transaction_specs import ONGOING, PREPARE_ABORT
from schemas.transactions import STATE_COLUMNS, TRANSACTION_LOG
from tests.support.log_brokers import TOPIC, Brokers
from tests.support.transaction_log import START_MS, TIMEOUT_MS, key_of, value_of

BOOTSTRAP = {"kafka.bootstrap.servers": "one:9092"}
READ_AT = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    with made.listening():
        yield made


def test_the_columns_are_those_of_bronze() -> None:
    assert [
        (each.name, each.dataType.simpleString(), each.nullable)
        for each in from_arrow_schema(SCHEMA)
    ] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ","), column.nullable)
        for column in TRANSACTION_LOG.columns
    ]
    assert KafkaTransactionLogSource(BOOTSTRAP).schema() == from_arrow_schema(SCHEMA)
    assert [each.name for each in STATE_COLUMNS] == [field.name for field in STATE]
    assert {*ROWS.names, *DECODED.names} <= {*SCHEMA.names}


def test_what_is_asked_for() -> None:
    options = parse_transaction_log(
        BOOTSTRAP | {"startingOffsets": "latest", "maxRecordsPerBatch": "7"}, "stream"
    )
    assert (options.starting, options.max_records, options.resume_at) == ("latest", 7, {})
    assert (options.commit_interval_ms, options.request_timeout_ms) == (60_000, 30_000)


@pytest.mark.parametrize("option", ["clientHashKey", "groupsPattern", "pollInterval"])
def test_options_of_others_are_unknown(option: str) -> None:
    with pytest.raises(OptionsError, match=f"unknown option '{option}'"):
        parse_transaction_log(BOOTSTRAP | {option: "1s"})


def test_a_log_is_one_of_its_source_and_goes_to_executors() -> None:
    source = KafkaTransactionLogSource(BOOTSTRAP)
    log = TransactionLog.of(source, "stream")
    assert (log.topic, log.limit, log.error) == (
        "__transaction_state",
        5_000_000,
        TransactionLogError,
    )
    assert pickle.loads(pickle.dumps(log)) == log  # noqa: S301 - of its own making
    assert TransactionLog.of(source, "batch").limit is None


def test_a_log_as_rows(brokers: Brokers) -> None:
    begun = value_of(
        1, transaction_status=ONGOING, transaction_start_timestamp_ms=START_MS + 3_600_000
    )
    brokers.append(
        0,
        (key_of("app-1"), value_of(1, producer_epoch=3)),
        (key_of("app-1"), begun),
        (b"\0\7", b"?"),
    )
    servers = {"kafka.bootstrap.servers": brokers.nodes.servers}
    options = parse_transaction_log(servers)
    log = TransactionLog(options, TOPIC)
    spans = [Span("c", "id", None, 0, 100, 103)]
    (cluster,) = options.clusters
    table = pa.Table.from_batches(log.rows(cluster, spans, READ_AT, time.sleep), SCHEMA)
    table.validate(full=True)
    found: dict[str, dict[str, Any]] = {row["record"]: row for row in table.to_pylist()}
    assert {*found} == {"transactions", "record", "read"}
    counted, bad, read = (found[name] for name in ("transactions", "record", "read"))
    assert (counted["cluster"], counted["pattern"], counted["counted"]) == ("c", "app", 2)
    assert (counted["offset"], counted["next_offset"], counted["leader_epoch"]) == (100, 102, 7)
    assert [entry["state"] for entry in counted["states"]] == ["Empty", "Ongoing"]
    assert (bad["offset"], bad["key"], bad["value"], bad["error"]) == (
        102,
        b"\0\7",
        b"?",
        "unknown version 7 of keys, known is 0",
    )
    assert (read["counted"], read["records"], read["holes"]) == (2, 1, 0)


def test_rows_say_when_the_log_was_caught_up_with(brokers: Brokers) -> None:
    brokers.append(0, (key_of("app-1"), value_of(1)))
    options = parse_transaction_log({"kafka.bootstrap.servers": brokers.nodes.servers})
    log = TransactionLog(options, TOPIC)
    (cluster,) = options.clusters

    def caught_up(span: Span) -> list[tuple[Any, ...]]:
        rows = pa.Table.from_batches(log.rows(cluster, [span], READ_AT, time.sleep), SCHEMA)
        names = ("record", "offset", "next_offset", "records", "caught_up_at")
        return [tuple(row[name] for name in names) for row in rows.to_pylist()]

    at_ms = int(READ_AT.timestamp() * 1_000)
    span = Span("c", "id", None, 0, 100, 101, caught_up_ms=at_ms)
    assert caught_up(span) == [
        ("transactions", 100, 101, None, None),
        ("read", 100, 101, 0, READ_AT),
    ]
    assert caught_up(replace(span, caught_up_ms=None))[1][4] is None
    silent = replace(span, start=101)
    assert caught_up(silent) == [("read", 101, 101, 0, READ_AT)], "nobody is asked"
    assert list(log.unread(silent, "lost", READ_AT)) == [], "nothing is"
    alone = [*log.rows(cluster, [replace(silent, unanswered=(3, 17))], READ_AT, time.sleep)]
    (row,) = pa.Table.from_batches(alone, SCHEMA).to_pylist()
    assert (row["caught_up_at"], row["error"]) == (
        READ_AT,
        "no leader answers for partitions 3, 17",
    )


def test_a_stream_notes_a_silent_log_in_a_batch_of_its_own(brokers: Brokers) -> None:
    brokers.append(0, (key_of("app-1"), value_of(1)))
    source = KafkaTransactionLogSource(
        {"kafka.bootstrap.servers": brokers.nodes.servers, "commitInterval": "1s"}
    )
    source.topic = TOPIC
    reader = source.streamReader(source.schema())
    ends = [reader.latestOffset(reader.initialOffset(), None)]
    while len(ends) < 3:
        end = reader.latestOffset(ends[-1], None)
        if end != ends[-1]:
            ends.append(end)
    reader.stop()
    moved, silent = (
        [each for task in reader.partitions(*of) for each in task.spans["default"]]
        for of in itertools.pairwise(ends)
    )
    assert all(each.start < each.end for each in moved)
    assert [each.start == each.end for each in silent] == [True]
    assert all(each.caught_up_ms is not None for each in (*moved, *silent))


@pytest.mark.parametrize(
    ("status", "lasted_ms", "has_news"),
    [
        (PREPARE_ABORT, TIMEOUT_MS + 1, True),
        (PREPARE_ABORT, TIMEOUT_MS, False),
        (ONGOING, TIMEOUT_MS + 1, False),
    ],
)
def test_a_late_abort_is_news(*, status: int, lasted_ms: int, has_news: bool) -> None:
    value = value_of(
        1,
        transaction_status=status,
        transaction_start_timestamp_ms=START_MS,
        transaction_last_update_timestamp_ms=START_MS + lasted_ms,
    )
    of_batch = {"offset": 0, "leader_epoch": 1, "timestamp_ms": 1, "is_control": False}
    rows = [of_batch | {"key": key_of("a"), "value": each} for each in (value, None)]
    records = pa.RecordBatch.from_pylist(rows, RECORDS)
    log = TransactionLog(parse_transaction_log(BOOTSTRAP), TOPIC)
    assert log.has_news(records) == has_news
