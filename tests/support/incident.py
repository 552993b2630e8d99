"""A history that is known: two brokers fail within 20 s and come back; one election is unclean."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from schemas.lake import Lake
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, good_answer
from tests.support.lakes import keep, new_lake

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
STREAM = "20261101T110000Z-00000000"
CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
RACKS = {1: "a", 2: "b", 3: "b"}


def at(seconds: float | None) -> datetime | None:
    """So long after noon."""
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def partition(replicas: list[int], leader: int, epoch: int, isr: list[int]) -> dict[str, Any]:
    return {
        "error_code": 5 if leader == -1 else 0,
        "leader": leader,
        "leader_epoch": epoch,
        "replicas": replicas,
        "isr": isr,
        "offline_replicas": [],
    }


def asked_too(at: datetime, *, is_behind: bool) -> dict[str, Any]:
    """What broker 2 answers, which is cut off from the controllers."""
    return {
        "broker_id": 2,
        "broker": "host2:9092",
        "sent_at": at,
        "received_at": at + timedelta(milliseconds=100),
        "error_kind": None,
        "is_behind": is_behind,
        "behind_ms": 10_000 if is_behind else None,
        "partitions_behind": 4 if is_behind else None,
        "epochs_behind": 3 if is_behind else None,
    }


def answers() -> list[Answer]:
    """A poll each 10 s: broker 2 is gone at 10 s, broker 3 too at 20 s, both are back at 40 s.

    Broker 2 still answers clients while it is gone.
    """
    topics = {
        "orders": [partition([1, 2, 3], 1, 5, [1, 2, 3]), partition([2, 3, 1], 2, 5, [1, 2, 3])],
        "logs": [partition([3], 3, 1, [3])],
        "clicks": [partition([2, 3], 2, 7, [2, 3])],
        "__consumer_offsets": [partition([2, 1], 2, 1, [1, 2])],
    }
    changes: dict[int, dict[tuple[str, int], dict[str, Any]]] = {
        10: {
            ("orders", 0): {"isr": [1, 3]},
            ("orders", 1): {"leader": 3, "leader_epoch": 6, "isr": [1, 3]},
            ("clicks", 0): {"leader": 3, "leader_epoch": 8, "isr": [3]},
            ("__consumer_offsets", 0): {"leader": 1, "leader_epoch": 2, "isr": [1]},
        },
        20: {
            ("orders", 0): {"isr": [1]},
            ("orders", 1): {"leader": 1, "leader_epoch": 7, "isr": [1]},
            ("logs", 0): {"leader": -1, "leader_epoch": 2, "error_code": 5},
            ("clicks", 0): {"leader": -1, "leader_epoch": 9, "error_code": 5},
        },
        40: {
            ("orders", 0): {"isr": [1, 2, 3]},
            ("orders", 1): {"isr": [1, 2, 3]},
            ("logs", 0): {"leader": 3, "leader_epoch": 3, "error_code": 0},
            # Broker 3 was the last in sync: this one is unclean.
            ("clicks", 0): {"leader": 2, "leader_epoch": 10, "error_code": 0, "isr": [2]},
            ("__consumer_offsets", 0): {"isr": [1, 2]},
        },
        50: {
            ("orders", 1): {"leader": 2, "leader_epoch": 8},
            ("__consumer_offsets", 0): {"leader": 2, "leader_epoch": 3},
        },
        60: {("clicks", 0): {"isr": [2, 3]}},
    }
    brokers = {10: [1, 3], 20: [1], 40: [1, 2, 3]}
    listed, found = [1, 2, 3], []
    for n in range(13):
        seconds = 10 * n
        for (topic, number), state in changes.get(seconds, {}).items():
            topics[topic][number] |= state
        listed = brokers.get(seconds, listed)
        at = NOON + timedelta(seconds=seconds)
        found.append(
            good_answer(
                STREAM,
                n,
                at,
                {broker: RACKS[broker] for broker in listed},
                topics,
                batch=1,
                enriched={} if n else {"configs": "ok"},
                enrichments={}
                if n
                else {
                    "configs": {
                        ("orders",): (2, False),
                        ("logs",): (1, False),
                        ("clicks",): (1, True),
                    }
                },
                witnesses=[asked_too(at, is_behind=seconds in {20, 30})]
                if seconds in {10, 20, 30, 40}
                else None,
            )
        )
    return found


def write_lake(spark: SparkSession, folder: str) -> Lake:
    """A lake in `folder` with all tables, and the history of it."""
    lake = new_lake(spark, Path(folder))
    keep(lake, bronze_rows("prod", answers()))
    return lake
