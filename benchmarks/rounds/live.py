"""The product beside a local cluster: a round among all else, and a cold start."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from benchmarks.product import (
    POLLS,
    ProductError,
    configured,
    polling,
    round_once,
    run_once,
    session,
    table_folder,
)
from benchmarks.results import Results, median
from benchmarks.rounds.clusters import brokers_of, faulty_cluster, new_topic
from benchmarks.rounds.commits import Followed
from kafka_metadata_history.demo.consumers import GROUPS, Consumers
from kafka_metadata_history.demo.played import SHORT_SESSIONS
from local_cluster import LocalCluster
from local_cluster.members import Members
from schemas.in_spark import ensure_lake
from truth.administration import Administration
from truth.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.results import Say
    from jobs.configuration.config import Config


ALIAS: Final = "local"
SEED: Final = 281
FIRST_S: Final = 300.0
"""Until a good poll is there, at most."""
BUSY_ENRICH: Final = "configs=30s, reassignments=2s, elr=10s, groups=2s"
OF_GROUPS: Final = tuple(topic for group in GROUPS.values() for topic in group["topics"])


def busy(folder: Path, say: Say, runs: int) -> Results:
    """Measure news_busy_s: one of three brokers, in each of a hundred ISRs, stops or starts."""
    topics = [
        *(new_topic(name, 3) for name in OF_GROUPS),
        new_topic("events", 100 - 3 * len(OF_GROUPS)),
    ]
    properties = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    with (
        LocalCluster(brokers=3, controllers=1, properties=properties) as cluster,
        Members(cluster.bootstrap_servers) as members,
    ):
        administration = Administration(cluster)
        administration.create_topics(topics)
        config = configured(
            folder,
            [ALIAS],
            cluster.bootstrap_servers,
            poll={**POLLS, "enrich": BUSY_ENRICH},
            groupLog={},
        )
        spark = session()
        ensure_lake(spark, config.lake)
        consumers = Consumers(members)
        with (
            Traffic(cluster.bootstrap_servers, [topic.name for topic in topics]),
            polling(spark, config),
        ):
            for group in (*GROUPS, *GROUPS):
                consumers.join(group)
            _await_poll_since(config, datetime.now(UTC))
            seconds = []
            for run in range(1 + runs):
                # A round of what is still to be done.
                say(f"a round took {_timed(lambda: round_once(spark, config)):.1f} s")
                cluster.start(2) if run % 2 else cluster.stop(2)
                if run % 2:
                    administration.await_settled((1, 2, 3))
                    administration.elect(unclean=False)
                _await_poll_since(config, datetime.now(UTC))
                seconds.append(_timed(lambda: round_once(spark, config)))
                say(f"{'start' if run % 2 else 'stop'} of a broker: {seconds[-1]:.1f} s")
    return {"news_busy_s": median(seconds[1:])}


def cold(folder: Path, say: Say, runs: int) -> Results:
    """Measure once_cold_s: each run starts a JVM, polls once, makes history of a stop or start."""
    with faulty_cluster(SEED) as (cluster, administration):
        configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS, groupLog={})
        say(f"the first run, which makes the lake, took {run_once(folder):.1f} s")
        seconds = []
        for run in range(runs):
            cluster.start(2) if run % 2 else cluster.stop(2)
            if run % 2:
                administration.await_settled(brokers_of(cluster))
            seconds.append(run_once(folder))
            say(f"--once took {seconds[-1]:.1f} s")
    return {"once_cold_s": median(seconds)}


def _await_poll_since(config: Config, since: datetime) -> None:
    """Wait until bronze has a good poll that was sent since then."""
    polls = Followed(
        table_folder(config, "bronze.metadata_polls"), ("record", "sent_at", "received_at")
    )
    deadline = time.monotonic() + FIRST_S
    while True:
        polls.look()
        if any(
            row["record"] == "poll" and row["received_at"] and row["sent_at"] >= since
            for _, row in polls.rows
        ):
            return
        if time.monotonic() > deadline:
            raise ProductError(f"no good poll has come within {FIRST_S:.0f} s")
        time.sleep(0.5)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
