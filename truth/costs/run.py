"""One run: workers of groups of some kinds, and the cost of their rebalances and the lag that the
jobs make of log and polls.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import group_lag, read_group_log, rebalance_cost, rebalance_history
from jobs.configuration.config import load
from local_cluster import LocalCluster
from schemas.bronze import METADATA_POLLS
from schemas.consumption import GROUP_LAG, REBALANCE_COST
from truth.costs import lag, pauses
from truth.costs.play import Kind, Say, Script, play
from truth.costs.score import Score
from truth.groups.play import PROPERTIES
from truth.run import await_batches, polling

Row = Mapping[str, Any]


def run(
    spark: SparkSession, kinds: Sequence[Kind], script: Script, folder: Path, *, say: Say
) -> dict[str, Score]:
    """Poll a cluster while things are done to groups of these kinds; the score of each group.

    Everything that was started has ended when this returns or raises.
    """
    replicas = {
        "transaction.state.log.replication.factor": str(script.brokers),
        "transaction.state.log.min.isr": "1",
    }
    with LocalCluster(brokers=script.brokers, properties=PROPERTIES | replicas) as cluster:
        file = folder / "config.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "lake": str(folder / "lake"),
                    "clusters": {"local": {"kafka.bootstrap.servers": cluster.bootstrap_servers}},
                    "poll": {
                        "pollInterval": "1s",
                        "commitInterval": "5s",
                        "enrich": {"offsets": "1s"},
                    },
                    "groupLog": {},
                }
            )
        )
        config = load(str(file))
        with polling(spark, [config]) as queries:
            await_batches(queries, 1)
            played = play(cluster, kinds, script, say)
            await_batches(queries, 1)
        read_group_log.run(spark, config, True)
    for job in (rebalance_history, rebalance_cost, group_lag):
        job.run(spark, config, True)
    say("history is made")
    costs, lags = (
        _by("group_id", config.lake.read(spark, table)) for table in (REBALANCE_COST, GROUP_LAG)
    )
    answers = config.lake.read(spark, METADATA_POLLS).where("record = 'offsets'")
    asked = answers.selectExpr("poll_id", "inline(offsets)").where("topic IS NOT NULL")
    scores = {group: Score() for group in played.work}
    for group, work in played.work.items():
        pauses.compare(costs[group], work.done, scores[group])
        of_group = _by("poll_id", asked.where(F.col("group_id") == group))
        lag.compare(lags[group], of_group, work, played.rests_from, scores[group])
    return scores


def _by(name: str, rows: DataFrame) -> Mapping[str, Sequence[Row]]:
    """The rows by one of their columns."""
    found = defaultdict[str, list[Row]](list)
    for row in rows.toArrow().to_pylist():
        found[row[name]].append(row)
    return found
