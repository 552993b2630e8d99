"""The pipeline at rest, beside a cluster in which nothing happens."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.processes import cpu_seconds, resident_mb
from benchmarks.product import ENRICH, await_that, configured, running, table_folder
from benchmarks.results import Measured, Results
from local_cluster import LocalCluster
from metadata_source.recorder.news import followed_s
from truth.administration import Administration, NewTopic

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

INTERVAL_S: Final = 30
SECONDS: Final = 180.0
PARTS: Final = 6
"""Of the time, each as long as the interval of polls."""
SETTLES_S: Final = followed_s(INTERVAL_S) + 60
"""Polls soon after news are committed sooner than others."""
FIRST_S: Final = 300.0
TOPICS: Final = 10
PARTITIONS: Final = 10


def at_rest(folder: Path, say: Say, _runs: int) -> Results:
    """Measure idle_cores and rest_mb, once nothing has happened since the first polls."""
    with LocalCluster(brokers=3, controllers=1) as cluster:
        replicas = tuple(
            tuple((number + place) % 3 + 1 for place in range(3)) for number in range(PARTITIONS)
        )
        administration = Administration(cluster)
        administration.create_topics(
            [NewTopic(f"topic-{number}", replicas) for number in range(TOPICS)]
        )
        administration.await_settled((1, 2, 3))
        _commit(cluster.bootstrap_servers)
        poll = {"pollInterval": f"{INTERVAL_S}s", "enrich": f"{ENRICH}, groups, offsets"}
        config = configured(folder, ["local"], cluster.bootstrap_servers, poll=poll, groupLog={})
        with running(folder) as pipeline:
            snapshots = table_folder(config, "silver.partition_snapshots")
            await_that(
                "history", pipeline, folder, lambda: any(snapshots.glob("**/*.parquet")), FIRST_S
            )
            say(f"history is there; wait for {SETTLES_S:.0f} s, then look for {SECONDS:.0f} s")
            time.sleep(SETTLES_S)
            looks = [(time.monotonic(), cpu_seconds(pipeline.family))]
            memory = []
            for _ in range(PARTS):
                time.sleep(SECONDS / PARTS)
                family = pipeline.family
                looks.append((time.monotonic(), cpu_seconds(family)))
                memory.append(resident_mb(family))
    cores = tuple((used - before) / (at - since) for (since, before), (at, used) in pairwise(looks))
    (began, before), (ended, used) = looks[0], looks[-1]
    return {
        "idle_cores": Measured((used - before) / (ended - began), cores),
        "rest_mb": Measured(statistics.median(memory), tuple(memory)),
    }


def _commit(servers: str) -> None:
    """Let a group commit the first offset of each partition: its lag is, and stays, nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "idle", "log_level": 0})
    try:
        offsets = [
            TopicPartition(f"topic-{n}", each, 0)
            for n in range(TOPICS)
            for each in range(PARTITIONS)
        ]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()
