"""Decoding the controllers' log on one core, beside DumpLogSegments, of the same segment in the
same run.

A segment holds PartitionChangeRecords of version 2:
of brokers that fail, in batches of 1,000 (ISRs shrink, half of the partitions get another leader),
and of what leaders report, in small ones. Ours reads bytes (headers, CRC, records) and decodes them
to columns; the rate is that of the median run. DumpLogSegments, Kafka's own tool, is run once for
each segment and prints to nowhere; its rate is without the time that an empty segment takes. Time
is the processor's, of all threads: what else the machine does counts little.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.results import Results, median
from local_cluster.cluster import KAFKA_VERSION
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import RECORD_TYPES
from metadata_source.protocol.record_batches import read_batches
from metadata_source.protocol.writing import write_message
from truth.dump import dump_command

RECORDS: Final = 200_000
BATCHES: Final = (1_000, 20, 1)
AIMED_AT: Final = 20
"""Records a batch."""

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

_PARTITION_CHANGE, _VERSION = 5, 2
_TOPICS, _BROKERS = 500, 30
_NEW_LEADER: Final = 0.5


def decoding(folder: Path, say: Say, runs: int) -> Results:
    """Measure cluster_log_*."""
    values = partition_changes(RECORDS)
    results = {}
    file = folder / "00000000000000000000.log"
    file.touch()
    start = _dump(file)
    for size in BATCHES:
        file.write_bytes(segment(values, size))
        data = file.read_bytes()
        ours = [RECORDS / _decode(data, RECORDS) for _ in range(runs)]
        theirs = RECORDS / (_dump(file) - start)
        say(
            f"{size:,} a batch, {len(data) / RECORDS:.0f} bytes a record: ours "
            f"{statistics.median(ours):,.0f} a second, DumpLogSegments {theirs:,.0f}"
        )
        if size == AIMED_AT:
            results["cluster_log_records"] = median(ours)
            results["cluster_log_java_records"] = median([theirs])
    return results


def partition_changes(count: int) -> list[bytes]:
    """Return values of records."""
    rng = random.Random(1)
    topics = [rng.randbytes(16) for _ in range(_TOPICS)]
    return [
        bytes([1, _PARTITION_CHANGE, _VERSION])
        + write_message(RECORD_TYPES[_PARTITION_CHANGE], _VERSION, _change(rng, topics, number))
        for number in range(count)
    ]


def _change(rng: random.Random, topics: list[bytes], number: int) -> dict[str, Any]:
    replicas = rng.sample(range(_BROKERS), 3)
    left = rng.choice((1, 2, 2, 2, 3))
    change = {"partition_id": number % 100, "topic_id": rng.choice(topics), "isr": replicas[:left]}
    if rng.random() < _NEW_LEADER:
        change["leader"] = replicas[0]
    if left == 1:
        change["eligible_leader_replicas"] = replicas[1:2]
    return change


def segment(values: list[bytes], size: int) -> bytes:
    """Return record batches of so many records, as a controller appends them."""
    batches = bytearray()
    for offset in range(0, len(values), size):
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
        for delta, value in enumerate(values[offset : offset + size]):
            builder.append(delta, 1_763_802_000_000, None, value, [])
        batches += offset.to_bytes(8) + bytes(builder.build())[8:]
    return bytes(batches)


def _decode(data: bytes, count: int) -> float:
    start = time.process_time()
    rows = decode_records(read_batches(data).records)
    taken = time.process_time() - start
    if rows["partition_change"].null_count or len(rows) != count:
        raise RuntimeError("not all records were decoded")
    return taken


def _dump(file: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(dump_command(KAFKA_VERSION, [file]), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
