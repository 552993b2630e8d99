"""What may happen to a pipeline in a year, done to one that runs: the table is in
docs/design/faults.md.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs import pipeline
from jobs.configuration.config import load
from local_cluster import LocalCluster
from schemas import bronze, silver
from schemas.lake import Lake
from tests.support import stored
from tests.support.disks import small_disk, unwritable
from tests.support.lake_checks import check_lake, check_polls
from tests.support.pipelines import Pipeline, config_file, stopped
from tests.support.repository import ROOT
from tests.support.waiting import eventually
from tests.support.worker import worker_python

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

POLLS = {"commitInterval": "3s"}
WORKER, PLANNER, RECORDER = (
    "pyspark.daemon",
    "python_streaming_source_runner",
    "metadata_source.recorder",
)
"""What Python runs in a pipeline: to read and to fold, to plan batches, and to poll."""
TOPIC = "of-faults"
AWAY_S = 150.0


@pytest.fixture(autouse=True)
def _topic(cluster: LocalCluster) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 4, 3)])[TOPIC].result(30)
    yield
    admin.delete_topics([TOPIC])[TOPIC].result(30)


def killed(pipelined: Pipeline, what: str) -> int:
    """Kill the Python processes of a pipeline that run `what`, but not what workers are forked
    from; how many.
    """
    count = 0
    for each in psutil.Process(pipelined.pid).children(recursive=True):
        with suppress(psutil.Error):
            runs = any(what in word for word in each.cmdline())
            if runs and (what != WORKER or WORKER in each.parent().cmdline()):
                each.kill()
                count += 1
    return count


def check_history(config: Path) -> None:
    """Run once more, and hold history against its own bronze, which has each poll once."""
    assert pipeline.main(["--config", str(config), "--once"]) == 0
    check_lake(load(str(config)).lake)
    check_polls(load(str(config)).lake)


def shrink(cluster: LocalCluster, pipelined: Pipeline) -> None:
    """Let something happen that history has to have."""
    with stopped(cluster, 1):
        pipelined.wait_for_batches(2)
    pipelined.wait_for_batches(2)


def test_python_processes_that_are_killed_cost_a_batch_at_most(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """As by a machine that has no memory left, which kills what is largest."""
    config = config_file(tmp_path, cluster, poll=POLLS)
    with Pipeline(config) as pipelined:
        pipelined.wait_for_batches(2)
        with stopped(cluster, 1):
            for what in (WORKER, RECORDER, PLANNER, WORKER, RECORDER):
                # While it polls, and while it makes history.
                eventually(lambda what=what: killed(pipelined, what) > 0, what)
                time.sleep(1)
                killed(pipelined, what)
                pipelined.wait_for_batches(2)
        pipelined.wait_for_batches(2)
        assert "; it is started again" in pipelined.log()
    check_history(config)


def test_an_executor_that_is_lost_costs_a_batch_at_most(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its workers keep their folders in Spark's own.
    home = tmp_path / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    monkeypatch.setenv("SPARK_HOME", str(home))
    settings = {
        "spark.master": "local-cluster[2,2,1024]",
        "spark.executor.extraClassPath": f"{ROOT}/.jars/delta/*",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.pyspark.python": worker_python(),
    }
    config = config_file(tmp_path, cluster, poll=POLLS)
    with Pipeline(config, settings) as pipelined:
        pipelined.wait_for_batches(2)

        def executors() -> list[psutil.Process]:
            found = []
            for each in psutil.Process(pipelined.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if any("CoarseGrainedExecutorBackend" in word for word in each.cmdline()):
                        found.append(each)
            return found

        with stopped(cluster, 1):
            one, *_ = before = executors()
            assert len(before) == 2
            one.kill()
            pipelined.wait_for_batches(2)
            eventually(lambda: len(executors()) == 2, "another executor")
        assert "Lost executor" in pipelined.log()
        pipelined.wait_for_batches(2)
    check_history(config)


def test_storage_that_is_away_for_minutes_costs_no_poll(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 512) as disk:
        folders = {"lake": str(disk / "lake"), "spool": str(tmp_path / "spool")}
        config = config_file(tmp_path, cluster, poll=POLLS, **folders)
        with Pipeline(config) as pipelined:
            pipelined.wait_for_batches(2)
            with unwritable(disk), stopped(cluster, 1):
                time.sleep(AWAY_S)
            pipelined.wait_for_batches(2)
            log = pipelined.log()
            assert "Read-only file system" in log
            assert "is started again and again: if this does not pass" in log
        check_history(config)
        check_none_is_lost(load(str(config)).lake)


def test_a_commit_that_conflicts_with_another_is_made_again(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Somebody sets properties of the table, again and again, while polls are appended to it."""
    config = config_file(tmp_path, cluster, poll={"commitInterval": "1s"})
    lake = load(str(config)).lake
    table = lake.identifier(bronze.METADATA_POLLS)

    def conflict(pipelined: Pipeline) -> bool:
        for number in range(5):
            # Whoever loses tries again: here it is this one.
            with suppress(PySparkException):
                spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('of.test' = '{number}')")
        return "DELTA_METADATA_CHANGED" in pipelined.log()

    with Pipeline(config) as pipelined:
        pipelined.wait_for_batches(2)
        eventually(lambda: conflict(pipelined), "a conflict", within=240)
        pipelined.wait_for_batches(2)
        assert "; it is started again" in pipelined.log()
    check_history(config)
    check_none_is_lost(lake)


def check_none_is_lost(lake: Lake) -> None:
    headers = stored.rows_of(lake, bronze.METADATA_POLLS)
    kinds = {row["error_kind"] for row in headers if row["record"] == "poll"}
    assert not kinds & {"lost", "spool_full"}


def test_a_network_that_is_cut_is_a_gap(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Connections stay open, and nothing answers."""
    config = config_file(tmp_path, cluster, poll=POLLS)
    with Pipeline(config) as pipelined:
        pipelined.wait_for_batches(2)
        for node_id in cluster.nodes:
            cluster.pause(node_id)
        try:
            pipelined.wait_for_batches(4)
        finally:
            for node_id in cluster.nodes:
                cluster.resume(node_id)
        pipelined.wait_for_batches(4)
        shrink(cluster, pipelined)
    check_history(config)
    lake = load(str(config)).lake
    kinds = {
        row["error_kind"]
        for row in stored.rows_of(lake, bronze.METADATA_POLLS)
        if row["record"] == "poll"
    }
    assert kinds >= {None, "timeout"}
    assert [row for row in stored.rows_of(lake, silver.POLL_GAPS) if row["reason"] == "failed"]
