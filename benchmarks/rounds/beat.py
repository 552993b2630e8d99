"""Whether polls keep their beat beside all that the product does, and how late history is."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from benchmarks.far_cluster import far_process
from benchmarks.product import POLLS, await_that, configured, running, table_folder
from benchmarks.results import Measured, Results, median, percentile
from benchmarks.rounds.clusters import brokers_of, faulty_cluster, new_topic
from benchmarks.rounds.commits import Followed, commits, first_commits
from local_cluster import LocalCluster
from truth.administration import Administration
from truth.chaos import play
from truth.scenarios import plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.results import Say
    from jobs.configuration.config import Config

    Header = Mapping[str, Any]

ALIAS: Final = "local"
SEED: Final = 281
FAULTS_S: Final = 240.0
BUSY_S: Final = 120.0
LATE: Final = timedelta(seconds=0.5)
FIRST_S: Final = 300.0
"""Until history of the first polls is there, at most."""
LAST_S: Final = 600.0
"""Until history of the last fault is there, at most."""
QUIET_S: Final = 45.0
APART_S: Final = 20.0
"""Between two events on a quiet lake."""
TOPIC: Final = "events"
GROUPS: Final = 200
COMMITTED: Final = 500
"""Partitions that each group has committed."""
OFFSETS: Final = {"pollInterval": "2s", "enrich": "offsets=20s", "enrichTimeout": "20s"}
OFFSETS_S: Final = 120.0
STARTS: Final = 3
RUN: Final = (sys.executable, "-m", "kafka_metadata_history", "run")
NOT_MADE: Final = frozenset({"lost", "spool_full", "handed_over", "clock"})
"""The kinds of polls that were made in vain, or not at all, by our own doing."""


def quiet(folder: Path, say: Say, runs: int) -> Results:
    """Measure freshness_quiet_s: now and then one partition of a hundred gets another leader."""
    properties = {"auto.leader.rebalance.enable": "false"}
    with LocalCluster(brokers=3, controllers=1, properties=properties) as cluster:
        administration = Administration(cluster)
        administration.create_topics([new_topic(TOPIC, 100)])
        administration.await_settled(brokers_of(cluster))
        config = configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS)
        with running(folder) as pipeline:
            await_that(
                "history of the first polls",
                pipeline,
                folder,
                _HistoryWatch(config, QUIET_S).is_done,
                FIRST_S,
            )
            since = datetime.now(UTC)
            for run in range(1 + runs):
                # Its replicas are 1, 2, 3 from the first on.
                administration.reassign([(TOPIC, 0, (1, 2, 3) if run % 2 else (2, 3, 1))])
                administration.elect(unclean=False)
                time.sleep(APART_S)
            done = _HistoryWatch(config, QUIET_S / 3)
            await_that("history of the last event", pipeline, folder, done.is_done, LAST_S)
    delays = freshness(config, since)[1:]
    say(f"{len(delays)} leader changes: {[round(delay, 1) for delay in delays]}")
    return {"freshness_quiet_s": median(delays)}


def faults(folder: Path, say: Say, _runs: int) -> Results:
    """Measure freshness_p50_s, freshness_p90_s and polls_on_time: the pipeline beside a cluster
    under the faults of `truth`.
    """
    found = _beside_faults(folder, say, FAULTS_S)
    delays = freshness(found.config, found.since)
    say(f"{len(delays)} leader changes, at most {max(delays):.0f} s late")
    say(where_time_went(found.config, found.since))
    return {
        "freshness_p50_s": Measured(percentile(delays, 0.5), tuple(delays)),
        "freshness_p90_s": Measured(percentile(delays, 0.9), tuple(delays)),
        "polls_on_time": found.on_time(say),
    }


def busy(folder: Path, say: Say, _runs: int) -> Results:
    """Measure polls_on_time_busy: the same, with one processor less."""
    with burning():
        found = _beside_faults(folder, say, BUSY_S)
    return {"polls_on_time_busy": found.on_time(say)}


def offsets(folder: Path, say: Say, _runs: int) -> Results:
    """Measure polls_on_time_offsets: 200 groups on 50 made-up brokers, 500 partitions each."""
    with far_process(50, round_trip_s=0.002, is_secured=False, consumed=COMMITTED) as options:
        clusters = {ALIAS: options}
        config = configured(folder, (), clusters=clusters, poll=OFFSETS)
        with running(folder) as pipeline:
            await_that("the first polls", pipeline, folder, lambda: bool(polls_of(config)), FIRST_S)
            since = datetime.now(UTC)
            time.sleep(OFFSETS_S)
            until = datetime.now(UTC)
            await_that(
                "the last polls", pipeline, folder, lambda: _has_poll_since(config, until), FIRST_S
            )
    asked = [
        (row["asked_at"], row["answered_at"])
        for row in answers_of(config, "offsets")
        if row["answered_at"]
    ]
    took = [(end - begin).total_seconds() for begin, end in asked]
    say(f"offsets were asked {len(asked)} times, for {max(took, default=0):.1f} s at most")
    polls = [row for row in polls_of(config) if since <= row["scheduled_at"] <= until]
    meanwhile = [
        row for row in polls if any(begin <= row["scheduled_at"] <= end for begin, end in asked)
    ]
    lateness = lateness_of(meanwhile)
    say(f"{len(lateness)} polls were due meanwhile, at most {max(lateness):.2f} s late")
    return {
        "polls_on_time_offsets": Measured(
            _share(lateness, len(meanwhile) - _excused(meanwhile)), lateness
        )
    }


def first(folder: Path, say: Say, runs: int) -> Results:
    """Measure first_poll_s. The first run also makes the lake."""
    seconds = []
    with LocalCluster(brokers=1) as cluster:
        config = configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS)
        for _ in range(min(runs, STARTS)):
            began = datetime.now(UTC)
            with running(folder, command=RUN) as recorder:
                await_that(
                    "a poll",
                    recorder,
                    folder,
                    lambda since=began: _has_poll_since(config, since),
                    FIRST_S,
                )
            sent = (row["sent_at"] for row in polls_of(config) if row["sent_at"])
            seconds.append((min(at for at in sent if at >= began) - began).total_seconds())
            say(f"the first poll was sent after {seconds[-1]:.1f} s")
    return {"first_poll_s": median(seconds)}


@contextmanager
def burning() -> Iterator[None]:
    """Let a process take all that one processor has."""
    process = subprocess.Popen([sys.executable, "-ISc", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class _Recorded:
    """A lake, and from when until when faults were done to its cluster."""

    config: Config
    since: datetime
    until: datetime

    def on_time(self, say: Say) -> Measured:
        polls = [
            row for row in polls_of(self.config) if self.since <= row["scheduled_at"] <= self.until
        ]
        found = polls_on_time(polls)
        overlapped = sum(row["error_kind"] == "overlapped" for row in polls)
        say(
            f"{found.value:.1%} of polls on time, at most {max(found.runs):.2f} s late; "
            f"{overlapped} of {len(polls)} were due while the one before them ran"
        )
        return found


def _beside_faults(folder: Path, say: Say, seconds: float) -> _Recorded:
    with faulty_cluster(SEED) as (cluster, administration):
        config = configured(folder, [ALIAS], cluster.bootstrap_servers, poll=POLLS)
        with running(folder) as pipeline:
            begun = _HistoryWatch(config, QUIET_S / 3)
            await_that("history of the first polls", pipeline, folder, begun.is_done, FIRST_S)
            say(f"history has begun; faults for about {seconds:.0f} s")
            since = datetime.now(UTC)
            play(cluster, administration, plan(SEED, brokers_of(cluster), seconds), say)
            until = datetime.now(UTC)
            done = _HistoryWatch(config, QUIET_S)
            await_that("history of the last fault", pipeline, folder, done.is_done, LAST_S)
    return _Recorded(config, since, until)


# --- what the tables say ---

_HEADER: Final = (
    "record",
    "n",
    "interval_ms",
    "scheduled_at",
    "sent_at",
    "received_at",
    "attempts",
    "error_kind",
    *("kind", "asked_at", "answered_at"),
)


def freshness(config: Config, since: datetime) -> list[float]:
    """Return for each leader change that a poll has shown since then the seconds from its answer to
    the commit in gold.
    """
    answered = {row["poll_id"]: row["received_at"] for row in polls_of(config)}
    rows = first_commits(table_folder(config, "gold.leader_changes"), "id", "poll")
    return [
        (at - answered[row["poll"]]).total_seconds()
        for at, row in rows
        if answered[row["poll"]] is not None and answered[row["poll"]] >= since
    ]


def where_time_went(config: Config, since: datetime) -> str:
    """Return how long a leader change was in each step to gold, and how long batches and rounds
    took: medians.
    """
    in_bronze = {
        row["poll_id"]: (row["received_at"], at)
        for at, row in _rows(config, "poll_id", where=("record", "poll"))
        if row["received_at"] and row["received_at"] >= since
    }
    planned = sorted(
        at
        for at, _ in first_commits(
            table_folder(config, "internal.rounds"), "round", "step", where=("step", "planned")
        )
    )
    steps = []
    for at, row in first_commits(table_folder(config, "gold.leader_changes"), "id", "poll"):
        if (known := in_bronze.get(row["poll"])) is not None:
            answered, committed = known
            begun = max(each for each in planned if each <= at)
            steps.append([answered, committed, begun, at])
    waited = [
        statistics.median((end - begin).total_seconds() for begin, end in each)
        for each in zip(*(pairwise(of) for of in steps), strict=True)
    ]
    batches = sorted({at for _, at in in_bronze.values()})
    return (
        "answer to bronze {:.1f} s, to its round's plan {:.1f} s, to gold {:.1f} s; ".format(
            *waited
        )
        + f"a batch each {_median_apart(batches):.1f} s, a round each "
        f"{_median_apart([at for at in planned if at >= since]):.1f} s"
    )


def _median_apart(times: Sequence[datetime]) -> float:
    return statistics.median((after - before).total_seconds() for before, after in pairwise(times))


def polls_on_time(polls: Sequence[Header]) -> Measured:
    """Return the share of polls of one cluster, in order, that were sent in time.

    A beat that no poll has was missed, and so was one whose poll is lost. A poll that had to ask
    again, or that was not sent since the one before still ran, is late by the cluster's doing, and
    left out.
    """
    missed = holes_in(polls) + sum(row["error_kind"] in NOT_MADE for row in polls)
    late = lateness_of(polls)
    return Measured(_share(late, len(late) + missed), late)


def holes_in(polls: Sequence[Header]) -> int:
    """Return how many beats no poll has."""
    return sum(
        round(
            (after["scheduled_at"] - before["scheduled_at"])
            / timedelta(milliseconds=before["interval_ms"])
        )
        - 1
        for before, after in pairwise(polls)
    )


def lateness_of(polls: Iterable[Header]) -> tuple[float, ...]:
    """Return how late polls were sent, s: those that did not have to ask again."""
    sent = [
        row["sent_at"] - row["scheduled_at"]
        for row in polls
        if row["attempts"] == 1 and row["sent_at"]
    ]
    return tuple(each.total_seconds() for each in sent)


def _share(late: Sequence[float], of: int) -> float:
    return sum(each <= LATE.total_seconds() for each in late) / of


def _excused(polls: Sequence[Header]) -> int:
    """How many polls are neither late nor in time."""
    return (
        len(polls) - len(lateness_of(polls)) - sum(row["error_kind"] in NOT_MADE for row in polls)
    )


def polls_of(config: Config) -> list[dict[str, Any]]:
    """Return the headers of all polls of a lake of one cluster, in order."""
    polls = _rows(config, "poll_id", where=("record", "poll"))
    return sorted((row for _, row in polls), key=lambda row: str(row["poll_id"]))


def answers_of(config: Config, kind: str) -> list[dict[str, Any]]:
    """Return the headers of all answers to a question beside polls."""
    return [
        row
        for _, row in _rows(config, "asked_at", where=("kind", kind))
        if row["record"] == "answer"
    ]


def _rows(
    config: Config, key: str, where: tuple[str, object]
) -> list[tuple[datetime, dict[str, Any]]]:
    columns = [name for name in ("poll_id", *_HEADER) if name != key]
    return first_commits(table_folder(config, "bronze.metadata_polls"), key, *columns, where=where)


def _has_poll_since(config: Config, since: datetime) -> bool:
    polls = table_folder(config, "bronze.metadata_polls")
    if not polls.exists():
        return False
    *_, last = [None, *commits(polls)]
    rows = [] if last is None else last.rows(_HEADER).to_pylist()
    return any(
        row["record"] == "poll" and row["sent_at"] and row["sent_at"] >= since for row in rows
    )


class _HistoryWatch:
    """Says when gold has every leader change of silver, and nothing more comes into either."""

    def __init__(self, config: Config, quiet_s: float) -> None:
        changed = (
            "topic",
            "partition",
            "first_poll",
            "leader",
            "prev_leader",
            "leader_epoch",
            "prev_leader_epoch",
        )
        self._states = Followed(table_folder(config, "silver.partition_snapshots"), changed)
        self._changes = Followed(
            table_folder(config, "gold.leader_changes"), ("topic", "partition", "poll")
        )
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
            and (row["leader"], row["leader_epoch"])
            != (row["prev_leader"], row["prev_leader_epoch"])
        }
        found = {(row["topic"], row["partition"], row["poll"]) for _, row in self._changes.rows}
        is_quiet = time.monotonic() - self._since > self._quiet_s
        return bool(self._states.rows) and is_quiet and wanted <= found
