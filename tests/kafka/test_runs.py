"""The pipeline in short, with the logs of controllers and coordinators: its process is killed,
then terminated, and then the job runs once. What is long: test_pipeline.py.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from jobs import pipeline
from jobs.configuration.config import load
from local_cluster import LocalCluster
from metadata_source.options import parse
from metadata_source.poller import Poller
from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from tests.support.lake_checks import check_polls
from tests.support.lakes import new_lake
from tests.support.pipelines import Pipeline, config_file
from tests.support.stored import newest_states, rows_of
from truth.administration import Administration

TOPIC = GROUP = "of-runs"


@pytest.fixture(autouse=True)
def _topic(
    cluster: LocalCluster, made_topic: Callable[..., AbstractContextManager[AdminClient]]
) -> Iterator[None]:
    """One in which a group has committed an offset."""
    servers, assignment = cluster.bootstrap_servers, [[1, 2], [2, 3], [3, 1]]
    with made_topic(servers, TOPIC, 3, replica_assignment=assignment) as admin:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
        with closing(consumer):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        yield
        admin.delete_consumer_groups([GROUP])[GROUP].result(30)


def state(row: dict[str, Any]) -> list[object]:
    """Of a partition."""
    return [row["leader"], row["leader_epoch"], row["replicas"], sorted(row["isr"])]


def told(cluster: LocalCluster) -> dict[int, list[object]]:
    """The state of each partition, as a broker answers."""
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap_servers, "topics": TOPIC})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller:
        metadata = poller.poll().metadata
    assert metadata is not None
    rows = metadata.partitions.to_pylist()
    return {row["partition"]: state(row) for row in rows}


def kept(lake: Lake) -> dict[int, list[object]]:
    """The same, as history has it now."""
    rows = [row for row in rows_of(lake, silver.PARTITION_SNAPSHOTS) if row["topic"] == TOPIC]
    current = [row for row in rows if row["valid_to"] is None]
    assert len(current) == len({row["partition"] for row in current})
    return {row["partition"]: state(row) for row in current}


def test_a_pipeline_that_is_killed_and_then_terminated_loses_nothing(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    file = config_file(tmp_path, cluster, poll={"commitInterval": "2s"}, groupLog={}, clusterLog={})
    content = yaml.safe_load(file.read_text())
    servers = {"kafka.controller.bootstrap.servers": cluster.controller_servers}
    content["clusters"]["local"] |= servers
    file.write_text(yaml.safe_dump(content))
    lake, administration = new_lake(spark, tmp_path / "lake"), Administration(cluster)
    with Pipeline(file) as pipelined:
        pipelined.wait_for_batches(1)
        administration.reassign([(TOPIC, 0, (2, 3))])
        pipelined.again(SIGKILL)
        pipelined.wait_for_batches(1)
        pipelined.until(lambda: kept(lake).get(0, [None])[0] in {2, 3}, "history of the kill")
        assert pipelined.end(SIGTERM) == 143
    administration.reassign([(TOPIC, 1, (3, 1))])
    administration.await_settled((1, 2, 3))
    assert pipeline.main(["--config", str(file), "--once"]) == 0

    assert load(str(file)).lake == lake
    assert kept(lake) == told(cluster)
    assert [kept(lake)[partition][2] for partition in range(3)] == [[2, 3], [3, 1], [3, 1]]
    check_polls(lake)
    moves = {
        row["partition"] for row in rows_of(lake, gold.LEADER_CHANGES) if row["topic"] == TOPIC
    }
    assert moves >= {0, 1}
    done = {row["history"]: row["round"] for row in newest_states(lake) if row["round"]}
    planned = [row for row in rows_of(lake, internal.ROUNDS) if row["step"] == "planned"]
    assert planned
    assert all(done[of] >= row["round"] for row in planned for of in row["histories"] if of in done)
    assert [row["told_by"] for row in newest_states(lake) if row["history"] == "silver"] == ["log"]
    for table in (bronze.CLUSTER_LOG, bronze.GROUP_LOG):
        keys = [tuple(row[name] for name in table.key) for row in rows_of(lake, table)]
        assert keys
        assert len(keys) == len(set(keys)), f"{table.full_name}: a row is there twice"
