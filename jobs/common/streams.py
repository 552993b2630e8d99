"""The streams that fill bronze: what a data source reads is appended to a table, in the order in which it was read."""

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import metadata_source
from jobs.common.config import Config
from schemas.internal import STATE_NOW
from schemas.lake import ensure_lake, read_view
from schemas.table import Table


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
    time between two batches.
    """
    lake = config.lake
    ensure_lake(spark, lake)
    rows = read_view(spark, lake, STATE_NOW).where("history = 'silver' AND cluster_id IS NOT NULL")
    ids = {row.cluster: row.cluster_id for row in rows.select("cluster", "cluster_id").collect()}
    metadata_source.register(spark)
    read = spark.readStream.format(source).options(**options(ids)).load()
    writer = read.writeStream.format("delta").queryName(query).option("checkpointLocation", config.checkpoint(query))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
    return writer.start(lake.path(table)) if lake.root is not None else writer.toTable(lake.identifier(table))
