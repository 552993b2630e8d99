"""The table in docs/permissions.md of who writes to the lake: what it says suffices. A lake is
mounted so that nothing else can be written, whoever tries.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

import kafka_metadata_history as kmh
from jobs import pipeline, query, validate
from kafka_metadata_history.command import exit_status
from schemas.lake import Lake
from tests.support.documents import section

SECTION = section("permissions.md", "## On the lake")
WINDOW = {"since": "95 seconds", "until": "2026-11-01T12:01:40Z"}
CLUSTERS = {"prod": {"kafka.bootstrap.servers": "localhost:1"}}


def written_by(who: str) -> list[str]:
    """The folders of the lake that somebody writes to, as the table says it."""
    (row,) = (line.strip("| ").split(" | ") for line in SECTION.splitlines() if who in line)
    return [name.replace(".", "/") for name in re.findall(r"`([a-z]+\.[a-z]+)`", row[2])]


def mount(*arguments: object) -> None:
    done = subprocess.run(
        ["mount", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here, which takes root: {done.stderr.strip()}")


def detach(spark: SparkSession) -> None:
    """Take tables out of the catalog whose folders are to be there no more."""
    for schema in ("bronze", "silver", "gold", "quality", "internal"):
        spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


Readable = Callable[[list[str]], Path]


@pytest.fixture
def config_of(spark: SparkSession, incident_lake: Lake, tmp_path: Path) -> Iterator[Readable]:
    """Mounts a lake whose history is known, read-only but for these folders in it; returns a
    configuration of it.
    """
    kept, seen = tmp_path / "kept", tmp_path / "lake"
    seen.mkdir()
    shutil.copytree(str(incident_lake.root), kept)
    with ExitStack() as stack:

        def mounted(writable: list[str]) -> Path:
            for name in ("", *writable):
                (kept / name).mkdir(parents=True, exist_ok=True)
                mount("--bind", kept / name, seen / name)
                stack.callback(subprocess.run, ["umount", "--lazy", str(seen / name)], check=True)
                if not name:
                    mount("-o", "remount,bind,ro", seen)
            stack.callback(detach, spark)
            with pytest.raises(OSError, match="Read-only file system"):
                (seen / "bronze" / "anything").touch()
            file = tmp_path / "config.yaml"
            made = {
                "lake": str(seen),
                "clusters": CLUSTERS,
                "validation": {"docs": str(tmp_path / "docs")},
            }
            # A pipeline that may write its checkpoints has to say so of the lake.
            file.write_text(yaml.safe_dump(made | {"checkpoints": str(tmp_path / "checkpoints")}))
            return file

        yield mounted


@pytest.mark.parametrize(
    "ask",
    [exit_status, pytest.param(lambda argv: query.main(argv[1:]), marks=pytest.mark.soak)],
    ids=["DuckDB", "Spark"],
)
def test_who_only_asks_writes_nothing(
    config_of: Readable, ask: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert written_by("`jobs/query.py`") == []
    config = config_of([])
    window = [part for name, value in WINDOW.items() for part in (f"--{name}", value)]
    assert ask(["query", "timeline", "--config", str(config), *window]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 5


@pytest.mark.soak
def test_a_notebook_writes_nothing(spark: SparkSession, config_of: Readable) -> None:
    window = kmh.open(str(config_of([]))).window(**WINDOW)
    assert len(window.query("broker_incidents")) == 2


@pytest.mark.soak
def test_validation_writes_what_is_its_own(
    spark: SparkSession, config_of: Readable, capsys: pytest.CaptureFixture[str]
) -> None:
    writable = written_by("`jobs/validate.py`")
    assert writable
    config = config_of(writable)
    assert (
        validate.main(["--config", str(config)]) == validate.CRITICAL_FOUND
    )  # nobody has polled lately
    assert "polled_now" in capsys.readouterr().out
    assert (config.parent / "docs" / "index.html").is_file()


@pytest.mark.soak
@pytest.mark.parametrize("left_out", range(2))
def test_validation_says_where_it_may_not_write(
    spark: SparkSession, config_of: Readable, capsys: pytest.CaptureFixture[str], left_out: int
) -> None:
    writable = written_by("`jobs/validate.py`")
    del writable[left_out]
    assert validate.main(["--config", str(config_of(writable))]) == 1
    check_refusal(capsys.readouterr().err)


@pytest.mark.soak
def test_the_pipeline_says_where_it_may_not_write(
    spark: SparkSession, config_of: Readable, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pipeline.main(["--config", str(config_of([])), "--once"]) == 1
    check_refusal(capsys.readouterr().err)


def check_refusal(said: str) -> None:
    """One line that names the place."""
    assert re.search(r"/lake/(bronze|internal|quality)\b", said.splitlines()[-1]), said
