"""The product beside a local cluster: a round among all else, a cold start, history under faults, the boundary of
batches.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from benchmarks.rounds.commits import Followed, commits, first_commits
from benchmarks.rounds.product import (
    POLLS,
    ProductError,
    await_that,
    configured,
    make_tables,
    polling,
    round_once,
    run_once,
    running,
    session,
    table_folder,
)
from benchmarks.rounds.results import Measured, Results, median, percentile
from kafka_metadata_history.demo.consumers import GROUPS, Consumers
from kafka_metadata_history.demo.played import SHORT_SESSIONS
from local_cluster import LocalCluster
from local_cluster.members import Members
from truth.administration import Administration, NewTopic
from truth.chaos import PROPERTIES, plan, play, topics
from truth.run import NEWEST
from truth.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.rounds.commits import Commit
    from jobs.common.config import Config

    Say = Callable[[str], None]

ALIAS: Final = "local"
SEED: Final = 281
FAULTS_S: Final = 240.0
LATE: Final = timedelta(seconds=0.5)
FIRST_S: Final = 300.0
"""Until history of the first polls is there, at most."""
LAST_S: Final = 600.0
"""Until history of the last fault is there, at most."""
QUIET_S: Final = 45.0
BUSY_ENRICH: Final = "configs=30s, reassignments=2s, elr=10s, groups=2s"
BOUNDARIES: Final = 20
OF_GROUPS: Final = tuple(topic for group in GROUPS.values() for topic in group["topics"])


def busy(folder: Path, say: Say, runs: int) -> Results:
    """Measure news_busy_s: a broker of three stops or starts again, which is in every ISR of a hundred partitions."""
    topics = [*(_new_topic(name, 3) for name in OF_GROUPS), _new_topic("events", 100 - 3 * len(OF_GROUPS))]
    properties = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    with (
        LocalCluster(brokers=3, controllers=1, properties=properties) as cluster,
        Members(cluster.bootstrap_servers) as members,
    ):
        administration = Administration(cluster)
        administration.create_topics(topics)
        config = configured(
            folder, [ALIAS], cluster.bootstrap_servers, poll={**POLLS, "enrich": BUSY_ENRICH}, groupLog={}
        )
        spark = session()
        make_tables(spark, config)
        consumers = Consumers(members)
        with Traffic(cluster.bootstrap_servers, [topic.name for topic in topics]), polling(spark, config):
            for group in (*GROUPS, *GROUPS):
                consumers.join(group)
            _await_poll_since(config, datetime.now(UTC))
            seconds = []
            for run in range(1 + runs):
                say(f"a round took {_timed(lambda: round_once(spark, config)):.1f} s")  # what is still to be done
                cluster.start(2) if run % 2 else cluster.stop(2)
                if run % 2:
                    administration.await_settled((1, 2, 3))
                    administration.elect(unclean=False)
                _await_poll_since(config, datetime.now(UTC))
                seconds.append(_timed(lambda: round_once(spark, config)))
                say(f"{'start' if run % 2 else 'stop'} of a broker: {seconds[-1]:.1f} s")
    return {"news_busy_s": median(seconds[1:])}


def cold(folder: Path, say: Say, runs: int) -> Results:
    """Measure once_cold_s: each run begins with a JVM, polls a batch, five polls in eight seconds, and makes history of
    a stop or start.
    """
    with _faulty_cluster() as (cluster, administration):
        configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS, groupLog={})
        say(f"the first run, which makes the lake, took {run_once(folder):.1f} s")
        seconds = []
        for run in range(runs):
            cluster.start(2) if run % 2 else cluster.stop(2)
            if run % 2:
                administration.await_settled(_brokers(cluster))
            seconds.append(run_once(folder))
            say(f"--once took {seconds[-1]:.1f} s")
    return {"once_cold_s": median(seconds)}


def faults(folder: Path, say: Say, _runs: int) -> Results:
    """Measure freshness_p50_s, freshness_p90_s and polls_on_time: the pipeline beside a cluster under the faults of
    `truth`.
    """
    with _faulty_cluster() as (cluster, administration):
        config = configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS)
        with running("jobs/pipeline.py", folder) as pipeline:
            begun = _HistoryWatch(config, quiet_s=QUIET_S / 3)
            await_that("history of the first polls", pipeline, folder, begun.is_done, FIRST_S)
            say(f"history has begun; faults for about {FAULTS_S:.0f} s")
            since = datetime.now(UTC)
            play(cluster, administration, plan(SEED, _brokers(cluster), FAULTS_S), say)
            until = datetime.now(UTC)
            done = _HistoryWatch(config, quiet_s=QUIET_S)
            await_that("history of the last fault", pipeline, folder, done.is_done, LAST_S)
    delays = freshness(config, since)
    on_time = polls_on_time(config, since, until)
    say(f"{len(delays)} leader changes, at most {max(delays):.0f} s late; {on_time.value:.1%} of polls on time")
    return {
        "freshness_p50_s": Measured(percentile(delays, 0.5), tuple(delays)),
        "freshness_p90_s": Measured(percentile(delays, 0.9), tuple(delays)),
        "polls_on_time": on_time,
    }


def boundary(folder: Path, say: Say, _runs: int) -> Results:
    """Measure boundary_s: the poller alone, five polls a batch, each 100 ms, so that the next batch is due when one
    ends.
    """
    with LocalCluster(brokers=1) as cluster:
        poll = {"pollInterval": "100ms", "pollsPerBatch": 5}
        config = configured(folder, [ALIAS], cluster.bootstrap_servers, poll=poll)
        polls = table_folder(config, "bronze.metadata_polls")
        with running("jobs/poll_metadata.py", folder) as poller:

            def enough() -> bool:
                return polls.exists() and sum(1 for _ in commits(polls)) > BOUNDARIES + 5

            await_that(f"{BOUNDARIES} batches", poller, folder, enough, FIRST_S)
    batches = [[row for row in _headers(commit) if row["received_at"]] for commit in commits(polls)]
    between = [
        (after[0]["sent_at"] - before[-1]["received_at"]).total_seconds() for before, after in pairwise(batches[5:])
    ]
    say(f"boundaries: {[round(each, 2) for each in between]}")
    return {"boundary_s": median(between)}


# --- what the tables say ---

_HEADER: Final = ("record", "n", "interval_ms", "scheduled_at", "sent_at", "received_at", "attempts")


def freshness(config: Config, since: datetime) -> list[float]:
    """Return for each leader change that a poll has shown since then the seconds from its answer to the
    commit in gold.
    """
    answered = {row["poll_id"]: row["received_at"] for row in _polls(config)}
    rows = first_commits(table_folder(config, "gold.leader_changes"), "id", "poll")
    return [
        (at - answered[row["poll"]]).total_seconds()
        for at, row in rows
        if answered[row["poll"]] is not None and answered[row["poll"]] >= since
    ]


def polls_on_time(config: Config, since: datetime, until: datetime) -> Measured:
    """Return the share of polls that were sent in time, among those that were due from `since` until `until`.

    A beat that no poll has the number of was missed. A poll that had to ask again, or that was not sent since the one
    before still ran, is late by the cluster's doing, and left out.
    """
    polls = [row for row in _polls(config) if since <= row["scheduled_at"] <= until]
    missed = sum(
        round((after["scheduled_at"] - before["scheduled_at"]) / timedelta(milliseconds=before["interval_ms"])) - 1
        for before, after in pairwise(polls)
    )
    sent = [row["sent_at"] - row["scheduled_at"] for row in polls if row["attempts"] == 1 and row["sent_at"]]
    late = tuple(each.total_seconds() for each in sent)
    return Measured(sum(each <= LATE for each in sent) / (len(sent) + missed), late)


def _polls(config: Config) -> list[dict[str, Any]]:
    """The headers of all polls, in order."""
    polls = first_commits(table_folder(config, "bronze.metadata_polls"), "poll_id", *_HEADER, where=("record", "poll"))
    return sorted((row for _, row in polls), key=lambda row: str(row["poll_id"]))


def _headers(commit: Commit) -> list[dict[str, Any]]:
    """The headers of a batch's polls, in order."""
    rows = commit.rows(("poll_id", *_HEADER)).to_pylist()
    return sorted((row for row in rows if row["record"] == "poll"), key=lambda row: str(row["poll_id"]))


class _HistoryWatch:
    """Says when gold has every leader change that silver has, and nothing more came into either for a while."""

    def __init__(self, config: Config, *, quiet_s: float) -> None:
        changed = ("topic", "partition", "first_poll", "leader", "prev_leader", "leader_epoch", "prev_leader_epoch")
        self._states = Followed(table_folder(config, "silver.partition_snapshots"), changed)
        self._changes = Followed(table_folder(config, "gold.leader_changes"), ("topic", "partition", "poll"))
        self._quiet_s = quiet_s
        self._since = time.monotonic()

    def is_done(self) -> bool:
        """Look, and say it."""
        if any([self._states.look(), self._changes.look()]):
            self._since = time.monotonic()
        wanted = {
            (row["topic"], row["partition"], row["first_poll"])
            for _, row in self._states.rows
            if row["prev_leader"] is not None
            and (row["leader"], row["leader_epoch"]) != (row["prev_leader"], row["prev_leader_epoch"])
        }
        found = {(row["topic"], row["partition"], row["poll"]) for _, row in self._changes.rows}
        is_quiet = time.monotonic() - self._since > self._quiet_s
        return bool(self._states.rows) and is_quiet and wanted <= found


# --- clusters ---


@contextmanager
def _faulty_cluster() -> Iterator[tuple[LocalCluster, Administration]]:
    """Four brokers with the topics and the traffic of `truth`."""
    with LocalCluster(
        brokers=NEWEST.brokers,
        controllers=1,
        kafka_version=NEWEST.kafka_version,
        metadata_version=NEWEST.metadata_version,
        racks=NEWEST.racks,
        properties=PROPERTIES,
        isolatable=True,
    ) as cluster:
        administration = Administration(cluster)
        begun_with = topics(SEED, _brokers(cluster))
        administration.create_topics(begun_with)
        with Traffic(cluster.bootstrap_servers, [topic.name for topic in begun_with]):
            administration.await_settled(_brokers(cluster))
            yield cluster, administration


def _brokers(cluster: LocalCluster) -> tuple[int, ...]:
    return tuple(node_id for node_id, node in cluster.nodes.items() if node.is_broker)


def _new_topic(name: str, partitions: int) -> NewTopic:
    """A topic of three replicas, led by each of three brokers in turn."""
    return NewTopic(name, tuple(tuple((number + place) % 3 + 1 for place in range(3)) for number in range(partitions)))


def _await_poll_since(config: Config, since: datetime) -> None:
    """Wait until bronze has a good poll that was sent since then."""
    polls = Followed(table_folder(config, "bronze.metadata_polls"), _HEADER)
    deadline = time.monotonic() + FIRST_S
    while True:
        polls.look()
        if any(row["record"] == "poll" and row["received_at"] and row["sent_at"] >= since for _, row in polls.rows):
            return
        if time.monotonic() > deadline:
            raise ProductError(f"no good poll has come within {FIRST_S:.0f} s")
        time.sleep(0.5)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
