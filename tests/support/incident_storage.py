"""Log directories of a cluster of their own: one fills, one is new, one is kept level by retention,
one has failed, and one is of a version that tells no volume. Of another cluster some brokers are
silent, and one has another error.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from schemas import silver
from schemas.storage import STORAGE
from schemas.table import Table
from tests.support.incident import NOON, STREAM

Row = dict[str, Any]

GB = 10**9
OF = {"cluster_id": "id-disks", "cluster": "disks"}
DAYS: Mapping[tuple[int, str], Sequence[int]] = {
    (1, "/d1"): (100, 110, 130, 140, 150, 155),
    (1, "/d2"): (5, 6),
    (2, "/d1"): (100, 101, 99, 100, 100),
    (2, "/d2"): (70, 80, 90, 95, 99),
    (3, "/d1"): (10, 20, 30, 40, 50),
}
"""The greatest sizes of the last days up to the incident's, GB."""
VOLUMES: Mapping[tuple[int, str], tuple[int | None, int | None]] = {
    (1, "/d1"): (1_000, 100),
    (1, "/d2"): (1_000, 994),
    (2, "/d1"): (1_000, 900),
    (2, "/d2"): (None, None),
    (3, "/d1"): (None, None),
}
FAILED = (2, "/d2")
LATE = {"cluster_id": "id-late", "cluster": "late"}
SILENT_FOR = {11: timedelta(), 12: timedelta(minutes=20), 13: timedelta(days=2)}
_TOLD_AT = NOON - timedelta(minutes=5)


def _row(level: str, broker_id: int, log_dir: str, at: datetime, size: int, **more: Any) -> Row:
    return {
        **OF,
        "day": at.date(),
        "broker_id": broker_id,
        "log_dir": log_dir,
        "level": level,
        "size_bytes": size,
        "min_bytes": size,
        "max_bytes": size,
        "replicas": 1,
        "first_at": at.replace(hour=0),
        "last_at": at,
        "updated_at": NOON,
        "is_live": at == _TOLD_AT,
        **more,
    }


def _of_days() -> list[Row]:
    return [
        _row(
            "log_dir", *key, _TOLD_AT - timedelta(days=len(sizes) - 1 - place), size * GB,
            replicas=4, futures=int(key == (1, "/d2")), changes_left_out=0,
            usable_bytes=usable and usable * GB, whole_at=_started(place, sizes),
        )
        for key, sizes in DAYS.items()
        for _, usable in (VOLUMES[key],)
        for place, size in enumerate(sizes)
    ]  # fmt: skip


def _started(place: int, sizes: Sequence[int]) -> datetime:
    """When all topics were told last: the recorder started again at one o'clock."""
    return (_TOLD_AT - timedelta(days=len(sizes) - 1 - place)).replace(hour=1)


def _of_late() -> list[Row]:
    """Of a cluster whose brokers fill alike: 11 answers, 12 was silent the last time, 13 has been
    for two days.
    """
    return [
        _row("log_dir", broker_id, "/d1", _TOLD_AT - late - timedelta(days=4 - place), size * GB,
            **LATE, replicas=1, usable_bytes=100 * GB, whole_at=NOON - timedelta(days=4 - place))
        for broker_id, late in SILENT_FOR.items()
        for place, size in enumerate((10, 20, 30, 40, 50))
    ]  # fmt: skip


def _of_topics() -> list[Row]:
    now, before = _TOLD_AT, _TOLD_AT - timedelta(minutes=10)
    topics = [
        _row("topic", 1, "/d1", before, size * GB, topic=topic, replicas=2)
        for topic, size in [("orders", 93), *((f"t{number:02}", 1) for number in range(12))]
    ]
    return [
        *topics,
        _row("topic", 1, "/d1", before, 0, topic="moved", replicas=0),
        # Nobody told that they are gone: they were deleted while the recorder did not run.
        _row("topic", 1, "/d1", now.replace(hour=0), 99 * GB, topic="deleted", replicas=2),
        _row("partition", 1, "/d1", now.replace(hour=0), 99 * GB, topic="deleted", partition=0),
        _row("partition", 1, "/d1", before, 60 * GB, topic="orders", partition=0),
        _row("future", 1, "/d2", now, 2 * GB, topic="orders", partition=1, offset_lag=70),
        _row("future", 1, "/d2", before, 2 * GB, topic="orders", partition=2, offset_lag=9),
    ]


def _volume(key: tuple[int, str], total: int | None, of: Row = OF) -> Row:
    broker_id, log_dir = key
    return {
        **of,
        "broker_id": broker_id,
        "log_dir": log_dir,
        "first_poll": f"{STREAM}/{0:012d}",
        "valid_from": NOON - timedelta(days=9),
        "is_online": key != FAILED,
        "error_code": 56 if key == FAILED else 0,
        "total_bytes": total and total * GB,
        "interval_ms": 600_000,
    }


def storage_rows() -> dict[Table, list[Row]]:
    """Rows of both tables of log directories."""
    return {
        STORAGE: [*_of_days(), *_of_topics(), *_of_late()],
        silver.LOG_DIRS: [
            *(_volume(key, total) for key, (total, _) in VOLUMES.items()),
            *(_volume((broker_id, "/d1"), 1_000, LATE) for broker_id in SILENT_FOR),
            _volume((14, "/d1"), None, LATE) | {"is_online": None, "error_code": 29},
        ],
    }
