"""Read the group coordinators' log of each cluster into bronze.group_log.

spark-submit jobs/read_group_log.py --config FILE [--once]
"""

import json
import sys
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.histories.rebalances import JOB, Memory
from jobs.rules.memory import loads
from jobs.run.cli import run_job
from jobs.run.reading import FollowedLog, follow
from metadata_source.errors import GroupLogError
from schemas import bronze
from schemas.in_spark import read_view
from schemas.internal import STATE_NOW
from schemas.lake import Lake

QUERY = "read_group_log"


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Follow the logs; with `once`, read up to where they end now. Raises at the end if a cluster
    was left out.
    """
    follow(spark, config, GROUP_LOG, once=once)


def options(spark: SparkSession, config: Config, ids: Mapping[str, str]) -> dict[str, str]:
    """Options of the data source: where each log continues if its checkpoint is lost, among
    them.
    """
    resume_at = read_up_to(spark, config.lake, config.clusters)
    return config.group_log_options(ids) | (
        {"resumeAt": json.dumps(resume_at)} if resume_at else {}
    )


def read_up_to(
    spark: SparkSession, lake: Lake, clusters: Iterable[str]
) -> dict[str, dict[str, int]]:
    """By alias and partition, the offset up to which history has the log; of a place that a lost
    checkpoint had.
    """
    states = (
        read_view(spark, lake, STATE_NOW)
        .where(F.col("history") == JOB)
        .where(F.col("cluster").isin(list(clusters)))
    )
    found = {
        row.cluster: loads(Memory, row.memory).places
        for row in states.select("cluster", "memory").collect()
    }
    return {
        cluster: {p: offset for p, (_, offset) in places.items()}
        for cluster, places in found.items()
        if places
    }


GROUP_LOG = FollowedLog(
    query=QUERY,
    source="kafka_group_log",
    table=bronze.GROUP_LOG,
    error=GroupLogError,
    clusters=lambda config: list(config.clusters),
    options=options,
)

if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run))
