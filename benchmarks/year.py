"""Whether anything grows in a year: a lake that lives through one by a test clock, with upkeep as
the pipeline does it.

Ten clusters of 1,000 partitions. A day has six polls, and before each something happens: brokers go
and come back, leaders move, topics are deleted and made again, and groups come, rebalance and go.
One round makes history of 60 polls. Upkeep comes after each third round (production has hundreds
between two). A day of 2,880 commits of polls is measured by itself, one after the other without
waiting; each 60 of them become history in a round, and upkeep comes each six hours, as in
production. In that day groups are remembered for six hours after they are gone
(`retention.bronze`), not for a week, which would not be full. A line for each period says what a
commit of polls, a round, an upkeep and a question take, how many files and log entries there are,
and how much memory is in use. The last five periods are compared with the five before.

Polls, rounds, upkeep and retention go by the test clock. Delta and VACUUM know only the clock of
the machine, so after each round the files of the lake are made older. When a file was replaced
stands in Delta's log and cannot be made older: here every table keeps replaced files for KEPT_S
seconds.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import psutil

from benchmarks import product
from benchmarks.processes import resident_mb
from benchmarks.results import Results, median
from benchmarks.rounds.lakes import made_up
from benchmarks.rounds.made_up import MadeUpPoller
from jobs.histories.polls import Polls
from jobs.histories.rebalances import RebalanceHistory
from jobs.rounds.commit import append_rows
from jobs.rounds.engine import Engine
from jobs.upkeep.upkeep import keep_up, next_due
from kafka_metadata_history.answers.questions import FILTERS, text_of
from schemas import bronze, internal
from schemas.in_spark import attach, ensure_lake
from schemas.lake import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.results import Say
    from benchmarks.rounds.made_up import MadeUpCluster
    from jobs.configuration.config import Config

CLUSTERS: Final = 10
TOPICS, PARTITIONS, BROKERS = 20, 50, 6
STEPS_A_DAY: Final = 6
DAY: Final = timedelta(days=1)
UPKEEP_AFTER: Final = 3
"""Rounds of the year between two upkeeps."""
COMMITS_A_ROUND: Final = 60
"""Half an hour of polls: with a round for each of them the day would take longer than a day."""
GROUPS_KEPT: Final = {"bronze": "6h"}
KEPT_S: Final = 900
"""Delta reads no commits that are older: rounds have to read what was appended before."""
A_DAY_OF_COMMITS: Final = 2_880
CYCLE: Final = 5
"""Periods. Delta cleans a log with each tenth commit, and keeps a week of most: with rounds of ten
days these logs are at their longest each 150 days.
"""
DAYS, PERIOD = 365, 30
STEPS: Final = 60
"""Polls of the year of which a round makes history."""
PERIODS_OF_A_DAY: Final = 12

TIMED: Final = ("commit", "round", "groups", "upkeep")
QUESTIONS: Final = (
    "broker_incidents",
    "leader_churn",
    "time_at_level",
    "timeline",
    "rebalances",
    "health",
)
"""Asked of the last day."""


@dataclass
class Period:
    """Of some days, or commits: medians of seconds; counts and MB at the end, of logs the most."""

    until: float
    commit_s: float
    round_s: float
    groups_s: float
    upkeep_s: float
    question_s: dict[str, float]
    files: int
    log_entries: int
    log_mb: float
    internal_rows: int
    memory_kb: float
    heap_mb: float
    python_mb: float
    lake_mb: float


@dataclass
class Faults:
    """The faults of the clusters, and their groups. The same seed makes the same ones."""

    chance: random.Random
    out: dict[str, int]
    deleted: dict[str, int]
    groups: dict[tuple[str, str], int]
    offsets: dict[str, int]

    def change(self, cluster: MadeUpCluster, number: int) -> None:
        """Do the faults of one of a day's six steps to a cluster."""
        place = number % STEPS_A_DAY
        if place == 0 and self.chance.random() < 0.3:
            self.out[cluster.alias] = self.chance.randrange(1, BROKERS)
            cluster.stop(self.out[cluster.alias])
        elif (
            place in {1, 3}
            and cluster.alias in self.out
            and (place == 3 or self.chance.random() < 0.5)
        ):
            cluster.start(self.out.pop(cluster.alias))
        elif place == 2:
            cluster.change(10)
        elif place == 4 and self.chance.random() < 0.2:
            self.deleted[cluster.alias] = self.chance.randrange(TOPICS)
            cluster.delete(self.deleted[cluster.alias])
        elif place == 5 and cluster.alias in self.deleted:
            cluster.make_again(self.deleted.pop(cluster.alias))

    def group_log(self, cluster: str, at: datetime, number: int) -> Iterator[dict[str, Any]]:
        """Yield what coordinators write in a step: two groups last, one comes and goes."""
        for group in ("orders", "billing"):
            self.groups[cluster, group] = self.groups.get((cluster, group), 0) + 1
            yield self._record(cluster, group, at, self.groups[cluster, group], members=2)
        passing = f"console-consumer-{number:06d}"
        yield self._record(cluster, passing, at, 1, members=1)
        yield self._record(cluster, passing, at + timedelta(minutes=5), 2, members=0)
        yield self._record(cluster, passing, at + timedelta(minutes=15), None, members=0)

    def _record(
        self, cluster: str, group: str, at: datetime, generation: int | None, members: int
    ) -> dict[str, Any]:
        self.offsets[cluster] = offset = self.offsets.get(cluster, -1) + 1
        read_at = at + timedelta(minutes=20)
        row = dict.fromkeys(bronze.GROUP_LOG.column_names) | {
            "cluster": cluster,
            "cluster_id": f"id-{cluster}",
            "record": "record",
            "log_partition": 7,
            "offset": offset,
            "read_at": read_at,
            "day": read_at.date(),
            "timestamp": at,
            "leader_epoch": 0,
            "type": 2,
            "version": 3,
            "group_id": group,
            "is_tombstone": generation is None,
        }
        if generation is not None:
            row["classic"] = {
                "protocol_type": "consumer",
                "generation": generation,
                "protocol": "range" if members else None,
                "leader": "m0" if members else None,
                "state_timestamp": at,
                "members": [_member(number, generation) for number in range(members)],
            }
        return row


def _member(number: int, generation: int) -> dict[str, Any]:
    partitions = [n for n in range(6) if (n + generation) % 2 == number]
    topics = [{"topic": "topic-00000", "partitions": partitions}]
    return {
        "member_id": f"m{number}",
        "client_id": "app",
        "client_host": "/10.0.0.1",
        "subscription": {
            "version": 1,
            "topics": ["topic-00000"],
            "owned_partitions": [],
            "generation": generation,
        },
        "assignment": {"version": 1, "partitions": topics},
    }


class Life:
    """A lake and its clusters, by a test clock."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        *,
        began_at: datetime,
        between: timedelta,
        polls: int,
        polls_per_round: int,
        retention: Mapping[str, str],
    ) -> None:
        clusters = made_up([f"cluster-{n}" for n in range(CLUSTERS)], TOPICS, PARTITIONS, BROKERS)
        self.poller = MadeUpPoller(clusters, between, polls, began_at=began_at)
        self.config: Config = product.configured(
            folder,
            [each.alias for each in clusters],
            retention=dict(retention),
            history={"pollsPerRound": polls_per_round},
        )
        self.spark, self.folder = spark, folder
        ensure_lake(spark, self.config.lake)
        self.engines = {
            what: Engine(spark, self.config, history())
            for what, history in (("round", Polls), ("groups", RebalanceHistory))
        }
        for table in TABLES:
            kept = f"'delta.deletedFileRetentionDuration' = 'interval {KEPT_S} seconds'"
            spark.sql(
                f"ALTER TABLE {self.config.lake.identifier(table)} SET TBLPROPERTIES ({kept})"
            )
        self.faults = Faults(random.Random(7), {}, {}, {}, {})
        self.number = 0
        self.took = defaultdict[str, list[float]](list)
        self.logs: list[tuple[int, float]] = []
        self.keep_up_when_due(began_at)  # which counts from then on

    @property
    def now(self) -> datetime:
        """The time by the test clock: a moment after the last poll."""
        return self.poller.began_at + self.poller.n * self.poller.interval

    def poll(self, change: Callable[[MadeUpCluster, int], object]) -> None:
        """Poll all clusters: a commit."""
        polls = self.poller.batch(change)
        start = time.perf_counter()
        product.append_polls(self.spark, self.config, polls)
        self.took["commit"].append(time.perf_counter() - start)

    def read_log(self, since: datetime, steps: int) -> None:
        """Read what coordinators wrote in so many steps until now: a commit."""
        of_step = (self.now - since) / steps
        log = [
            row
            for step in range(steps)
            for each in self.poller.clusters
            for row in self.faults.group_log(each.alias, since + step * of_step, self.number + step)
        ]
        append_rows(self.spark, self.config.lake, bronze.GROUP_LOG, log)
        self.number += steps

    def make_history(self) -> None:
        """Make history of all that was polled and read."""
        for what, engine in self.engines.items():
            start = time.perf_counter()
            while engine.round(self.now):
                pass
            self.took[what].append(time.perf_counter() - start)
        self.logs.append(self.log_files())

    def log_files(self) -> tuple[int, float]:
        """Return how many files Delta's logs have, and their MB."""
        files = [file for file in self.folder.glob("lake/*/*/_delta_log/*") if file.is_file()]
        return len(files), sum(file.stat().st_size for file in files) / 1e6

    def keep_up(self) -> None:
        """Do the upkeep if it is due."""
        start = time.perf_counter()
        if self.keep_up_when_due(self.now):
            self.took["upkeep"].append(time.perf_counter() - start)

    def keep_up_when_due(self, now: datetime) -> bool:
        """Do the upkeep if it is due; return whether it was."""
        lake, config = self.config.lake, self.config
        is_due = next_due(self.spark, lake, now) <= now
        if is_due:
            keep_up(self.spark, lake, config.bronze_retention, config.kept, now)
        return is_due

    def measured(self, until: float) -> Period:
        """Measure the lake now, and the medians since the last measurement."""
        took, self.took = self.took, defaultdict(list)
        # Delta removes files of a log with each tenth commit of the table: at its end a period may
        # have few, or many.
        log_entries, log_mb = map(max, zip(*self.logs, strict=True))
        self.logs.clear()
        attach(self.spark, self.config.lake)
        states = self.config.lake.read(self.spark, internal.STATE)
        memory = states.selectExpr("sum(length(memory))").collect()[0][0]
        tables = [table for table in TABLES if table.schema != "quality"]
        live = [self.config.lake.read(self.spark, table).inputFiles() for table in tables]
        rows = sum(self.config.lake.read(self.spark, table).count() for table in internal.TABLES)
        questions = {name: self._asked(name) for name in QUESTIONS}
        java = self.spark.sparkContext._jvm.java.lang  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way
        gc.collect()
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        return Period(
            until,
            *(statistics.median(took[what]) if took[what] else 0.0 for what in TIMED),
            questions,
            sum(map(len, live)),
            log_entries,
            log_mb,
            rows,
            memory / 1e3,
            (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
            resident_mb([psutil.Process()]),
            sum(file.stat().st_size for file in self.folder.rglob("*.parquet")) / 1e6,
        )

    def _asked(self, name: str) -> float:
        window = {"since": (self.now - DAY).isoformat(), "until": self.now.isoformat()}
        parameters = window | dict.fromkeys(FILTERS)
        times = []
        for _ in range(2):
            start = time.perf_counter()
            self.spark.sql(text_of(name), parameters).write.format("noop").mode("overwrite").save()
            times.append(time.perf_counter() - start)
        return min(times)


def make_older(folder: Path, by: timedelta) -> None:
    """Make each file a while older, as if it had been written so much earlier."""
    for file in folder.rglob("*"):
        if file.is_file():
            status = file.stat()
            earlier = status.st_mtime_ns - by // timedelta(microseconds=1) * 1000
            os.utime(file, ns=(earlier, earlier))


def year(folder: Path, say: Say, _runs: int) -> Results:
    """Measure year_counts_x and year_seconds_x: rounds of 60 polls each, in ten days."""
    return _grown("year", list(_said(_a_year(folder), say)), say)


def day(folder: Path, say: Say, _runs: int) -> Results:
    """Measure day_counts_x and day_seconds_x: polls with news and a commit each, by a clock on
    which a day has so many of them.
    """
    return _grown("day", list(_said(_a_day(folder), say)), say)


def _a_year(folder: Path) -> Iterator[Period]:
    between = DAY / STEPS_A_DAY
    began_at = datetime.now(UTC).replace(microsecond=0) - DAYS * DAY
    sizes = {"polls": STEPS, "polls_per_round": STEPS}
    life = Life(
        product.session(), folder, began_at=began_at, between=between, retention={}, **sizes
    )
    for number in range(1, DAYS * STEPS_A_DAY // STEPS + 1):
        began = life.now
        life.poll(lambda cluster, place: life.faults.change(cluster, life.number + place))
        life.read_log(began, STEPS)
        life.make_history()
        make_older(folder, between * STEPS)
        if number % UPKEEP_AFTER == 0:
            life.keep_up()
        if life.number % (PERIOD * STEPS_A_DAY) < STEPS:
            yield life.measured(life.number / STEPS_A_DAY)


def _a_day(folder: Path) -> Iterator[Period]:
    between = DAY / A_DAY_OF_COMMITS
    began_at = datetime.now(UTC).replace(microsecond=0) - DAY
    sizes = {"polls": 1, "polls_per_round": COMMITS_A_ROUND}
    life = Life(product.session(), folder, began_at=began_at, between=between,
                retention=GROUPS_KEPT, **sizes)  # fmt: skip
    read_until, aged_at = life.now, time.monotonic()
    for number in range(1, A_DAY_OF_COMMITS + 1):
        moved = life.poller.clusters[number % CLUSTERS]
        life.poll(lambda cluster, _, moved=moved: cluster.change(2) if cluster is moved else None)
        if number % COMMITS_A_ROUND == 0:
            life.read_log(read_until, COMMITS_A_ROUND)
            read_until = life.now
            life.make_history()
            took, aged_at = time.monotonic() - aged_at, time.monotonic()
            make_older(folder, COMMITS_A_ROUND * between - timedelta(seconds=took))
            life.keep_up()
        if number % (A_DAY_OF_COMMITS // PERIODS_OF_A_DAY) == 0:
            yield life.measured(number)


def _said(periods: Iterator[Period], say: Say) -> Iterator[Period]:
    for each in periods:
        values = asdict(each) | {"question_s": sum(each.question_s.values())}
        say(", ".join(f"{name} {value:.5g}" for name, value in values.items()))
        yield each


COUNTS: Final[Mapping[str, Callable[[Period], float]]] = {
    "files": lambda of: of.files,
    "log entries": lambda of: of.log_entries,
    "rows of internal": lambda of: of.internal_rows,
    "memory of folds": lambda of: of.memory_kb,
}
MEMORY: Final[Mapping[str, Callable[[Period], float]]] = {
    "heap": lambda of: of.heap_mb,
    "python": lambda of: of.python_mb,
}
SECONDS: Final[Mapping[str, Callable[[Period], float]]] = {
    "commit": lambda of: of.commit_s,
    "round": lambda of: of.round_s,
    "round of groups": lambda of: of.groups_s,
    "upkeep": lambda of: of.upkeep_s,
    "questions": lambda of: sum(of.question_s.values()),
}


def _grown(name: str, periods: Sequence[Period], say: Say) -> Results:
    """Return the most that counts and memory, and seconds, have grown by from the last cycle but
    one to the last. Of counts it is the most of a cycle, of all else the median.
    """
    before, after = periods[-2 * CYCLE : -CYCLE], periods[-CYCLE:]

    def ratios(of: Mapping[str, Callable[[Period], float]], least: Callable[..., float]) -> Results:
        found = {each: (least(map(value, before)), least(map(value, after)))
                 for each, value in of.items()}  # fmt: skip
        return {each: median([last / first if first else 1.0])
                for each, (first, last) in found.items()}  # fmt: skip

    counts, seconds = ratios(COUNTS, max) | ratios(MEMORY, statistics.median), ratios(
        SECONDS, statistics.median)  # fmt: skip
    results = {}
    for kind, of in (("counts", counts), ("seconds", seconds)):
        say(", ".join(f"{each} {ratio.value:.2f}" for each, ratio in of.items()))
        results[f"{name}_{kind}_x"] = max(of.values(), key=lambda each: each.value)
    return results
