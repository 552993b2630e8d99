"""One run: groups to which things are done while the cluster is polled, and the history that the jobs make of their
log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pyspark.sql import SparkSession

from jobs import read_group_log, rebalance_history
from jobs.common.config import Config, load
from jobs.history import SILVER, making
from local_cluster import LocalCluster
from schemas import groups
from schemas.lake import Lake, read_view
from truth.groups.compare import Score, compare
from truth.groups.history import History, history_of
from truth.groups.play import PROPERTIES, Played, Say, play
from truth.groups.script import Kind, write
from truth.run import await_batches, polling

BROKERS: Final = 3
_INTERVAL_SECONDS: Final = 2
_POLLS_PER_BATCH: Final = 5


@dataclass(frozen=True)
class Run:
    """What was done, and what history says of it."""

    played: Played
    history: History

    def scores(self) -> dict[str, Score]:
        """How history agrees, by group."""
        return {group: compare(steps, self.history, self.played.moves) for group, steps in self.played.happened.items()}


def run(spark: SparkSession, kinds: Sequence[Kind], folder: Path, *, seed: int, say: Say) -> Run:
    """Start a cluster, poll it while the scripts of these kinds of groups are done, and make history of it.

    Everything that was started has ended when this returns or raises.
    """
    with LocalCluster(brokers=BROKERS, properties=PROPERTIES) as cluster:
        say(f"{BROKERS} brokers; seed {seed}; {', '.join(kind.name for kind in kinds)}")
        config = _config(folder, cluster.bootstrap_servers)
        with polling(spark, [config]) as queries:
            # No need to wait for the first polls: the coordinator moves a minute from here.
            played = play(cluster, [write(seed, kind) for kind in kinds], say)
            await_batches(queries, 1)
        say("polled to the end")
        read_group_log.run(spark, config, True)
        say("the log is in bronze")
    making(SILVER)(spark, config, True)
    say("silver is made")
    rebalance_history.run(spark, config, True)
    say("gold is made")
    return Run(played, read_history(spark, config.lake))


def read_history(spark: SparkSession, lake: Lake) -> History:
    """What gold says of the groups of a lake's one cluster."""
    rebalances, members, events = (
        read_view(spark, lake, view).toArrow().to_pylist()
        for view in (groups.REBALANCES, groups.REBALANCE_MEMBERS, groups.GROUP_EVENTS)
    )
    # As close as polls and the log together know it.
    told = [
        {**row, "rebalance_id": row["id"], "began_before": row["narrowed_before"] or row["began_before"]}
        for row in rebalances
    ]
    return history_of(told, members, events, topics={})


def _config(folder: Path, bootstrap_servers: str) -> Config:
    poll = {"pollInterval": f"{_INTERVAL_SECONDS}s", "pollsPerBatch": _POLLS_PER_BATCH}
    clusters = {"local": {"kafka.bootstrap.servers": bootstrap_servers}}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump({"lake": str(folder / "lake"), "clusters": clusters, "poll": poll, "groupLog": {}}))
    return load(str(file))
