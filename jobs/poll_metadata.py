"""Poll the clusters' metadata on a schedule into bronze.metadata_polls.

spark-submit jobs/poll_metadata.py --config FILE [--once]
"""

import math
import os
import re
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import metadata_source
from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.session import SessionError
from metadata_source.datasource import CLUSTERS_PER_TASK
from schemas import bronze, silver
from schemas.lake import Lake, check_tables, ensure_tables, table_exists

QUERY = "poll_metadata"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(QUERY, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Poll on and on; with `once`, one batch of polls."""
    start(spark, config, once=once).awaitTermination()


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that polls; with `once` it ends after one batch of polls."""
    check_slots(spark, len(config.clusters))
    options = config.source_options(known_ids(spark, config.lake))
    ensure_tables(spark, config.lake, bronze.TABLES)
    metadata_source.register(spark)
    polls = spark.readStream.format("kafka_metadata").options(**options).load()
    writer = polls.writeStream.format("delta").queryName(QUERY).option("checkpointLocation", config.checkpoint(QUERY))
    if once:
        writer = writer.trigger(availableNow=True)
    lake = config.lake
    return (
        writer.start(lake.path(bronze.METADATA_POLLS))
        if lake.root is not None
        else writer.toTable(lake.identifier(bronze.METADATA_POLLS))
    )


def check_slots(spark: SparkSession, clusters: int) -> None:
    """Refuse `local[n]` with too few slots: polling holds tasks, and one slot must stay free for the rest."""
    local = re.fullmatch(r"local(?:\[(\d+|\*).*\])?", spark.conf.get("spark.master", "") or "")
    if not local:
        return
    slots = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    tasks = math.ceil(clusters / CLUSTERS_PER_TASK)
    if slots <= tasks:
        raise SessionError(
            f"{local[0]} has {slots} task slot(s), and polling {clusters} cluster(s) holds {tasks}: start with --master 'local[{tasks + 1}]' or more"
        )


def known_ids(spark: SparkSession, lake: Lake) -> dict[str, str]:
    """Alias -> cluster id, for the clusters that have history in the lake."""
    if not table_exists(spark, lake, silver.PROGRESS):
        return {}
    check_tables(spark, lake, [silver.PROGRESS])
    rows = (
        lake.read(spark, silver.PROGRESS)
        .where(F.col("cluster_id").isNotNull())
        .select("cluster", "cluster_id")
        .collect()
    )
    return {row.cluster: row.cluster_id for row in rows}


if __name__ == "__main__":
    sys.exit(main())
