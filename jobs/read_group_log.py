"""Read the group coordinators' log of each cluster into bronze.group_log.

spark-submit jobs/read_group_log.py --config FILE [--once]
"""

import logging
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.common.cli import one_line, run_job
from jobs.common.config import Config
from jobs.common.streams import append_stream
from metadata_source.options import parse
from schemas import bronze

QUERY = "read_group_log"

log = logging.getLogger("kafka_metadata_history.read_group_log")


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
    # On the beat of the polls, which history joins them with: each batch is a commit and a small file.
    every = f"{parse(config.source_options({}), 'stream').poll_interval_ms} milliseconds"
    source, options = "kafka_group_log", config.group_log_options
    return append_stream(spark, config, bronze.GROUP_LOG, source, query=QUERY, options=options, once=once, every=every)


if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
