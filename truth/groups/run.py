"""One run: groups to which things are done while the cluster is polled, and the history that the
jobs make of their log, with what rebalances cost and lag; and that of polls alone, in a lake of its
own.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import group_lag, read_group_log, rebalance_cost, rebalance_history
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from schemas import bronze, views
from schemas.consumption import GROUP_LAG, REBALANCE_COST
from schemas.in_spark import read_view
from schemas.lake import Lake
from truth.groups.compare import compare
from truth.groups.costs import Row, compare_costs, compare_lag
from truth.groups.history import History, history_of
from truth.groups.play import PROPERTIES, Say, play
from truth.groups.polled import Shown, compare_polled
from truth.groups.score import Score
from truth.groups.script import Kind, write
from truth.model.work import Work
from truth.run import await_batches, await_polls, configured, polling

BROKERS: Final = 3
NEWEST: Final = KAFKA_VERSION
_POLL: Final = {"pollInterval": "1s", "commitInterval": "10s"}
"""Quiet moments are longer than the interval, so that most are polled."""


def run(
    spark: SparkSession,
    kinds: Sequence[Kind],
    folder: Path,
    *,
    seed: int,
    say: Say,
    kafka_version: str = NEWEST,
) -> dict[str, Score]:
    """Start a cluster, poll it while the scripts of these kinds of groups are done, and make
    history of it; how history agrees, by group and source.

    Everything that was started has ended when this returns or raises.
    """
    with LocalCluster(
        brokers=BROKERS, properties=PROPERTIES, kafka_version=kafka_version
    ) as cluster:
        names = ", ".join(kind.name for kind in kinds)
        say(f"{BROKERS} brokers of {kafka_version}; seed {seed}; {names}")
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        asked = {"enrich": "offsets=1s"} if any(kind.work for kind in kinds) else {}
        config = configured(folder, servers, _POLL | asked, groupLog={})
        polled = configured(folder / "polled", servers, _POLL | {"enrich": "groups=1s"})
        answered = [(polled.lake, "groups")] + [(config.lake, "offsets") for _ in asked]
        with polling(spark, [config, polled]) as queries:
            await_batches(queries, 1)
            # Of a step before their first answer polls tell nothing.
            await_polls(
                queries,
                lambda: all(_polls(spark, lake, kind) for lake, kind in answered),
                "answers about groups",
            )
            played = play(cluster, [write(seed, kind) for kind in kinds], say)
            await_batches(queries, 2)  # The first may have begun before the last step.
        say("polled to the end")
        read_group_log.run(spark, config, True)
        say("the log is in bronze")
    for each in (config, polled):
        Engine(spark, each, Polls(["silver"])).catch_up(whole=True)
        rebalance_history.run(spark, each, True)
    for job in (rebalance_cost, group_lag) if played.work else ():
        job.run(spark, config, True)
    say("silver and gold are made")
    history, of_polls = (read_history(spark, each.lake) for each in (config, polled))
    polls = _polls(spark, polled.lake, "groups")
    scores: dict[str, Score] = {}
    for group, steps in played.happened.items():
        scores[group] = compare(steps, history, played.moves)
        if group in played.work:
            _compare_work(spark, config.lake, group, played.work[group], scores[group])
        scores[f"{group}, polled"] = compare_polled(steps, of_polls, history, polls)
    return scores


def _compare_work(spark: SparkSession, lake: Lake, group: str, work: Work, score: Score) -> None:
    of_group = F.col("group_id") == group
    costs, lags = (
        lake.read(spark, table).where(of_group).toArrow().to_pylist()
        for table in (REBALANCE_COST, GROUP_LAG)
    )
    answers = lake.read(spark, bronze.METADATA_POLLS).where("record = 'offsets'")
    entries = answers.selectExpr("poll_id", "inline(offsets)").where("topic IS NOT NULL")
    asked: defaultdict[str, list[Row]] = defaultdict(list)
    for row in entries.where(of_group).toArrow().to_pylist():
        asked[row["poll_id"]].append(row)
    compare_costs(costs, work, score)
    compare_lag(lags, asked, work, score)


def _polls(spark: SparkSession, lake: Lake, kind: str) -> list[Shown]:
    """The answers of this kind that told all groups."""
    rows = lake.read(spark, bronze.METADATA_POLLS).where(
        f"record = 'answer' AND kind = '{kind}' AND outcome = 'ok'"
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
