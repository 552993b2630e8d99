"""A run of the pipeline: polling, logs, histories and upkeep in one session."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.configuration.keys import AUTO
from jobs.configuration.limits import CROSSED
from jobs.histories import HISTORIES
from jobs.rounds.engine import Engine
from jobs.rounds.history import History, Run
from jobs.run import metadata_stream
from jobs.run.driver import JVM_IS_GONE, last_batch, take_pool
from jobs.run.logs import logs_of
from jobs.run.reading import Reading, follow
from jobs.run.streams import Running
from jobs.run.work import Lasting
from jobs.upkeep.checkpoint_of_polls import set_aside_once
from jobs.upkeep.due import keep_up_when_due, upkeep
from jobs.upkeep.upgrade import is_older, upgrade
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_lake
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.pipeline")

LOOK_EVERY_S = 0.25
"""How often the pipeline looks whether a batch of polls was committed: history is made then."""

STOPS_WITHIN_S = 20.0
"""Queries and threads have so long to end. A pod has 30 s between SIGTERM and SIGKILL."""


def run(spark: SparkSession, config: Config, once: bool) -> int:
    """With `once`, one round of each job, one after the other; else all of them, until polling
    fails or another run takes over. Returns the exit status.
    """
    if config.upgrade == AUTO and is_older(spark, config.lake):
        for line in (*upgrade(spark, config.lake), *set_aside_once(spark, config)):
            log.info("%s", line)
    # All of the lake before anything is polled: a table that is not ours must not be found halfway.
    ensure_lake(spark, config.lake)
    if once:
        return run_once(spark, config)
    log.info("recording %d cluster(s) into %s", len(config.clusters), config.lake)
    stop = Event()
    take_pool(spark, "polls")
    streams: dict[Table, Running] = {METADATA_POLLS: metadata_stream.polling(spark, config)}
    streams |= {followed.table: Reading(spark, config, followed) for followed in logs_of(config)}
    works = [*_histories(spark, config), Lasting("upkeep", lambda: upkeep(spark, config))]
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


def run_once(spark: SparkSession, config: Config) -> int:
    """One round of each job; returns the exit status. A log that cannot be read keeps nothing
    waiting that is history already.
    """
    run = Run()
    with ThreadPoolExecutor(3, "once") as beside:
        # Polling mostly waits: meanwhile the logs are read, and what an earlier run has planned is
        # finished.
        polled = beside.submit(metadata_stream.run, spark, config, True)
        read = {
            each.table: beside.submit(follow, spark, config, each, once=True)
            for each in logs_of(config)
        }
        engines = [
            Engine(spark, config, history(), run) for history in HISTORIES if history.wanted(config)
        ]
        polled.result()
        for engine in engines:
            wait([each for table, each in read.items() if table in engine.history.woken_by])
            engine.catch_up(whole=True)
    keep_up_when_due(spark, config)
    for each in read.values():
        each.result()
    return CROSSED if run.outages.failing or any(engine.left_out for engine in engines) else 0


def join_within(seconds: float, threads: Iterable[Thread]) -> None:
    """Wait until all threads have ended, but no longer in all."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _histories(spark: SparkSession, config: Config) -> list[Lasting]:
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
    spark: SparkSession, streams: Mapping[Table, Running], works: Collection[Lasting]
) -> None:
    """Until a stream ends, wake what takes its batches when it has committed one. Raises
    OvertakenError if another run has taken over one of `works`.
    """
    seen: dict[Table, int | None] = {}
    while not _ended(spark, streams):
        found = {table: last_batch(stream.query) for table, stream in streams.items()}
        changed = {table for table, batch in found.items() if batch not in {None, seen.get(table)}}
        seen = found
        for each in works:
            if not changed.isdisjoint(each.woken_by):
                each.wake.set()
            if each.overtaken is not None:
                raise each.overtaken


def _stop(streams: Iterable[Running]) -> None:
    for stream in streams:
        with suppress(*JVM_IS_GONE):  # The signal that ends this process has ended the JVM, too.
            stream.query.stop()


def _ended(spark: SparkSession, streams: Mapping[Table, Running]) -> bool:
    """Wait a while, and say whether a stream has ended. One that can be is started again."""
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
