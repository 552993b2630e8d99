"""Read the controllers' log of each cluster into bronze.cluster_log.

spark-submit jobs/read_cluster_log.py --config FILE [--once]
"""

import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.reading import FollowedLog, follow
from metadata_source.errors import ClusterLogError
from schemas import bronze

QUERY = "read_cluster_log"


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster was left out."""
    follow(spark, config, CLUSTER_LOG, once=once)


def options(_: SparkSession, config: Config, ids: Mapping[str, str]) -> dict[str, str]:
    """Options of the data source."""
    return config.cluster_log_options(ids)


CLUSTER_LOG = FollowedLog(
    query=QUERY,
    source="kafka_cluster_log",
    table=bronze.CLUSTER_LOG,
    error=ClusterLogError,
    clusters=lambda config: config.with_controllers,
    options=options,
)

if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
