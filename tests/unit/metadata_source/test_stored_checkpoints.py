"""Offsets as older commits wrote them to checkpoints: a batch that was planned then is run now, and
the next one follows it. A lake of then is taken on by tests/spark/test_stored_lakes.py.
"""

import json

import pytest

from metadata_source.datasource import KafkaMetadataSource
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.cluster.positions import LogPosition as ClusterPosition
from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.logs.cluster.positions import Span as ClusterSpan
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from metadata_source.logs.topic.positions import LogPosition, Span
from metadata_source.recorder.spool import SpoolError

POLLS = """
{
  "version": 1, "stream": "20261124T131500Z-0a1b2c3d", "first": 40, "next": 50,
  "scheduled_ms": 1795526100000, "due_ms": 1795526120000,
  "options": {
    "clusters": "{\\"orders\\": {\\"kafka.bootstrap.servers\\": \\"old:9092\\"}}",
    "enrich": "configs=5m,groups",
    "pollInterval": "2s", "pollsPerBatch": "10", "requestTimeout": "3s", "clientHashKey": "env:KEY",
    "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice", "kafka.sasl.password": "env:OLD",
    "newestStream": "20261124T131500Z-0a1b2c3d"
  }
}
"""

LOG = """{"orders": {"cluster_id": "c-1", "topic_id": "t-1", "next": {"0": 7, "1": %d},
"epochs": {"0": [[0, 3], [2, 7]], "1": [[1, %d]]}}}"""
LOG_WITHOUT_EPOCHS = (
    """{"orders": {"cluster_id": "c-1", "topic_id": "t-1", "next": {"0": 7, "1": 0}}}"""
)

CONTROLLERS = """{"orders": {"cluster_id": "c-1", "next": %d,
"epochs": [[1, 3], [2, %d]], "snapshot": %s, "cut": %s}}"""

NOW = {"clusters": '{"orders": {"kafka.bootstrap.servers": "new:9092"}}'}


def test_a_batch_of_polls_that_an_older_commit_planned_is_refused() -> None:
    """It was a plan for tasks that poll: nobody polls so any more."""
    source, planned = KafkaMetadataSource(NOW), json.loads(POLLS)
    stream = source.streamReader(source.schema())
    for ask in (
        lambda: stream.partitions(stream.initialOffset(), planned),
        lambda: stream.latestOffset(planned, None),
    ):
        with pytest.raises(
            SpoolError,
            match="an offset of version 1, and this is version 3: remove the checkpoint of",
        ):
            ask()


def test_a_batch_of_the_log_that_an_older_commit_planned() -> None:
    source = KafkaGroupLogSource(NOW)
    stream = source.streamReader(source.schema())
    end = json.loads(LOG % (5, 5))
    for start in (json.loads(LOG % (2, 2)), json.loads(LOG_WITHOUT_EPOCHS)):
        (task,) = stream.partitions(start, end)
        begin = start["orders"]["next"]["1"]
        span = Span("orders", "c-1", "t-1", 1, begin, 5, follows_end=begin == 0)
        assert task.spans == {"orders": [span]}


def test_batches_of_the_controllers_log_that_an_older_commit_planned() -> None:
    clusters = {"orders": {"kafka.controller.bootstrap.servers": "new:9093", "clusterId": "c-1"}}
    source = KafkaClusterLogSource({"clusters": json.dumps(clusters)})
    stream = source.streamReader(source.schema())
    found, read, cut = (
        json.loads(CONTROLLERS % (end, end, snapshot, position))
        for end, snapshot, position in (
            (5, "[5, 2]", "null"),
            (9, "null", "null"),
            (0, "null", "7"),
        )
    )
    (first,), (second,) = stream.partitions(found, read), stream.partitions(read, cut)
    assert first.spans == {"orders": [ClusterSpan("orders", "c-1", 5, 9, SnapshotId(5, 2), 2)]}
    assert second.spans == {"orders": [ClusterSpan("orders", "c-1", 9, 7, None, 2)]}
    without_cut = {name: value for name, value in read["orders"].items() if name != "cut"}
    assert ClusterPosition.from_json(without_cut) == ClusterPosition.from_json(read["orders"])


def test_offsets_are_written_as_they_were() -> None:
    for position, text in (
        (LogPosition, LOG % (5, 5)),
        (ClusterPosition, CONTROLLERS % (9, 9, "[5, 2]", "7")),
    ):
        stored = json.loads(text)["orders"]
        assert json.loads(json.dumps(position.from_json(stored).to_json())) == stored
