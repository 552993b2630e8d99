"""Poll and keep history, all jobs in one session.

spark-submit jobs/pipeline.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from jobs import poll_metadata, snapshot_history
from jobs.common.cli import run_job
from jobs.common.config import Config
from schemas.lake import TABLES, ensure_tables

JOBS = (poll_metadata, snapshot_history)
"""In the order of the data's way."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("pipeline", __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """With `once`, one round of each job, one after the other; else all of them until one fails."""
    snapshot_history.check_progress(spark, config)
    # All of the lake before anything is polled: a table that is not ours must not be found halfway.
    ensure_tables(spark, config.lake, TABLES)
    if once:
        for job in JOBS:
            job.run(spark, config, True)
        return
    queries = [job.start(spark, config, once=False) for job in JOBS]
    try:
        spark.streams.awaitAnyTermination()
    finally:
        for query in queries:
            query.stop()


if __name__ == "__main__":
    sys.exit(main())
