"""A coordinator of transactions in memory, which writes its log as Kafka's does
(TransactionMetadata, TransactionCoordinator), knows what truly happened, and what is read of it.
"""

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.reader import Reading
from metadata_source.logs.transaction.transactions import Transactions
from metadata_source.protocol.transaction_specs import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    KEY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    VALUE,
)
from metadata_source.protocol.writing import write_message
from tests.support.record_batches import Batch, Record, batch_bytes
from tests.support.topic_leader import Leader

START_MS = 1_763_802_000_000
TIMEOUT_MS = 60_000
Row = dict[str, Any]


def key_of(transactional_id: str, version: int = 0) -> bytes:
    return struct.pack(">h", version) + write_message(
        KEY, 0, {"transactional_id": transactional_id}
    )


def value_of(version: int = 1, **given: Any) -> bytes:
    """A value; fields by Kafka's names in snake case."""
    fields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_timeout_ms": TIMEOUT_MS,
        "transaction_status": EMPTY,
        "transaction_partitions": None,
        "transaction_last_update_timestamp_ms": START_MS,
        "transaction_start_timestamp_ms": -1,
    }
    return struct.pack(">h", version) + write_message(VALUE, version, fields | given)


@dataclass
class Truth:
    """A transaction as it truly was. `by`: who aborted it; None where it was committed."""

    transactional_id: str
    started_ms: int
    begun_offset: int
    prepared_ms: int | None = None
    completed_ms: int | None = None
    completed_offset: int | None = None
    is_committed: bool = False
    by: str | None = None
    partitions: set[int] = field(default_factory=set)
    timeout_ms: int = TIMEOUT_MS

    @property
    def is_long(self) -> bool:
        if self.completed_ms is None or self.prepared_ms is None:
            return False
        return (
            self.completed_ms - self.started_ms > min(self.timeout_ms, 300_000)
            or self.completed_ms - self.prepared_ms > 30_000
        )


@dataclass(frozen=True)
class Written:
    offset: int
    ms: int
    leader_epoch: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Metadata:
    """The state of an id."""

    producer_id: int
    previous: int = -1
    next_id: int = -1
    epoch: int = -1
    state: int = EMPTY
    started_ms: int = -1
    client_version: int = 0
    partitions: frozenset[int] = frozenset()


class Coordinator:
    """The coordinator of one partition of the log. `version`: of transactions in its cluster;
    `raises_twice`: as Kafka 4.0.0, whose fence raises the epoch a second time.
    """

    def __init__(self, version: int = 2, *, raises_twice: bool = False) -> None:
        self.version, self.raises_twice = version, raises_twice
        self.log: list[Written] = []
        self.ids: dict[str, Metadata] = {}
        self.now, self.offset, self.leader_epoch = START_MS, 0, 0
        self.truths: list[Truth] = []
        self.open: dict[str, Truth] = {}
        self.inits = self.removed = 0
        self._producer_id = 100

    def init(self, of: str, client: int = 2) -> None:
        """A producer begins, and fences the one before; it asks again until it is answered."""
        del client
        known = self.ids.get(of)
        if known is None:
            self._producer_id += 1
            known = Metadata(self._producer_id, previous=self._producer_id)
        if known.state == ONGOING:
            self._end(of, PREPARE_ABORT, "coordinator", self.version)
        if self.ids.get(of, known).state in (PREPARE_COMMIT, PREPARE_ABORT):
            self.complete(of)
        known = self.ids.get(of, known)
        self.inits += 1
        self._write(
            of,
            replace(
                known,
                previous=known.producer_id,
                epoch=known.epoch + 1,
                state=EMPTY,
                started_ms=-1,
                partitions=frozenset(),
            ),
        )

    def add(self, of: str, partition: int = 0, client: int = 2) -> None:
        """Partitions are added; the first begins a transaction."""
        known = self.ids.get(of)
        if known is None or known.state in (PREPARE_COMMIT, PREPARE_ABORT):
            return
        if known.state == ONGOING and partition in known.partitions:
            return
        client = min(client, self.version)
        if known.state != ONGOING:
            self.open[of] = Truth(of, self.now, self.offset)
            self.truths.append(self.open[of])
            known = replace(known, started_ms=self.now, partitions=frozenset())
        else:
            client = known.client_version
        self.open[of].partitions.add(partition)
        self._write(
            of,
            replace(
                known,
                previous=known.producer_id,
                state=ONGOING,
                client_version=client,
                partitions=known.partitions | {partition},
            ),
        )

    def end(self, of: str, *, is_commit: bool) -> None:
        """The client ends its transaction, or aborts nothing."""
        known = self.ids.get(of)
        if known is None:
            return
        if known.state == ONGOING:
            state = PREPARE_COMMIT if is_commit else PREPARE_ABORT
            self._end(of, state, None if is_commit else "client", known.client_version)
        elif (
            not is_commit
            and self.version == 2
            and known.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
            and known.epoch >= 0
        ):
            self.open[of] = Truth(of, self.now, self.offset)
            self.truths.append(self.open[of])
            self.ids[of] = replace(known, started_ms=self.now, partitions=frozenset())
            self._end(of, PREPARE_ABORT, "client", 2)

    def time_out(self, of: str) -> None:
        """The coordinator aborts a transaction whose time is over."""
        known = self.ids.get(of)
        if known is not None and known.state == ONGOING:
            self.now = max(self.now, known.started_ms + TIMEOUT_MS + 1)
            self._end(of, PREPARE_ABORT, "coordinator", self.version)

    def complete(self, of: str) -> None:
        """All markers are written."""
        known = self.ids.get(of)
        if known is None or known.state not in (PREPARE_COMMIT, PREPARE_ABORT):
            return
        truth = self.open.pop(of)
        truth.completed_ms, truth.completed_offset = self.now, self.offset
        state = COMPLETE_COMMIT if known.state == PREPARE_COMMIT else COMPLETE_ABORT
        assert truth.prepared_ms is not None
        # Kafka makes it once it is decided, and writes it once all markers are there.
        self._write(
            of,
            replace(known, previous=known.producer_id, state=state, partitions=frozenset()),
            updated_ms=truth.prepared_ms,
        )

    def expire(self, of: str) -> None:
        """The coordinator forgets an id without an open transaction."""
        known = self.ids.get(of)
        if known is not None and known.state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT):
            del self.ids[of]
            self.removed += 1
            self._append(of, None)

    def _end(self, of: str, state: int, by: str | None, client_version: int) -> None:
        known, truth = self.ids[of], self.open[of]
        truth.prepared_ms, truth.is_committed, truth.by = self.now, by is None, by
        epoch = known.epoch
        if by == "coordinator":
            epoch += 1 + (client_version == 2 and self.raises_twice)
        elif client_version == 2:
            epoch += 1
        self._write(
            of,
            replace(
                known,
                previous=known.producer_id,
                state=state,
                epoch=epoch,
                client_version=client_version,
            ),
        )

    def _write(self, of: str, now: Metadata, updated_ms: int | None = None) -> None:
        self.ids[of] = now
        topics = [{"topic": "t", "partition_ids": sorted(now.partitions)}]
        given = {
            "producer_id": now.producer_id,
            "producer_epoch": now.epoch,
            "transaction_status": now.state,
            "transaction_partitions": None
            if now.state == EMPTY
            else topics[: bool(now.partitions)],
            "transaction_last_update_timestamp_ms": (
                self.now if updated_ms is None else updated_ms
            ),
            "transaction_start_timestamp_ms": now.started_ms,
        }
        version = min(self.version, 1)
        if version:
            given |= {
                "previous_producer_id": now.previous,
                "client_transaction_version": now.client_version,
            }
        self._append(of, value_of(version, **given))

    def _append(self, of: str, value: bytes | None) -> None:
        self.log.append(Written(self.offset, self.now, self.leader_epoch, key_of(of), value))
        self.offset += 1


def batches(log: list[Written]) -> list[tuple[int, bytes]]:
    """The bytes of record batches of one record each, and the offset of each."""
    return [
        (
            each.offset,
            batch_bytes(
                Batch(
                    each.offset,
                    [Record(0, 0, each.key, each.value)],
                    leader_epoch=each.leader_epoch,
                    base_timestamp=each.ms,
                )
            ),
        )
        for each in log
    ]


def compacted(log: list[Written], dirty_from: int, until: int) -> list[Written]:
    """The log after the cleaner went up to an offset: of each key the last record there is left. A
    tombstone stays for a while (delete.retention.ms). What is before `dirty_from` was read already.
    """
    last = {each.key: each.offset for each in log if each.offset < until}
    return [
        each
        for each in log
        if not dirty_from <= each.offset < until or last[each.key] == each.offset
    ]


def rows_of(
    log: list[Written],
    start: int,
    end: int,
    an_answer: int = 1_000,
    *,
    follows_end: bool = True,
) -> list[Row]:
    """What is read of a span: rows of transactions, and what became of its offsets."""
    leader = Leader({3: batches(log)}, an_answer, {3: end})
    span = Span("c", "id", None, 3, start, end, follows_end=follows_end)
    found: list[Row] = []
    for records, rows, went in Reading(leader, [span], "topic", Transactions([span])).steps(5.0):
        rows.validate(full=True)
        found += rows.to_pylist()
        for each in records:
            found += [{"record": "record", "offset": row["offset"]} for row in each.to_pylist()]
        found += [
            {"record": each.record, "counted": each.aggregated, "records": each.records}
            for each in went
        ]
    return found


def counts_of(rows: list[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows if row["record"] == "transactions")


def states_of(rows: list[Row]) -> list[Row]:
    return [entry for row in rows if row["record"] == "transactions" for entry in row["states"]]


def binary(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())
