"""The pipeline as a user runs it: spark-submit against the local cluster, killed and started again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import itemgetter
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import pipeline, validate
from jobs.common.commit import append_rows
from jobs.common.config import load
from jobs.common.upkeep import expire_bronze, keep_up
from local_cluster import LocalCluster
from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from schemas.table import Table
from tests.lakes import make_history, new_lake, rows_of
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import good_answer
from tests.worker import SMALL_JVM, worker_python

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("orders", "payments", "clicks")
MADE = (*silver.TABLES, *gold.ISR_TABLES, *gold.LEADER_TABLES)


@pytest.fixture(scope="module")
def topics(cluster: LocalCluster) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, 4, 3) for name in TOPICS]).values():
        made.result(30)
    yield
    for gone in admin.delete_topics(list(TOPICS)).values():
        gone.result(30)


def config_file(folder: Path, cluster: LocalCluster, **poll: object) -> Path:
    file = folder / "config.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "lake": str(folder / "lake"),
                "clusters": {"local": {"kafka.bootstrap.servers": cluster.bootstrap_servers}},
                "poll": {"pollInterval": "1s", "requestTimeout": "3s", **poll},
                "validation": {"docs": str(folder / "docs")},
            }
        )
    )
    return file


def command(job: str, config: Path, *flags: str) -> list[str]:
    """As the README says, with a heap that suits the test machine."""
    submit = Path(sys.executable).with_name("spark-submit")
    settings = ["--properties-file", "conf/spark-defaults.conf", "--master", "local[3]", "--driver-memory", "1g"]
    settings += ["--driver-java-options", f"{SMALL_JVM} -Duser.timezone=UTC"]
    return [str(submit), *settings, f"jobs/{job}.py", "--config", str(config), *flags]


def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": worker_python(),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextmanager
def running(job: str, config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job in a process group of its own, which is killed whole in the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(job, config), cwd=ROOT, env=environment(), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check_lake(spark: SparkSession, lake: Lake, scratch: Path, dropped: DataFrame | None = None) -> None:
    """No poll twice, no hole in a stream's numbers; silver is what its bronze gives afresh, and gold what that gives.

    `dropped`: rows that bronze has had.
    """
    polls = lake.read(spark, bronze.METADATA_POLLS)
    polls = polls if dropped is None else polls.unionByName(dropped)
    headers = polls.where("record = 'poll'")
    assert headers.groupBy("cluster", "poll_id").count().where("count > 1").isEmpty()
    assert polls.groupBy(*bronze.METADATA_POLLS.key).count().where("count > 1").isEmpty()
    holes = headers.groupBy("cluster", "stream").agg(F.max("n") - F.min("n") + 1 - F.count("*"), F.min("n")).collect()
    assert [tuple(row)[2:] for row in holes] == [(0, 0)] * len(holes)
    afresh = new_lake(spark, scratch)
    polls.write.format("delta").mode("append").save(afresh.path(bronze.METADATA_POLLS))
    make_history(spark, afresh)
    for table in MADE:
        assert rows_of(lake, table) == rows_of(afresh, table), table.full_name
    steps = lake.read(spark, internal.ROUNDS)
    assert steps.groupBy("round").count().where("count > 1").isEmpty()
    done = {row["history"]: row["round"] for row in sorted(stored.newest_states(lake), key=itemgetter("round"))}
    for row in steps.where("step = 'planned'").collect():
        assert any(done.get(history, 0) >= row.round for history in row.histories), f"round {row.round} is not done"


def wait_for(condition: object, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.5)


def commits(lake: Path, table: Table) -> int:
    return len(list((lake / table.schema / table.name / "_delta_log").glob("*.json")))


def wait_for_batches(more: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until their table is there, and so many more batches of polls are committed; or the process has ended."""
    until = max(1, commits(folder / "lake", bronze.METADATA_POLLS)) + more
    wait_for(
        lambda: commits(folder / "lake", bronze.METADATA_POLLS) >= until or process.poll() is not None, 300, "polls"
    )


@contextmanager
def stopped(cluster: LocalCluster, broker: int) -> Iterator[None]:
    cluster.stop(broker)
    try:
        yield
    finally:
        cluster.start(broker)


def killed_at_random_moments(
    spark: SparkSession,
    cluster: LocalCluster,
    folder: Path,
    *,
    kills: int,
    seed: int,
    beside: Callable[[], None] = lambda: None,
) -> None:
    """The first time while tables are made or the first poll is; then while a broker is down, or is back again.

    `beside`: what is done to the lake, with a broker down, while the pipeline runs.
    """
    chance = random.Random(seed)
    config = config_file(folder, cluster, pollsPerBatch=4)
    for i in range(kills):
        log = folder / f"run-{i}.log"
        with running("pipeline", config, log) as process:
            if i == 0:
                wait_for_batches(0, process, folder)
                assert process.poll() is None, log.read_text()[-3000:]
                time.sleep(chance.uniform(0, 10))
                continue
            wait_for_batches(2, process, folder)
            assert process.poll() is None, log.read_text()[-3000:]
            with stopped(cluster, chance.choice(sorted(cluster.nodes))):
                beside()
                # Of a batch that was polled since then, however slow the machine is.
                wait_for_batches(2, process, folder)
                time.sleep(chance.uniform(0, 12))
                assert process.poll() is None, log.read_text()[-3000:]
                assert "Traceback" not in log.read_text()
                if i % 2:
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0 if i % 2 else chance.uniform(0, 8))
    # README's command does the same with spark-submit: tests/kafka/test_readme.py.
    assert pipeline.main(["--config", str(config), "--once"]) == 0


def check_brokers_stopped(spark: SparkSession, lake: Lake) -> None:
    """The brokers that stopped are in the history, or the runs proved nothing."""
    assert lake.read(spark, silver.BROKER_SNAPSHOTS).where("end_reason = 'gone'").count() >= 1
    assert not lake.read(spark, gold.LEADER_CHANGES).isEmpty()


FIRST_DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
RETENTION = timedelta(days=7)


def polls_of_days(days: int) -> list[dict[str, object]]:
    """Rows of bronze of a cluster that was polled on these days, twice each, and whose leader moved."""
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
        answer = good_answer("20261101T000000Z-00000000", n, at, {0: None, 1: None}, {"orders": [led]}, batch=n)
        answers.append(replace(answer, cluster_id="id-past"))
    return bronze_rows("past", answers)


class Upkeep:
    """What is done to a lake beside its pipeline. A cluster was polled there some days, long ago."""

    def __init__(self, spark: SparkSession, folder: Path, days: int) -> None:
        self.spark, self.folder, self.days, self.dropped = spark, folder, days, 0
        self.lake = Lake(root=str(folder / "lake"))

    @cached_property
    def past(self) -> DataFrame:
        """The polls of those days, which are in bronze and are history from now on."""
        append_rows(self.spark, self.lake, bronze.METADATA_POLLS, polls_of_days(self.days))
        wait_for(lambda: not self._states().where("cluster = 'past'").isEmpty(), 300, "history of the past")
        return self._polls().localCheckpoint()

    def __call__(self) -> None:
        """Retention drops a day, all tables are compacted, vacuumed and validated."""
        assert not self.past.isEmpty()
        self.dropped += 1
        expire_bronze(self.spark, self.lake, RETENTION, FIRST_DAY + timedelta(days=self.dropped) + RETENTION)
        keep_up(self.spark, self.lake, timedelta(days=10_000))
        findings = validate.apply(self.spark, load(str(self.folder / "config.yaml")), datetime.now(UTC))
        assert not [each for each in findings if validate.is_critical(each) and each.rule.name != "polled_now"]
        assert self._polls().select("day").distinct().count() == self.days - self.dropped

    def _polls(self) -> DataFrame:
        return self.lake.read(self.spark, bronze.METADATA_POLLS).where("cluster = 'past'")

    def _states(self) -> DataFrame:
        return self.lake.read(self.spark, internal.STATE)


@pytest.mark.usefixtures("topics")
def test_a_pipeline_killed_twice_and_kept_up_loses_nothing(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    upkeep = Upkeep(spark, tmp_path, days=1)
    killed_at_random_moments(spark, cluster, tmp_path, kills=2, seed=11, beside=upkeep)
    check_lake(spark, upkeep.lake, tmp_path / "afresh", upkeep.past)
    check_brokers_stopped(spark, upkeep.lake)


@pytest.mark.soak
@pytest.mark.usefixtures("topics")
@pytest.mark.timeout(3600)
def test_a_pipeline_killed_twenty_times_loses_nothing(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    killed_at_random_moments(spark, cluster, tmp_path, kills=20, seed=12)
    lake = Lake(root=str(tmp_path / "lake"))
    check_lake(spark, lake, tmp_path / "afresh")
    check_brokers_stopped(spark, lake)


def polled_beside_upkeep(spark: SparkSession, cluster: LocalCluster, folder: Path, days: int, pause_s: float) -> None:
    """A pipeline polls while all tables are tended and brokers stop, again and again."""
    file, log = config_file(folder, cluster, pollsPerBatch=5), folder / "pipeline.log"
    new_lake(spark, folder / "lake")
    upkeep = Upkeep(spark, folder, days)
    with running("pipeline", file, log) as process:
        wait_for_batches(3, process, folder)
        for day in range(days):
            until = time.monotonic() + pause_s
            with nullcontext() if day % 2 else stopped(cluster, sorted(cluster.nodes)[day % 3]):
                upkeep()
            time.sleep(max(0, until - time.monotonic()))
            assert process.poll() is None, log.read_text()[-3000:]
    assert "Traceback" not in log.read_text()
    assert pipeline.main(["--config", str(file), "--once"]) == 0
    check_lake(spark, upkeep.lake, folder / "afresh", upkeep.past)


@pytest.mark.soak
@pytest.mark.usefixtures("topics")
@pytest.mark.timeout(3600)
def test_polling_goes_on_beside_upkeep_for_ten_minutes(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    polled_beside_upkeep(spark, cluster, tmp_path, days=10, pause_s=60)
