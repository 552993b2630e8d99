"""Read the controllers' log of each cluster into bronze.cluster_log.

spark-submit jobs/read_cluster_log.py --config FILE [--once]
"""

import json
import sys
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.run.cli import run_job
from jobs.run.reading import FollowedLog, follow
from metadata_source.errors import ClusterLogError
from schemas import bronze
from schemas.lake import Lake

QUERY = "read_cluster_log"


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster
    was left out.
    """
    follow(spark, config, CLUSTER_LOG, once=once)


def options(spark: SparkSession, config: Config, ids: Mapping[str, str]) -> dict[str, str]:
    """Options of the data source: where each log continues if its checkpoint is lost, among
    them.
    """
    resume_at = {
        alias: {"0": offset}
        for alias, offset in read_up_to(spark, config.lake, config.clusters).items()
    }
    return config.cluster_log_options(ids) | (
        {"resumeAt": json.dumps(resume_at)} if resume_at else {}
    )


def read_up_to(spark: SparkSession, lake: Lake, clusters: Iterable[str]) -> dict[str, int]:
    """By alias, the offset up to which bronze has the log; not where it was cut off since: it is
    read as a new one.
    """
    spans = lake.read(spark, bronze.CLUSTER_LOG).where(
        "record = 'span' AND snapshot_offset IS NULL"
    )
    spans = spans.where(F.col("cluster").isin(list(clusters)))
    # A log that was cut off was read to an offset that it may not reach again for long.
    newest = F.max_by(F.struct("next_offset", "went"), F.struct("read_at", "next_offset"))
    found = (
        spans.groupBy("cluster").agg(newest.alias("newest")).select("cluster", "newest.*").collect()
    )
    return {row.cluster: row.next_offset for row in found if row.went != "truncated"}


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
