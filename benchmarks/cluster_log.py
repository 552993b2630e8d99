"""Decoding the controllers' log on one core, beside DumpLogSegments, of the same segment in the
same run.

``python -m benchmarks.cluster_log [--quick]``. A segment holds PartitionChangeRecords of version 2:
of brokers that fail, in batches of 1,000 (ISRs shrink, half of the partitions get another leader),
and of what leaders report, in small ones. Ours reads bytes (headers, CRC, records) and decodes them
to columns; the rate is that of the median run. DumpLogSegments, Kafka's own tool, is run once for
each segment and prints to nowhere; its rate is without the time that an empty segment takes. Time
is the processor's, of all threads: what else the machine does counts little.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.aims import aim
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import RECORD_TYPES
from metadata_source.protocol.record_batches import read_batches
from metadata_source.protocol.writing import write_message
from truth.dump import dump_command

KAFKA: Final = "4.3.1"
RECORDS: Final = 200_000
QUICK_RECORDS: Final = 100_000
RUNS: Final = 5
QUICK_RUNS: Final = 3
BATCHES: Final = (1_000, 20, 1)
"""Records a batch. The aim is of those that come many at once."""
AIM: Final = 500_000

_PARTITION_CHANGE, _VERSION = 5, 2
_TOPICS, _BROKERS = 500, 30
_NEW_LEADER: Final = 0.5


def main() -> None:
    """Print the table, then the aims and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_RECORDS:,} records and {QUICK_RUNS} runs"
    )
    quick = parser.parse_args().quick
    count, runs = (QUICK_RECORDS, QUICK_RUNS) if quick else (RECORDS, RUNS)
    values = partition_changes(count)
    print(
        f"records a second of processor time, {count:,} PartitionChangeRecords, medians of {runs}"
    )
    print(f"{'a batch':>8} {'bytes a record':>15} {'ours':>12} {'DumpLogSegments':>16}")
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "00000000000000000000.log"
        file.touch()
        start = _dump(file)
        for size in BATCHES:
            file.write_bytes(segment(values, size))
            data = file.read_bytes()
            rates[size] = count / statistics.median(_decode(data, count) for _ in range(runs))
            theirs = count / (_dump(file) - start)
            print(
                f"{size:>8,} {len(data) / count:>15.0f} {rates[size]:>12,.0f} {theirs:>16,.0f}",
                flush=True,
            )
    for size in BATCHES[:-1]:
        print(
            aim(
                f"PartitionChangeRecords a second on one core, {size:,} a batch",
                rates[size],
                ">=",
                AIM,
                "",
            )
        )


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
    subprocess.run(dump_command(KAFKA, [file]), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
