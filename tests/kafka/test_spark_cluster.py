"""Not one process: every job on a standalone Spark cluster, from the wheel in a packed environment, and over Spark
Connect. Master, workers, executors and the driver or the client are processes of their own, and know nothing of the
checkout.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from jobs.common.config import load
from jobs.poll_metadata import QUERY
from local_cluster import LocalCluster
from schemas import bronze
from tests.support.pipelines import config_file, stopped, wait_for
from tests.support.standalone import ROOT, Packed, connect_server, packed, running, standalone
from tests.support.stored import rows_of

pytestmark = pytest.mark.soak

Submit = Callable[..., list[str]]
"""The command line of a job, by its name and arguments."""

TOPIC, GROUP = "orders-of-spark-cluster", "billing-of-spark-cluster"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return packed(tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def master(given: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(given, tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.fixture
def config(
    cluster: LocalCluster, made_topic: Callable[..., AbstractContextManager[object]], tmp_path: Path
) -> Iterator[Path]:
    """Of a lake of the local cluster, where there is a topic whose replicas are on all brokers."""
    with made_topic(cluster.bootstrap_servers, TOPIC, 6, replication_factor=3):
        yield config_file(tmp_path, cluster, poll={"pollInterval": "2s"}, groupLog={})


def run(given: Packed, command: list[str], *, status: int = 0, **variables: str) -> str:
    """Run a command in a shell that knows nothing of the checkout; return its output."""
    environment = given.variables() | variables
    done = subprocess.run(
        command, cwd=given.folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == status, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout


SEEN = """
import json, os, sys, time
import pyarrow as pa
from pyspark.sql import SparkSession

def seen(batches):
    for _ in batches:
        pass
    import jobs.history, metadata_source.poller, schemas.lake
    time.sleep(2)  # so that no executor has done all of it before another has begun
    files = [module.__file__ for module in (jobs.history, metadata_source.poller, schemas.lake)]
    row = {"cwd": os.getcwd(), "python": sys.executable, "path": sys.path, "files": files, "prefix": sys.prefix}
    yield pa.RecordBatch.from_pydict({"row": [json.dumps(row)]})

spark = SparkSession.builder.getOrCreate()
for row in spark.range(8, numPartitions=8).mapInArrow(seen, "row string").collect():
    print(row.row)
"""


def test_workers_have_the_packed_environment_alone(given: Packed, master: str, tmp_path: Path) -> None:
    script = tmp_path / "seen.py"
    script.write_text(SEEN)
    command = ["environment/bin/spark-submit", "--master", master, "--properties-file", given.settings.name]
    rows = [json.loads(line) for line in run(given, [*command, str(script)]).splitlines()]
    assert len(rows) == 8
    # Each executor has its own folder, in that of its worker.
    assert {Path(row["cwd"]).parents[1].name for row in rows} == {"worker-0", "worker-1"}
    for row in rows:
        unpacked = Path(row["cwd"], "environment").resolve()
        assert Path(row["prefix"]).resolve() == unpacked
        assert all(Path(file).resolve().is_relative_to(unpacked) for file in row["files"])
        places = {Path(row["cwd"], place).resolve() for place in row["path"]}
        assert not [place for place in places if place.is_relative_to(ROOT)]
        # Beside it, a worker's own Spark: here that of the folder in which the environment was made.
        spark = given.packages / "pyspark"
        assert not [place for place in places if not place.is_relative_to(spark) and place.is_relative_to(given.folder)]


def test_every_job_on_a_standalone_cluster(given: Packed, master: str, cluster: LocalCluster, config: Path) -> None:
    def submitted(job: str, *arguments: str) -> list[str]:
        return given.submit(master, job, *arguments)

    every_job(given, submitted, cluster, config)


def test_every_job_over_spark_connect(
    given: Packed, master: str, cluster: LocalCluster, config: Path, tmp_path: Path
) -> None:
    """Of a client without py4j, to a server whose executors are the workers of the cluster."""
    client = tmp_path / "only_connect.py"
    client.write_text((ROOT / "tests" / "support" / "only_connect.py").read_text())

    def connected(job: str, *arguments: str) -> list[str]:
        return ["environment/bin/python", "-P", str(client), job, *arguments]

    with connect_server(given, master, tmp_path / "server.log") as remote:
        every_job(given, connected, cluster, config, SPARK_REMOTE=remote)
        # Killed, it leaves a query behind; the next run takes over.
        killed_at = batches(config)
        with running(
            connected("pipeline", "--config", str(config)), given, tmp_path / "killed.log", SPARK_REMOTE=remote
        ) as job:
            wait_for(lambda: batches(config) > killed_at + 1, 300, "polls")
            job.kill()
        run(given, connected("pipeline", "--once", "--config", str(config)), SPARK_REMOTE=remote)
        ended_at = batches(config)
        time.sleep(10)
        assert batches(config) == ended_at


def every_job(given: Packed, of_job: Submit, cluster: LocalCluster, config: Path, **variables: str) -> None:
    """Two runs of the pipeline with an event between them, each job apart, and a pipeline that is ended."""
    lake = load(str(config)).lake

    def job(name: str, *arguments: str, status: int = 0) -> str:
        return run(given, of_job(name, *arguments, "--config", str(config)), status=status, **variables)

    def answer(sql: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in job("query", sql, "--format", "json").splitlines()]

    member = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "client.id": "teller"})
    member.subscribe([TOPIC])
    try:
        wait_for(lambda: member.poll(0.5) is None and bool(member.assignment()), 60, "an assignment")
        job("pipeline", "--once")
    finally:
        member.close()
    with stopped(cluster, 3):
        job("pipeline", "--once")
    assert "polled_now" in job("validate")
    left = answer("SELECT DISTINCT broker_id FROM gold.isr_changes WHERE change = 'left' AND cluster = 'local'")
    assert left == [{"broker_id": 3}]
    assert answer("SELECT count(*) > 0 AS moved FROM gold.leader_changes WHERE leader <> 3") == [{"moved": True}]
    # Other tests have groups on this cluster, too.
    told = f"SELECT DISTINCT cluster FROM gold.rebalances WHERE group_id = '{GROUP}'"
    assert answer(told) == [{"cluster": "local"}]

    # The same jobs apart, and one that makes history again.
    polls = len(rows_of(lake, bronze.METADATA_POLLS))
    for name in ("poll_metadata", "read_group_log", "snapshot_history", "isr_shrink", "leader_churn"):
        job(name, "--once")
    job("rebalance_history", "--once")
    assert len(rows_of(lake, bronze.METADATA_POLLS)) > polls
    changes = "SELECT * FROM gold.isr_changes ORDER BY ALL"
    before = answer(changes)
    job("isr_shrink", "--again", "local")
    assert answer(changes) == before
    assert "3" in job("query", "timeline", "--since", "1 hour", "--broker", "3", "--cluster", "local")

    # On and on, until SIGTERM: nothing polls on.
    until = batches(config) + 3
    log = config.with_name("pipeline.log")
    with running(of_job("pipeline", "--config", str(config)), given, log, **variables) as pipeline:
        wait_for(lambda: batches(config) >= until or pipeline.poll() is not None, 300, "polls")
        assert pipeline.poll() is None, log.read_text()[-3000:]
        os.killpg(pipeline.pid, signal.SIGTERM)
        pipeline.wait(90)
    ended_at = batches(config)
    time.sleep(10)
    assert batches(config) == ended_at
    assert "local" in job("query", "health")


def batches(config: Path) -> int:
    """How many batches of polls are committed."""
    done = Path(load(str(config)).checkpoint(QUERY), "commits").glob("[0-9]*")
    return max((int(file.name) + 1 for file in done), default=0)
