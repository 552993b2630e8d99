"""One run: workers of groups of some kinds, and the cost of their rebalances that the jobs make of log and polls."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from jobs import read_group_log, rebalance_cost, rebalance_history
from jobs.common.config import load
from jobs.history import SILVER, making
from local_cluster import LocalCluster
from schemas.consumption import REBALANCE_COST
from truth.costs.compare import Score, compare
from truth.costs.play import Kind, Say, play
from truth.groups.play import PROPERTIES
from truth.run import await_batches, polling


def run(spark: SparkSession, kinds: Sequence[Kind], folder: Path, *, say: Say) -> dict[str, Score]:
    """Start a cluster, poll it while things are done to groups of these kinds, and make history; the score of each
    group. Everything that was started has ended when this returns or raises.
    """
    properties = PROPERTIES | {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "1"}
    with LocalCluster(brokers=3, properties=properties) as cluster:
        file = folder / "config.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "lake": str(folder / "lake"),
                    "clusters": {"local": {"kafka.bootstrap.servers": cluster.bootstrap_servers}},
                    "poll": {"pollInterval": "1s", "pollsPerBatch": "5", "enrich": {"offsets": "1s"}},
                    "groupLog": {},
                }
            )
        )
        config = load(str(file))
        with polling(spark, [config]) as queries:
            await_batches(queries, 1)
            done = play(cluster, kinds, say)
            await_batches(queries, 1)
        read_group_log.run(spark, config, True)
    making(SILVER)(spark, config, True)
    for job in (rebalance_history, rebalance_cost):
        job.run(spark, config, True)
    say("history is made")
    rows = config.lake.read(spark, REBALANCE_COST).toArrow().to_pylist()
    return {group: compare([row for row in rows if row["group_id"] == group], of) for group, of in done.items()}
