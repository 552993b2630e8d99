"""The log of a real coordinator of transactions, held record by record against Kafka's own
DumpLogSegments, and against what its producers did.
"""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_metadata_history.jars.java import java_command
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_jars
from local_cluster.member import java_machine
from metadata_source.columns.transaction_log import SCHEMA
from metadata_source.kafka_constants import TRANSACTIONS_TOPIC as TOPIC
from metadata_source.logs.tasks import spans
from metadata_source.logs.topic.positions import found
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.logs.transaction.log import TransactionLog
from metadata_source.options import parse_transaction_log
from metadata_source.protocol.record_batches import read_batches
from metadata_source.protocol.transaction_records import Values, read_ids, read_values
from metadata_source.protocol.transaction_specs import STATES
from tests.support.group_messages import without_nulls
from tests.support.waiting import eventually
from truth.dump import dump
from truth.transactions.producer import OfC, OfJava, Transactional

PARTITIONS = 2
PROPERTIES = {
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<time>\d+) .* headerKeys: \[\] "
    r"key: (?P<key>\{.*?\}) payload: (?P<value>\{.*\})$"
)


@dataclass(frozen=True)
class Played:
    """What producers did, what was read of the log meanwhile, and what DumpLogSegments prints."""

    rows: Sequence[dict[str, Any]]
    files: dict[int, bytes]
    printed: dict[int, list[dict[str, Any]]]


Transactions = Callable[[str, int], Transactional]
"""Makes a producer of a transactional id with a time-out, ms."""
PLACES = (("orders", 0), ("orders", 1))
"""The partitions of every transaction."""


def transact(
    make: Transactions, of: str, commits: Sequence[bool], timeout_ms: int = 60_000
) -> Transactional:
    """A producer that has ended some transactions."""
    producer = make(of, timeout_ms)
    for is_commit in commits:
        producer.begin(PLACES)
        producer.commit() if is_commit else producer.abort()
    return producer


class Log:
    """The log as a stream reads it: from where the batch before ended."""

    def __init__(self, servers: str) -> None:
        options = parse_transaction_log({"kafka.bootstrap.servers": servers})
        self._log, (self._cluster,) = TransactionLog(options, TOPIC), options.clusters
        self._position = None

    def read(self) -> list[dict[str, Any]]:
        with closing(LogWatcher(self._cluster, TOPIC, 10_000)) as watcher:
            seen = watcher.ask_extent(self._position)
        start = self._position or found(seen, seen.begins)
        self._position = self._log.advance(start, seen)
        between = list(spans({"default": start}, {"default": self._position}))
        if not between:
            return []
        batches = list(self._log.rows(self._cluster, between, datetime.now(UTC), time.sleep))
        rows: list[dict[str, Any]] = pa.Table.from_batches(batches, SCHEMA).to_pylist()
        return rows


KINDS = {"java 2": (2, True), "java 0": (0, True), "librdkafka 2": (2, False)}


@pytest.fixture(scope="module", params=KINDS)
def played(request: pytest.FixtureRequest) -> Played:
    version, of_java = KINDS[request.param]
    with (
        LocalCluster(
            brokers=1, properties=PROPERTIES, features={"transaction.version": version}
        ) as cluster,
        java_machine(os.pathsep.join(map(str, kafka_jars(KAFKA_VERSION))), java_command()) as jvm,
    ):
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        rows = play(servers, partial(OfJava, jvm, servers) if of_java else partial(OfC, servers))
        folders = {
            number: cluster.files(1).data / f"{TOPIC}-{number}" for number in range(PARTITIONS)
        }
        cluster.stop(1)
        files = {number: whole(folder) for number, folder in folders.items()}
        printed = {
            number: list(printed_records(cluster.kafka_version, folder))
            for number, folder in folders.items()
        }
    return Played(rows, files, printed)


def play(servers: str, make: Transactions) -> list[dict[str, Any]]:
    """Let producers commit, abort, be fenced, hang and be open; read in batches meanwhile."""
    producers = [transact(make, f"app-{number}", [True, True, False, True]) for number in range(2)]
    log = Log(servers)
    rows = log.read()
    fenced = transact(make, "fenced-1", [True])
    fenced.begin(PLACES)
    producers += [fenced, transact(make, "fenced-1", [True])]
    hanging = transact(make, "hanging-1", [], timeout_ms=2_000)
    hanging.begin(PLACES)
    still_open = transact(make, "open-1", [])
    still_open.begin(PLACES)
    rows += log.read()

    def aborted() -> bool:
        rows.extend(log.read())
        states = states_of(rows, "hanging-1")
        return bool(states) and states[-1]["state"] == "CompleteAbort"

    eventually(aborted, "the coordinator to abort hanging-1")
    still_open.commit()

    def committed() -> bool:
        rows.extend(log.read())
        return states_of(rows, "open-1")[-1]["state"] == "CompleteCommit"

    eventually(committed, "the transaction of open-1 to be completed")
    return rows


def states_of(rows: Sequence[dict[str, Any]], of: str) -> list[dict[str, Any]]:
    return [
        entry
        for row in rows
        if row["record"] == "transactions"
        for entry in row["states"]
        if entry["transactional_id"] == of
    ]


def whole(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def printed_records(version: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The fields of each record, as Kafka's JSON has them: without tagged ones at their default."""
    text = dump(version, sorted(folder.glob("*.log")), "--transaction-log-decoder")
    for line in text.splitlines():
        if line.startswith("|"):
            match = RECORD.match(line)
            assert match, line
            key, value = (json.loads(match[name])["data"] for name in ("key", "value"))
            yield {"offset": int(match["offset"]), "time": int(match["time"])} | key | value


def test_every_record_is_what_kafka_prints(played: Played) -> None:
    for number, data in played.files.items():
        batches = read_batches(data)
        assert batches.size == len(data)
        records = batches.records
        ids, wrong = read_ids(records["key"])
        values = read_values(records["value"])
        assert not wrong
        assert not values.errors
        told = [
            {
                "offset": records["offset"][row].as_py(),
                "time": records["timestamp_ms"][row].as_py(),
                "transactionalId": ids[row],
            }
            | as_printed(values, row)
            for row in range(len(records))
        ]
        assert told == [
            {"transactionPartitions": []} | without_nulls(each) for each in played.printed[number]
        ]


def as_printed(values: Values, row: int) -> dict[str, Any]:
    """A value as DumpLogSegments prints it, without tagged fields that are at their default."""
    one = {name: int(column[row]) for name, column in values.numbers.items()}
    tagged = {
        "previousProducerId": (one["previous_producer_id"], -1),
        "nextProducerId": (one["next_producer_id"], -1),
        "nextProducerEpoch": (one["next_producer_epoch"], -1),
        "clientTransactionVersion": (max(one["client_transaction_version"], 0), 0),
    }
    return {
        "producerId": one["producer_id"],
        "producerEpoch": one["producer_epoch"],
        "transactionTimeoutMs": one["timeout_ms"],
        "transactionStatus": STATES[one["status"]],
        "transactionPartitions": [
            {"topic": each["topic"], "partitionIds": each["partition_ids"]}
            for each in values.partitions[row].as_py() or []
        ],
        "transactionLastUpdateTimestampMs": one["updated_ms"],
        "transactionStartTimestampMs": one["started_ms"],
    } | {name: value for name, (value, default) in tagged.items() if value != default}


def test_each_record_is_counted_once(played: Played) -> None:
    counted = Counter[str]()
    for row in played.rows:
        if row["record"] == "transactions":
            counted[row["pattern"]] += row["counted"] or 0
    printed = Counter(
        re.sub(r"-\d+$", "", each["transactionalId"])
        for records in played.printed.values()
        for each in records
    )
    read = [row for row in played.rows if row["record"] == "read"]
    assert sum(row["holes"] + row["records"] for row in read) == 0
    assert counted == printed


def of_pattern(played: Played, pattern: str, name: str) -> int:
    return sum(
        row[name] or 0
        for row in played.rows
        if row["record"] == "transactions" and row["pattern"] == pattern
    )


def test_what_producers_did_is_counted(played: Played) -> None:
    assert of_pattern(played, "app", "committed") == 6
    by_client, by_unknown, by_coordinator = (
        of_pattern(played, "app", f"aborted_by_{who}")
        for who in ("client", "unknown", "coordinator")
    )
    assert (by_client, by_unknown, by_coordinator) == (2, 0, 0)
    assert of_pattern(played, "app", "producer_ids_given") == 2
    assert of_pattern(played, "app", "epochs_raised") == 0
    assert of_pattern(played, "fenced", "committed") == 2
    assert of_pattern(played, "open", "committed") == 1


def test_ordinary_transactions_have_no_entry(played: Played) -> None:
    """But for those that began with the log, of which nobody knows what is before."""
    for number in range(2):
        for entry in states_of(played.rows, f"app-{number}"):
            assert entry["was_open"] is None
            assert entry["state"] == "CompleteCommit"


def test_a_transaction_that_was_fenced(played: Played, request: pytest.FixtureRequest) -> None:
    (entry,) = (
        each for each in states_of(played.rows, "fenced-1") if each["state"] == "CompleteAbort"
    )
    assert entry["aborted_by"] == (None if "java 2" in request.node.name else "coordinator")
    assert entry["prepared_at"] - entry["started_at"] < timedelta(minutes=1)
    assert entry["initialized_offset"] == entry["completed_offset"] + 1
    assert entry["partition_count"] == 2
    assert [{*each["partitions"]} for each in entry["partitions"]] == [{0, 1}]


def test_a_transaction_that_timed_out(played: Played) -> None:
    entries = states_of(played.rows, "hanging-1")
    started = entries[0]["started_at"]
    assert {entry["started_at"] for entry in entries if entry["state"] != "Empty"} == {started}
    last = next(each for each in entries if each["state"] == "CompleteAbort")
    assert last["timeout_ms"] == 2_000
    (prepared_at,) = {each["prepared_at"] for each in entries if each["prepared_at"] is not None}
    assert prepared_at - started > timedelta(seconds=2)
    # It was open at the end of a batch: then the epoch before is in its entry there.
    epochs = [each["ongoing_epoch"] for each in entries if each["ongoing_epoch"] is not None]
    assert epochs[0] < last["producer_epoch"]
    assert last["aborted_by"] in {None, "coordinator"}
    # Of one that is decided in one batch and completed in the next, counts do not know it.
    assert of_pattern(played, "hanging", "timed_out") == (last["prepared_at"] is not None)


def test_a_transaction_that_is_open_between_batches(played: Played) -> None:
    first, *_, last = states_of(played.rows, "open-1")
    assert (first["state"], first["was_open"]) == ("Ongoing", False)
    assert first["partition_count"] == 2
    assert (last["state"], last["was_open"], last["partitions"]) == ("CompleteCommit", True, None)
    assert last["started_at"] == first["started_at"]
