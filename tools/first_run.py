"""A first run of the jobs, in a folder: history of made-up polls, and a poll without an answer.

spark-submit tools/first_run.py FOLDER
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from jobs import pipeline
from jobs.configuration.config import load
from jobs.configuration.limits import CROSSED
from jobs.run.session import spark_session
from metadata_source.columns.polls import POLLS
from metadata_source.images import Image
from metadata_source.options import TopicFilter
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.records import BatchRecords, Planned
from metadata_source.schedule import day_of, mint_stream
from schemas import bronze
from schemas.in_spark import ensure_lake

CLUSTER = "small"
INTERVAL = timedelta(seconds=2)
STATES = [(0, (1, 2, 3))] * 5 + [(1, (1, 3))] * 3 + [(2, (1, 2, 3))] * 3
"""Leader epoch and brokers of each poll: one goes, and comes back."""
CONFIG = {
    "clusters": {CLUSTER: {"kafka.bootstrap.servers": "127.0.0.1:9"}},
    "history": {"pollsPerRound": 5},  # several rounds, so that rows are replaced too
}


def answer(epoch: int, listed: tuple[int, ...]) -> dict[str, Any]:
    """Return what a cluster of three topics answers while these of its three brokers are there."""
    partitions = [
        {"error_code": 0, "partition_index": number, "leader_id": listed[number % len(listed)],
         "leader_epoch": epoch, "replica_nodes": [1, 2, 3], "isr_nodes": list(listed),
         "offline_replicas": [broker for broker in (1, 2, 3) if broker not in listed]}
        for number in range(4)
    ]  # fmt: skip
    topics = [
        {"error_code": 0, "name": f"topic-{number}", "topic_id": bytes(15) + bytes([number]),
         "is_internal": False, "partitions": partitions, "topic_authorized_operations": 0}
        for number in (1, 2, 3)
    ]  # fmt: skip
    brokers = [{"node_id": each, "host": "b", "port": 9092, "rack": None} for each in listed]
    head = {"throttle_time_ms": 0, "cluster_id": f"id-{CLUSTER}", "controller_id": 1}
    return head | {"brokers": brokers, "topics": topics}


def polls(began: datetime) -> Iterator[pa.RecordBatch]:
    """Yield the rows of bronze of each poll, as the recorder makes them."""
    records, stream = BatchRecords(TopicFilter()), mint_stream(began)
    for n, state in enumerate(STATES):
        at = began + n * INTERVAL
        ms = round(at.timestamp() * 1000)
        body = write_message(METADATA_RESPONSE, 12, answer(*state))
        metadata = decode_response(body, 12)
        times = {"attempts": 1, "sent_at": at, "received_at": at, "latency_ms": 1.0}
        poll = Poll(**times, cluster_id=metadata.cluster_id, metadata=metadata,
                    image=Image.of(metadata))  # fmt: skip
        planned = Planned(stream, n, CLUSTER, day_of(ms), INTERVAL // timedelta(milliseconds=1), ms)
        yield from records.rows(planned, poll, is_key_frame=n == 0)
        records.kept()


def main(folder: Path) -> int:
    """Return the exit status."""
    folder.mkdir(parents=True)
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump({"lake": str(folder / "lake"), **CONFIG}))
    spark, lake = spark_session("first run"), load(str(file)).lake
    ensure_lake(spark, lake)
    rows = pa.Table.from_batches(polls(datetime.now(UTC) - timedelta(hours=1)), POLLS)
    frame = spark.createDataFrame(rows.combine_chunks()).coalesce(1)
    frame.write.format("delta").mode("append").save(lake.path(bronze.METADATA_POLLS))
    status = pipeline.main(["--config", str(file), "--once"])
    return 0 if status == CROSSED else status  # nobody answers the poll


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1], "first-run")))
