"""Poll the clusters' metadata on a schedule into bronze.metadata_polls.

spark-submit jobs/poll_metadata.py --config FILE [--once]
"""

import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.lake_clock import last_polls
from jobs.common.session import SessionError, setting
from jobs.common.streams import Running, append_stream
from metadata_source.datasource import CLUSTERS_PER_TASK
from schemas import bronze
from schemas.in_spark import read_view
from schemas.internal import STATE_NOW
from schemas.lake import Lake

QUERY = "poll_metadata"

LOOK_EVERY_S = 1.0
"""How often the job looks whether its query has ended."""


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Poll on and on; with `once`, one batch of polls."""
    if once:
        start(spark, config, once=True).awaitTermination()
    else:
        polling(spark, config).run(LOOK_EVERY_S)


def polling(spark: SparkSession, config: Config) -> Running:
    """Poll on and on."""
    return Running(partial(start, spark, config, once=False))


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that polls; with `once` it ends after one batch of polls."""
    check_slots(spark, len(config.clusters))

    def options(ids: Mapping[str, str]) -> dict[str, str]:
        newest = newest_stream(spark, config.lake, config.clusters)
        now = datetime.now(UTC)
        doubted = last_polls(spark, config.lake, now, config.clusters).doubted(now)
        return (
            config.source_options(ids)
            | ({} if newest is None else {"newestStream": newest})
            | ({} if doubted is None else {"doubtedClock": "/".join(at.isoformat() for at in doubted)})
        )

    source = "kafka_metadata"
    return append_stream(spark, config, bronze.METADATA_POLLS, source, query=QUERY, options=options, once=once)


def newest_stream(spark: SparkSession, lake: Lake, clusters: Iterable[str]) -> str | None:
    """The newest stream of polls of these clusters that history or bronze of a lake have. History takes no poll of an
    older one after it.
    """
    of_them = F.col("cluster").isin(list(clusters))
    taken = "array_max(map_keys(from_json(memory, 'seen map<string, bigint>').seen))"
    states = read_view(spark, lake, STATE_NOW).where("history = 'silver'").where(of_them)
    (known,) = states.selectExpr(f"max({taken})").collect()[0]
    # Files have statistics of streams: those of polls that were taken are not read.
    polls = lake.read(spark, bronze.METADATA_POLLS).where(F.col("stream") > (known or "")).where(of_them)
    (newer,) = polls.agg(F.max("stream")).collect()[0]
    found: str | None = newer or known
    return found


def check_slots(spark: SparkSession, clusters: int) -> None:
    """Refuse `local[n]` with too few slots: polling holds tasks, and one slot must stay free for the rest."""
    local = re.fullmatch(r"local(?:\[(\d+|\*).*\])?", setting(spark, "spark.master") or "")
    if not local:
        return
    slots = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    tasks = math.ceil(clusters / CLUSTERS_PER_TASK)
    if slots <= tasks:
        raise SessionError(
            f"{local[0]} has {slots} task slot(s), and polling {clusters} cluster(s) holds {tasks}: start with "
            f"--master 'local[{tasks + 1}]' or more"
        )


if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
