"""The examples of deploy/ are taken by what reads them: configurations, commands, systemd, cron,
shells and Airflow, with stand-ins where these are enough. `tools/check_deploy.py` reads files.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import click
import pytest
import yaml

from jobs.configuration.config import load
from jobs.run.cli import parser_of
from kafka_metadata_history.command import NAME, app
from tests.support.repository import ROOT
from tests.support.waiting import eventually
from tools import check_deploy

DEPLOY = ROOT / "deploy"
SERVICES = sorted((DEPLOY / "systemd").glob("*.service"))
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
CONFIG = f"/etc/{NAME}/{NAME}.yaml"
SCRIPT = DEPLOY / "prometheus" / "status-textfile.sh"


def document(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


# --- the checker ---


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (
            f"systemd/{NAME}.service",
            "ProtectHome=yes",
            "ProtectHome=no",
            "no line is ProtectHome=yes",
        ),
        (
            f"systemd/{NAME}.service",
            "# Java has",
            "# https://x/ Java has",
            "'# https://x/ Java has",
        ),
        ("systemd/secrets.env", "PASSWORD=\n", "PASSWORD=hunter2\n", "is a secret"),
        ("kubernetes/configmap.yaml", "env:KAFKA_PAY", "hunter", "kafka.sasl.password is a secret"),
        ("kubernetes/configmap.yaml", "env:KAFKA_", "env:", "kafka.sasl.password is a secret"),
        ("kubernetes/status-cronjob.yaml", "image: ", "image: quay.io/", "is not allowed"),
        ("docker/Dockerfile", "COPY constraints-build.txt", "COPY . ", "is not allowed"),
        ("kubernetes/spark-application.yaml", "authenticate: ", "auth: ", "ask who connects"),
        ("kubernetes/deployment.yaml", "Recreate", "RollingUpdate", "no line is type: Recreate"),
        ("README.md", "- **The command** is", f"`{NAME} walk`", "there is no command walk"),
    ],
)
def test_faults_of_a_file_are_found(name: str, old: str, new: str, fault: str) -> None:
    text = (DEPLOY / name).read_text()
    assert list(check_deploy.faults(name, text)) == []
    changed = text.replace(old, new)
    assert changed != text
    assert [each for each in check_deploy.faults(name, changed) if fault in each]


def test_what_is_installed_without_a_checksum_is_found() -> None:
    text = (ROOT / "Makefile").read_text()
    assert list(check_deploy.installs(text)) == []
    for taken in ("--require-hashes ", "--no-index ", "--only-binary :all: "):
        assert list(check_deploy.installs(text.replace(taken, "")))


# --- commands ---


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each use of the command: the file, and what follows its name. Lines of shells, then lists of
    arguments.
    """
    for path in sorted(DEPLOY.rglob("*")):
        if path.suffix in {"", ".service", ".sh", ".py"} and path.is_file():
            text = re.sub(r"(?m)^\s*#.*$", "", path.read_text())
            text = text.replace("\\\n", " ").replace("{CONFIG}", CONFIG)
            pattern = rf"\b{NAME} ((?:{'|'.join(app.commands)})\b.*?)[ \"',]*(?:[;|)]|\d?>|$)"
            for found in re.findall(pattern, text, re.MULTILINE):
                yield path.name, shlex.split(found)
    pod = document("kubernetes/status-cronjob.yaml")["spec"]["jobTemplate"]["spec"]["template"]
    yield "status-cronjob.yaml", pod["spec"]["containers"][0]["args"]
    (deployment,) = (
        each
        for each in yaml.safe_load_all((DEPLOY / "kubernetes/deployment.yaml").read_text())
        if each["kind"] == "Deployment"
    )
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        yield "deployment.yaml", container["args"]
    bundle = document("databricks/resources/kafka_metadata_history.yml")["resources"]
    (job,) = bundle["jobs"].values()
    yield "kafka_metadata_history.yml", job["tasks"][0]["python_wheel_task"]["parameters"]
    (command,) = re.findall(r"(?m)^CMD (.*)$", (DEPLOY / "docker/Dockerfile").read_text())
    yield "Dockerfile", json.loads(command)


def test_commands_have_options_that_exist() -> None:
    used: dict[str, list[str]] = {}
    for file, (command, *arguments) in commands():
        app.commands[command].make_context(command, arguments)
        used.setdefault(file, []).append(command)
    assert used == {
        "kafka-metadata-history": ["run", "validate"],
        "kafka_history_dags.py": ["run", "validate"],
        "kafka-metadata-history.service": ["run"],
        "kafka-metadata-history-once.service": ["run"],
        "kafka-metadata-history-validate.service": ["validate"],
        "kafka-metadata-history-notify.service": ["notify"],
        "status-textfile.sh": ["status"],
        "status-cronjob.yaml": ["status"],
        "deployment.yaml": ["run", "serve"],
        "kafka-metadata-history-serve.service": ["serve"],
        "kafka_metadata_history.yml": ["run"],
        "Dockerfile": ["run"],
    }
    with pytest.raises(click.UsageError):
        app.commands["run"].make_context("run", ["--forever"])


def test_the_spark_application_starts_a_job_of_the_image() -> None:
    spec = document("kubernetes/spark-application.yaml")["spec"]
    packages = re.findall(r"SPARK_HOME=(\S+)/pyspark", (DEPLOY / "docker/Dockerfile").read_text())
    assert [spec["mainApplicationFile"]] == [
        f"local://{each}/kafka_metadata_history/jobs/pipeline.py" for each in packages
    ]
    assert (ROOT / "jobs" / "pipeline.py").exists()
    assert parser_of("pipeline", None, "").parse_args(spec["arguments"]).config == CONFIG
    (config,) = spec["driver"]["configMaps"]
    assert f"{config['path']}/{next(iter(document('kubernetes/configmap.yaml')['data']))}" == CONFIG


# --- configurations ---


CONFIGURATIONS = {
    "kubernetes": document("kubernetes/configmap.yaml")["data"][Path(CONFIG).name],
    "databricks": (DEPLOY / f"databricks/{NAME}.yaml").read_text(),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_load(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIGURATIONS[name])
    config = load(str(file))
    assert set(config.clusters) == {"orders", "payments"}
    assert str(config.lake) == {"kubernetes": "/lake", "databricks": "catalog kafka_history"}[name]
    # A volume may have files of its own, and a spool is a folder that has none.
    assert config.spool.startswith({"kubernetes": "/spool/", "databricks": "/local_disk0/"}[name])
    if name == "databricks":
        bundle = document("databricks/resources/kafka_metadata_history.yml")["resources"]
        (schema,), (volume,) = bundle["schemas"].values(), bundle["volumes"].values()
        catalog = document("databricks/databricks.yml")["variables"]["catalog"]["default"]
        assert config.lake.catalog == catalog
        of_checkpoints = f"/Volumes/{catalog}/{schema['name']}/{volume['name']}/"
        assert config.checkpoints.startswith(of_checkpoints)


# --- systemd ---


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)


def analyzed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units, with a program in place of those that are not installed here."""
    stand_in = program(tmp_path / "stand-in", "")
    for path in (*SERVICES, *TIMERS):
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={stand_in}", path.read_text())
        (tmp_path / path.name).write_text(text)
    return [tmp_path / path.name for path in (*SERVICES, *TIMERS)]


@needs_systemd
def test_systemd_takes_the_units(units: list[Path]) -> None:
    done = analyzed("verify", "--man=no", *units)
    assert (done.returncode, done.stderr) == (0, ""), (
        "it warns of what it does not know, and exits 0"
    )
    units[0].write_text(units[0].read_text().replace("MemoryMax", "MemoryMaximum"))
    assert "MemoryMaximum" in analyzed("verify", "--man=no", units[0]).stderr


@needs_systemd
def test_systemd_finds_the_services_little_exposed(units: list[Path]) -> None:
    version = re.search(r"systemd (\d+)", analyzed("--version").stdout)
    if version is None or int(version[1]) < 250:
        pytest.skip("needs systemd 250: older ones judge units of a running system only")
    for path in units[: len(SERVICES)]:
        done = analyzed("security", "--offline=yes", "--no-pager", "--threshold=25", path)
        assert done.returncode == 0, done.stdout
        found = re.search(r"exposure level for \S+: (\d+\.\d+)", done.stdout)
        assert found is not None
        assert float(found[1]) <= 2.5


@needs_systemd
def test_systemd_knows_when_timers_elapse() -> None:
    for path in TIMERS:
        done = analyzed(
            "calendar", "--iterations=2", *re.findall(r"(?m)^OnCalendar=(.*)$", path.read_text())
        )
        assert done.returncode == 0, done.stderr
        assert "Next elapse" in done.stdout


def entries(name: str) -> list[str]:
    return [
        line
        for line in (DEPLOY / name).read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]


# --- a stand-in for the command ---


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stand_in(tmp_path: Path) -> Shell:
    """A shell in which the command writes down how it was called, prints `says`, and exits with
    `status`.
    """
    program(
        tmp_path / "bin" / NAME,
        (
            f'echo "$@" >> {tmp_path}/calls; ls {tmp_path}/textfile >> {tmp_path}/seen; printf %s '
            '"$SAYS"; exit $STATUS'
        ),
    )
    program(tmp_path / "bin" / "logger", f"cat >> {tmp_path}/logged")
    (tmp_path / "textfile").mkdir()
    (tmp_path / "calls").touch()

    def shell(
        line: str, status: int = 0, says: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "STATUS": str(status),
            "SAYS": says,
            **more,
        }
        return subprocess.run(
            ["/bin/sh", "-c", line],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return shell


@pytest.mark.parametrize(
    ("status", "says", "ends", "kept"),
    [
        (0, "new 1\n", 0, "new 1\n"),
        (3, "new 1\n", 0, "new 1\n"),
        (1, "", 1, "old 1\n"),
        (1, "half", 1, "old 1\n"),
        (0, "", 1, "old 1\n"),
        (143, "half", 143, "old 1\n"),
    ],
)
def test_the_status_is_a_whole_file_or_the_one_before(
    tmp_path: Path, stand_in: Shell, *, status: int, says: str, ends: int, kept: str
) -> None:
    file = tmp_path / "textfile" / "history.prom"
    file.write_text("old 1\n")
    done = stand_in(f"umask 077; exec {SCRIPT} {CONFIG} {file}", status, says)
    assert done.returncode == ends, done.stderr
    assert file.read_text() == kept
    assert [path.name for path in file.parent.iterdir()] == ["history.prom"], (
        "nothing is left beside it"
    )
    assert (tmp_path / "calls").read_text() == f"status --config {CONFIG} --format prometheus\n"
    (beside,) = set((tmp_path / "seen").read_text().split()) - {"history.prom"}
    assert not beside.endswith(".prom"), "the collector would read it"
    if kept == says:
        assert file.stat().st_mode & 0o777 == 0o644, "node_exporter reads it"


# --- cron ---


def crontab() -> tuple[dict[str, str], list[tuple[list[str], str, str]]]:
    """The variables, and the lines: five fields, the user, the command."""
    variables, lines = {}, []
    for line in entries(f"cron/{NAME}"):
        if match := re.fullmatch(r"([A-Z_]+)=(.*)", line):
            assert not lines, "variables hold for the lines below them"
            variables[match[1]] = match[2]
        else:
            *fields, user, command = line.split(None, 6)
            lines.append((fields, user, command))
    return variables, lines


def test_lines_of_the_crontab_are_what_cron_takes() -> None:
    variables, lines = crontab()
    assert variables["KAFKA_METADATA_HISTORY_CONFIG"] == CONFIG
    assert variables["PATH"].startswith(f"/opt/{NAME}/bin:")
    assert not any("$" in value for value in variables.values()), "cron replaces nothing in them"
    for fields, user, command in lines:
        assert all(re.fullmatch(r"(?:\*|\d+(?:-\d+)?)(?:/\d+)?", each) for each in fields)
        assert user == NAME
        assert "%" not in command, "cron would make it a line break"


def test_lines_of_the_crontab_run(tmp_path: Path, stand_in: Shell) -> None:
    (run, validate, status) = (command for _, _, command in crontab()[1])
    here = {"LOCK": f"{tmp_path}/lock", "PROM": f"{tmp_path}/textfile/history.prom"}
    here |= {"KAFKA_METADATA_HISTORY_CONFIG": CONFIG}
    if shutil.which("flock") is not None:
        assert stand_in(run, says="INFO polled\n", **here).stdout == ""
        assert (tmp_path / "logged").read_text() == "INFO polled\n"
    well, critical = (
        stand_in(validate, says="rules", **here),
        stand_in(validate, 3, "rules broken", **here),
    )
    assert (well.stdout, critical.stdout) == ("", "rules broken\n"), "cron mails what is printed"
    assert stand_in(status.replace("$STATUS", str(SCRIPT)), 3, "new 1\n", **here).returncode == 0
    assert Path(here["PROM"]).read_text() == "new 1\n"
    ran = (tmp_path / "calls").read_text().splitlines()
    assert ran[-3:] == ["validate", "validate", f"status --config {CONFIG} --format prometheus"]


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock (util-linux)")
def test_a_run_that_has_not_ended_keeps_the_next_from_starting(
    tmp_path: Path, stand_in: Shell
) -> None:
    (_, _, run), *_ = crontab()[1]
    lock, held = tmp_path / "lock", tmp_path / "held"
    holder = subprocess.Popen(
        ["flock", lock, "sh", "-c", f"touch {held}; cat"], stdin=subprocess.PIPE
    )
    try:
        eventually(held.exists, "the lock")
        assert stand_in(run, LOCK=str(lock)).returncode == 0
        assert (tmp_path / "calls").read_text() == ""
    finally:
        holder.communicate()
    assert stand_in(run, LOCK=str(lock)).returncode == 0
    assert (tmp_path / "calls").read_text() == "run --once\n"


# --- Airflow ---


class Dag:
    """A stand-in that records."""

    made: list["Dag"] = []  # noqa: RUF012 - of each test its own

    def __init__(self, dag_id: str, **arguments: Any) -> None:
        self.dag_id, self.arguments, self.tasks = dag_id, arguments, {}

    def __enter__(self) -> Self:
        Dag.made.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Bash:
    """A stand-in that records, with the arguments of Airflow's own."""

    def __init__(
        self,
        *,
        task_id: str,
        bash_command: str,
        retries: int,
        env: dict[str, str] | None = None,
        append_env: bool = False,
        do_xcom_push: bool = True,
        retry_delay: timedelta = timedelta(minutes=5),
        execution_timeout: timedelta | None = None,
    ) -> None:
        self.command, self.retries, self.env, self.pushes = (
            bash_command,
            retries,
            env or {},
            do_xcom_push,
        )
        self.inherits, self.execution_timeout, self.after = (
            append_env or env is None,
            execution_timeout,
            [],
        )
        Dag.made[-1].tasks[task_id] = self

    def __rshift__(self, other: "Bash") -> "Bash":
        self.after.append(other)
        return other


@pytest.fixture(params=[2, 3])
def dags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Dag]:
    """The DAGs, as a version of Airflow finds them."""
    modules = {
        2: {
            "airflow": {"DAG": Dag},
            "airflow.operators": {},
            "airflow.operators.bash": {"BashOperator": Bash},
        },
        3: {
            "airflow": {},
            "airflow.sdk": {"DAG": Dag},
            "airflow.providers": {},
            "airflow.providers.standard": {},
            "airflow.providers.standard.operators": {},
            "airflow.providers.standard.operators.bash": {"BashOperator": Bash},
        },
    }[request.param]
    for name in [name for name in sys.modules if name.partition(".")[0] == "airflow"]:
        monkeypatch.delitem(sys.modules, name)
    for name, content in modules.items():
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Dag, "made", [])
    runpy.run_path(str(DEPLOY / "airflow" / "kafka_history_dags.py"))
    return {each.dag_id: each for each in Dag.made}


def test_dags_run_one_at_a_time_and_make_up_for_nothing(dags: dict[str, Dag]) -> None:
    schedules = {name: dag.arguments["schedule"] for name, dag in dags.items()}
    assert schedules == {
        "kafka_metadata_history": "*/5 * * * *",
        "kafka_metadata_history_validate": "17 * * * *",
    }
    for dag in dags.values():
        assert (dag.arguments["max_active_runs"], dag.arguments["catchup"]) == (1, False)
        assert datetime(2020, 1, 1, tzinfo=UTC) < dag.arguments["start_date"] < datetime.now(UTC)


def test_a_poll_is_not_tried_again(dags: dict[str, Dag], tmp_path: Path, stand_in: Shell) -> None:
    (task,) = dags["kafka_metadata_history"].tasks.values()
    assert (task.retries, task.execution_timeout) == (0, timedelta(minutes=15))
    assert [stand_in(task.command, status).returncode for status in (0, 1)] == [0, 1]
    assert (tmp_path / "calls").read_text() == f"run --once --config {CONFIG}\n" * 2


@pytest.mark.parametrize(
    ("status", "ends", "verdict"),
    [(0, 0, 0), (3, 0, 1), (1, 1, None), (2, 2, None), (143, 143, None)],
)
def test_what_was_found_fails_once_and_what_failed_is_tried_again(
    dags: dict[str, Dag], stand_in: Shell, status: int, ends: int, verdict: int | None
) -> None:
    tasks = dags["kafka_metadata_history_validate"].tasks
    first, then = tasks["validate"], tasks["verdict"]
    assert (first.retries, first.pushes, first.after, then.retries) == (2, True, [then], 0)
    assert then.inherits
    assert then.env == {"FOUND": "{{ ti.xcom_pull(task_ids='validate') }}"}
    done = stand_in(first.command, status, "rule  of\nmany rows\n")
    assert done.returncode == ends
    if verdict is not None:
        last = done.stdout.splitlines()[-1]
        assert stand_in(then.command, FOUND=last).returncode == verdict
