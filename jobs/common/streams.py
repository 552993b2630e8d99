"""The streams that fill bronze: what a data source reads is appended to a table, in the order in which it was read."""

import logging
import time
from collections.abc import Callable, Mapping

from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import metadata_source
from jobs.common.cli import one_line
from jobs.common.config import Config
from jobs.common.driver import Checkpoint
from jobs.common.rounds import OvertakenError
from schemas import bronze
from schemas.in_spark import ensure_lake, read_view
from schemas.internal import STATE_NOW
from schemas.lake import Lake, LakeError
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.streams")

_LOOKED_AT = 20
"""So many of a table's newest commits have one of the stream that fills the table: upkeep commits three at a time."""

_BEGINS_AGAIN = {
    bronze.METADATA_POLLS: "polling begins a new stream then, and what the lake has stays",
    bronze.GROUP_LOG: "reading begins then where history of the log ends, or else at startingOffsets, and what the "
    "lake has stays",
    bronze.CLUSTER_LOG: "reading continues then after what the lake has",
}
"""The effect, and the cost, of removing the checkpoint of the stream that fills a table."""


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


class Running:
    """A stream whose query is started again if it ends with an error.

    A worker that is killed, one without memory, a connection that is lost: the next query makes the batch again. A
    query that ends before it has got anywhere would only do so again. Of two runs with the same checkpoint the one that
    began first ends: whichever of them plans a batch last finds it planned.
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        """Start the query."""
        self._start, self._takes_over_until = start, time.monotonic() + _TAKEN_OVER_S
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
        if not is_under_way and not (another and time.monotonic() < self._takes_over_until):
            raise error
        log.warning("%s; it is started again", one_line(error))
        time.sleep(_AGAIN_AFTER_S)
        self.query = self._start()

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


def check_checkpoint(spark: SparkSession, lake: Lake, table: Table, checkpoint: str) -> None:
    """Raise LakeError unless a table has what the stream of a checkpoint has committed, and no more.

    Of each query Delta passes over batches up to the number that the table has. From an old copy of a checkpoint all
    batches up to that number would be read and not kept, without a word.
    """
    files = Checkpoint.of(spark, checkpoint)
    query = None if files is None else files.query()
    if files is None or query is None:
        return
    # Spark plans a batch, then Delta commits the rows, then Spark notes the batch in `commits`.
    done, commits = max(files.batches("commits"), default=-1), _newest_commits(spark, lake, table)
    planned = max(files.batches("offsets"), default=-1)
    found = max((int(each.batch) for each in commits if each.query == query), default=-1)
    todo = f"remove {checkpoint}: {_BEGINS_AGAIN[table]}"
    if found > planned:
        raise LakeError(
            f"the checkpoint {checkpoint} is an old copy: it ends at batch {planned}, and {table.full_name} in {lake} "
            f"has batch {found}; {todo}"
        )
    if done >= 0 and found < 0 and commits[-1].version == 0:
        raise LakeError(
            f"the checkpoint {checkpoint} is another lake's: {table.full_name} in {lake} has nothing of its "
            f"{done + 1} batches; {todo}"
        )


def _newest_commits(spark: SparkSession, lake: Lake, table: Table) -> list[Row]:
    """The newest commits of a table, newest first: `version`, and of those of a stream its `query` and `batch`."""
    commits = spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT {_LOOKED_AT}")
    of = "operationParameters"
    return commits.selectExpr("version", f"{of}['queryId'] AS query", f"{of}['epochId'] AS batch").collect()
