"""The pipeline at rest, beside a cluster in which nothing happens."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.processes import cpu_seconds, resident_mb
from benchmarks.product import ENRICH, await_that, configured, running, table_folder
from benchmarks.results import Measured, Results
from local_cluster import LocalCluster
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.recorder.folder import began_s
from metadata_source.recorder.news import followed_s
from metadata_source.recorder.start import end, start
from truth.administration import Administration, NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.results import Say

INTERVAL_S: Final = 30
SECONDS: Final = 540.0
PARTS: Final = 6
"""Of the time. In all of it news that say nothing are noted twice."""
SETTLES_S: Final = followed_s(INTERVAL_S) + 60
"""Polls soon after news are committed sooner than others."""
FIRST_S: Final = 300.0
TOPICS: Final = 10
PARTITIONS: Final = 10
COMMITS: Final = 60
OF_TRANSACTION: Final = "of-a-transaction"
BEGUN_S: Final = 60.0
"""A recorder has asked each question once. If nobody reads its spool, it ends after ten minutes."""
_USUAL: Final = f"{ENRICH}, groups, offsets"
_EVERY: Final = ", ".join(ENRICHMENTS)


def at_rest(folder: Path, say: Say, _runs: int) -> Results:
    """Measure idle_cores and rest_mb, once nothing has happened since the first polls."""
    return _at_rest(folder, say, ("idle_cores", "rest_mb"), _USUAL)


def at_rest_with_all(folder: Path, say: Say, _runs: int) -> Results:
    """Measure idle_all_cores and rest_all_mb: the same with all questions at their own beats, and
    the log of transactions.
    """
    return _at_rest(folder, say, ("idle_all_cores", "rest_all_mb"), _EVERY, transactionLog={})


def recorder_at_rest(folder: Path, say: Say, _runs: int) -> Results:
    """Measure recorder_cores and recorder_all_cores: recorders alone, side by side, without these
    questions and with all of them.
    """
    driver = psutil.Process()
    enriched = {"recorder_cores": _USUAL, "recorder_all_cores": _EVERY}
    with _cluster() as servers, ExitStack() as stack:
        recorders = {}
        for name, enrich in enriched.items():
            options = {
                "kafka.bootstrap.servers": servers,
                "pollInterval": f"{INTERVAL_S}s",
                "enrich": enrich,
            }
            spool = folder / name
            spool.mkdir(mode=0o700)
            begun = start(options, spool, name, (driver.pid, began_s(driver.pid)))
            stack.callback(end, begun)
            recorders[name] = psutil.Process(begun.pid)
        say(f"wait for {BEGUN_S:.0f} s, then look for {SECONDS:.0f} s")
        time.sleep(BEGUN_S)
        looks = []
        for _ in range(PARTS + 1):
            at = time.monotonic()
            looks.append((at, {name: cpu_seconds([one]) for name, one in recorders.items()}))
            time.sleep(SECONDS / PARTS)
    (began, before), (ended, used) = looks[0], looks[-1]
    return {
        name: Measured(
            (used[name] - before[name]) / (ended - began),
            tuple(
                (then[name] - since[name]) / (to - at)
                for (at, since), (to, then) in pairwise(looks)
            ),
        )
        for name in enriched
    }


@contextmanager
def _cluster() -> Iterator[str]:
    """Yield the addresses of a cluster in which a group and a transaction have committed."""
    with LocalCluster(brokers=3, controllers=1) as cluster:
        replicas = tuple(
            tuple((number + place) % 3 + 1 for place in range(3)) for number in range(PARTITIONS)
        )
        administration = Administration(cluster)
        administration.create_topics(
            [
                *(NewTopic(f"topic-{number}", replicas) for number in range(TOPICS)),
                NewTopic(OF_TRANSACTION, replicas[:1]),
            ]
        )
        administration.await_settled((1, 2, 3))
        _commit(cluster.bootstrap_servers)
        _commit_transaction(cluster.bootstrap_servers)
        yield cluster.bootstrap_servers


def _at_rest(
    folder: Path, say: Say, names: tuple[str, str], enrich: str, **logs: Mapping[str, object]
) -> Results:
    with _cluster() as servers:
        poll = {"pollInterval": f"{INTERVAL_S}s", "enrich": enrich}
        config = configured(folder, ["local"], servers, poll=poll, groupLog={}, **logs)
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
        names[0]: Measured((used - before) / (ended - began), cores),
        names[1]: Measured(statistics.median(memory), tuple(memory)),
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
        for left in reversed(range(COMMITS)):
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
                break
            except KafkaException:
                # On a busy machine the coordinator has not loaded yet.
                if not left:
                    raise
                time.sleep(1)
    finally:
        consumer.close()


def _commit_transaction(servers: str) -> None:
    """Let there be a log of transactions."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "idle", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(OF_TRANSACTION, b"")
    producer.commit_transaction(60)
