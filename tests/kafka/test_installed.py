"""The command as a user has it: installed by pipx from the wheel, in a folder and a home of its
own.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from local_cluster import LocalCluster
from tests.support.documents import commands
from tests.support.programs import Program
from tests.support.repository import ROOT
from tests.support.standalone import blocks, typed
from tests.support.strangers import strangers

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which pipx has installed the wheel, with the versions that constraints.txt pins."""
    home = tmp_path_factory.mktemp("home")
    (build,) = commands(r"uv build .*")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    typed(build.replace("--out-dir .", f"--out-dir {home}"), ROOT, {**os.environ, "PATH": path})
    (wheel,) = home.glob("*.whl")
    pinned = re.findall(
        r"^([\w.-]+==[^\s;]+)( ; .*?)? \\$", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
    (home / "pins.txt").write_text("".join(f"{pin}{marker}\n" for pin, marker in pinned))
    strangers(home / "strangers", ("jobs", "local_cluster", "metadata_source", "schemas"))
    install = [sys.executable, "-m", "pipx", "install", f"{wheel}[validation]"]
    subprocess.run(install, env=variables(home), check=True, timeout=1200)
    return home


def variables(home: Path) -> dict[str, str]:
    """Of a shell that knows nothing of the checkout, and of packages that have the names of its
    folders. pip takes the versions that are pinned.
    """
    own = ("PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV", "KAFKA_METADATA_HISTORY")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return plain | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PIP_CONSTRAINT": str(home / "pins.txt") if (home / "pins.txt").exists() else "",
        "PYTHONPATH": str(home / "strangers"),
        "PATH": f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin",
    }


@pytest.fixture
def command(home: Path, tmp_path: Path) -> Command:
    def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["kafka-metadata-history", *arguments],
            executable=home / "bin" / "kafka-metadata-history",
            cwd=tmp_path,
            env=variables(home),
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == status, (
            f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
        return done

    return run


def test_a_user_without_the_checkout(
    command: Command, cluster: LocalCluster, home: Path, tmp_path: Path
) -> None:
    assert "version" in command("--version").stdout
    command("query", "timeline", status=1)  # no configuration yet
    servers = cluster.bootstrap_servers
    command("init", "--alias", "orders", "--bootstrap", servers, "--lake", "lake")
    configuration = tmp_path / "kafka-metadata-history.yaml"
    # The one poll is good enough for status and validate until all is done, however long it takes.
    seldom = configuration.read_text().replace("pollInterval: 30s", "pollInterval: 1h")
    configuration.write_text(seldom)
    assert command("check").stdout.startswith("orders: polled in ")
    command("query", "timeline", status=1)  # no lake yet
    command("run", "--once")
    assert (tmp_path / "lake" / "silver").is_dir()
    assert {each.name for each in tmp_path.iterdir()} == {"lake", "kafka-metadata-history.yaml"}
    assert list((home / "cache").rglob("delta-storage-*.jar")), "fetched once, for every folder"
    health = command("query", "health", "--format", "json")
    (row,) = map(json.loads, health.stdout.splitlines())
    assert (row["cluster"], row["failed_polls"]) == ("orders", 0)
    assert row["status"] == "ok"
    assert "1 row, by DuckDB" in health.stderr
    assert json.loads(command("status", "--format", "json").stdout)["crossed"] == []
    command("maintain")
    command("status")
    assert "rule" in command("validate").stdout
    (tmp_path / "elsewhere.yaml").write_text(seldom.replace("lake: lake", "lake: other"))
    for line in commands(r"kafka-metadata-history (?:export|import) .* ?/backup/kafka"):
        command(*shlex.split(line.replace("/backup", str(tmp_path / "backup")))[1:])
    copied = command(
        "query",
        "SELECT count(*) AS n FROM silver.brokers_now",
        "--config",
        "elsewhere.yaml",
        "--format",
        "csv",
    )
    assert copied.stdout.split() == ["n", "3"]


def test_the_documented_lines_install_it_in_a_fresh_folder(home: Path, tmp_path: Path) -> None:
    (wheel,) = home.glob("*.whl")
    for file in (wheel, ROOT / "constraints.txt", ROOT / "constraints-build.txt"):
        shutil.copy(file, tmp_path)
    venv.create(tmp_path / "venv", with_pip=True)
    bin_ = tmp_path / "venv" / "bin"
    path = f"{bin_}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {
        "PATH": path,
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
    }

    def typed(line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=variables(home) | own,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    version = wheel.name.split("-")[1]
    lines = commands(r"(?:uv )?pipx? (?:install|run) .*")
    assert len(lines) == 5
    for line in lines:
        assert f"/{wheel.name}" in line
        said = typed(line)
        assert f"version {version}\n" in said or " run " not in line
    for place in (bin_, tmp_path / "bin"):
        assert f"version {version}\n" in typed(f"{place}/kafka-metadata-history --version")
    assert "kafka-metadata-history mcp" in typed(f"{bin_}/kafka-metadata-history mcp --help")
    typed(
        f"{bin_}/python -c 'import kafka_metadata_history as it; it.open, it.attach, it.register'"
    )


def test_an_environment_for_a_cluster_is_packed_of_what_pipx_has_installed(
    command: Command, tmp_path: Path
) -> None:
    """By the lines of docs/spark-clusters.md; nothing of the environment of the tests is in it."""
    (pack,), (unpack, _), _ = blocks()
    said = command(*shlex.split(pack)[1:]).stderr
    assert ", extras validation; " in said
    typed(unpack, tmp_path, variables(tmp_path))
    unpacked = tmp_path / "environment"
    (script,) = unpacked.glob("lib/python3.*/site-packages/kafka_metadata_history/jobs/pipeline.py")

    def said_by(*arguments: object) -> str:
        asked = [str(unpacked / "bin" / "python"), *map(str, arguments)]
        done = subprocess.run(
            asked,
            cwd=tmp_path,
            env=variables(tmp_path),
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"{asked}\n{done.stderr[-2000:]}"
        return done.stdout

    assert "--config" in said_by(script, "--help")
    assert "--config" in said_by(script.with_name("validate.py"), "--help")
    versions = tmp_path / "versions.py"  # PySpark takes whatever -c does for its own doctests
    versions.write_text("import great_expectations, pyspark; print(pyspark.__version__)")
    assert said_by(versions) == f"{pyspark.__version__}\n"
    command(*shlex.split(pack)[1:], status=1)  # it is there already


def test_the_demo(command: Command, tmp_path: Path) -> None:
    """Kafka's jars are fetched into the user's cache, and nothing but the folder of the demo is
    left.
    """
    printed = command("demo", "--folder", "played").stdout
    # The commands to try next name where the command is: here in a folder of a long name.
    assert (
        max(len(line) for line in printed.splitlines() if "/bin/kafka-metadata-history" not in line)
        <= 120
    )
    asked = re.findall(
        r"^\$ \S*kafka-metadata-history (\w+ ?\w*) --config played/demo.yaml", printed, re.MULTILINE
    )
    assert asked == [
        "query overview",
        "query broker_incidents",
        "query rebalances",
        "query rebalance_cost",
        "report",
    ]
    assert re.search(r" isr_left +\d +60 +accounts-0 ", printed), "one of the user's topics"
    assert [each.name for each in tmp_path.iterdir()] == ["played"]
    assert (tmp_path / "played" / "incident.html").stat().st_size < 5_000_000
    further = re.findall(r"^  \S*kafka-metadata-history (query .*)", printed, re.MULTILINE)
    assert len(further) == 3
    for line in further:
        command(*shlex.split(line))


def _has_no_trace(said: str) -> bool:
    """PySpark's own server of accumulators may be in the middle of a message of the JVM that
    ended.
    """
    return said.count("Traceback") == said.count("Exception occurred during processing of request")


@pytest.fixture
def recorder(
    command: Command, cluster: LocalCluster, home: Path, tmp_path: Path
) -> Iterator[Program]:
    """One that has committed a batch of polls."""
    command("init", "--alias", "orders", "--bootstrap", cluster.bootstrap_servers, "--lake", "lake")
    run = [home / "bin" / "kafka-metadata-history", "run"]
    with Program(run, tmp_path / "log", folder=tmp_path, variables=variables(home)) as recorder:
        commits = tmp_path / "lake" / "checkpoints" / "poll_metadata" / "commits"
        recorder.until(lambda: list(commits.glob("[0-9]*")), "a batch")
        yield recorder


def test_a_recorder_whose_jvm_is_killed_says_so_in_one_line(recorder: Program) -> None:
    (jvm,) = (each for each in psutil.Process(recorder.pid).children() if "java" in each.name())
    jvm.kill()
    assert recorder.wait() == 1
    assert "pipeline: Spark's JVM has ended" in recorder.log().splitlines()[-1]
    assert _has_no_trace(recorder.log())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_recorder(
    command: Command, recorder: Program, number: signal.Signals
) -> None:
    """With the status that shells give it. A terminal, or systemd, sends it to the JVM too."""
    assert recorder.end(number) == 128 + number, recorder.log()[-3000:]
    assert " recording 1 cluster(s) into " in recorder.log()
    assert _has_no_trace(recorder.log())
    assert "Setting" not in recorder.log(), "Spark says how to set what cannot be set here"
    command("query", "health")
