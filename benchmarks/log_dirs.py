"""What the log directories of a large cluster cost: 100 brokers with two directories and 3,000
replicas each, asked every ten minutes.

Each partition grows by a fifth of its size in a day, at its own time of day, and then loses a tenth
to retention. Bytes are those of a Delta table to which each answer is a commit: of the first answer
of a day, and of the later ones by the mean of some.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import WriterProperties, write_deltalake

from benchmarks.results import Measured, Results, median
from jobs.rules.storage.fold import INPUT, fold
from metadata_source import log_dirs
from metadata_source.enrichment import Answer, Rows
from metadata_source.options import TopicFilter
from metadata_source.outcomes import OK
from metadata_source.poll import Poll
from metadata_source.records import BatchRecords, Planned
from schemas.bronze import METADATA_POLLS
from schemas.storage import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.results import Say

BROKERS, REPLICAS, TOPICS, DIRS = 100, 3_000, 1_000, 2
ANSWERS_A_DAY: Final = 144
LATER: Final = 12
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_EVERY: Final = TopicFilter()
# Spark's own.
_SNAPPY: Final = WriterProperties(compression="SNAPPY")


def answers(_folder: Path, say: Say, _runs: int) -> Results:
    """Measure log_dirs_bronze_mb, log_dirs_gold_mb, log_dirs_s and log_dirs_fold_s."""
    pick = np.random.default_rng(1)
    brokers = [_Broker(pick) for _ in range(BROKERS)]
    known: dict[int, Any] = {}
    records = BatchRecords(_EVERY)
    bronze, took, folded = _folder / "bronze", [], []
    live: pa.Table | None = None
    sizes = []
    for number in range(1 + LATER):
        at = _BEGIN + timedelta(minutes=10 * number)
        replicas = [broker.replicas(number) for broker in brokers]
        began = time.process_time()
        kept = []
        for broker_id, each in enumerate(replicas):
            usable = {each["log_dir"]: 3 * 10**12 for each in _dirs()}
            given = log_dirs._Answer(_dirs(), usable, each)  # noqa: SLF001 - what an answer is read as
            rows, known[broker_id] = log_dirs.kept(
                known.get(broker_id), given, _EVERY, date(2026, 1, 1)
            )
            kept.append(rows)
        took.append(time.process_time() - began)
        batches = list(_rows(records, number, at, kept))
        for batch in batches:
            write_deltalake(
                bronze, pa.Table.from_batches([batch]), mode="append",
                writer_properties=_SNAPPY,
            )  # fmt: skip
        sizes.append(_bytes(bronze))
        given_sizes = {METADATA_POLLS.full_name: _sizes(kept, at)}
        given = {} if live is None else {STORAGE.full_name: live}
        began = time.process_time()
        made = fold("large", given_sizes, given, at=at)[STORAGE.full_name]
        folded.append(time.process_time() - began)
        live = pa.Table.from_pylist([*made], None if live is None else live.schema)
        say(f"answer {number}: {sum(map(len, kept)):,} sizes, {sizes[-1] / 1e6:.1f} MB so far")
    write_deltalake(_folder / "gold", live, writer_properties=_SNAPPY)
    first, later = sizes[0], (sizes[-1] - sizes[0]) / LATER
    day = (first + (ANSWERS_A_DAY - 1) * later) / 1e6
    return {
        "log_dirs_bronze_mb": Measured(day, (day,)),
        "log_dirs_gold_mb": median([_bytes(_folder / "gold") / 1e6]),
        "log_dirs_s": median(took[1:]),
        "log_dirs_fold_s": median(folded[1:]),
    }


class _Broker:
    def __init__(self, pick: np.random.Generator) -> None:
        self._pick = pick
        self._size = pick.lognormal(20.5, 2.0, REPLICAS)
        self._begin = pick.random(REPLICAS)
        topic = np.sort(pick.integers(0, TOPICS, REPLICAS))
        self._columns = [
            pa.array([f"/var/lib/kafka/data-{n % DIRS}" for n in range(REPLICAS)]),
            pa.array([f"team-{n % 40}.service-{n}.events" for n in topic]),
            pa.array(self._partitions(topic)),
            pa.repeat(False, REPLICAS),
        ]

    def _partitions(self, topic: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return numbers that differ within each topic, which has some hundred."""
        first = np.searchsorted(topic, topic)
        place = np.arange(len(topic)) - first
        return (place * 30 + self._pick.integers(0, 30, len(topic))).astype(np.int32)

    def replicas(self, number: int) -> pa.Table:
        of_day = (self._begin + number / ANSWERS_A_DAY) % 1.0
        sawtooth = 0.9 + 0.2 * of_day - 0.1 * (of_day > 0.5)
        jitter = self._pick.integers(0, 10_000, REPLICAS)
        size = (self._size * sawtooth).astype(np.int64) + jitter
        columns = [*self._columns, pa.array(size), pa.nulls(REPLICAS, pa.int64())]
        rows = pa.table(columns, schema=log_dirs._REPLICAS)  # noqa: SLF001
        return rows.sort_by([(name, "ascending") for name in rows.column_names[:4]])


def _dirs() -> list[dict[str, Any]]:
    volume = {"error_code": 0, "total_bytes": 8 * 10**12}
    return [{"log_dir": f"/var/lib/kafka/data-{n}"} | volume for n in range(DIRS)]


def _rows(
    records: BatchRecords, number: int, at: datetime, kept: list[pa.Table]
) -> Iterator[pa.RecordBatch]:
    planned = Planned("20260101T000000Z-0a1b2c", number, "large", at.date(), 600_000)
    list(records.rows(planned, Poll(cluster_id="cluster", error_kind="timeout", error="none")))
    beside = {"broker_id": list(range(BROKERS)), "log_dir_sizes": log_dirs._lists(kept)}  # noqa: SLF001
    yield from records.beside(
        [Answer("log_dirs", OK, at, at, Rows([_dirs()] * BROKERS, beside=beside))]
    )


def _sizes(kept: list[pa.Table], at: datetime) -> pa.Table:
    """Return what the history reads of bronze: a row for each size."""
    rows = []
    for broker_id, sizes in enumerate(kept):
        given = {each["log_dir"]: each for each in _dirs()}
        for row in sizes.to_pylist():
            is_dir = row["topic"] is None
            level = "log_dir" if is_dir else "topic" if row["partition"] is None else "partition"
            volume = given[row["log_dir"]] if is_dir else {}
            rows.append(
                {"cluster_id": "id", "cluster": "large", "at": at, "broker_id": broker_id}
                | {"level": level}
                | row
                | {"total_bytes": volume.get("total_bytes")}
            )
    schema = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in INPUT])
    return pa.Table.from_pylist(rows, schema)


_TYPES: Final = {
    **dict.fromkeys(("cluster_id", "cluster", "log_dir", "level", "topic"), pa.string()),
    **dict.fromkeys(("broker_id", "partition", "futures", "changes_left_out"), pa.int32()),
    "at": pa.timestamp("us", "UTC"),
    "is_whole": pa.bool_(),
}


def _bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
