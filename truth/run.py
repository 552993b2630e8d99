"""One run: a cluster to which things are done while it is polled, and its controllers' log."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs.configuration.config import Config, load
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.run import metadata_stream
from jobs.run.logs import FOLLOWED_CLUSTER_LOG
from jobs.run.reading import Reading, follow
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES
from truth.administration import Administration
from truth.chaos import Entry, play
from truth.dump import TruthError
from truth.lake import ALIAS
from truth.log import WHOLE_LOG, read_truth
from truth.model.states import Truth
from truth.scenarios import PROPERTIES, plan, topics
from truth.traffic import Traffic

_BATCH_SECONDS = 5
"""Polls are committed about this often for each lake, also without news."""
_COMMIT_SECONDS = 120.0
_QUIET_SECONDS = 3.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Setup:
    """A cluster as it is formatted, and what is done with it."""

    name: str
    kafka_version: str
    metadata_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: int = 4
    racks: tuple[str, ...] = ("a", "b", "c")
    controllers: int | None = 1
    """Apart from the brokers; three of them fail too. Null: each broker is one."""
    isolates: bool = True
    """Brokers can be cut off from the controllers, which are apart, of 3.9 and later."""
    is_polled: bool = True
    """Else history is made of the controllers' log alone. Of a cluster whose quorum fails that is
    all that can be held against anything: what no majority has yet is in the log with its time, and
    no broker shows it.
    """

    @property
    def quorum_fails(self) -> bool:
        """Controllers fail too: they are three, or brokers."""
        return self.controllers != 1


NEWEST = Setup(KAFKA_VERSION, KAFKA_VERSION)
WITHOUT_ELR = Setup("4.3.1 without ELR", "4.3.1", features={"eligible.leader.replicas.version": 0})
OLD_EPOCHS = Setup("3.9.2 at 3.5-IV2", "3.9.2", metadata_version="3.5-IV2")
"""Below 3.6-IV0, where a shrink raises the epoch too."""
WITHOUT_NO_OPS = Setup(
    "3.3.2 at 3.3-IV0", "3.3.2", metadata_version="3.3-IV0", isolates=False, is_polled=False
)
"""The lowest that can be formatted: a log that is silent in rest, and older records."""
SETUPS = (
    NEWEST,
    WITHOUT_ELR,
    OLD_EPOCHS,
    Setup("4.3.1, three controllers", "4.3.1", controllers=3, is_polled=False),
    # Of five voters two may be out, so that brokers fail as elsewhere.
    Setup(
        "4.3.1, combined controllers",
        "4.3.1",
        brokers=5,
        controllers=None,
        isolates=False,
        is_polled=False,
    ),
    Setup("4.0.1", "4.0.1", is_polled=False),
    Setup("3.9.2, three controllers", "3.9.2", controllers=3, is_polled=False),
    Setup("3.7.2", "3.7.2", isolates=False, is_polled=False),
    Setup("3.3.2, three controllers", "3.3.2", controllers=3, isolates=False, is_polled=False),
    WITHOUT_NO_OPS,
)


@dataclass(frozen=True)
class Run:
    """The remains of a run: a lake for each poll interval, what was done, and the truth."""

    setup: Setup
    lakes: Mapping[int, Config]
    """By poll interval in seconds."""
    journal: Sequence[Entry]
    truth: Truth
    log: Config
    """With a lake of its own, in which the controllers' log alone is."""


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
    log, do what the seed plans, and make history of it, silver and gold.

    The polling goes on until the cluster has settled. Everything that was started has ended when
    this returns or raises.
    """
    properties = {**PROPERTIES, **WHOLE_LOG}
    with LocalCluster(
        brokers=setup.brokers,
        controllers=setup.controllers,
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
        begun_with = topics(seed, brokers)
        administration.create_topics(begun_with)
        batch_seconds = _BATCH_SECONDS * len(intervals)
        configs = {
            interval: _config(folder, cluster.bootstrap_servers, interval, batch_seconds)
            for interval in intervals
        }
        with Traffic(cluster.bootstrap_servers, [topic.name for topic in begun_with]) as traffic:
            administration.await_settled(brokers)
            log = _log_config(folder, cluster)
            with polling(spark, configs.values()) as queries, following(spark, log) as reading:
                await_batches([*queries, reading], 1)
                of_controllers = setup.controllers is not None and setup.quorum_fails
                steps = plan(
                    seed, brokers, seconds, isolates=setup.isolates, of_controllers=of_controllers
                )
                journal = play(cluster, administration, steps, say)
                time.sleep(_QUIET_SECONDS)
                # The polls of the end; what comes after the last is left out of the comparison.
                await_batches(queries, 1)
                _check(reading)
        say(f"settled; {traffic.delivered} records were delivered, {traffic.refused} not")
        truth = read_truth(cluster)
    for config in (*configs.values(), log):
        ensure_tables(spark, config.lake, TABLES)
        Engine(spark, config, Polls()).catch_up(whole=True)
    return Run(setup, configs, journal, truth, log)


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
def following(spark: SparkSession, config: Config) -> Iterator[StreamingQuery]:
    """Follow the controllers' log for a while, and read it to where it ends then."""
    reading = Reading(spark.newSession(), config, FOLLOWED_CLUSTER_LOG)
    try:
        yield reading.query
    finally:
        reading.query.stop()
    follow(spark, config, FOLLOWED_CLUSTER_LOG, once=True)


def await_batches(queries: Sequence[StreamingQuery], count: int) -> None:
    """Wait until each has committed so many more batches."""
    done = [_batches(query) for query in queries]
    deadline = time.monotonic() + _COMMIT_SECONDS
    while any(
        _batches(query) < before + count for query, before in zip(queries, done, strict=True)
    ):
        for query in queries:
            _check(query)
        if time.monotonic() > deadline:
            raise TruthError(
                f"{count} batches of polls have not come within {_COMMIT_SECONDS:.0f} s"
            )
        time.sleep(0.2)


def _check(query: StreamingQuery) -> None:
    if query.exception() is not None:
        raise TruthError(f"{query.name} ended: {query.exception()}")


def _batches(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1


def _log_config(folder: Path, cluster: LocalCluster) -> Config:
    home = folder / "log"
    home.mkdir(parents=True, exist_ok=True)
    servers = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.controller.bootstrap.servers": cluster.controller_servers,
        "clusterId": cluster.cluster_id,
    }
    config = {
        "lake": str(home / "lake"),
        "clusters": {ALIAS: servers},
        "clusterLog": {},
        "poll": {"pollInterval": "5s"},
    }
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return load(str(file))


def _config(folder: Path, bootstrap_servers: str, interval: int, batch_seconds: int) -> Config:
    home = folder / f"every-{interval}s"
    home.mkdir(parents=True, exist_ok=True)
    file = home / "config.yaml"
    poll = {
        "pollInterval": f"{interval}s",
        "commitInterval": f"{batch_seconds}s",
        # Asked with each poll: what was not asked is unknown, and unknown is never wrong.
        "enrich": f"configs, reassignments={interval}s, elr={interval}s",
        "requestTimeout": f"{min(4000, max(1000, interval * 2000))}ms",
    }
    clusters = {ALIAS: {"kafka.bootstrap.servers": bootstrap_servers}}
    file.write_text(
        yaml.safe_dump({"lake": str(home / "lake"), "clusters": clusters, "poll": poll})
    )
    return load(str(file))
