"""A lake in Hive's metastore, as users run it: a round, questions, upkeep, rights, and a metastore
that is gone for a minute.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from local_cluster import LocalCluster
from tests.support.lake_checks import check_lake, check_polls
from tests.support.metastore import BY_STORAGE, Metastore
from tests.support.pipelines import Pipeline, config_file, environment

# Making all tables in a metastore, and a report through Spark, take minutes on a busy machine.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
GONE_S = 60
COMMAND = (sys.executable, "-m", "kafka_metadata_history")
EACH = """
import json, sys
from kafka_metadata_history.command import exit_status
print(json.dumps([exit_status(each) for each in json.loads(sys.argv[1])]))
"""
CROSSED = {"status": {0, 3}, "validate": {0, 3}}
"""Exit statuses of commands that may find something."""
OWN = {key: value for key, value in environment().items() if not key.startswith("PYSPARK_")}
"""Variables of a shell of a user, whose Spark is not that of the tests."""
READER = {"HADOOP_USER_NAME": "reader"}
"""Whom the metastore takes for somebody who may read its folders, and write none."""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    with Metastore(tmp_path_factory.mktemp("metastore"), BY_STORAGE) as started:
        yield started


@pytest.fixture(scope="module")
def without_lake(
    metastore: Metastore, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A configuration whose lake is to be in the metastore."""
    folder = tmp_path_factory.mktemp("of-catalog")
    return config_file(
        folder,
        cluster,
        poll={"commitInterval": "2s"},
        lake={"catalog": "spark_catalog"},
        checkpoints=str(folder / "checkpoints"),
        spark={"settings": metastore.spark_settings},
    )


@pytest.fixture(scope="module")
def config(without_lake: Path) -> Path:
    """The same, after a round."""
    answered(without_lake, ("run", "--once"))
    return without_lake


def run(
    config: Path, *commands: Sequence[str], by: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Commands that have ended: one after the other in a process, which starts Spark once. `by`:
    another command, which starts that process.
    """
    given = json.dumps([[*command, "--config", str(config)] for command in commands])
    return subprocess.run(
        [*by, sys.executable, "-c", EACH, given],
        env=OWN | variables,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def answered(
    config: Path, *commands: Sequence[str], by: Sequence[str] = (), **variables: str
) -> str:
    """The output of commands, each of which must end well. Those of CROSSED may find something."""
    done = run(config, *commands, by=by, **variables)
    assert "\tat " not in done.stderr, done.stderr
    *output, statuses = done.stdout.splitlines() or [""]
    for (name, *_), status in zip(commands, json.loads(statuses or "[]"), strict=True):
        assert status in CROSSED.get(name, {0}), (name, done.stderr)
    return "\n".join(output)


def refused(config: Path, *command: str, by: Sequence[str] = (), **variables: str) -> str:
    """The one line with which a command ends, beside that of Java about its own modules."""
    done = run(config, command, by=by, **variables)
    lines = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert (done.stdout, len(lines)) == ("[1]\n", 1), done.stderr
    return lines[0]


def files_of(metastore: Metastore) -> list[tuple[Path, int]]:
    """The files of all tables, and when they were written."""
    return sorted((file, file.stat().st_mtime_ns) for file in metastore.warehouse.rglob("*"))


def where_nothing_is_written(folder: Path) -> Sequence[str]:
    """The beginning of a command that finds a folder read-only, whoever runs it. Skips the test
    where that is not allowed.
    """
    mounts = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    by = ("unshare", "--mount", "sh", "-c", mounts, str(folder))
    tried = subprocess.run([*by, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here, which takes root: {tried.stderr.strip()}")
    return by


def test_whoever_may_not_write_the_warehouse_makes_no_lake(
    without_lake: Path, metastore: Metastore
) -> None:
    line = refused(without_lake, "run", "--once", **READER)
    assert "cannot be made in catalog spark_catalog" in line
    assert "reader" in line
    assert not files_of(metastore)


def test_every_command_works(config: Path, metastore: Metastore, tmp_path: Path) -> None:
    output = answered(
        config,
        ("query", "overview"),
        ("query", "health"),
        ("status",),
        ("report", "--out", str(tmp_path / "report.html")),
        ("mark", "tried"),
        ("maintain",),
        ("validate",),
        ("upgrade",),
    )
    assert "nothing to do" in output
    assert (tmp_path / "report.html").exists()
    lake = metastore.as_folders(tmp_path / "lake")
    check_polls(lake)
    check_lake(lake)


def test_whoever_only_reads_writes_nothing(config: Path, metastore: Metastore) -> None:
    before = files_of(metastore)
    own = ("query", "SELECT * FROM silver.topics_now")
    answered(config, own, ("query", "timeline"), ("status",), **READER)
    assert files_of(metastore) == before


def test_whoever_may_not_write_the_files_asks_and_marks_nothing(
    config: Path, metastore: Metastore
) -> None:
    by = where_nothing_is_written(metastore.warehouse)
    before = files_of(metastore)
    answered(config, ("query", "overview"), by=by, **READER)
    line = refused(config, "mark", "not allowed", by=by, **READER)
    assert "gold.marks" in line
    assert files_of(metastore) == before


def test_nothing_is_lost_while_the_metastore_is_gone(
    config: Path, metastore: Metastore, tmp_path: Path
) -> None:
    pipelined = Pipeline(config, by=[*COMMAND, "run", "--config", str(config)], variables=OWN)
    with pipelined:
        pipelined.wait_for_batches(2)
        metastore.end(SIGKILL)
        back_at = time.monotonic() + GONE_S
        assert "Hive's metastore does not answer" in refused(config, "query", "overview")
        pipelined.until(lambda: time.monotonic() > back_at, "a minute")
        metastore.start()
        pipelined.until(lambda: "works again" in pipelined.log(), "history")
        pipelined.wait_for_batches(2)
        assert pipelined.end(SIGTERM) == 143
    log = pipelined.log()
    assert "failed and is tried again: " in log
    assert "\tat " not in log
    assert sum("Exception" in line for line in log.splitlines()) < 10, log
    answered(config, ("run", "--once"))
    lake = metastore.as_folders(tmp_path / "lake")
    check_polls(lake)
    check_lake(lake)
