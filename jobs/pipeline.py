"""Poll and keep history, all jobs in one session.

spark-submit jobs/pipeline.py --config FILE [--once] [--believe CLUSTER]

Exit status of a run with --once: 0, or 3 if the last poll of a cluster failed or its history is
left out, or 1 if the run failed.
"""

import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from jobs import poll_metadata, read_cluster_log, read_group_log
from jobs.configuration.config import Config
from jobs.configuration.limits import CROSSED
from jobs.histories import HISTORIES
from jobs.histories.believe import believing
from jobs.rounds.engine import Engine
from jobs.rounds.history import History, Run
from jobs.rounds.plan import OvertakenError
from jobs.run.backoff import backoff_s
from jobs.run.cli import one_line, run_job
from jobs.run.driver import JVM_IS_GONE, take_pool
from jobs.run.reading import FollowedLog, Reading, follow
from jobs.run.recording import recording
from jobs.run.streams import Running
from jobs.upkeep.lake_clock import ClockError
from jobs.upkeep.upkeep import check_clock, keep_up, next_due
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_lake
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.pipeline")

LOOK_EVERY_S = 0.25
"""How often the pipeline looks whether a batch of polls was committed: history is made then."""

PAUSE_S = 60.0
"""How long history, or upkeep, waits where nothing wakes it: a look at the lake costs half a second
of a core.
"""

AGAIN_AFTER_S = 1.0
"""How long after a failure it is tried again; each further one doubles it, up to PAUSE_S."""

STOPS_WITHIN_S = 20.0
"""Queries and threads have so long to end. A pod has 30 s between SIGTERM and SIGKILL, which costs
no more either.
"""

LOGGED_EVERY_S = 60.0
"""How often the reason is logged for which history, or upkeep, fails. From the second time on a
person has to act.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("pipeline", __doc__, run, argv, believe=believing, beside=recording)


def run(spark: SparkSession, config: Config, once: bool) -> int:
    """With `once`, one round of each job, one after the other; else all of them, until polling
    fails or another run takes over. Returns the exit status.
    """
    # All of the lake before anything is polled: a table that is not ours must not be found halfway.
    ensure_lake(spark, config.lake)
    if once:
        return _run_once(spark, config)
    log.info("recording %d cluster(s) into %s", len(config.clusters), config.lake)
    stop = Event()
    take_pool(spark, "polls")
    streams: dict[Table, Running] = {METADATA_POLLS: poll_metadata.polling(spark, config)}
    streams |= {followed.table: Reading(spark, config, followed) for followed in _logs(config)}
    works = [*_histories(spark, config), Lasting("upkeep", lambda: _upkeep(spark, config))]
    threads = [
        Thread(target=each.run, args=(spark, stop), name=each.name, daemon=True) for each in works
    ]
    for thread in threads:
        thread.start()
    try:
        _watch(spark, streams, works)
    finally:
        stop.set()
        for each in works:
            each.wake.set()
        # If a signal broke off a call of this thread, py4j would take the answer of that call for
        # one of the next.
        fresh = Thread(target=_stop, args=(streams.values(),), name="stop", daemon=True)
        fresh.start()
        join_within(STOPS_WITHIN_S, [fresh, *threads])
    return 0


def join_within(seconds: float, threads: Iterable[Thread]) -> None:
    """Wait until all threads have ended, but no longer in all."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _logs(config: Config) -> list[FollowedLog]:
    """The logs that the configuration asks for."""
    given = (
        (read_group_log.GROUP_LOG, config.group_log),
        (read_cluster_log.CLUSTER_LOG, config.cluster_log),
    )
    return [followed for followed, options in given if options is not None]


def _histories(spark: SparkSession, config: Config) -> list["Lasting"]:
    """The work of each history, which wakes those that follow it."""
    of_run = Run(since=datetime.now(UTC))

    def lasting(history: type[History[Any]]) -> Lasting:
        return Lasting(
            history.job, lambda: Engine(spark, config, history(), of_run).catch_up, history.woken_by
        )

    made = {history(): lasting(history) for history in HISTORIES if history.wanted(config)}
    for history, work in made.items():
        work.then = [
            each.wake
            for later, each in made.items()
            if not set(later.after).isdisjoint(history.names)
        ]
    return list(made.values())


def _watch(
    spark: SparkSession, streams: Mapping[Table, Running], works: Collection["Lasting"]
) -> None:
    """Until a stream ends, wake what takes its batches when it has committed one. Raises
    OvertakenError if another run has taken over one of `works`.
    """
    seen: dict[Table, int] = {}
    while not _ended(spark, streams):
        found = {table: stream.query.lastProgress for table, stream in streams.items()}
        batches = {
            table: progress.batchId for table, progress in found.items() if progress is not None
        }
        changed = {table for table, _ in batches.items() - seen.items()}
        seen = batches
        for each in works:
            if not changed.isdisjoint(each.woken_by):
                each.wake.set()
            if each.overtaken is not None:
                raise each.overtaken


def _stop(streams: Iterable[Running]) -> None:
    for stream in streams:
        with suppress(*JVM_IS_GONE):  # The signal that ends this process has ended the JVM, too.
            stream.query.stop()


class Lasting:
    """Work that is done again and again beside polling, and outlasts what goes wrong with it: polls
    cannot be repeated, history can.
    """

    def __init__(
        self, name: str, prepare: Callable[[], Callable[[], None]], woken_by: Collection[Table] = ()
    ) -> None:
        self.name, self._prepare, self.woken_by = name, prepare, woken_by
        self.then: Sequence[Event] = ()
        self.wake = Event()
        self.overtaken: OvertakenError | None = None
        self._failed, self._failed_at = 0, 0.0
        self._is_logged, self._logged_at = False, float("-inf")

    def run(self, spark: SparkSession, stop: Event) -> None:
        """Do it until `stop`: whenever it is woken, or after a minute; then wake what takes its
        results.
        """
        take_pool(spark, self.name)
        work: Callable[[], None] | None = None
        while True:
            self.wake.clear()
            if stop.is_set():
                return
            try:
                work = work or self._prepare()
                work()
            except OvertakenError as error:
                self.overtaken = error
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, polling goes on
                if stop.is_set():
                    return
                work = None  # Made again, from the tables.
                self._log_failure(error)
                stop.wait(backoff_s(AGAIN_AFTER_S, self._failed, PAUSE_S))
            else:
                self._log_recovery()
                for wake in self.then:
                    wake.set()
                self.wake.wait(PAUSE_S)

    def _log_failure(self, error: Exception) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at if self._failed else now
        self._failed += 1
        if now - self._logged_at <= LOGGED_EVERY_S:
            return
        self._is_logged, self._logged_at = True, now
        if now - self._failed_at < LOGGED_EVERY_S:
            log.warning("%s failed and is tried again: %s", self.name, one_line(error))
        else:
            log.error(
                "%s has failed for %.0f s: %s; correct what the error names, it is tried again. "
                "Polling continues, and bronze keeps what history has not had",
                self.name,
                now - self._failed_at,
                one_line(error),
            )

    def _log_recovery(self) -> None:
        if self._is_logged:
            log.warning("%s works again, after it failed %d time(s)", self.name, self._failed)
        self._failed, self._is_logged = 0, False


def _upkeep(spark: SparkSession, config: Config) -> Callable[[], None]:
    """Keeps the tables up whenever that is due."""
    waits = False

    def work() -> None:
        nonlocal waits
        waits = _keep_up_when_due(spark, config, waits=waits)

    return work


def _keep_up_when_due(spark: SparkSession, config: Config, *, waits: bool = False) -> bool:
    """Keep the tables up if that is due; whether it waits for a better clock, which is logged if it
    did not before (`waits`).
    """
    now = datetime.now(UTC)
    if next_due(spark, config.lake, now) > now:
        return False
    try:
        check_clock(spark, config.lake, now)
        take_what_is_left(spark, config)
        keep_up(spark, config.lake, config.bronze_retention, config.kept, now)
    except ClockError as error:  # A later one will do.
        if not waits:
            log.warning("upkeep waits: %s", error)
        return True
    return False


def take_what_is_left(spark: SparkSession, config: Config) -> None:
    """Take what is left for histories that the configuration wants no more. Bronze keeps it until
    then.
    """
    for history in HISTORIES:
        if not history.wanted(config) and history().waits(spark, config):
            Engine(spark, config, history()).catch_up(whole=True)


def _run_once(spark: SparkSession, config: Config) -> int:
    """One round of each job; returns the exit status. A log that cannot be read keeps nothing
    waiting that is history already.
    """
    run = Run()
    with ThreadPoolExecutor(3, "once") as beside:
        # Polling mostly waits: meanwhile the logs are read, and what an earlier run has planned is
        # finished.
        polled = beside.submit(poll_metadata.run, spark, config, True)
        read = {
            each.table: beside.submit(follow, spark, config, each, once=True)
            for each in _logs(config)
        }
        engines = [
            Engine(spark, config, history(), run) for history in HISTORIES if history.wanted(config)
        ]
        polled.result()
        for engine in engines:
            wait([each for table, each in read.items() if table in engine.history.woken_by])
            engine.catch_up(whole=True)
    _keep_up_when_due(spark, config)
    for each in read.values():
        each.result()
    return CROSSED if run.outages.failing or any(engine.left_out for engine in engines) else 0


def _ended(spark: SparkSession, streams: Mapping[Table, Running]) -> bool:
    """Wait a while, and say whether a stream has ended. One whose query has ended is started again
    where it can be.
    """
    with suppress(StreamingQueryException):  # Of which query, Spark does not say.
        if spark.streams.awaitAnyTermination(LOOK_EVERY_S):  # type: ignore[arg-type]  # fractions, too
            return True
    has_one_ended = False
    for stream in streams.values():
        query = stream.query
        is_active = query.isActive
        if not stream.keep():
            return True
        # One that was stopped to be started again has ended, too, also where that start has failed.
        has_one_ended |= not is_active or stream.query is not query or not query.isActive
    if has_one_ended:
        spark.streams.resetTerminated()
    return False


if __name__ == "__main__":
    sys.exit(main())
