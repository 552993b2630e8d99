"""One run: producers of transactions on a cluster whose coordinators' log is followed and which is
polled, and the history that is made of both while it happens.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from jobs import group_lag, transaction_history
from jobs.configuration.config import Config
from jobs.histories.polls import Polls
from jobs.histories.transactions import TransactionHistory
from jobs.rounds.engine import Engine
from jobs.run.logs import FOLLOWED_TRANSACTION_LOG
from jobs.run.reading import Reading, follow
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from metadata_source.kafka_constants import TRANSACTIONS_TOPIC
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES
from truth.administration import Administration
from truth.dump import dump
from truth.run import await_batches, configured, polling
from truth.scenarios import PROPERTIES as OF_BROKERS
from truth.transactions.compare import compare
from truth.transactions.hanging import hang, unverified
from truth.transactions.history import Row, history, rows
from truth.transactions.logged import DECODER, Logged, logged, records
from truth.transactions.play import (
    BROKERS,
    LOG_PARTITIONS,
    TOPICS,
    Say,
    await_ended,
    leaders,
    play,
)
from truth.transactions.producers import CLIENTS, Producers
from truth.transactions.reader import Reader
from truth.transactions.score import Score
from truth.transactions.script import HANGS, HOLDS, Track
from truth.transactions.written import Written

PROPERTIES: Final = {
    **OF_BROKERS,
    "transaction.state.log.num.partitions": str(LOG_PARTITIONS),
    "transaction.state.log.replication.factor": str(BROKERS),
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "4",
    # Coordinators move when brokers die alone.
    "auto.leader.rebalance.enable": "false",
}
_POLL: Final = {
    "pollInterval": "2s",
    "commitInterval": "20s",
    "enrich": "offsets=2s, transactions=2s",
}
_LOG: Final = {"commitInterval": "5s"}
"""So that transactions of seconds are open between batches."""
_LOOK_SECONDS: Final = 30.0
"""Between two looks, each of which makes history of what is there."""
_TOOL_VERSION: Final = KAFKA_VERSION
"""Of DumpLogSegments, for every version's log: those before 4.0 print no time of begin."""


def run(
    spark: SparkSession,
    tracks: Sequence[Track],
    folder: Path,
    *,
    say: Say,
    kafka_version: str = KAFKA_VERSION,
) -> Score:
    """Start a cluster, follow it while producers do these tracks, and make history of it; how that
    agrees. Everything that was started has ended when this returns or raises.
    """
    with (
        LocalCluster(
            brokers=BROKERS, controllers=1, properties=PROPERTIES, kafka_version=kafka_version
        ) as cluster,
        Producers(cluster.bootstrap_servers) as producers,
    ):
        servers = cluster.bootstrap_servers
        administration = Administration(cluster)
        administration.create_topics(TOPICS)
        administration.await_settled(range(1, BROKERS + 1))
        first = [producers.start(f"truth-first-{client}-1", client, 60_000) for client in CLIENTS]
        for producer in first:
            producer.answer()
        config = configured(
            folder, {"kafka.bootstrap.servers": servers}, _POLL, transactionLog=_LOG
        )
        ensure_tables(spark, config.lake, TABLES)
        with unverified(AdminClient({"bootstrap.servers": servers}), BROKERS):
            hanging = hang(servers, HANGS)
        say(f"{BROKERS} brokers of {kafka_version}")
        looked: list[list[Row]] = []
        with (
            polling(spark, [config]) as queries,
            Reader(servers, [HOLDS, HANGS]) as reader,
            _following(spark, config),
        ):
            await_batches(queries, 1)
            with ThreadPoolExecutor(1) as pool:
                playing = pool.submit(play, cluster, producers, tracks, say)
                while not wait([playing], _LOOK_SECONDS).done:
                    looked.append(_look(spark, config))
                    say(f"{len(looked[-1])} rows of transactions")
                playing.result()
            await_ended(servers)
            say("no transaction is open")
            await_batches(queries, 2)  # The first may have begun before the last step.
        written = Written(producers.acts, [hanging], reader.positions)
        administration.await_settled(range(1, BROKERS + 1))
        log = _logged(cluster)
        say("polled to the end")
    _look(spark, config)
    Engine(spark, config, Polls(["silver"])).catch_up(whole=True)
    transaction_history.run(spark, config, True)
    group_lag.run(spark, config, True)
    say("silver and gold are made")
    return compare(written, log, history(config.lake, looked))


@contextmanager
def _following(spark: SparkSession, config: Config) -> Iterator[None]:
    """Follow the coordinators' log for a while, and read it to where it ends then."""
    reading = Reading(spark.newSession(), config, FOLLOWED_TRANSACTION_LOG)
    try:
        yield
    finally:
        reading.query.stop()
    follow(spark, config, FOLLOWED_TRANSACTION_LOG, once=True)


def _look(spark: SparkSession, config: Config) -> list[Row]:
    """Make history of what is there, and return gold.transactions."""
    for each in (Polls(["silver"]), TransactionHistory()):
        Engine(spark, config, each).round(datetime.now(UTC))
    return rows(config.lake)


def _logged(cluster: LocalCluster) -> Logged:
    """The whole log: nothing of it is compacted, as segments are larger."""
    found = []
    for number, leader in leaders(cluster).items():
        files = sorted(
            (cluster.files(leader).data / f"{TRANSACTIONS_TOPIC}-{number}").glob("*.log")
        )
        found += records(number, dump(_TOOL_VERSION, files, DECODER).splitlines())
    return logged(found)
