"""The pipeline as a user runs it: spark-submit against the local cluster, killed and started
again.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from jobs import pipeline, validate
from jobs.configuration.config import load
from jobs.rounds.commit import append_rows
from jobs.upkeep.upkeep import expire_bronze, keep_up
from local_cluster import LocalCluster
from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.group_scores import check_scores
from tests.support.histories import good_answer
from tests.support.lake_checks import check_lake, check_polls
from tests.support.lakes import new_lake
from tests.support.pipelines import Pipeline, config_file, stopped
from tests.support.verdicts import check_verdict
from tests.support.waiting import eventually
from truth.administration import Administration
from truth.chaos import play
from truth.groups import play as of_groups
from truth.groups.compare import compare
from truth.groups.run import read_history
from truth.groups.score import Score
from truth.groups.script import CONSUMER, RANGE, beginning, write
from truth.log import WHOLE_LOG, read_truth
from truth.report import Verdict, judge
from truth.run import Run
from truth.scenarios import PROPERTIES as FAULTS
from truth.scenarios import plan, topics
from truth.setups import NEWEST
from truth.traffic import Traffic

FIRST_DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
RETENTION = timedelta(days=7)


def polls_of_days(days: int) -> list[dict[str, object]]:
    """Rows of bronze of a cluster that was polled on these days, twice each, and whose leader
    moved.
    """
    answers = []
    for n in range(2 * days):
        at = FIRST_DAY + timedelta(days=n // 2, seconds=n % 2)
        led = {
            "error_code": 0,
            "leader": n % 2,
            "leader_epoch": n,
            "replicas": [0, 1],
            "isr": [0, 1],
            "offline_replicas": [],
        }
        answer = good_answer(
            "20261101T000000Z-00000000", n, at, {0: None, 1: None}, {"orders": [led]}, batch=n
        )
        answers.append(replace(answer, cluster_id="id-past"))
    return bronze_rows("past", answers)


class Upkeep:
    """Makes a lake with polls of some days, long ago, of a cluster `past`; then tends the lake
    beside a pipeline.

    `past`: the polls of those days.
    """

    def __init__(self, spark: SparkSession, folder: Path, days: int) -> None:
        self.spark, self.folder, self.days, self.dropped = spark, folder, days, 0
        self.lake = new_lake(spark, folder / "lake")
        append_rows(spark, self.lake, bronze.METADATA_POLLS, polls_of_days(days))
        self.past = [
            row
            for row in stored.rows_of(self.lake, bronze.METADATA_POLLS)
            if row["cluster"] == "past"
        ]

    def __call__(self) -> None:
        """Retention drops a day, all tables are compacted, vacuumed and validated."""
        eventually(
            lambda: not self._states().where("cluster = 'past'").isEmpty(),
            "history of the past",
            within=300,
        )
        self.dropped += 1
        expire_bronze(
            self.spark, self.lake, RETENTION, FIRST_DAY + timedelta(days=self.dropped) + RETENTION
        )
        keep_up(self.spark, self.lake, timedelta(days=10_000), {}, datetime.now(UTC))
        findings = validate.apply(
            self.spark, load(str(self.folder / "config.yaml")), datetime.now(UTC)
        )
        assert not [
            each
            for each in findings
            if validate.is_critical(each) and each.rule.name != "polled_now"
        ]
        assert self._polls().select("day").distinct().count() == self.days - self.dropped

    def _polls(self) -> DataFrame:
        return self.lake.read(self.spark, bronze.METADATA_POLLS).where("cluster = 'past'")

    def _states(self) -> DataFrame:
        return self.lake.read(self.spark, internal.STATE)


# --- one run of everything, judged by the truth ---

FAULTS_SEED, SECONDS = 26502, 75.0
"""Its plan has something of everything: tests/unit/truth/test_chaos.py."""
SEED, BEFORE, AFTER = 281, 4, 1
"""Steps of a group before and after its coordinator's broker stops: the beginnings of what `make
truth` does.
"""


@dataclass(frozen=True)
class Judged:
    """How history of one run agrees with the controllers' own log, and with what members of groups
    said.
    """

    verdict: Verdict
    groups: dict[str, Score]


def saying(after: int, then: Callable[[], object]) -> Callable[[str], None]:
    """Prints what is said. With the n-th saying something is done."""
    said = count(1)

    def say(what: str) -> None:
        print(what)
        if next(said) == after:
            then()

    return say


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """A pipeline with all that it can do, beside faults and then beside groups, killed in the
    middle of the one and terminated in the middle of the other.
    """
    folder = tmp_path_factory.mktemp("everything")
    properties = FAULTS | of_groups.PROPERTIES | WHOLE_LOG
    with LocalCluster(
        NEWEST.brokers, controllers=1, racks=NEWEST.racks, properties=properties, isolatable=True
    ) as cluster:
        file = config_file(
            folder,
            cluster,
            poll={"commitInterval": "20s", "enrich": "configs, reassignments, elr, quorum, groups"},
            groupLog={},
        )
        brokers = tuple(node_id for node_id, node in cluster.nodes.items() if node.is_broker)
        administration, begun_with = Administration(cluster), topics(FAULTS_SEED, brokers)
        administration.create_topics(begun_with)
        new_lake(spark, folder / "lake")
        with Pipeline(file) as pipelined:
            with Traffic(cluster.bootstrap_servers, [topic.name for topic in begun_with]):
                administration.await_settled(brokers)
                pipelined.wait_for_batches(1)
                steps = plan(FAULTS_SEED, brokers, SECONDS)

                def killed() -> None:
                    pipelined.again(SIGKILL)
                    pipelined.wait_for_batches(1)  # Faults that nobody sees prove nothing.

                journal = play(cluster, administration, steps, saying(len(steps) // 2, killed))
            scripts = [beginning(write(SEED, kind), BEFORE, AFTER) for kind in (RANGE, CONSUMER)]
            # After the coordinator's broker stopped. The log keeps what members do from then on.
            stopped_by = len(scripts) * (BEFORE + 1) + 1
            played = of_groups.play(
                cluster, scripts, saying(stopped_by, lambda: pipelined.end(SIGTERM))
            )
        assert pipeline.main(["--config", str(file), "--once"]) == 0
        truth = read_truth(cluster)
    config = load(str(file))
    check_lake(config.lake)
    verdict = judge(Run(NEWEST, {1: config}, journal, truth, log=config), 1)
    history = read_history(spark, config.lake)
    return Judged(
        verdict,
        {group: compare(each, history, played.moves) for group, each in played.happened.items()},
    )


@pytest.mark.soak
def test_history_agrees_with_the_log(judged: Judged) -> None:
    check_verdict(judged.verdict, claims=1000, transitions=50, decided=20)


@pytest.mark.soak
def test_rebalances_agree_with_what_members_said(judged: Judged) -> None:
    check_scores(judged.groups, groups=2, steps=BEFORE + AFTER)


# --- long runs ---

TOPICS = ("orders", "payments", "clicks")


@pytest.fixture
def orders(cluster: LocalCluster) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, 4, 3) for name in TOPICS]).values():
        made.result(30)
    yield
    for gone in admin.delete_topics(list(TOPICS)).values():
        gone.result(30)


@pytest.mark.soak
@pytest.mark.usefixtures("orders")
@pytest.mark.timeout(3600)
def test_a_pipeline_killed_twenty_times_loses_nothing(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    chance, config = (
        random.Random(12),
        config_file(tmp_path, cluster, poll={"commitInterval": "5s"}),
    )
    with Pipeline(config) as pipelined:
        time.sleep(chance.uniform(0, 30))
        for i in range(1, 20):
            pipelined.again(SIGKILL)
            pipelined.wait_for_batches(2)
            with stopped(cluster, chance.choice(sorted(cluster.nodes))):
                # Of a batch that was polled since then, however slow the machine is.
                pipelined.wait_for_batches(2)
                time.sleep(chance.uniform(0, 12))
                pipelined.check_running()
                if i % 2:
                    pipelined.end(SIGKILL)
            time.sleep(0 if i % 2 else chance.uniform(0, 8))
    assert pipeline.main(["--config", str(config), "--once"]) == 0
    lake = Lake(root=str(tmp_path / "lake"))
    check_lake(lake)
    check_polls(lake)
    # The brokers that stopped are in the history, or the runs proved nothing.
    assert lake.read(spark, silver.BROKER_SNAPSHOTS).where("end_reason = 'gone'").count() >= 1
    assert not lake.read(spark, gold.LEADER_CHANGES).isEmpty()


@pytest.mark.soak
@pytest.mark.usefixtures("orders")
@pytest.mark.timeout(3600)
def test_polling_goes_on_beside_upkeep_for_ten_minutes(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    config = config_file(tmp_path, cluster, poll={"commitInterval": "5s"})
    upkeep = Upkeep(spark, tmp_path, days=10)
    with Pipeline(config) as pipelined:
        pipelined.wait_for_batches(3)
        for day in range(10):
            until = time.monotonic() + 60
            with nullcontext() if day % 2 else stopped(cluster, sorted(cluster.nodes)[day % 3]):
                upkeep()
            time.sleep(max(0, until - time.monotonic()))
            pipelined.check_running()
    assert pipeline.main(["--config", str(config), "--once"]) == 0
    check_lake(upkeep.lake, upkeep.past)
