"""A lake in Hive's metastore, as users run it: a round, questions, upkeep, rights, and a metastore
that is gone for a minute.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from local_cluster import LocalCluster
from tests.support.lake_checks import check_lake, check_polls
from tests.support.metastore import BY_STORAGE, Metastore
from tests.support.pipelines import Pipeline, config_file, environment

pytestmark = pytest.mark.soak
GONE_S = 60
COMMAND = (sys.executable, "-m", "kafka_metadata_history")
OWN = {key: value for key, value in environment().items() if not key.startswith("PYSPARK_")}
"""Variables of a shell of a user, whose Spark is not that of the tests."""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with Metastore(tmp_path_factory.mktemp("metastore"), BY_STORAGE) as started:
        yield started


@pytest.fixture(scope="module")
def config(
    metastore: Metastore, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A configuration whose lake is in the metastore; two rounds were made."""
    folder = tmp_path_factory.mktemp("of-catalog")
    file = config_file(
        folder,
        cluster,
        poll={"commitInterval": "2s"},
        lake={"catalog": "spark_catalog"},
        checkpoints=str(folder / "checkpoints"),
        spark={"settings": metastore.spark_settings},
    )
    for _ in range(2):
        answered(file, "run", "--once")
    return file


def ran(config: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended."""
    return subprocess.run(
        [*COMMAND, *arguments, "--config", str(config)],
        env=OWN | variables,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def answered(config: Path, *arguments: str, **variables: str) -> str:
    """The output of a command, which must end well."""
    done = ran(config, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    assert "\tat " not in done.stderr, done.stderr
    return done.stdout


def files_of(metastore: Metastore) -> list[tuple[Path, int]]:
    """The files of all tables, and when they were written."""
    return sorted((file, file.stat().st_mtime_ns) for file in metastore.warehouse.rglob("*"))


def test_every_command_works(config: Path, metastore: Metastore, tmp_path: Path) -> None:
    for name in ("overview", "timeline", "health", "SELECT * FROM silver.topics_now"):
        answered(config, "query", name, "--format", "json")
    assert ran(config, "status").returncode in {0, 3}
    answered(config, "report", "--out", str(tmp_path / "report.html"))
    answered(config, "mark", "tried")
    answered(config, "maintain")
    assert ran(config, "validate").returncode in {0, 3}
    assert "nothing to do" in answered(config, "upgrade")
    lake = metastore.as_folders(tmp_path / "lake")
    check_polls(lake)
    check_lake(lake)


def test_whoever_only_reads_writes_nothing(config: Path, metastore: Metastore) -> None:
    before = files_of(metastore)
    reader = {"HADOOP_USER_NAME": "reader"}
    assert answered(config, "query", "SELECT * FROM silver.topics_now", **reader)
    answered(config, "query", "timeline", **reader)
    assert ran(config, "status", **reader).returncode in {0, 3}
    assert files_of(metastore) == before


def test_nothing_is_lost_while_the_metastore_is_gone(
    config: Path, metastore: Metastore, tmp_path: Path
) -> None:
    pipelined = Pipeline(config, by=[*COMMAND, "run", "--config", str(config)], variables=OWN)
    with pipelined:
        pipelined.wait_for_batches(2)
        metastore.end(SIGKILL)
        back_at = time.monotonic() + GONE_S
        done = ran(config, "query", "overview")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert "metastore" in done.stderr
        pipelined.until(lambda: time.monotonic() > back_at, "a minute")
        metastore.start()
        pipelined.until(lambda: "works again" in pipelined.log(), "history")
        pipelined.wait_for_batches(2)
        assert pipelined.end(SIGTERM) == 143
    log = pipelined.log()
    assert "failed and is tried again: " in log
    assert "\tat " not in log
    assert os.linesep.join(log.splitlines()).count("Exception") < 10, log
    answered(config, "run", "--once")
    lake = metastore.as_folders(tmp_path / "lake")
    check_polls(lake)
    check_lake(lake)
