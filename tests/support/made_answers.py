"""Answers of brokers to Metadata, made up: as much of a cluster as tells which of two answers is
older.
"""

import pyarrow as pa

from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata

PLACES = tuple((f"broker-{n}", 9092) for n in range(5))
"""The addresses of brokers 0 to 4."""


def made(
    listed: tuple[int, ...] = (0, 1, 2), **topics: list[tuple[int, tuple[int, ...]]]
) -> ClusterMetadata:
    """An answer that lists these brokers; of each topic the leader epoch and the ISR of each
    partition.
    """
    partitions = [
        {
            "topic": name,
            "topic_id": f"id-{name}",
            "partition": number,
            "error_code": 0,
            "leader": isr[0],
            "leader_epoch": epoch,
            "replicas": [0, 1, 2],
            "isr": list(isr),
            "offline_replicas": [],
        }
        for name, states in topics.items()
        for number, (epoch, isr) in enumerate(states)
    ]
    told = [
        {
            "topic": name,
            "topic_id": f"id-{name}",
            "error_code": 0,
            "is_internal": False,
            "partition_count": len(states),
        }
        for name, states in topics.items()
    ]
    return ClusterMetadata(
        cluster_id="id",
        controller_id=1,
        throttle_time_ms=0,
        error_code=0,
        cluster_authorized_operations=None,
        brokers=pa.Table.from_pylist(
            [{"broker_id": n, "host": PLACES[n][0], "port": PLACES[n][1]} for n in listed], BROKERS
        ),
        topics=pa.Table.from_pylist(told, TOPICS),
        partitions=pa.Table.from_pylist(partitions, PARTITIONS),
    )
