"""Read the group coordinators' log of each cluster into bronze.group_log.

spark-submit jobs/read_group_log.py --config FILE [--once]
"""

import json
import logging
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.common.cli import one_line, run_job
from jobs.common.config import Config
from jobs.common.driver import forget_planned
from jobs.common.streams import Running, append_stream
from metadata_source.options import parse
from schemas import bronze
from schemas.in_spark import read_view
from schemas.internal import STATE_NOW
from schemas.lake import Lake

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
    reading.run(LOOK_EVERY_S)
    if once and reading.failed is not None:
        raise reading.failed


class Reading(Running):
    """The query that reads the logs of all clusters, but for those that are left out since reading them failed.

    A batch is of all clusters, and fails if one of them goes away while it is read. Then the batch is planned again,
    without that cluster, whose place in its log stays: it holds up nobody else's log.
    """

    def __init__(self, spark: SparkSession, config: Config, *, once: bool = False) -> None:
        """Start the query; with `once` it ends where the logs end now."""
        self._spark, self._config, self._once = spark, config, once
        self._until: dict[str, float] = {}
        self.failed: StreamingQueryException | None = None
        super().__init__(self._start_without)

    def outlast(self, error: StreamingQueryException) -> None:
        """Read on after the query has ended with `error`, as Running if that is no cluster's; not then with `once`."""
        alias = next((alias for alias in self._config.clusters if f": cluster {alias}: " in str(error)), None)
        if alias is None or "[KAFKA_METADATA_GROUP_LOG]" not in str(error):
            if self._once:
                raise error
            super().outlast(error)
            return
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
        """Start the query again if a cluster was left out for long enough; return whether it was. If this is to end, it
        stays left out.
        """
        now = time.monotonic()
        due = [] if self._once else [alias for alias, until in self._until.items() if until <= now]
        if due:
            self.query.stop()
            for alias in due:
                del self._until[alias]
            self.query = self._start()
        return bool(due)

    def _start_without(self) -> StreamingQuery:
        return start(self._spark, self._config, once=self._once, without=self._until.keys())


def start(spark: SparkSession, config: Config, *, once: bool, without: Collection[str] = ()) -> StreamingQuery:
    """Start the query that reads all clusters but those `without`; with `once` it ends where the logs end now."""
    # On the beat of the polls, which history joins them with: each batch is a commit and a small file. Of some clusters
    # alone it might be none: all intervals are multiples of the shortest one.
    every = f"{parse(config.source_options({}), 'stream').beat_ms} milliseconds"
    of_them = replace(config, clusters={alias: own for alias, own in config.clusters.items() if alias not in without})

    def options(ids: Mapping[str, str]) -> dict[str, str]:
        resume_at = read_up_to(spark, config.lake, of_them.clusters)
        return of_them.group_log_options(ids) | ({"resumeAt": json.dumps(resume_at)} if resume_at else {})

    source = "kafka_group_log"
    return append_stream(spark, config, bronze.GROUP_LOG, source, query=QUERY, options=options, once=once, every=every)


def read_up_to(spark: SparkSession, lake: Lake, clusters: Iterable[str]) -> dict[str, dict[str, int]]:
    """By alias and partition, the offset up to which history has the log; of a place that a lost checkpoint had."""
    places = "from_json(memory, 'places map<string, array<bigint>>').places"
    states = read_view(spark, lake, STATE_NOW).where("history = 'rebalance_history'")
    rows = states.where(F.col("cluster").isin(list(clusters))).selectExpr("cluster", f"{places} AS places").collect()
    return {row.cluster: {p: offset for p, (_, offset) in row.places.items()} for row in rows if row.places}


if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
