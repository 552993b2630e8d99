"""Good polls, made of Metadata in kafka-python's own messages, and the rows that become of them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from kafka.protocol.metadata import MetadataResponse

from metadata_source.columns.polls import POLLS
from metadata_source.images import Image
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import decode_response

SENT = datetime(2026, 11, 21, 1, 2, 3, 4005, tzinfo=UTC)


def answer(topics: dict[str, int | list[int]], version: int = 12, error_code: int = 0) -> Poll:
    """A good poll; `topics` maps a name to its number of partitions, or to the leader of each
    partition.
    """
    response = MetadataResponse(
        version=version,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                version=version, node_id=1, host="one", port=9092, rack="r"
            )
        ],
        cluster_id="the-cluster",
        controller_id=1,
        topics=[
            MetadataResponse.MetadataResponseTopic(
                version=version,
                error_code=error_code,
                name=name,
                is_internal=False,
                partitions=[
                    MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
                        version=version,
                        error_code=0,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=7,
                        replica_nodes=[1, 2, index],
                        isr_nodes=[2, 1],
                        offline_replicas=[],
                    )
                    for index, leader in enumerate(
                        [1] * leaders if isinstance(leaders, int) else leaders
                    )
                ],
            )
            for name, leaders in topics.items()
        ],
    )
    metadata = decode_response(response.encode(), version)
    return Poll(
        sent_at=SENT,
        received_at=SENT,
        latency_ms=1.5,
        attempts=1,
        api_version=version,
        cluster_id=metadata.cluster_id,
        metadata=metadata,
        image=Image.of(metadata),
    )


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    batches = list(batches)
    for batch in batches:
        assert batch.schema.equals(POLLS)
        batch.validate(full=True)
        assert all(
            column.null_count == 0
            for column, field in zip(batch.columns, batch.schema, strict=True)
            if not field.nullable
        )
    listed = pa.Table.from_batches(batches, POLLS).to_pylist()
    # The header comes after the topics.
    return sorted(listed, key=lambda row: row["record"] != "poll")
