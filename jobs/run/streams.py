"""The streams that fill bronze: what a data source reads is appended to a table, in order."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobs.configuration.config import Config
from jobs.rounds.plan import OvertakenError
from jobs.run.checkpoints import check_checkpoint
from jobs.run.cli import one_line
from jobs.run.driver import JAVA_ERRORS, java_causes, java_text, make_active
from metadata_source import register
from metadata_source.backoff import backoff_s
from metadata_source.errors import (
    ClusterLogError,
    GroupLogError,
    LogError,
    PollError,
    TokenError,
    TransactionLogError,
)
from schemas.in_spark import ensure_lake, read_view
from schemas.internal import CLUSTERS
from schemas.lake import Lake, LakeError
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
) -> StreamingQuery:
    """Start the query that appends to `table` what `source` reads; with `once` it ends after what
    there is to read now.

    `options` of the source are made of the ids of the clusters that have history in the lake, by
    alias. The source says when a batch begins. Raises LakeError, as `check_checkpoint`.
    """
    lake = config.lake
    ensure_lake(spark, lake)
    check_checkpoint(spark, lake, table, config.checkpoint(query))
    rows = read_view(spark, lake, CLUSTERS).where("cluster_id IS NOT NULL")
    ids = {row.cluster: row.cluster_id for row in rows.select("cluster", "cluster_id").collect()}
    register(spark)
    read = spark.readStream.format(source).options(**options(ids)).load()
    writer = (
        read.writeStream.format("delta")
        .queryName(query)
        .option("checkpointLocation", config.checkpoint(query))
    )
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    )
    return start_writing(spark, writer, lake, table)


def start_writing(
    spark: SparkSession, writer: DataStreamWriter, lake: Lake, table: Table
) -> StreamingQuery:
    """Start the query that appends to a table; from any thread."""
    if lake.root is not None:
        return writer.start(lake.path(table))
    make_active(spark)
    return writer.toTable(lake.identifier(table))


_OF_ANOTHER = ("CONCURRENT_STREAM_LOG_UPDATE", "DELTA_CONCURRENT_TRANSACTION")
"""The error classes that Spark and Delta raise in one of two runs that have the same checkpoint."""
_SPOOL_OF_ANOTHER = "another run has taken over the spool"
"""The error of the reader of polls whose recorder another run has ended."""
_TAKEN_OVER_S = 120.0
"""So long a run that begins tries to take over from one that has its checkpoint."""
_AGAIN_AFTER_S = 1.0
_AGAIN_AT_MOST_S = 30.0
"""So long after a fault a query is started again; longer each time, while none gets anywhere."""
_STEADY_S = 60.0
"""A query that has run for so long works."""
_LOGGED_EVERY_S = 60.0
"""How often it logs why. From the second time on a person may have to act."""

_UNWRITABLE = (
    "Read-only file system",
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
)
"""Errors of a disk, as the system words them. Nothing is wrong with the query."""
_SESSION_IS_OVER = (
    "stopped SparkContext",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
)
"""Errors of a session that will run nothing more."""

_CODE = re.compile(r"\[KAFKA_METADATA_(\w+)\]")
_OF_CLUSTERS = {
    each.name
    for each in (
        *(PollError, TokenError),
        *(LogError, GroupLogError, TransactionLogError, ClusterLogError),
    )
}
"""The codes of errors that a cluster gives, and may give no more the next time."""

_START_FAILED: tuple[type[Exception], ...] = (PySparkException, *JAVA_ERRORS, LakeError)


def is_unwritable(error: Exception) -> bool:
    """Whether an error says that a disk takes nothing now."""
    return any(
        each in text for each in _UNWRITABLE for text in (java_text(error), *java_causes(error))
    )


def is_to_be_mended(error: Exception) -> bool:
    """Whether a query that has not got anywhere ends with this error however often it is started:
    options that cannot be meant, a checkpoint of another version, a folder that nobody may write
    to. A person has to act.
    """
    return bool({*_CODE.findall(java_text(error))} - _OF_CLUSTERS)


class Running:
    """A stream whose query is started again, however often, if it ends with an error that may pass.

    A worker that is killed or cannot connect, one without memory, an executor that is lost, a
    conflict, a disk that is full, storage that is away: the next query makes the batch again. Of
    two runs with the same checkpoint the one that began first ends: whichever of them plans a batch
    last finds it planned.
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Start the query."""
        self._start, self._takes_over_until = start, time.monotonic() + _TAKEN_OVER_S
        self._has_run = False
        """Whether a query has got anywhere: then its options and checkpoint are right."""
        self._failed, self._failed_at, self._logged_at = 0, 0.0, float("-inf")
        self._again_at: float | None = None
        """When the query is started again, if that is to be done."""
        self.query, self._begun_at = start(), time.monotonic()

    def keep(self) -> bool:
        """Start the query again if it has ended with an error, and it is time; return False if it
        has ended without.

        Raises what no other start mends: an error of ours that names what to do, LakeError,
        OvertakenError.
        """
        if self._again_at is not None:
            if time.monotonic() >= self._again_at:
                self.begin_again()
        elif self.query.isActive:
            self._note_progress()
            self.take_back()
        else:
            try:
                self.query.awaitTermination()
            except StreamingQueryException as error:
                self._note_progress()
                self.outlast(error)
            else:
                return False
        return True

    def outlast(self, error: StreamingQueryException) -> None:
        """Let a query follow the one that ended with `error`; raise what no start mends."""
        text = str(error)
        is_of_another = any(each in text for each in _OF_ANOTHER)
        if _SPOOL_OF_ANOTHER in text or (is_of_another and self._has_run):
            raise OvertakenError(
                f"another run has taken over the stream {self.query.name}; nothing is lost, this "
                "one ends"
            )
        takes_too_long = is_of_another and time.monotonic() >= self._takes_over_until
        if takes_too_long or (is_to_be_mended(error) and not self._has_run) or _is_over(error):
            raise error
        self.begin_later(error)

    def begin_again(self) -> None:
        """Start a query in place of the one that has ended: now, or later if that fails."""
        try:
            self.query, self._again_at, self._begun_at = self._start(), None, time.monotonic()
        except _START_FAILED as error:
            is_final = isinstance(error, LakeError) and not is_unwritable(error)
            if is_final or (is_to_be_mended(error) and not self._has_run) or _is_over(error):
                raise
            self.begin_later(error)

    def begin_later(self, error: Exception) -> None:
        """Let a query be started after a while, and log why."""
        now = time.monotonic()
        self._failed_at = self._failed_at if self._failed else now
        self._failed += 1
        self._again_at = now + backoff_s(_AGAIN_AFTER_S, self._failed, _AGAIN_AT_MOST_S)
        if now - self._logged_at <= _LOGGED_EVERY_S:
            return
        self._logged_at = now
        if now - self._failed_at < _LOGGED_EVERY_S:
            log.warning("%s; it is started again", one_line(error))
        else:
            log.error(
                "%s; so the stream has got nowhere for %.0f s, and is started again and again: if "
                "this does not pass, correct what the error names",
                *(one_line(error), now - self._failed_at),
            )

    def _note_progress(self) -> None:
        if (self._has_run and not self._failed) or self.query.lastProgress is None:
            return
        self._has_run = True
        # A query that fails at its second batch, each time, gets nowhere either.
        if self._failed and time.monotonic() - self._begun_at >= _STEADY_S:
            if self._failed > 1:
                log.warning(
                    "the stream %s works again, after it failed %d times",
                    self.query.name,
                    self._failed,
                )
            self._failed = 0

    def take_back(self) -> None:
        """Start the query again if an earlier one had to leave something out."""

    def run(self, look_every_s: float) -> None:
        """Keep the stream until it is ended."""
        while self.keep():
            if self._again_at is not None:
                time.sleep(look_every_s)
                continue
            with suppress(StreamingQueryException):  # The next look says so, too.
                # PySpark's own annotation wants whole seconds.
                if self.query.awaitTermination(look_every_s):  # type: ignore[arg-type]
                    return


def _is_over(error: Exception) -> bool:
    """Whether no query of this session will run any more."""
    return any(
        each in text
        for each in _SESSION_IS_OVER
        for text in (java_text(error), *java_causes(error))
    )
