"""One run: groups to which things are done while the cluster is polled, and the history that the
jobs make of their log; and that of polls alone, in a lake of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from pyspark.sql import SparkSession

from jobs import read_group_log, rebalance_history
from jobs.configuration.config import Config, load
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from schemas import bronze, views
from schemas.in_spark import read_view
from schemas.lake import Lake
from truth.groups.compare import Score, compare
from truth.groups.history import History, history_of
from truth.groups.play import PROPERTIES, Played, Say, play
from truth.groups.polled import Shown, compare_polled
from truth.groups.script import Kind, write
from truth.run import await_batches, polling

BROKERS: Final = 3
NEWEST: Final = KAFKA_VERSION
_INTERVAL_SECONDS: Final = 2
_POLLED_SECONDS: Final = 1
"""Between two polls of groups: quiet moments are longer, so that most are polled."""
_COMMIT_SECONDS: Final = 10


@dataclass(frozen=True)
class Run:
    """The steps that were played, and what history says of them."""

    played: Played
    history: History
    polled: History
    """Of polls alone."""
    polls: Sequence[Shown]
    """Those polls that told all groups."""

    def scores(self) -> dict[str, Score]:
        """How history agrees, by group and source."""
        scores = {}
        for group, steps in self.played.happened.items():
            scores[group] = compare(steps, self.history, self.played.moves)
            scores[f"{group}, polled"] = compare_polled(
                steps, self.polled, self.history, self.polls
            )
        return scores


def run(
    spark: SparkSession,
    kinds: Sequence[Kind],
    folder: Path,
    *,
    seed: int,
    say: Say,
    kafka_version: str = NEWEST,
) -> Run:
    """Start a cluster, poll it while the scripts of these kinds of groups are done, and make
    history of it.

    Everything that was started has ended when this returns or raises.
    """
    with LocalCluster(
        brokers=BROKERS, properties=PROPERTIES, kafka_version=kafka_version
    ) as cluster:
        names = ", ".join(kind.name for kind in kinds)
        say(f"{BROKERS} brokers of {kafka_version}; seed {seed}; {names}")
        config = _config(folder, cluster.bootstrap_servers, _INTERVAL_SECONDS, {}, groupLog={})
        groups_too = {"enrich": f"groups={_POLLED_SECONDS}s"}
        polled = _config(folder / "polled", cluster.bootstrap_servers, _POLLED_SECONDS, groups_too)
        with polling(spark, [config, polled]) as queries:
            await_batches(queries, 1)
            played = play(cluster, [write(seed, kind) for kind in kinds], say)
            await_batches(queries, 1)
        say("polled to the end")
        read_group_log.run(spark, config, True)
        say("the log is in bronze")
    for each in (config, polled):
        Engine(spark, each, Polls(["silver"])).catch_up(whole=True)
        rebalance_history.run(spark, each, True)
    say("silver and gold are made")
    return Run(
        played,
        read_history(spark, config.lake),
        read_history(spark, polled.lake),
        _polls(spark, polled.lake),
    )


def _polls(spark: SparkSession, lake: Lake) -> list[Shown]:
    """The answers that told all groups."""
    rows = lake.read(spark, bronze.METADATA_POLLS).where(
        "record = 'answer' AND kind = 'groups' AND outcome = 'ok'"
    )
    told = rows.select("asked_at", "answered_at").toArrow().to_pylist()
    return [Shown(row["asked_at"], row["answered_at"]) for row in told]


def read_history(spark: SparkSession, lake: Lake) -> History:
    """The history that gold has of the groups of a lake's one cluster."""
    rebalances, members, events, storms = (
        read_view(spark, lake, view).toArrow().to_pylist()
        for view in (
            views.REBALANCES,
            views.REBALANCE_MEMBERS,
            views.GROUP_EVENTS,
            views.REBALANCE_STORMS,
        )
    )
    # As close as polls and the log together know it.
    told = [
        {
            **row,
            "rebalance_id": row["id"],
            "began_before": row["narrowed_before"] or row["began_before"],
            "stored_before": row["began_before"],
        }
        for row in rebalances
    ]
    return history_of(told, members, events, storms, topics={})


def _config(
    folder: Path, bootstrap_servers: str, interval: int, poll: dict[str, str], **more: object
) -> Config:
    clusters = {"local": {"kafka.bootstrap.servers": bootstrap_servers}}
    poll = {"pollInterval": f"{interval}s", "commitInterval": f"{_COMMIT_SECONDS}s", **poll}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(
        yaml.safe_dump({"lake": str(folder / "lake"), "clusters": clusters, "poll": poll, **more})
    )
    return load(str(file))
