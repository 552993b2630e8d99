"""Poll and keep history, all jobs in one session.

spark-submit jobs/pipeline.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs import isr_shrink, leader_churn, poll_metadata, read_group_log, rebalance_history, snapshot_history
from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.progress import PAUSE_S
from schemas.lake import TABLES, ensure_tables

STREAMS = (poll_metadata, snapshot_history)
EVENTS = (isr_shrink, leader_churn, rebalance_history)
"""Each in the order of the data's way."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("pipeline", __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """With `once`, one round of each job, one after the other; else all of them until one fails."""
    snapshot_history.check_progress(spark, config)
    # All of the lake before anything is polled: a table that is not ours must not be found halfway.
    ensure_tables(spark, config.lake, TABLES)
    if once:
        _run_once(spark, config)
        return
    streams = STREAMS if config.group_log is None else (*STREAMS, read_group_log)
    queries = {job.QUERY: job.start(spark, config, once=False) for job in streams}
    try:
        events = [job.prepare(spark, config) for job in EVENTS]
        while not _ended(spark, config, queries):
            for make_events in events:
                make_events()
    finally:
        for query in queries.values():
            query.stop()


def _run_once(spark: SparkSession, config: Config) -> None:
    """One round of each job, one after the other. A log that cannot be read keeps nothing waiting that is history already."""
    for job in STREAMS:
        job.run(spark, config, True)
    unread = None
    if config.group_log is not None:
        try:
            read_group_log.run(spark, config, True)
        except StreamingQueryException as error:
            unread = error
    for job in EVENTS:
        job.run(spark, config, True)
    if unread is not None:
        raise unread


def _ended(spark: SparkSession, config: Config, queries: dict[str, StreamingQuery]) -> bool:
    """Wait a while, and say whether a query has ended. One that waits for a cluster it was reading is started again."""
    try:
        return bool(spark.streams.awaitAnyTermination(PAUSE_S))
    except StreamingQueryException as error:
        read_group_log.outlast(error)
        for name, query in queries.items():
            if name != read_group_log.QUERY and not query.isActive:
                query.awaitTermination()  # raises what it ended with
        spark.streams.resetTerminated()
        queries[read_group_log.QUERY] = read_group_log.start(spark, config, once=False)
        return False


if __name__ == "__main__":
    sys.exit(main())
