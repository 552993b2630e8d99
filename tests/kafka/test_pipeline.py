"""The pipeline as a user runs it: spark-submit against the local cluster, killed and started again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import isr_shrink, leader_churn
from jobs.common.config import Thresholds
from jobs.snapshot_history import apply_polls
from local_cluster import LocalCluster
from schemas import bronze, gold, silver
from schemas.lake import Lake
from schemas.table import Table
from tests.lakes import new_lake
from tests.worker import worker_python

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("orders", "payments", "clicks")
COMPARED = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
    silver.POLL_GAPS,
    silver.PROGRESS,
)


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
            }
        )
    )
    return file


def command(job: str, config: Path, *flags: str) -> list[str]:
    """As the README says, with a heap that suits the test machine."""
    submit = Path(sys.executable).with_name("spark-submit")
    java = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Duser.timezone=UTC"
    settings = ["--properties-file", "conf/spark-defaults.conf", "--master", "local[3]", "--driver-memory", "1g"]
    settings += ["--driver-java-options", java]
    return [str(submit), *settings, f"jobs/{job}.py", "--config", str(config), *flags]


def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": worker_python(),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def run(job: str, config: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(job, config, *flags),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


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


def comparable(spark: SparkSession, lake: Lake, table: Table) -> list[str]:
    names = [name for name in table.column_names if name != "updated_at"]
    return sorted(repr(row) for row in lake.read(spark, table).select(*names).collect())


def check_lake(spark: SparkSession, lake: Lake, scratch: Path) -> None:
    """No poll twice, no hole in a stream's numbers; silver is what its bronze gives afresh, and gold what that gives."""
    polls = lake.read(spark, bronze.METADATA_POLLS)
    headers = polls.where("record = 'poll'")
    assert headers.groupBy("cluster", "poll_id").count().where("count > 1").isEmpty()
    assert polls.groupBy(*bronze.METADATA_POLLS.key).count().where("count > 1").isEmpty()
    holes = headers.groupBy("cluster", "stream").agg(F.max("n") - F.min("n") + 1 - F.count("*"), F.min("n")).collect()
    assert [tuple(row)[2:] for row in holes] == [(0, 0)] * len(holes)
    afresh = new_lake(spark, scratch)
    apply_polls(polls, afresh)
    isr_shrink.apply(afresh, Thresholds(), spark.newSession())
    leader_churn.apply(afresh, spark.newSession())
    for table in (*COMPARED, *gold.ISR_TABLES, *gold.LEADER_TABLES):
        assert comparable(spark, lake, table) == comparable(spark, afresh, table), table.full_name


def wait_for(condition: object, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.5)


def commits(lake: Path, table: Table) -> int:
    return len(list((lake / table.schema / table.name / "_delta_log").glob("*.json")))


@contextmanager
def stopped(cluster: LocalCluster, broker: int) -> Iterator[None]:
    cluster.stop(broker)
    try:
        yield
    finally:
        cluster.start(broker)


def killed_at_random_moments(spark: SparkSession, cluster: LocalCluster, folder: Path, kills: int, seed: int) -> None:
    """The first time while tables are made or the first poll is; then while a broker is down, or is back again."""
    chance = random.Random(seed)
    config = config_file(folder, cluster, pollsPerBatch=2)
    lake = Lake(root=str(folder / "lake"))
    for i in range(kills):
        log = folder / f"run-{i}.log"
        with running("pipeline", config, log) as process:
            if i == 0:
                wait_for(lambda: commits(folder / "lake", bronze.METADATA_POLLS), 60, "the first table")
                time.sleep(chance.uniform(0, 10))
                continue
            before = commits(folder / "lake", bronze.METADATA_POLLS)
            wait_for(
                lambda process=process, before=before: (
                    commits(folder / "lake", bronze.METADATA_POLLS) > before + 1 or process.poll() is not None
                ),
                180,
                "polls",
            )
            assert process.poll() is None, log.read_text()[-3000:]
            with stopped(cluster, chance.choice(sorted(cluster.nodes))):
                time.sleep(chance.uniform(0, 12))
                if i % 2:
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0 if i % 2 else chance.uniform(0, 8))
    done = run("pipeline", config, "--once")
    assert done.returncode == 0, done.stderr[-3000:]
    check_lake(spark, lake, folder / "afresh")
    # The brokers that stopped are in the history, or the runs proved nothing.
    assert lake.read(spark, silver.BROKER_SNAPSHOTS).where("ended_as = 'absent'").count() >= 1
    assert not lake.read(spark, gold.LEADER_CHANGES).isEmpty()


@pytest.mark.usefixtures("topics")
def test_a_pipeline_killed_twice_loses_nothing(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    killed_at_random_moments(spark, cluster, tmp_path, kills=2, seed=11)


@pytest.mark.soak
@pytest.mark.usefixtures("topics")
@pytest.mark.timeout(3600)
def test_a_pipeline_killed_twenty_times_loses_nothing(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    killed_at_random_moments(spark, cluster, tmp_path, kills=20, seed=12)
