"""History of the controllers' log on one core: a cluster of 100,000 partitions loses a broker, a
replica of each.

The broker leads a third of the partitions.
Measured are the fold of the log into silver, and the folds of gold on what that gives, each without
reading and writing, as in a round without the cycle collector. Time is the processor's.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from benchmarks.results import Results, median
from jobs.rules.gold import isr_shrink, leaders
from jobs.rules.gold.news import PARTITIONS, GoldInput
from jobs.rules.log.evidence import with_evidence
from jobs.rules.log.fold import fold
from metadata_source.columns.cluster_log import RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.results import Say
    from jobs.rules.log.state import State

PARTITIONS_OF_A_TOPIC: Final = 100
TOPICS: Final = 1_000
BROKERS: Final = 30

Row = dict[str, Any]
Result = TypeVar("Result")

_START: Final = datetime(2026, 11, 1, tzinfo=UTC)
_NONE: Final = {
    **dict.fromkeys((*RECORDS.names, "snapshot_offset", "snapshot_epoch", "next_offset", "went")),
    "cluster_id": "id",
    "cluster": "c",
    "record": "record",
    "leader_epoch": 1,
    "read_at": _START,
}
_CHANGE: Final = {field.name: None for field in RECORDS.field("partition_change").type}
_FENCE: Final = {"broker_epoch": 0, "fenced": 1, "in_controlled_shutdown": None, "log_dirs": None}


@dataclass(frozen=True)
class _Thresholds:
    flaps: int = 3
    flap_window: timedelta = timedelta(minutes=10)


def losing_a_broker(_folder: Path, say: Say, _runs: int) -> Results:
    """Measure cluster_fold_s, and say how long the folds of gold take."""
    gc.disable()
    made, _ = _timed("made: log to silver", say, lambda: fold(None, {}, _making(TOPICS)))
    live = _open(made.rows)
    records = _losing(live[PARTITIONS], made.state.next_offset)
    lost, took = _timed("lost: log to silver", say, lambda: fold(made.state, live, records))
    first = _news(made.rows, {}, None, made.state)
    news, _ = _timed("lost: evidence", say, lambda: _news(lost.rows, live, made.state, lost.state))
    for name, of_gold in (("leaders", leaders.fold), ("ISRs", isr_shrink.fold)):
        known = of_gold(None, {}, first, _Thresholds())
        _timed(
            f"lost: silver to {name}",
            say,
            lambda: of_gold(known.memory, _open(known.rows), news, _Thresholds()),  # noqa: B023
        )
    return {"cluster_fold_s": median([took])}


def _timed(what: str, say: Say, work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    say(f"{what}: {seconds:.1f} s")
    return result, seconds


def _open(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    live = {"gold.isr_changes", "gold.isr_episodes", "gold.broker_incidents"}
    return {
        table: [
            row
            for row in of
            if (row["is_live"] if table in live else row.get("valid_to", of) is None)
        ]
        for table, of in rows.items()
    }


def _news(
    rows: Mapping[str, list[Row]], live: Mapping[str, list[Row]], done: State | None, state: State
) -> GoldInput:
    if state.last is None:
        raise RuntimeError("nothing was folded")
    both = {
        table: [*live.get(table, ()), *rows.get(table, ())]
        for table in {*rows, *live}
        if table[0] == "s"
    }
    found = {**rows, PARTITIONS: with_evidence({**both, PARTITIONS: rows[PARTITIONS]})}
    return GoldInput.of(found, done and done.last and done.last.id, state.last.id, state.last.at)


def _making(topics: int) -> list[Row]:
    records = [{"type": 12, "feature": {"name": "metadata.version", "level": 25}}]
    for broker in range(BROKERS):
        of_broker = {
            "broker_id": broker,
            "broker_epoch": 0,
            "incarnation_id": "i",
            "rack": None,
            "fenced": False,
        }
        of_broker |= {"in_controlled_shutdown": False, "log_dirs": [f"d{broker}"]}
        records.append({"type": 0, "broker": of_broker})
    for topic in range(topics):
        records.append({"type": 2, "topic": {"topic": f"t{topic}", "topic_id": f"i{topic}"}})
        records += [_partition(topic, number) for number in range(PARTITIONS_OF_A_TOPIC)]
    return _rows(records, 0, _START)


def _partition(topic: int, number: int) -> Row:
    place = topic * PARTITIONS_OF_A_TOPIC + number
    replicas = [0, 1 + place % (BROKERS - 1), 1 + (place + 7) % (BROKERS - 1)]
    replicas = replicas[place % 3 :] + replicas[: place % 3]
    told = {
        "replicas": replicas,
        "isr": replicas,
        "leader": replicas[0],
        "adding_replicas": [],
        "removing_replicas": [],
    }
    placed = {
        "topic_id": f"i{topic}",
        "partition": number,
        "directories": [f"d{broker}" for broker in replicas],
    }
    epochs = {"leader_epoch": 0, "partition_epoch": 0, "leader_recovery_state": 0}
    return {"type": 3, "partition": {**_CHANGE, **told, **placed, **epochs}}


def _losing(partitions: Sequence[Row], offset: int) -> list[Row]:
    records: list[Row] = []
    for row in partitions:
        isr = [broker for broker in row["replicas"] if broker]
        told = {"topic_id": row["topic_id"], "partition": row["partition"], "isr": isr}
        told["leader"] = isr[0] if row["leader"] == 0 else None
        records.append({"type": 5, "partition_change": {**_CHANGE, **told}})
    records.append({"type": 7, "broker_change": {"broker_id": 0, **_FENCE}})
    return _rows(records, offset, _START + timedelta(hours=1))


def _rows(records: Sequence[Row], offset: int, at: datetime) -> list[Row]:
    return [
        {**_NONE, **each, "offset": offset + place, "timestamp": at}
        for place, each in enumerate(records)
    ]
