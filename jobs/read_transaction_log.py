"""Read the transaction coordinators' log of each cluster into bronze.transaction_log.

spark-submit jobs/read_transaction_log.py --config FILE [--once]
"""

import sys

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.run.cli import run_job
from jobs.run.logs import FOLLOWED_TRANSACTION_LOG
from jobs.run.reading import follow


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster
    was left out.
    """
    follow(spark, config, FOLLOWED_TRANSACTION_LOG, once=once)


if __name__ == "__main__":
    sys.exit(run_job(FOLLOWED_TRANSACTION_LOG.query, __doc__, run))
