"""Read the group coordinators' log of each cluster into bronze.group_log.

spark-submit jobs/read_group_log.py --config FILE [--once]
"""

import logging
import sys
import time
from dataclasses import replace
from datetime import timedelta

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.common.cli import one_line, run_job
from jobs.common.config import Config
from jobs.common.streams import append_stream, forget_planned
from schemas import bronze

QUERY = "read_group_log"

ASIDE_S = 120.0
"""How long a cluster is left out after reading it has failed. If its brokers answer and its log cannot be read, each
attempt costs the other clusters `requestTimeout`.
"""

LOOK_EVERY_S = 1.0
"""How often the job looks whether a cluster has been left out for long enough."""

log = logging.getLogger("kafka_metadata_history.read_group_log")


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster was left out."""
    reading = Reading(spark, config, once=once)
    has_ended = False
    while not has_ended:
        try:
            # PySpark's own annotation wants whole seconds.
            has_ended = bool(reading.query.awaitTermination(LOOK_EVERY_S))  # type: ignore[arg-type]
            if not has_ended and not once:
                reading.take_back()
        except StreamingQueryException as error:
            reading.outlast(error)
    if once and reading.failed is not None:
        raise reading.failed


class Reading:
    """The query that reads the logs of all clusters, but for those that are left out since reading them failed.

    A batch is of all clusters, and fails if one of them goes away while it is read. Then the batch is planned again,
    without that cluster, whose place in its log stays: it holds up nobody else's log.
    """

    def __init__(self, spark: SparkSession, config: Config, *, once: bool = False) -> None:
        """Start the query; with `once` it ends where the logs end now."""
        self._spark, self._config, self._once = spark, config, once
        self._until: dict[str, float] = {}
        self.failed: StreamingQueryException | None = None
        self.query = self._start()

    def outlast(self, error: StreamingQueryException) -> None:
        """Read on after the query has ended with `error`: reading a cluster failed. Raises any other error."""
        alias = next((alias for alias in self._config.clusters if f": cluster {alias}: " in str(error)), None)
        if alias is None or "[KAFKA_METADATA_GROUP_LOG]" not in str(error):
            raise error
        self.failed = error
        others = self._config.clusters.keys() - self._until.keys() - {alias}
        # Where the batch stays planned, a query without the cluster would take its records for lost.
        if forget_planned(self._spark, self._config.checkpoint(QUERY)) and others:
            self._until[alias] = time.monotonic() + ASIDE_S
        elif self._once:
            raise error
        log.warning("%s; this log is %s", one_line(error), f"left out for {ASIDE_S:.0f} s" if others else "tried again")
        self.query = self._start()

    def take_back(self) -> bool:
        """Start the query again if a cluster was left out for long enough; return whether it was."""
        now = time.monotonic()
        due = [alias for alias, until in self._until.items() if until <= now]
        if due:
            self.query.stop()
            for alias in due:
                del self._until[alias]
            self.query = self._start()
        return bool(due)

    def _start(self) -> StreamingQuery:
        clusters = {alias: own for alias, own in self._config.clusters.items() if alias not in self._until}
        return start(self._spark, replace(self._config, clusters=clusters), once=self._once)


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that reads; with `once` it ends where the logs end now."""
    # On the beat of the polls, which history joins them with: each batch is a commit and a small file.
    every = f"{config.poll_interval // timedelta(milliseconds=1)} milliseconds"
    source, options = "kafka_group_log", config.group_log_options
    return append_stream(spark, config, bronze.GROUP_LOG, source, query=QUERY, options=options, once=once, every=every)


if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
