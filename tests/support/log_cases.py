"""Logs of controllers for cases: a topic `t` of one partition with replicas 1 and 2, and a few
records after it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain, pairwise
from typing import Any

from jobs.rules.log.silver import TABLES, image_of
from schemas import gold
from tests.support.cluster_logs import START, Entry, Row, record, rows_of, span
from tests.support.log_rounds import LogLake

Told = tuple[int, int, Row]
"""The type, the version and the fields of a record."""

TOPIC_ID = b"\1" * 16
PARTITION: Mapping[str, Any] = {
    "partition_id": 0,
    "removing_replicas": [],
    "adding_replicas": [],
    "leader_epoch": 0,
    "partition_epoch": 0,
    "directories": [],
}
BEGINNING = [
    (record(12, name="metadata.version", feature_level=25), 0),
    (record(2, name="t", topic_id=TOPIC_ID), 1),
    (record(3, **PARTITION, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2], leader=1), 1),
]


def a_log(*more: tuple[Told, int]) -> list[Row]:
    """Rows of records, each with the second in which it was written."""
    return rows_of(
        [
            Entry(offset, 1, START + timedelta(seconds=second), *each)
            for offset, (each, second) in enumerate([*BEGINNING, *more])
        ]
    )


def change(**told: Any) -> Told:
    """A change of the partition."""
    return record(5, partition_id=0, topic_id=TOPIC_ID, **told)


def config(kind: int, resource: str, value: str | None, name: str = "min.insync.replicas") -> Told:
    """A configuration; without a value it is unset."""
    return record(4, resource_type=kind, resource_name=resource, name=name, value=value)


def directory(number: int) -> bytes:
    """The id of the only log directory of a broker."""
    return bytes([9] * 15 + [number])


def broker(
    number: int, epoch: int = 1, *, fenced: bool = False, log_dirs: Sequence[bytes] | None = None
) -> Told:
    """A registration."""
    never = {"is_migrating_zk_broker": False, "end_points": [], "features": [], "rack": None}
    return record(
        0, broker_id=number, broker_epoch=epoch, incarnation_id=b"\2" * 16, fenced=fenced,
        in_controlled_shutdown=False, **never,
        log_dirs=[directory(number)] if log_dirs is None else log_dirs,
    )  # fmt: skip


def was_read(records: Sequence[Row], since: int = 0) -> Row:
    """The row that says that these were read, and the offsets without rows before them from `since`
    on.
    """
    last = records[-1]
    of_last = {name: last[name] for name in ("leader_epoch", "timestamp")}
    return span("read", since, last["offset"] + 1, last["read_at"]) | of_last


def whole(rows: Sequence[Row]) -> LogLake:
    """The tables after one round."""
    lake = LogLake()
    lake.take(rows)
    return lake


def state_of(lake: LogLake) -> dict[str, Any]:
    """The cluster that the open rows show."""
    image = vars(image_of(lake.live))
    sets = ("isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
    partitions = {
        key: {name: sorted(of) if name in sets else of for name, of in told.items()}
        for key, told in image["partitions"].items()
    }
    return image | {
        "partitions": partitions,
        "configs": {key: of for key, of in image["configs"].items() if of},
    }


def check_rows(lake: LogLake) -> None:
    """Check what holds of all rows."""
    for table in TABLES:
        rows = lake.rows[table.full_name]
        names = set(table.column_names) - {"part"}
        assert all(row.keys() == names for row in rows)
        of_key: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["first_poll"]):
            of_key[repr([row[name] for name in table.key[:-1]])].append(row)
        for row, following in chain.from_iterable(map(pairwise, of_key.values())):
            assert row["valid_to"] is not None
            assert row["valid_to"] <= following["valid_from"]
            is_followed = row["superseded_poll"] == following["first_poll"]
            assert (row["end_reason"] is None and is_followed) or row["end_reason"] in (
                "gone",
                "recreated",
            )
    for row in lake.rows[gold.CONTROLLER_CHANGES.full_name]:
        assert row.keys() == set(gold.CONTROLLER_CHANGES.column_names)
