"""Polling: the query that appends what recorders have recorded to bronze.metadata_polls."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.configuration.config import Config
from jobs.run.recording import TOKEN, claim_spool
from jobs.run.streams import Running, append_stream
from jobs.upkeep.lake_clock import last_polls
from schemas import bronze
from schemas.in_spark import read_view
from schemas.internal import CLUSTERS
from schemas.lake import Lake

QUERY = "poll_metadata"

LOOK_EVERY_S = 1.0
"""How often the job looks whether its query has ended."""


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Poll on and on; with `once`, what a recorder has left, and one poll of each cluster."""
    if once:
        start(spark, config, once=True).awaitTermination()
    else:
        polling(spark, config).run(LOOK_EVERY_S)


def polling(spark: SparkSession, config: Config) -> Running:
    """Poll on and on."""
    return Running(partial(start, spark, config, once=False))


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that reads polls from the spool; with `once` it ends after one poll of each
    cluster.

    What only the lake tells goes beside the options, which are the same as those that a recorder
    was started with (recording.py).
    """
    claim_spool(config)

    def options(ids: Mapping[str, str]) -> dict[str, str]:
        newest = newest_stream(spark, config.lake, config.clusters)
        now = datetime.now(UTC)
        doubted = last_polls(spark, config.lake, now, config.clusters).doubted(now)
        return (
            config.source_options({})
            | {
                "spool": config.spool,
                "recorder": TOKEN,
                "knownIds": json.dumps(_not_configured(config, ids)),
            }
            | ({} if newest is None else {"newestStream": newest})
            | (
                {}
                if doubted is None
                else {"doubtedClock": "/".join(at.isoformat() for at in doubted)}
            )
        )

    source = "kafka_metadata"
    return append_stream(
        spark, config, bronze.METADATA_POLLS, source, query=QUERY, options=options, once=once
    )


def _not_configured(config: Config, ids: Mapping[str, str]) -> dict[str, str]:
    """By alias, the ids that the lake knows, of clusters that are configured without one."""
    without = (
        alias for alias, own in config.clusters.items() if "clusterid" not in map(str.lower, own)
    )
    return {alias: ids[alias] for alias in without if alias in ids}


def newest_stream(spark: SparkSession, lake: Lake, clusters: Iterable[str]) -> str | None:
    """The newest stream of polls of these clusters that history or bronze of a lake have. History
    takes no poll of an older one after it.
    """
    of_them = F.col("cluster").isin(list(clusters))
    known_clusters = read_view(spark, lake, CLUSTERS).where(of_them)
    (known,) = known_clusters.selectExpr("max(array_max(map_keys(taken)))").collect()[0]
    # Files have statistics of streams: those of polls that were taken are not read.
    polls = (
        lake.read(spark, bronze.METADATA_POLLS)
        .where(F.col("stream") > (known or ""))
        .where(of_them)
    )
    (newer,) = polls.agg(F.max("stream")).collect()[0]
    found: str | None = newer or known
    return found
