"""Reading the transaction coordinators' log of a busy cluster in one process: a minute, and five,
of 2,000 transactions a second, of 200 ids, each of 50 partitions.

Coordinators write three records a transaction, each in a batch of its own: Ongoing and
PrepareCommit have all partitions. They lie in 50 partitions of the log, which are read as answers
to fetches have them: 2 MiB of a partition and 4 MiB in all. One transaction in a thousand is
aborted, one in 10,000 times out. What is measured begins with the bytes of answers and ends with
rows of one batch: CRC, decoding, counting. Time is the processor's, of all threads. The log lies
in files, which another process writes: so memory is what reading takes.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.results import Results, median
from metadata_source.logs.topic.batches import Unreadable, read_answers
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.reader import Records
from metadata_source.logs.transaction.transactions import Transactions
from metadata_source.protocol.transaction_specs import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    KEY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    VALUE,
)
from metadata_source.protocol.writing import write_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.results import Say

SECONDS: Final = 60
LONG_SECONDS: Final = 300
"""As of a log whose reader was away: one batch has it all."""
A_SECOND: Final = 2_000
IDS: Final = 200
PARTITIONS: Final = 50
LOG_PARTITIONS: Final = 50
_OF_PARTITION, _OF_ANSWER = 2 * 2**20, 4 * 2**20
_START_MS: Final = 1_763_802_000_000
_TIMEOUT_MS: Final = 60_000
_ABORTED, _TIMED_OUT = 1_000, 10_000
"""One in so many."""


@dataclass(frozen=True)
class Partition:
    """The bytes of a partition of the log, and where each batch begins, and the last one ends."""

    file: Path
    begins: np.typing.NDArray[np.int64]


Log = dict[int, Partition]


def reading(folder: Path, say: Say, runs: int) -> Results:
    """Measure transaction_log_*, of a minute."""
    return _measured(folder, say, runs, SECONDS, "transaction_log")


def reading_long(folder: Path, say: Say, runs: int) -> Results:
    """Measure transaction_log_5m_*."""
    return _measured(folder, say, runs, LONG_SECONDS, "transaction_log_5m")


def _measured(folder: Path, say: Say, runs: int, seconds: int, name: str) -> Results:
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, seconds))
    writer.start()
    writer.join()
    if writer.exitcode != 0:
        raise RuntimeError(f"the log was not written: exit status {writer.exitcode}")
    log = {
        number: Partition(_file(folder, number), np.load(_file(folder, number, ".npy")))
        for number in range(LOG_PARTITIONS)
    }
    cores, sizes = [], []
    before = _resident_mb()
    for _ in range(runs):
        begin = time.process_time()
        rows, counted = read(log)
        taken = time.process_time() - begin
        cores.append(taken / seconds)
        file = folder / "rows.parquet"
        pq.write_table(rows, file, compression="zstd")
        sizes.append(float(file.stat().st_size))
        say(
            f"{counted:,} records of {seconds} s: {taken:.2f} s of a processor, {len(rows)} rows "
            f"of {sizes[-1]:,.0f} bytes of Parquet"
        )
    return {
        f"{name}_cores": median(cores),
        f"{name}_mb": median([_resident_mb() - before]),
        f"{name}_bytes": median(sizes),
    }


def read(log: Log) -> tuple[pa.Table, int]:
    """Return the rows of a log that is read whole, and how many records they count."""
    spans = [Span("c", None, None, each, 0, 0, follows_end=True) for each in log]
    transactions, at = Transactions(spans), dict.fromkeys(log, 0)
    counted = 0
    while answer := dict(_answer(log, at)):
        for found in read_answers(answer):
            if isinstance(found, Unreadable):
                raise TypeError(found.problem)
            records = found.records
            taken = transactions.take(
                Records(
                    found.partitions,
                    records["offset"].to_numpy(),
                    records["timestamp_ms"].to_numpy(),
                    records["key"],
                    records["value"],
                    found.producers,
                    records["is_control"].to_numpy(zero_copy_only=False),
                    records["leader_epoch"].to_numpy().astype(np.int64),
                )
            )
            counted += int(taken.sum())
    transactions.end(log)
    return transactions.rows(), counted


def _answer(log: Log, at: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    """Yield what a leader answers next of its partitions, and note how far it has come."""
    left = _OF_ANSWER
    for number, partition in log.items():
        most = min(_OF_PARTITION, left)
        begins, start = partition.begins, at[number]
        if start >= len(begins) - 1 or most <= 0:
            continue
        begin = int(begins[start])
        stop = max(int(np.searchsorted(begins, begin + most, "right")) - 1, start + 1)
        at[number] = stop
        with partition.file.open("rb") as file:
            file.seek(begin)
            part = file.read(int(begins[stop]) - begin)
        left -= len(part)
        yield number, part


def write(folder: Path, seconds: int) -> None:
    """Write so many seconds of the log."""
    rng = random.Random(1)
    pieces: dict[int, list[tuple[int, bytes, bytes]]] = {each: [] for each in range(LOG_PARTITIONS)}
    epochs = [0] * IDS
    for tick in range(seconds * A_SECOND // IDS):
        for number in range(IDS):
            at = _START_MS + tick * 1_000 * IDS // A_SECOND + rng.randrange(20)
            ends = (PREPARE_COMMIT, COMPLETE_COMMIT)
            lasts = rng.randrange(5, 60)
            if rng.randrange(_ABORTED) == 0:
                ends = (PREPARE_ABORT, COMPLETE_ABORT)
            if rng.randrange(_TIMED_OUT) == 0:
                ends, lasts = (PREPARE_ABORT, COMPLETE_ABORT), _TIMEOUT_MS + 5_000
            epoch = epochs[number]
            epochs[number] = epoch + 1
            key = struct.pack(">h", 0) + write_message(
                KEY, 0, {"transactional_id": f"payments-{number}"}
            )
            for state, raised, later in (
                (ONGOING, 0, 0),
                (ends[0], 1, lasts),
                (ends[1], 1, lasts + 3),
            ):
                value = _value(state, number, epoch + raised, at, at + later)
                pieces[number % LOG_PARTITIONS].append((at + later, key, value))
    for number, records in pieces.items():
        data, begins = _batches(records)
        _file(folder, number).write_bytes(data)
        np.save(_file(folder, number, ".npy"), np.array(begins, np.int64))


def _file(folder: Path, number: int, suffix: str = ".log") -> Path:
    return folder / f"{number}{suffix}"


def _batches(records: list[tuple[int, bytes, bytes]]) -> tuple[bytes, list[int]]:
    data, begins = bytearray(), [0]
    for offset, (ms, key, value) in enumerate(records):
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
        builder.append(0, ms, key, value, [])
        data += offset.to_bytes(8) + bytes(builder.build())[8:]
        begins.append(len(data))
    return bytes(data), begins


_TOPICS: Final = [{"topic": "orders-out", "partition_ids": list(range(PARTITIONS))}]


def _value(state: int, producer: int, epoch: int, started: int, updated: int) -> bytes:
    is_complete = state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    return struct.pack(">h", 1) + write_message(
        VALUE,
        1,
        {
            "producer_id": producer,
            "previous_producer_id": producer,
            "producer_epoch": epoch,
            "transaction_timeout_ms": _TIMEOUT_MS,
            "transaction_status": state,
            "transaction_partitions": [] if is_complete else _TOPICS,
            "transaction_last_update_timestamp_ms": updated,
            "transaction_start_timestamp_ms": started,
            "client_transaction_version": 2,
        },
    )


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
