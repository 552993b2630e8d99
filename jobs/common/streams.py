"""The streams that fill bronze: what a data source reads is appended to a table, in the order in which it was read."""

import logging
import time
from collections.abc import Callable, Mapping

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import metadata_source
from jobs.common.backoff import backoff_s
from jobs.common.checkpoints import check_checkpoint
from jobs.common.cli import one_line
from jobs.common.config import Config
from jobs.common.driver import JAVA_ERRORS, java_causes, java_text
from jobs.common.rounds import OvertakenError
from schemas.in_spark import ensure_lake, read_view
from schemas.internal import STATE_NOW
from schemas.lake import LakeError
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.streams")


def append_stream(
    spark: SparkSession,
    config: Config,
    table: Table,
    source: str,
    *,
    query: str,
    options: Callable[[Mapping[str, str]], Mapping[str, str]],
    once: bool,
    every: str = "0 seconds",
) -> StreamingQuery:
    """Start the query that appends to `table` what `source` reads; with `once` it ends after what there is to read now.

    `options` of the source are made of the ids of the clusters that have history in the lake, by alias. `every`: least
    time between two batches. Raises LakeError, as `check_checkpoint`.
    """
    lake = config.lake
    ensure_lake(spark, lake)
    check_checkpoint(spark, lake, table, config.checkpoint(query))
    rows = read_view(spark, lake, STATE_NOW).where("history = 'silver' AND cluster_id IS NOT NULL")
    ids = {row.cluster: row.cluster_id for row in rows.select("cluster", "cluster_id").collect()}
    metadata_source.register(spark)
    read = spark.readStream.format(source).options(**options(ids)).load()
    writer = read.writeStream.format("delta").queryName(query).option("checkpointLocation", config.checkpoint(query))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
    return writer.start(lake.path(table)) if lake.root is not None else writer.toTable(lake.identifier(table))


_OF_ANOTHER = ("CONCURRENT_STREAM_LOG_UPDATE", "DELTA_CONCURRENT_TRANSACTION")
"""The error classes that Spark and Delta raise in one of two runs that have the same checkpoint."""
_TAKEN_OVER_S = 120.0
"""So long a run that begins tries to take over from one that has its checkpoint."""
_AGAIN_AFTER_S = 1.0
_AGAIN_AT_MOST_S = 30.0
"""So long a run waits before it starts a query again; longer each time while nothing can be written."""
_LOGGED_EVERY_S = 60.0
"""How often it logs that nothing can be written."""

_UNWRITABLE = ("Read-only file system", "No space left on device", "Disk quota exceeded", "Input/output error")
"""Errors of a disk, as the system words them. Somebody mends that, and nothing is wrong with the query."""

_AFTERMATH_S = 300.0
"""After nothing could be written, so long a query that gets nowhere is started again: it began on what was left."""

_START_FAILED: tuple[type[Exception], ...] = (PySparkException, *JAVA_ERRORS, LakeError)


def is_unwritable(error: Exception) -> bool:
    """Whether an error says that a disk takes nothing now."""
    return any(each in text for each in _UNWRITABLE for text in (java_text(error), *java_causes(error)))


class Running:
    """A stream whose query is started again if it ends with an error.

    A worker that is killed, one without memory, a connection that is lost: the next query makes the batch again. A
    query that ends before it has got anywhere would only do so again, unless nothing can be written for a while. Of two
    runs with the same checkpoint the one that began first ends: whichever of them plans a batch last finds it planned.
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Start the query."""
        self._start, self._takes_over_until = start, time.monotonic() + _TAKEN_OVER_S
        self._is_patient, self._tried = True, 0
        self._logged_at = self._unwritable_at = float("-inf")
        self.query = start()

    def outlast(self, error: StreamingQueryException) -> None:
        """Start a query in place of the one that ended with `error`. Raises OvertakenError if another run has taken
        over, and the error if the query had got nowhere.
        """
        is_under_way, another = self.query.lastProgress is not None, any(each in str(error) for each in _OF_ANOTHER)
        if another and is_under_way:
            raise OvertakenError(
                f"another run has taken over the stream {self.query.name}; nothing is lost, this one ends"
            )
        is_taking_over = another and time.monotonic() < self._takes_over_until
        now = time.monotonic()
        if is_unwritable(error):
            self._unwritable_at = now
        is_aftermath = now - self._unwritable_at < _AFTERMATH_S
        if not (is_under_way or is_taking_over or is_aftermath):
            raise error
        self._tried = 0 if is_under_way else self._tried + 1
        self.query = self._started(error)

    def _started(self, error: Exception | None = None) -> StreamingQuery:
        """A query, as soon as what it needs can be written; in place of one that ended with `error`."""
        while True:
            if error is not None:
                self._wait_after(error)
            try:
                return self._start()
            except _START_FAILED as failed:
                if not (self._is_patient and is_unwritable(failed)):
                    raise
                error, self._tried, self._unwritable_at = failed, self._tried + 1, time.monotonic()

    def _wait_after(self, error: Exception) -> None:
        now, waits = time.monotonic(), is_unwritable(error)
        if not waits or now - self._logged_at > _LOGGED_EVERY_S:
            until = " until its files can be written" if waits else ""
            log.warning("%s; it is started again%s", one_line(error), until)
            self._logged_at = now if waits else self._logged_at
        time.sleep(backoff_s(_AGAIN_AFTER_S, self._tried + 1, _AGAIN_AT_MOST_S))

    def take_back(self) -> bool:
        """Start the query again if an earlier one had to leave something out; return whether it was."""
        return False

    def run(self, look_every_s: float) -> None:
        """Wait until the stream ends. Raises the error of a query that had got nowhere."""
        has_ended = False
        while not has_ended:
            try:
                # PySpark's own annotation wants whole seconds.
                has_ended = bool(self.query.awaitTermination(look_every_s))  # type: ignore[arg-type]
                if not has_ended:
                    self.take_back()
            except StreamingQueryException as error:
                self.outlast(error)
