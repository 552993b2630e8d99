"""One version: its cluster, the script, the product's polls and log, and their history."""

import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml
from pyspark.sql import SparkSession

from compat import compare, model
from compat.compare import Compared, Incident, PollSeen, TopicEnd, Window
from compat.play import PROPERTIES, Say, play, prepared
from compat.script import BROKERS, LOG_PARTITIONS
from compat.versions import Version
from jobs import read_group_log, rebalance_history
from jobs.configuration.config import Config, load
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from local_cluster import LocalCluster
from schemas import bronze, gold, silver
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES, Lake
from truth import lake
from truth.compare_events import IsrChange, LeaderChange
from truth.groups.run import read_history
from truth.run import await_batches, polling

_KINDS: Final = ("configs", "reassignments", "groups")
"""Kinds of enrichment that every version answers."""
_LOOK_AHEAD_SECONDS: Final = 16.0
"""The cause of the last departure is decided so late."""


def run(spark: SparkSession, version: Version, folder: Path, say: Say) -> list[Compared]:
    """Do the script to a cluster of a version and compare. Everything that was started has ended
    when this returns.

    Raises LocalClusterError if the version does not start, AdministrationError if it does not do
    what was asked, TruthError if polls do not come.
    """
    with LocalCluster(
        brokers=len(BROKERS),
        controllers=None if version.zookeeper else 1,
        zookeeper=version.zookeeper,
        kafka_version=version.kafka_version,
        properties=PROPERTIES | version.properties,
    ) as cluster:
        say("started")
        config = _config(folder, cluster.bootstrap_servers)
        with prepared(cluster, version) as groups, polling(spark, [config]) as queries:
            await_batches(queries, 1)
            windows = play(cluster, groups, model.expected(version), say)
            time.sleep(_LOOK_AHEAD_SECONDS)
            await_batches(queries, 1)
        read_group_log.run(spark, config, True)
        say("polled to the end, the log is in bronze")
    ensure_tables(spark, config.lake, TABLES)
    Engine(spark, config, Polls()).catch_up(whole=True)
    rebalance_history.run(spark, config, True)
    say("history is made")
    return list(_compared(spark, config.lake, version, windows, groups.kinds))


def _compared(
    spark: SparkSession, where: Lake, version: Version, windows: list[Window], groups: Iterable[str]
) -> Iterable[Compared]:
    steps = [window.expected for window in windows]
    yield compare.compare_polls(windows, _polls(spark, where), _KINDS)
    yield compare.compare_leaders(windows, lake.rows_of(where, gold.LEADER_CHANGES, LeaderChange))
    changes = lake.rows_of(where, gold.ISR_CHANGES, IsrChange)
    yield compare.compare_isr(version, windows, changes)
    incidents = lake.rows_of(where, gold.BROKER_INCIDENTS, Incident)
    yield compare.compare_incidents(model.outages(steps), incidents)
    ended = lake.rows_of(where, silver.TOPIC_SNAPSHOTS, TopicEnd, "end_reason IS NOT NULL")
    yield compare.compare_topics(version, windows, ended)
    history = read_history(spark, where)
    for group in groups:
        yield compare.compare_rebalances(group, model.rebalances(), history.rebalances)
        moved = [
            each
            for each in history.events
            if (each.group_id, each.event) == (group, "coordinator_moved")
        ]
        told = [(each.prev_broker_id or 0, each.broker_id or 0) for each in moved]
        yield compare.compare_moves(
            version, group, model.coordinator_moves(LOG_PARTITIONS[group], steps), told
        )


def _polls(spark: SparkSession, where: Lake) -> list[PollSeen]:
    rows = where.read(spark, bronze.METADATA_POLLS).where("record IN ('poll', 'answer')")
    headers = (
        rows.select("record", "poll_id", "received_at", "kind", "outcome")
        .orderBy("poll_id")
        .toArrow()
        .to_pylist()
    )
    outcomes: dict[str, dict[str, str]] = defaultdict(dict)
    for row in headers:
        if row["record"] == "answer":
            outcomes[row["poll_id"]][row["kind"]] = row["outcome"]
    return [
        PollSeen(row["received_at"], row["outcome"] == "ok", outcomes[row["poll_id"]])
        for row in headers
        if row["record"] == "poll" and row["received_at"] is not None
    ]


def _config(folder: Path, bootstrap_servers: str) -> Config:
    poll = {
        "pollInterval": "2s",
        "commitInterval": "10s",
        "requestTimeout": "3s",
        "enrich": "configs=10s, reassignments=2s, elr=1s, groups=2s",
    }
    clusters = {lake.ALIAS: {"kafka.bootstrap.servers": bootstrap_servers}}
    folder.mkdir(parents=True)
    file = folder / "config.yaml"
    file.write_text(
        yaml.safe_dump(
            {"lake": str(folder / "lake"), "clusters": clusters, "poll": poll, "groupLog": {}}
        )
    )
    return load(str(file))
