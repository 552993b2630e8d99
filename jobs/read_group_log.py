"""Read the group coordinators' log of each cluster into bronze.group_log.

spark-submit jobs/read_group_log.py --config FILE [--once]
"""

import logging
import sys
from collections.abc import Sequence

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import metadata_source
from jobs.common.cli import one_line, run_job
from jobs.common.config import Config
from jobs.poll_metadata import known_ids
from metadata_source.options import parse
from schemas import bronze
from schemas.lake import ensure_tables

QUERY = "read_group_log"

log = logging.getLogger("kafka_metadata_history.read_group_log")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(QUERY, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now."""
    while True:
        try:
            start(spark, config, once=once).awaitTermination()
        except StreamingQueryException as error:
            if once:
                raise
            outlast(error)
        else:
            return


def outlast(error: StreamingQueryException) -> None:
    """Return if a new query can go on where the one that ended with `error` was: a cluster went away while it was read.

    The new one reads the same batch, and waits for the cluster without holding a task. Raises any other error.
    """
    if "[KAFKA_METADATA_GROUP_LOG]" not in str(error):
        raise error
    log.warning("%s; reading goes on when it can", one_line(error))


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that reads; with `once` it ends where the logs end now."""
    options = config.group_log_options(known_ids(spark, config.lake))
    ensure_tables(spark, config.lake, bronze.TABLES)
    metadata_source.register(spark)
    records = spark.readStream.format("kafka_group_log").options(**options).load()
    writer = records.writeStream.format("delta").queryName(QUERY).option("checkpointLocation", config.checkpoint(QUERY))
    if once:
        writer = writer.trigger(availableNow=True)
    else:
        # On the beat of the polls, which history joins them with: each batch is a commit and a small file.
        interval_ms = parse(config.source_options({}), "stream").poll_interval_ms
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    lake = config.lake
    return (
        writer.start(lake.path(bronze.GROUP_LOG))
        if lake.root is not None
        else writer.toTable(lake.identifier(bronze.GROUP_LOG))
    )


if __name__ == "__main__":
    sys.exit(main())
