"""The pipeline as a user runs it: spark-submit against the local cluster, killed and started again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import validate
from jobs.common.commit import append_rows
from jobs.common.config import load
from jobs.common.upkeep import expire_bronze, keep_up
from local_cluster import LocalCluster
from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from schemas.table import Table
from tests.lakes import make_history, new_lake, rows_of
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import good_answer
from tests.worker import worker_python

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
        assert rows_of(spark, lake, table) == rows_of(spark, afresh, table), table.full_name
    steps = lake.read(spark, internal.ROUNDS)
    assert steps.groupBy("round", "step").count().where("count > 1").isEmpty()
    planned, done = (
        {row.round for row in steps.where(F.col("step") == step).collect()} for step in ("planned", "done")
    )
    assert planned == done, "every round that was planned is done"


def wait_for(condition: object, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.5)


def commits(lake: Path, table: Table) -> int:
    return len(list((lake / table.schema / table.name / "_delta_log").glob("*.json")))


def wait_for_batches(more: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until so many more batches of polls are committed, or the process has ended."""
    until = commits(folder / "lake", bronze.METADATA_POLLS) + more
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


def killed_at_random_moments(spark: SparkSession, cluster: LocalCluster, folder: Path, kills: int, seed: int) -> None:
    """The first time while tables are made or the first poll is; then while a broker is down, or is back again."""
    chance = random.Random(seed)
    config = config_file(folder, cluster, pollsPerBatch=2)
    lake = Lake(root=str(folder / "lake"))
    for i in range(kills):
        log = folder / f"run-{i}.log"
        with running("pipeline", config, log) as process:
            if i == 0:
                wait_for(lambda: commits(folder / "lake", bronze.METADATA_POLLS), 300, "the first table")
                time.sleep(chance.uniform(0, 10))
                continue
            wait_for_batches(2, process, folder)
            assert process.poll() is None, log.read_text()[-3000:]
            with stopped(cluster, chance.choice(sorted(cluster.nodes))):
                # Of a batch that was polled since then, however slow the machine is.
                wait_for_batches(2, process, folder)
                time.sleep(chance.uniform(0, 12))
                if i % 2:
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0 if i % 2 else chance.uniform(0, 8))
    done = run("pipeline", config, "--once")
    assert done.returncode == 0, done.stderr[-3000:]
    check_lake(spark, lake, folder / "afresh")
    # The brokers that stopped are in the history, or the runs proved nothing.
    assert lake.read(spark, silver.BROKER_SNAPSHOTS).where("end_reason = 'gone'").count() >= 1
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


def polled_beside_upkeep(spark: SparkSession, cluster: LocalCluster, folder: Path, days: int, pause_s: float) -> None:
    """Retention drops a day, all tables are compacted, vacuumed and validated, while a pipeline polls and brokers stop;
    again and again.
    """
    file = config_file(folder, cluster, pollsPerBatch=5)
    config, log = load(str(file)), folder / "pipeline.log"
    lake = new_lake(spark, folder / "lake")
    past = polls_of_days(days)
    append_rows(spark, lake, bronze.METADATA_POLLS, past)
    make_history(spark, lake)
    kept = lake.read(spark, bronze.METADATA_POLLS).localCheckpoint()
    left = days
    with running("pipeline", file, log) as process:
        wait_for(
            lambda: commits(folder / "lake", bronze.METADATA_POLLS) > 3 or process.poll() is not None, 300, "polls"
        )
        for day in range(1, days + 1):
            until = time.monotonic() + pause_s
            with stopped(cluster, sorted(cluster.nodes)[day % 3]) if day % 2 else nullcontext():
                expire_bronze(spark, lake, RETENTION, FIRST_DAY + timedelta(days=day) + RETENTION)
                keep_up(spark, lake, timedelta(days=10_000))
                findings = validate.apply(spark, config, datetime.now(UTC))
                assert not [each for each in findings if validate.is_critical(each) and each.rule.name != "polled_now"]
            left = lake.read(spark, bronze.METADATA_POLLS).where("cluster = 'past'").select("day").distinct().count()
            assert left == days - day
            time.sleep(max(0, until - time.monotonic()))
            assert process.poll() is None, log.read_text()[-3000:]
    done = run("pipeline", file, "--once")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in log.read_text()
    check_lake(spark, lake, folder / "afresh", kept)


@pytest.mark.usefixtures("topics")
def test_polling_goes_on_beside_upkeep(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    polled_beside_upkeep(spark, cluster, tmp_path, days=1, pause_s=10)


@pytest.mark.soak
@pytest.mark.usefixtures("topics")
@pytest.mark.timeout(3600)
def test_polling_goes_on_beside_upkeep_for_ten_minutes(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    polled_beside_upkeep(spark, cluster, tmp_path, days=10, pause_s=60)
