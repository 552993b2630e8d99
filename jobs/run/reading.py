"""The streams that follow a log of each cluster into bronze. One that cannot be read holds up
nobody else's log.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.configuration.config import Config
from jobs.run.cli import one_line
from jobs.run.driver import forget_planned
from jobs.run.streams import Running, append_stream
from metadata_source.errors import LogError
from schemas.table import Table

LEFT_OUT_S = 120.0
"""How long a cluster is left out after reading it has failed. If its brokers answer and its log
cannot be read, each attempt costs the other clusters `requestTimeout`.
"""

LOOK_EVERY_S = 1.0
"""How often a job looks whether a cluster has been left out for long enough."""

log = logging.getLogger("kafka_metadata_history.reading")


@dataclass(frozen=True)
class FollowedLog:
    """A log that clusters have: the data source that reads it, and the table of bronze that has it.

    `query`: the name of the query, which is the job's. `error`: the class of the data source's
    errors. `clusters`: the aliases of those whose log is read. `options`: of the data source, by
    the ids of clusters that the lake knows.
    """

    query: str
    source: str
    table: Table
    error: type[LogError]
    clusters: Callable[[Config], list[str]]
    options: Callable[[SparkSession, Config, Mapping[str, str]], Mapping[str, str]]


def follow(spark: SparkSession, config: Config, followed: FollowedLog, *, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster
    was left out.
    """
    reading = Reading(spark, config, followed, once=once)
    reading.run(LOOK_EVERY_S)
    if once and reading.failed is not None:
        raise reading.failed


class Reading(Running):
    """The query that reads the logs of all clusters, but for those that are left out since reading
    them failed.

    A batch is of all clusters, and fails if one of them goes away while it is read. Then the batch
    is planned again, without that cluster, whose place in its log stays: it holds up nobody else's
    log.
    """

    def __init__(
        self, spark: SparkSession, config: Config, followed: FollowedLog, *, once: bool = False
    ) -> None:
        """Start the query; with `once` it ends where the logs end now."""
        self._spark, self._config, self._followed, self._once = spark, config, followed, once
        self._clusters = followed.clusters(config)
        self._until: dict[str, float] = {}
        self.failed: StreamingQueryException | None = None
        super().__init__(self._start_without)

    def outlast(self, error: StreamingQueryException) -> None:
        """Read on after the query has ended with `error`, as Running if that is no cluster's."""
        alias = next(
            (alias for alias in self._clusters if f": cluster {alias}: " in str(error)), None
        )
        if alias is None or self._followed.error.mark() not in str(error):
            super().outlast(error)
            return
        self.failed = error
        others = {*self._clusters} - self._until.keys() - {alias}
        # Where the batch stays planned, a query without the cluster would take its records for
        # lost.
        if forget_planned(self._spark, self._config.checkpoint(self._followed.query)) and others:
            self._until[alias] = time.monotonic() + LEFT_OUT_S
        elif self._once:
            raise error
        log.warning(
            "%s; this log is %s",
            one_line(error),
            f"left out for {LEFT_OUT_S:.0f} s" if others else "tried again",
        )
        self.begin_again()

    def begin_later(self, error: Exception) -> None:
        """As Running; with `once` raise the error."""
        if self._once:
            raise error
        super().begin_later(error)

    def take_back(self) -> None:
        """Start the query again if a cluster was left out for long enough. If this is to end, it
        stays left out.
        """
        now = time.monotonic()
        due = [] if self._once else [alias for alias, until in self._until.items() if until <= now]
        if due:
            self.query.stop()
            for alias in due:
                del self._until[alias]
            self.begin_again()

    def _start_without(self) -> StreamingQuery:
        clusters = [alias for alias in self._clusters if alias not in self._until]
        return start(self._spark, self._config, self._followed, clusters=clusters, once=self._once)


def start(
    spark: SparkSession, config: Config, followed: FollowedLog, *, clusters: list[str], once: bool
) -> StreamingQuery:
    """Start the query that reads logs of `clusters`; with `once` it ends where they end now."""
    of_them = replace(config, clusters={alias: config.clusters[alias] for alias in clusters})
    return append_stream(
        spark,
        config,
        followed.table,
        followed.source,
        query=followed.query,
        options=lambda ids: followed.options(spark, of_them, ids),
        once=once,
    )
