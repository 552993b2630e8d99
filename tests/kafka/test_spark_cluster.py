"""Not one process: every job on a standalone Spark cluster, from the wheel in a packed environment,
and over Spark Connect. Master, workers, executors and the driver or the client are processes of
their own, and know nothing of the checkout.
"""

import json
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer

from jobs.configuration.config import load
from kafka_metadata_history.opened import without_spark
from local_cluster import LocalCluster
from local_cluster.ports import HOST, ReservedPorts
from schemas import bronze
from tests.support.pipelines import batches, config_file, stopped
from tests.support.repository import ROOT
from tests.support.standalone import (
    SPARK,
    UNPACKED,
    Packed,
    blocks,
    connect_server,
    packed,
    standalone,
    typed,
    wait_for_port,
    write,
)
from tests.support.stored import rows_of
from tests.support.waiting import eventually
from truth.session import settings_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

Submit = Callable[..., list[str]]
"""The command line of a script, by its place and arguments."""
SUPPORT = ROOT / "tests" / "support"

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


def run(given: Packed, command: list[str], **variables: str) -> str:
    """Run a command in a shell that knows nothing of the checkout; return its output. It has to
    exit 0.
    """
    environment = given.variables() | variables
    done = subprocess.run(
        command,
        cwd=given.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout


SEEN = """
import json, os, sys, time
import pyarrow as pa
from pyspark.sql import SparkSession

def seen(batches):
    for _ in batches:
        pass
    from kafka_metadata_history.jobs import pipeline
    from kafka_metadata_history.metadata_source import poller
    from kafka_metadata_history.schemas import lake
    time.sleep(2)  # so that no executor has done all of it before another has begun
    files = [module.__file__ for module in (pipeline, poller, lake)]
    row = {
        "cwd": os.getcwd(),
        "python": sys.executable,
        "path": sys.path,
        "files": files,
        "prefix": sys.prefix,
    }
    yield pa.RecordBatch.from_pydict({"row": [json.dumps(row)]})

spark = SparkSession.builder.getOrCreate()
for row in spark.range(8, numPartitions=8).mapInArrow(seen, "row string").collect():
    print(row.row)
"""


def test_workers_have_the_packed_environment_alone(
    given: Packed, master: str, tmp_path: Path
) -> None:
    script = tmp_path / "seen.py"
    script.write_text(SEEN)
    command = [
        "spark-submit",
        "--master",
        master,
        "--properties-file",
        str(given.settings),
    ]
    rows = [json.loads(line) for line in run(given, [*command, str(script)]).splitlines()]
    assert len(rows) == 8
    # Each executor has its own folder, in that of its worker.
    assert {Path(row["cwd"]).parents[1].name for row in rows} == {"worker-0", "worker-1"}
    for row in rows:
        unpacked = Path(row["cwd"], "environment").resolve()
        assert Path(row["prefix"]).resolve() == unpacked
        assert all(Path(file).resolve().is_relative_to(unpacked) for file in row["files"])
        places = {Path(row["cwd"], place).resolve() for place in row["path"]}
        # Beside it, a worker's own Spark: here that of the tests.
        others = [place for place in places if not place.is_relative_to(SPARK.resolve())]
        assert not [
            place
            for place in others
            if place.is_relative_to(ROOT) or place.is_relative_to(given.folder)
        ]


def test_every_job_on_a_standalone_cluster(
    given: Packed, master: str, cluster: LocalCluster, config: Path
) -> None:
    def submitted(script: str, *arguments: str) -> list[str]:
        return given.submit(master, script, *arguments)

    every_job(given, submitted, cluster, config)


def test_every_job_over_spark_connect(
    given: Packed, master: str, cluster: LocalCluster, config: Path, tmp_path: Path
) -> None:
    """Of a client without py4j, to a server whose executors are the workers of the cluster."""
    client = tmp_path / "only_connect.py"
    client.write_text((SUPPORT / "only_connect.py").read_text())

    def connected(script: str, *arguments: str) -> list[str]:
        return [
            "bash",
            "-c",
            f'environment/bin/python -P {client} {script} "$@"',
            "client",
            *arguments,
        ]

    with connect_server(given, master, tmp_path / "server.log") as remote:
        every_job(given, connected, cluster, config, SPARK_REMOTE=remote)
        # Killed, it leaves a query behind; the next run takes over.
        pipeline = given.job("pipeline"), "--config", str(config)
        killed_at = batches(config)
        killed = tmp_path / "killed.log"
        with given.program(connected(*pipeline), killed, SPARK_REMOTE=remote) as job:
            job.until(lambda: batches(config) > killed_at + 1, "polls")
        run(given, connected(*pipeline, "--once"), SPARK_REMOTE=remote)
        ended_at = batches(config)
        time.sleep(10)
        assert batches(config) == ended_at


PACKAGE, BEFORE_JAVA = "org.apache.hadoop:hadoop-aws:3.5.0", "spark.driver.extraJavaOptions"


def test_the_page_line_by_line(
    given: Packed, master: str, config: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On another machine, which is a folder here. Of the settings those are added that the page
    and docs/security.md ask for, and that fit this machine.
    """
    (_,), (unpack, submit), (server, client) = blocks()
    other = Packed(tmp_path_factory.mktemp("other"))
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
    ours = {"spark.connect.grpc.binding.port": str(port)}
    write(other.settings, settings_of("spark-cluster.conf") | ours)
    shutil.copy(given.folder / "environment.tar.gz", other.folder)
    content = yaml.safe_load(config.read_text()) | {
        "spark": {
            "packages": {PACKAGE: ""},
            "settings": {"spark.task.maxFailures": 5, BEFORE_JAVA: "-Da=1"},
        }
    }
    (other.folder / "kafka-metadata-history.yaml").write_text(yaml.safe_dump(content))
    typed(unpack, other.folder, other.variables())
    lacking = (
        f"not in force, since Spark was started without: spark.packages, "
        f"spark.settings.{BEFORE_JAVA} of the configuration; start spark-submit with --packages "
        f"{PACKAGE} --conf {BEFORE_JAVA}=..."
    )
    log = other.folder / "submit.log"
    with other.program(other.command(submit, master), log) as pipeline:
        pipeline.until(lambda: batches(config) > 1, "polls", within=1200)
        pipeline.end(signal.SIGTERM)
    assert lacking in log.read_text()
    done, log = batches(config), other.folder / "client.log"
    server = server.replace(UNPACKED, str(other.environment))
    with other.program(other.command(server, master), other.folder / "server.log"):
        wait_for_port(port, other.folder / "server.log")
        client = client.replace("HOST:15002", f"{HOST}:{port}")
        with other.program(["bash", "-c", client], log) as pipeline:
            pipeline.until(lambda: batches(config) > done + 1, "polls", within=1200)
            pipeline.end(signal.SIGTERM)
    lost = log.read_text()
    assert "start the server of Spark Connect with --packages" in lost
    assert "Failed to set" not in lost, "PySpark shows values"


CHANGES = """
SELECT topic, partition, broker_id, change, CAST(isr AS STRING) AS isr, began_before
FROM gold.isr_changes
WHERE began_before <= (
  SELECT max(began_before) FROM gold.isr_changes WHERE change = 'left' AND broker_id = 3)
ORDER BY ALL
"""
"""Columns that no later round changes, of the rows until the broker was stopped."""


def every_job(
    given: Packed, of_script: Submit, cluster: LocalCluster, config: Path, **variables: str
) -> None:
    """Two runs of the pipeline with an event between them, then each job, and a pipeline that is
    ended.
    """
    lake, file = load(str(config)).lake, ("--config", str(config))

    def job(script: str, *arguments: str) -> str:
        return run(given, of_script(script, *arguments), **variables)

    def answer(sql: str) -> list[dict[str, object]]:
        return without_spark(lake)(sql).to_pylist()

    member = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP, "client.id": "teller"}
    )
    member.subscribe([TOPIC])
    try:
        eventually(lambda: member.poll(0.5) or member.assignment(), "an assignment")
        job(given.job("pipeline"), *file, "--once")
    finally:
        member.close()
    with stopped(cluster, 3):
        job(given.job("pipeline"), *file, "--once")
    left = (
        "SELECT DISTINCT broker_id FROM gold.isr_changes WHERE change = 'left' AND cluster = "
        "'local'"
    )
    assert answer(left) == [{"broker_id": 3}]
    assert answer("SELECT count(*) > 0 AS moved FROM gold.leader_changes WHERE leader <> 3") == [
        {"moved": True}
    ]
    # Other tests have groups on this cluster, too.
    groups = f"SELECT DISTINCT cluster FROM gold.rebalances WHERE group_id = '{GROUP}'"
    assert answer(groups) == [{"cluster": "local"}]

    polls, changes = len(rows_of(lake, bronze.METADATA_POLLS)), answer(CHANGES)
    # Each alone, and one that makes history again. A session begins and ends with a minute of its
    # own.
    in_a_row = config.with_name("jobs_in_a_row.py")
    in_a_row.write_text((SUPPORT / "jobs_in_a_row.py").read_text())
    lines = [
        ("poll_metadata", "--once"),
        ("snapshot_history", "--once"),
        ("validate",),  # soon after the poll, which is critical if it was long ago
        ("read_group_log", "--once"),
        ("isr_shrink", "--once"),
        ("leader_churn", "--once"),
        ("rebalance_history", "--once"),
        ("rebalance_cost", "--once"),
        ("group_lag", "--once"),
        ("isr_shrink", "--again", "local"),
        ("query", left, "--format", "json"),
        ("query", "timeline", "--since", "1 hour", "--broker", "3", "--cluster", "local"),
    ]
    printed = job(str(in_a_row), *(shlex.join([*line, *file]) for line in lines))
    assert "polled_now" in printed
    assert '{"broker_id": 3}' in printed.splitlines()
    assert "broker_gone" in printed
    assert len(rows_of(lake, bronze.METADATA_POLLS)) > polls
    assert changes
    assert answer(CHANGES) == changes

    # Until SIGTERM: nothing polls after it.
    until = batches(config) + 3
    log = config.with_name("pipeline.log")
    with given.program(of_script(given.job("pipeline"), *file), log, **variables) as pipeline:
        pipeline.until(lambda: batches(config) >= until, "polls")
        pipeline.end(signal.SIGTERM)
    ended_at = batches(config)
    time.sleep(10)
    assert batches(config) == ended_at
