"""One run: a cluster to which things are done while it is polled, and its controllers' log."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs import read_group_log, rebalance_history
from jobs.configuration.config import Config, load
from jobs.histories.incidents import Incidents
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.run import metadata_stream
from jobs.run.logs import FOLLOWED_CLUSTER_LOG
from jobs.run.reading import Reading, follow
from local_cluster import LocalCluster
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES
from truth.administration import Administration
from truth.chaos import Entry, play
from truth.dump import TruthError
from truth.groups.play import Played
from truth.groups.play import play as play_groups
from truth.lake import ALIAS
from truth.log import WHOLE_LOG, read_truth
from truth.model.states import Truth
from truth.setups import Setup
from truth.traffic import Traffic
from truth.zookeeper import read_zookeeper

_BATCH_SECONDS = 5
"""Polls are committed about this often for each lake, also without news."""
_COMMIT_SECONDS = 120.0
_QUIET_SECONDS = 3.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """The remains of a run: a lake for each poll interval, what was done, and the truth."""

    setup: Setup
    lakes: Mapping[int, Config]
    """By poll interval in seconds."""
    journal: Sequence[Entry]
    truth: Truth
    log: Config | None
    """With a lake of its own, in which the controllers' log alone is; with ZooKeeper there is none.
    """
    groups: Played | None = None
    """What was done to groups."""


def run(
    spark: SparkSession,
    setup: Setup,
    folder: Path,
    *,
    seed: int,
    seconds: float,
    intervals: Sequence[int],
    say: Say,
) -> Run:
    """Start a cluster, poll it on each interval into a lake of its own, follow its controllers'
    log, do what the seed plans, then what is done to groups, and make history of it, silver and
    gold.

    The polling goes on until the cluster has settled. Everything that was started has ended when
    this returns or raises.
    """
    properties = {**setup.properties, **WHOLE_LOG}
    played = None
    with LocalCluster(
        brokers=setup.brokers,
        controllers=setup.controllers,
        zookeeper=setup.zookeeper,
        kafka_version=setup.kafka_version,
        metadata_version=setup.metadata_version,
        features=setup.features,
        racks=setup.racks,
        properties=properties,
        isolatable=setup.isolates,
    ) as cluster:
        roles = Counter(node.description for node in cluster.nodes.values())
        say(
            f"{setup.name}: {', '.join(f'{count} x {role}' for role, count in roles.items())}; "
            f"seed {seed}"
        )
        brokers = tuple(node_id for node_id, node in cluster.nodes.items() if node.is_broker)
        administration = Administration(cluster)
        begun_with = setup.topics(seed, brokers)
        administration.create_topics(begun_with)
        batch_seconds = _BATCH_SECONDS * len(intervals)
        configs = {
            interval: _config(folder, cluster, setup, interval, batch_seconds)
            for interval in intervals
        }
        with Traffic(cluster.bootstrap_servers, [topic.name for topic in begun_with]) as traffic:
            administration.await_settled(brokers)
            log = None if setup.zookeeper else _log_config(folder, cluster)
            with polling(spark, configs.values()) as queries, following(spark, log) as readings:
                await_batches([*queries, *readings], 1)
                for config in filter(None, (*configs.values(), log)):
                    make_history(spark, config, rounds=1)
                steps = setup.plan(seed, brokers, seconds)
                journal = play(cluster, administration, steps, say)
                if setup.group_scripts:
                    played = play_groups(cluster, setup.group_scripts, say)
                time.sleep(_QUIET_SECONDS)
                # The polls of the end; what comes after the last is left out of the comparison.
                await_batches(queries, 1)
                for reading in readings:
                    _check(reading)
        for config in configs.values() if setup.group_scripts else ():
            read_group_log.run(spark, config, True)
        say(f"settled; {traffic.delivered} records were delivered, {traffic.refused} not")
        truth = read_zookeeper(cluster) if setup.zookeeper else read_truth(cluster)
    for config in filter(None, (*configs.values(), log)):
        make_history(spark, config)
        if setup.group_scripts and config is not log:
            rebalance_history.run(spark, config, True)
    return Run(setup, configs, journal, truth, log, played)


@contextlib.contextmanager
def polling(spark: SparkSession, configs: Iterable[Config]) -> Iterator[list[StreamingQuery]]:
    """Poll for a while, a lake for each configuration."""
    queries: list[StreamingQuery] = []
    try:
        for config in configs:
            # A session each: a query's name is its session's.
            queries.append(metadata_stream.start(spark.newSession(), config, once=False))  # noqa: PERF401 - those before are to be stopped
        yield queries
    finally:
        for query in queries:
            query.stop()


@contextlib.contextmanager
def following(spark: SparkSession, config: Config | None) -> Iterator[list[StreamingQuery]]:
    """Follow the controllers' log for a while, if there is one, and read it to where it ends
    then.
    """
    if config is None:
        yield []
        return
    reading = Reading(spark.newSession(), config, FOLLOWED_CLUSTER_LOG)
    try:
        yield [reading.query]
    finally:
        reading.query.stop()
    follow(spark, config, FOLLOWED_CLUSTER_LOG, once=True)


def await_batches(queries: Sequence[StreamingQuery], count: int) -> None:
    """Wait until each has committed so many more batches."""
    wanted = [_batches(query) + count for query in queries]
    await_polls(
        queries,
        lambda: all(_batches(query) >= of for query, of in zip(queries, wanted, strict=True)),
        f"{count} batches of polls",
    )


def await_polls(
    queries: Sequence[StreamingQuery], have_come: Callable[[], bool], awaited: str
) -> None:
    """Wait for what polls make come. Raises TruthError if it does not, or a query ends."""
    deadline = time.monotonic() + _COMMIT_SECONDS
    while not have_come():
        for query in queries:
            _check(query)
        if time.monotonic() > deadline:
            raise TruthError(f"{awaited} have not come within {_COMMIT_SECONDS:.0f} s")
        time.sleep(0.2)


def _check(query: StreamingQuery) -> None:
    if query.exception() is not None:
        raise TruthError(f"{query.name} ended: {str(query.exception()).splitlines()[0]}")


def _batches(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1


def configured(
    home: Path, servers: Mapping[str, str], poll: Mapping[str, str], **more: object
) -> Config:
    """The configuration of one cluster, with a lake of its own, in a folder that is made."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "config.yaml"
    lake = {"lake": str(home / "lake"), "clusters": {ALIAS: dict(servers)}}
    file.write_text(yaml.safe_dump({**lake, "poll": dict(poll), **more}))
    return load(str(file))


def _log_config(folder: Path, cluster: LocalCluster) -> Config:
    servers = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.controller.bootstrap.servers": cluster.controller_servers,
        "clusterId": cluster.cluster_id,
    }
    return configured(folder / "log", servers, {"pollInterval": "5s"}, clusterLog={})


def make_history(spark: SparkSession, config: Config, rounds: int | None = None) -> None:
    """Make history of all that is there, or of so many rounds; and incidents after each round."""
    ensure_tables(spark, config.lake, TABLES)
    polls, incidents = (Engine(spark, config, each) for each in (Polls(), Incidents()))
    for _ in count() if rounds is None else range(rounds):
        is_more = polls.round(datetime.now(UTC))
        incidents.catch_up()
        if not is_more:
            break
    if rounds is None:
        for engine in (polls, incidents):
            engine.catch_up(whole=True)


def _config(
    folder: Path, cluster: LocalCluster, setup: Setup, interval: int, batch_seconds: int
) -> Config:
    # Asked with each poll: what was not asked is unknown, and unknown is never wrong.
    kinds = ["reassignments", "elr"]
    if setup.group_scripts:
        kinds += ["groups", "log_dirs", "transactions", "quorum"]
    poll = {
        "pollInterval": f"{interval}s",
        "commitInterval": f"{batch_seconds}s",
        "enrich": ", ".join(["configs", *(f"{kind}={interval}s" for kind in kinds)]),
        "requestTimeout": f"{min(4000, max(1000, interval * 2000))}ms",
    }
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    log: dict[str, object] = {"groupLog": {}} if setup.group_scripts else {}
    return configured(folder / f"every-{interval}s", servers, poll, **log)
