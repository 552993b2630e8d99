"""Histories of answers that other makers' clusters, or odd brokers, send."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from metadata_source.protocol.metadata import ClusterMetadata, decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, Answer
from tests.support.large_rounds import Rounds
from tests.support.metadata_messages import NOT_ASKED_FOR

STREAM = "20261101T000000Z-00000000"
Row = dict[str, Any]


@dataclass(frozen=True)
class P:
    """A partition as it is answered."""

    leader: int
    epoch: int = 0
    replicas: tuple[int, ...] = (1, 2, 3)
    isr: tuple[int, ...] | None = None
    """All replicas, unless it says otherwise."""
    offline: tuple[int, ...] = ()
    error: int = 0


def answered(
    hosts: dict[int, str], cluster_id: str | None, version: int = 12, **topics: list[P]
) -> tuple[ClusterMetadata, int]:
    """An answer of a broker, encoded and decoded."""
    body = {
        "throttle_time_ms": 0,
        "brokers": [
            {"node_id": node, "host": host, "port": 9092, "rack": None}
            for node, host in hosts.items()
        ],
        "cluster_id": cluster_id,
        "controller_id": -1,
        "topics": [
            {
                "error_code": 0,
                "name": name,
                "topic_id": name.encode()[:16].ljust(16, b"-"),
                "is_internal": False,
                "partitions": [
                    {
                        "error_code": p.error,
                        "partition_index": number,
                        "leader_id": p.leader,
                        "leader_epoch": p.epoch,
                        "replica_nodes": list(p.replicas),
                        "isr_nodes": list(p.replicas if p.isr is None else p.isr),
                        "offline_replicas": list(p.offline),
                    }
                    for number, p in enumerate(partitions)
                ],
                "topic_authorized_operations": NOT_ASKED_FOR,
            }
            for name, partitions in topics.items()
        ],
        "cluster_authorized_operations": NOT_ASKED_FOR,
        "error_code": 0,
    }
    return decode_response(write_message(METADATA_RESPONSE, version, body), version), version


def named(*ids: int) -> dict[int, str]:
    return {node: f"broker-{node}" for node in ids}


def polled(
    n: int, told: tuple[ClusterMetadata, int], by: int | None = None, seconds: int = 10
) -> Answer:
    """The n-th poll, in a batch of its own."""
    metadata, version = told
    at = START + timedelta(seconds=seconds * n)
    rows = metadata.partitions.to_pylist()
    names = ("error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")
    return Answer(
        poll_id=f"{STREAM}/{n:012d}",
        stream=STREAM,
        n=n,
        batch=n,
        scheduled_at=at,
        interval_ms=1_000 * seconds,
        ok=True,
        sent_at=at,
        received_at=at + timedelta(milliseconds=100),
        api_version=version,
        cluster_id=metadata.cluster_id,
        broker_id=by,
        levels=(None, 0),
        brokers={
            row["broker_id"]: (row["host"], row["port"], row["rack"])
            for row in metadata.brokers.to_pylist()
        },
        topics={
            topic["topic"]: {
                **{name: topic[name] for name in ("topic_id", "error_code", "is_internal")},
                "partitions": [
                    {name: row[name] for name in names}
                    for row in rows
                    if row["topic"] == topic["topic"]
                ],
            }
            for topic in metadata.topics.to_pylist()
        },
    )


def history(kind: str, *answers: Answer, each: bool = False) -> Rounds:
    """The tables that rounds make of answers: one round of all, or one of each."""
    rounds = Rounds("c", answers[0].cluster_id or "", kind)
    rounds.catch_up(bronze_rows("c", list(answers)), 1 if each else 60)
    return rounds


def rows(made: Rounds, table: str) -> list[Row]:
    return sorted(
        made.tables[table].values(), key=lambda row: row.get("first_poll") or row.get("poll") or ""
    )
