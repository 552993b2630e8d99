"""What lies in log directories in gold, from polls: which rows Spark brings to the fold, and that
rounds replace rows of the day.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.storage import JOB, Storage
from jobs.rounds.engine import Engine
from metadata_source.schedule import poll_id
from schemas import bronze
from schemas.lake import Lake
from schemas.storage import STORAGE
from tests.support import stored
from tests.support.lakes import new_lake
from tests.support.stored import newest_states

Row = dict[str, Any]
STREAM = "20260101T000000Z-0a1b2c"
BEGIN = datetime(2026, 1, 1, 23, tzinfo=UTC)
TOPIC = {"log_dir": "/d1", "topic": "t", "is_future": False, "replicas": 1}


def polled(cluster: str, number: int, size: int, *, outcome: str = "ok") -> list[Row]:
    """The rows of a poll, each half an hour, and of its answer, in which broker 2 is silent."""
    at = BEGIN + timedelta(minutes=30 * number)
    key = {
        "poll_id": poll_id(STREAM, number),
        "stream": STREAM,
        "n": number,
        "cluster": cluster,
        "day": BEGIN.date(),
        "chunk": 0,
        "cluster_id": f"id-{cluster}",
        "scheduled_at": at,
    }
    answered = {"asked_at": at, "answered_at": at if outcome == "ok" else None}
    volumes = [
        {"log_dir": "/d1", "error_code": 0, "total_bytes": 100},
        {"log_dir": "/d2", "error_code": 56},
    ]
    sizes = [
        {"log_dir": "/d1", "is_future": False, "size_bytes": size, "replicas": 1, "futures": 1}
        | {"usable_bytes": 100 - size},
        TOPIC | {"size_bytes": size},
        TOPIC | {"size_bytes": size, "partition": 0},
        TOPIC | {"size_bytes": 1, "partition": 1, "is_future": True, "offset_lag": 9},
    ]
    told = [
        {"broker_id": 1, "log_dirs": volumes, "log_dir_sizes": sizes},
        {"broker_id": 2, "chunk": 1, "log_dirs": None, "log_dir_sizes": []},
    ]
    return [
        key | {"record": "poll", "received_at": at, "outcome": "ok"},
        key | {"record": "answer", "kind": "log_dirs", "outcome": outcome} | answered,
        *(key | {"record": "log_dirs"} | row for row in told if outcome == "ok"),
    ]


def rows_of(lake: Lake) -> list[tuple[Any, ...]]:
    found = stored.rows_of(lake, STORAGE)
    names = ("cluster", "day", "level", "min_bytes", "max_bytes", "usable_bytes", "is_live")
    return sorted(
        tuple(str(row[name]) if name == "day" else row[name] for name in names) for row in found
    )


def test_sizes_become_days_round_by_round(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path / "lake")
    clusters = {"alpha": {"kafka.bootstrap.servers": "localhost:9092", "enrich": "log_dirs"}}
    config = Config(lake, "", clusters, {"pollInterval": "30s"})
    stored.append(lake, bronze.METADATA_POLLS, [*polled("alpha", 0, 50), *polled("beta", 0, 7)])
    Engine(spark, config, Storage()).catch_up(whole=True)
    stored.append(
        lake,
        bronze.METADATA_POLLS,
        [row for number in (1, 2) for row in polled("alpha", number, 50 - number)]
        + polled("alpha", 3, 9, outcome="failed: broker 1"),
    )
    Engine(spark, config, Storage()).catch_up(whole=True)
    first, second, other = "2026-01-01", "2026-01-02", ("beta", "2026-01-01")
    assert rows_of(lake) == [
        ("alpha", first, "future", 1, 1, None, False),
        ("alpha", first, "log_dir", 49, 50, 51, False),
        ("alpha", first, "partition", 49, 50, None, False),
        ("alpha", first, "topic", 49, 50, None, False),
        ("alpha", second, "future", 1, 1, None, True),
        ("alpha", second, "log_dir", 48, 48, 52, True),
        ("alpha", second, "partition", 48, 48, None, True),
        ("alpha", second, "topic", 48, 48, None, True),
        (*other, "future", 1, 1, None, True),
        (*other, "log_dir", 7, 7, 93, True),
        (*other, "partition", 7, 7, None, True),
        (*other, "topic", 7, 7, None, True),
    ]
    states = {(row["history"], row["cluster"]): row for row in newest_states(lake)}
    assert states[JOB, "alpha"]["done_poll"] == poll_id(STREAM, 2)
