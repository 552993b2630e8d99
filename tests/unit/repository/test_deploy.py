"""The examples of deploy/: parsed, held against the code, and run where stand-ins for other
programs are enough.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.config import load
from jobs.configuration.histories import DECLARED
from jobs.configuration.limits import Limits
from jobs.run.cli import parser_of
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.status import (
    Cluster,
    ClusterLog,
    LakeStatus,
    Log,
    PollCounts,
    Size,
    Waiting,
)
from kafka_metadata_history.answers.status_text import PREFIX, as_prometheus
from kafka_metadata_history.answers.thresholds import OF_CLUSTER, OF_LAKE, judge
from kafka_metadata_history.command import NAME, app
from metadata_source.references import DEFAULT_FOLDERS, DEFAULT_PREFIXES
from tests.support.repository import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(
    path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts
)
YAML = [path for path in FILES if path.suffix in {".yaml", ".yml"}]
SERVICES = sorted((DEPLOY / "systemd").glob("*.service"))
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLED = f"/opt/{NAME}"
CONFIG = f"/etc/{NAME}/{NAME}.yaml"
SCRIPT = DEPLOY / "prometheus" / "status-textfile.sh"

OPTIONS = {
    "run": {"--once": False, "--config": True},
    "validate": {"--config": True},
    "maintain": {"--config": True},
    "check": {"--config": True},
    "query": {"--config": True},
    "status": {"--config": True, "--format": True},
}
"""Command -> its options, and whether they have a value."""


def named(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(DEPLOY)))


def documents(path: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def document(name: str) -> Any:
    (only,) = documents(DEPLOY / name)
    return only


def test_every_file_is_in_the_readme() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (DEPLOY / "README.md").read_text())
    assert [link for link in links if not (DEPLOY / link).exists()] == []
    listed = {(DEPLOY / link).resolve() for link in links}
    left = [path for path in FILES if not listed & {path, *path.parents}]
    assert left == [DEPLOY / "README.md"]


@named(FILES)
def test_lines_are_short(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


# --- commands ---


def check_command(line: list[str]) -> None:
    """Raise unless a command line is one that the command takes."""
    command, *arguments = line
    known, left = OPTIONS[command], arguments.copy()
    while left:
        option = left.pop(0)
        assert option in known, f"{command} {option}"
        if known[option]:
            assert not left.pop(0).startswith("-")
    if command in app.commands:
        app.commands[command].make_context(command, arguments.copy())


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each use of the command: the file, and what follows its name. Lines of shells, then lists of
    arguments.
    """
    for path in FILES:
        if path.suffix in {".json", ".yaml", ".yml", ".md"} or path.name == "Dockerfile":
            continue
        text = (
            re.sub(r"(?m)^\s*#.*$", "", path.read_text())
            .replace("\\\n", " ")
            .replace("{CONFIG}", CONFIG)
        )
        for found in re.findall(
            rf"\b{NAME} ((?:{'|'.join(OPTIONS)})\b.*?)[ \"',]*(?:[;|)]|\d?>|$)", text, re.MULTILINE
        ):
            yield path.name, shlex.split(found)
    (container,) = cron_job()["containers"]
    yield "status-cronjob.yaml", container["args"]
    (task,) = databricks_job()["tasks"]
    yield "kafka_metadata_history.yml", task["python_wheel_task"]["parameters"]
    for name, _, rest in instructions():
        if name == "CMD":
            yield "Dockerfile", json.loads(rest)


def test_commands_have_options_that_exist() -> None:
    found = list(commands())
    for _, line in found:
        check_command(line)
    used: dict[str, list[str]] = {}
    for file, line in found:
        used.setdefault(file, []).append(line[0])
    assert used == {
        "kafka-metadata-history": ["run", "validate"],
        "kafka_history_dags.py": ["run", "validate"],
        "kafka-metadata-history.service": ["run"],
        "kafka-metadata-history-once.service": ["run"],
        "kafka-metadata-history-validate.service": ["validate"],
        "status-textfile.sh": ["status"],
        "status-cronjob.yaml": ["status"],
        "kafka_metadata_history.yml": ["run"],
        "Dockerfile": ["run"],
    }


@pytest.mark.parametrize(
    "line", [["start"], ["run", "--forever"], ["status", "--format", "--config"]]
)
def test_a_command_that_does_not_exist_is_found(line: list[str]) -> None:
    with pytest.raises((KeyError, AssertionError, click.UsageError)):
        check_command(line)


@named(FILES)
def test_commands_that_are_named_exist(path: Path) -> None:
    """In comments and in texts for people too."""
    for name in re.findall(rf"`{NAME} ([a-z]+)", path.read_text()):
        assert name in OPTIONS


# --- secrets, and where things come from ---

SECRET = re.compile(r"(?i)password|secret|token|credential|access.?key")
REFERENCE = re.compile(
    rf"env:{DEFAULT_PREFIXES}\w+|file:(?:{'|'.join(DEFAULT_FOLDERS.split(':'))})/[\w./-]+|\{{\{{secrets/[\w./-]+\}}\}}|"
)


def secrets_in(key: str, value: Any) -> Iterator[str]:
    """Keys that say they hold a secret, and hold more than a reference."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from secrets_in(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(key, item)
    elif SECRET.search(key) and not isinstance(value, bool) and not REFERENCE.fullmatch(str(value)):
        yield key


def nested(path: Path) -> list[Any]:
    """The documents of a file, and those in its ConfigMaps."""
    found = documents(path)
    maps = [each for each in found if isinstance(each, dict) and each.get("kind") == "ConfigMap"]
    return [*found, *(yaml.safe_load(text) for each in maps for text in each["data"].values())]


@named(YAML)
def test_yaml_loads_and_holds_no_secret(path: Path) -> None:
    assert nested(path)
    assert [key for each in nested(path) for key in secrets_in("", each)] == []


@named(FILES)
def test_no_line_gives_a_secret_a_value(path: Path) -> None:
    lines = re.findall(
        r"(?im)^\W*(?:export |env )?([\w.]*(?:password|secret|token|access_?key)[\w.]*)"
        r"\s*[=:][ \t]*(\S.*)$",
        path.read_text(),
    )
    given = [(key, value.strip("'\"")) for key, value in lines]
    assert [
        (k, v) for k, v in given if not REFERENCE.fullmatch(v) and v not in {"true", "false"}
    ] == []


@pytest.mark.parametrize(
    "value",
    [
        {"kafka.sasl.password": "hunter2"},
        {"a": [{"KAFKA_KEY_SECRET": "env:HOME"}]},
        {"token": "file:/root/x"},
    ],
)
def test_a_secret_would_be_found(value: Any) -> None:
    assert list(secrets_in("", value))


@named(FILES)
def test_no_host_of_a_registry_is_named(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"\b(?!local:|sc:|s3a:)[a-z0-9+]+://\S+", text) == []
    assert not re.search(r"index-url|find-links|trusted-host|repositories", text)
    images = re.findall(r"(?m)^\s*(?:FROM|image:|COPY --from=)\s*(\S+)", text)
    assert [image for image in images if re.match(r"[^/]*[.:][^/]*/", image)] == []
    assert [image for image in images if image.endswith(":latest")] == []


# --- configurations ---


def configurations() -> dict[str, str]:
    config_map = document("kubernetes/configmap.yaml")
    return {
        "kubernetes": config_map["data"][Path(CONFIG).name],
        "databricks": (DEPLOY / f"databricks/{NAME}.yaml").read_text(),
    }


@pytest.mark.parametrize("name", ["kubernetes", "databricks"])
def test_configurations_load(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(configurations()[name])
    config = load(str(file))
    assert set(config.clusters) == {"orders", "payments"}
    assert str(config.lake) == {"kubernetes": "/lake", "databricks": "catalog kafka_history"}[name]
    # A volume may have files of its own, and a spool is a folder that has none.
    assert config.spool.startswith({"kubernetes": "/spool/", "databricks": "/local_disk0/"}[name])


@pytest.mark.parametrize("name", ["kubernetes", "databricks"])
def test_secrets_that_a_configuration_refers_to_are_where_it_is_read(name: str) -> None:
    wanted = set(re.findall(r"env:(\w+)", configurations()[name]))
    assert wanted
    if name == "databricks":
        (cluster,) = (each["new_cluster"] for each in databricks_job()["job_clusters"])
        assert set(cluster["spark_env_vars"]) == wanted
        return
    assert set(document("kubernetes/secret.yaml")["stringData"]) == wanted
    for role in ("driver", "executor"):
        env = {
            each["name"]: each["valueFrom"]["secretKeyRef"]
            for each in application()["spec"][role]["env"]
        }
        assert set(env) == wanted
        assert all(key["key"] == variable for variable, key in env.items())


# --- systemd ---


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Section -> key -> values. Raises for what is no line of a unit."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = None
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith(("#", ";")):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
            continue
        key, equals, value = line.partition("=")
        assert section is not None, line
        assert equals, line
        assert re.fullmatch(r"[A-Z]\w+", key), line
        section.setdefault(key, []).append(value.strip())
    return sections


def of(path: Path, section: str, key: str) -> str:
    (value,) = unit(path)[section][key]
    return value


HARD = {
    "User": NAME,
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallFilter": "@system-service",
}
LAKE = f"/var/lib/{NAME}"


@named(SERVICES)
def test_services_are_locked_in(path: Path) -> None:
    service = unit(path)["Service"]
    assert {key: value for key, value in HARD.items() if service.get(key) != [value]} == {}
    assert "MemoryDenyWriteExecute" not in service, "Java compiles in memory"
    assert re.fullmatch(r"\dG", of(path, "Service", "MemoryMax"))
    polls = " run " in of(path, "Service", "ExecStart")
    assert ("EnvironmentFile" in service) == polls, "whoever polls has the secrets, and nobody else"
    writes = "/var/lib/node_exporter/textfile_collector" if "-status" in path.name else LAKE
    assert of(path, "Service", "ReadWritePaths") == writes
    assert ("StateDirectory" in service) == (writes == LAKE)


def test_the_pipeline_is_started_again_and_stops_well() -> None:
    (path,) = (each for each in SERVICES if each.stem == NAME)
    service = unit(path)["Service"]
    assert (service["Restart"], service["SuccessExitStatus"]) == (["on-failure"], ["143"])
    assert int(of(path, "Service", "TimeoutStopSec")) <= 90
    assert of(path, "Unit", "StartLimitIntervalSec") == "0"
    assert of(path, "Install", "WantedBy") == "multi-user.target"


def test_timers_start_services_that_do_one_thing() -> None:
    assert [path.stem for path in TIMERS] == [
        f"{NAME}-{what}" for what in ("once", "status", "validate")
    ]
    for path in TIMERS:
        service = path.with_suffix(".service")
        assert of(service, "Service", "Type") == "oneshot"
        assert "TimeoutStartSec" in unit(service)["Service"], (
            "one that hangs would hold up all that follow"
        )
        assert "Install" not in unit(service)
        assert of(path, "Install", "WantedBy") == "timers.target"
    assert of(TIMERS[0], "Unit", "Conflicts") == f"{NAME}.service"


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
        done = analyzed("calendar", "--iterations=2", of(path, "Timer", "OnCalendar"))
        assert done.returncode == 0, done.stderr
        assert "Next elapse" in done.stdout


def test_the_users_and_folders_of_the_units_are_made() -> None:
    (user,) = (line.split() for line in entries("systemd/sysusers.conf"))
    assert user[:2] == ["u", NAME]
    made = [line.split()[:2] for line in entries("systemd/tmpfiles.conf")]
    assert made == [
        ["d", LAKE],
        ["d", f"/var/cache/{NAME}"],
        ["a+", "/var/lib/node_exporter/textfile_collector"],
    ]
    assert user[-1] == made[1][1]


def entries(name: str) -> list[str]:
    return [
        line
        for line in (DEPLOY / name).read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]


def test_the_file_of_secrets_is_empty() -> None:
    for line in entries("systemd/secrets.env"):
        assert re.fullmatch(r"KAFKA_[A-Z_]+=", line)


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

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def times(field: str, first: int, last: int) -> list[int]:
    """The values of a field of five. Raises for what cron would refuse."""
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(\*|\d+(?:-\d+)?)(?:/(\d+))?", part)
        assert match, field
        low, _, high = (f"{first}-{last}" if match[1] == "*" else match[1]).partition("-")
        begin, end = int(low), int(high or low)
        assert first <= begin <= end <= last, field
        found.update(range(begin, end + 1, int(match[2] or 1)))
    return sorted(found)


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
    assert variables["PATH"].startswith(f"{INSTALLED}/bin:")
    assert not any("$" in value for value in variables.values()), "cron replaces nothing in them"
    minutes = []
    for fields, user, command in lines:
        minute, *_ = [times(field, *bounds) for field, bounds in zip(fields, RANGES, strict=True)]
        minutes.append(minute)
        assert user == NAME
        assert "%" not in command, "cron would make it a line break"
    run, validate, status = minutes
    assert (run, len(validate), len(status)) == (list(range(0, 60, 5)), 1, 12)
    assert not {*run} & {*validate, *status}, "not at the same moment"
    for refused in ("60", "*/5x", "5-1", ""):
        with pytest.raises(AssertionError):
            times(refused, 0, 59)


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
        while not held.exists():
            time.sleep(0.01)
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


# --- Kubernetes ---


def application() -> dict[str, Any]:
    found: dict[str, Any] = document("kubernetes/spark-application.yaml")
    return found


def cron_job() -> dict[str, Any]:
    job = document("kubernetes/status-cronjob.yaml")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    found: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def references(value: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """Kind and name of each object that a document refers to."""
    kinds = {
        "configMap": "ConfigMap",
        "configMaps": "ConfigMap",
        "secretKeyRef": "Secret",
        "serviceAccount": "ServiceAccount",
    }
    kinds |= {"claimName": "PersistentVolumeClaim"}
    if isinstance(value, dict):
        for key, item in value.items():
            if kind and key == "name":
                yield kind, item
            yield from references(item, kinds.get(key, ""))
    elif isinstance(value, list):
        for item in value:
            yield from references(item, kind)
    elif kind in {"ServiceAccount", "PersistentVolumeClaim"}:
        yield kind, value


def test_objects_that_are_referred_to_exist() -> None:
    found = [each for path in sorted((DEPLOY / "kubernetes").iterdir()) for each in documents(path)]
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert len(there) == len(found) == 10
    wanted = {*references(application()), *references(cron_job())}
    assert {kind for kind, _ in wanted} == {
        "ConfigMap",
        "Secret",
        "ServiceAccount",
        "PersistentVolumeClaim",
    }
    assert wanted <= there
    (binding,) = (each for each in found if each["kind"] == "RoleBinding")
    assert {
        ("ServiceAccount", binding["subjects"][0]["name"]),
        ("Role", binding["roleRef"]["name"]),
    } <= there


def test_the_spark_application_is_what_a_cluster_needs() -> None:
    whole = application()
    assert (whole["apiVersion"], whole["kind"]) == (
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
    )
    spec = whole["spec"]
    assert (spec["type"], spec["mode"], spec["restartPolicy"]) == (
        "Python",
        "cluster",
        {"type": "Always"},
    )
    lines = (line.split(None, 1) for line in entries_of_conf())
    conf = {key: value.strip() for key, value in lines}
    elsewhere = {
        "spark.driver.memory": spec["driver"]["memory"],
        "spark.executor.memory": spec["executor"]["memory"],
        "spark.executor.memoryOverhead": spec["executor"]["memoryOverhead"],
        "spark.executor.cores": str(spec["executor"]["cores"]),
        # The image has the environment.
        "spark.archives": conf["spark.archives"],
    }
    own = {
        "spark.pyspark.python": f"{INSTALLED}/bin/python",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    }
    assert spec["sparkConf"] | elsewhere == conf | own
    assert all(isinstance(value, str) for value in spec["sparkConf"].values()), (
        "the operator takes text alone"
    )
    assert spec["sparkVersion"] == next(
        line.split("==")[1].split()[0]
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.startswith("pyspark==")
    )
    mounted = {
        role: [each["mountPath"] for each in spec[role]["volumeMounts"]]
        for role in ("driver", "executor")
    }
    assert mounted == {"driver": ["/lake", "/spool"], "executor": ["/lake"]}


def entries_of_conf() -> list[str]:
    text = (ROOT / "conf" / "spark-cluster.conf").read_text()
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_spark_application_starts_a_job_of_the_image() -> None:
    spec = application()["spec"]
    python = next(
        re.search(r"python:(\d\.\d+)-", rest)[1] for of_, _, rest in instructions() if of_ == "FROM"
    )  # type: ignore[index]
    packages = f"{INSTALLED}/lib/python{python}/site-packages"
    assert spec["mainApplicationFile"] == f"local://{packages}/jobs/pipeline.py"
    assert (ROOT / "jobs" / "pipeline.py").exists()
    assert parser_of("pipeline", None, "").parse_args(spec["arguments"]).config == CONFIG
    (config,) = spec["driver"]["configMaps"]
    assert f"{config['path']}/{next(iter(document('kubernetes/configmap.yaml')['data']))}" == CONFIG
    assert any(f"SPARK_HOME={packages}/pyspark" in rest for _, _, rest in instructions())


def lacks_log_store(config: str, conf: dict[str, str]) -> bool:
    """Whether the jobs would refuse the lake: several drivers' commits on S3 have to be kept
    apart.
    """
    lake = yaml.safe_load(config)["lake"]
    return str(lake).startswith("s3a:") and "spark.delta.logStore.s3a.impl" not in conf


def test_a_lake_on_s3_has_a_log_store() -> None:
    conf = application()["spec"]["sparkConf"]
    assert not lacks_log_store(configurations()["kubernetes"], conf)
    assert lacks_log_store("lake: s3a://history/lake", conf)


def test_pods_are_not_root_and_only_read_what_they_only_read() -> None:
    spec = cron_job()
    user = next(rest for of_, _, rest in instructions() if of_ == "USER").split(":")[0]
    for security in (
        spec["securityContext"],
        *(application()["spec"][role]["podSecurityContext"] for role in ("driver", "executor")),
    ):
        assert security["runAsNonRoot"] is True
        assert (str(security["runAsUser"]), str(security["fsGroup"])) == (user, user)
    (container,) = spec["containers"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in spec["volumes"]
    }
    assert "env" not in container, "the status needs no secret"


def test_containers_get_no_more_rights_than_they_begin_with() -> None:
    spec = application()["spec"]
    pods = [spec[role]["podSecurityContext"] for role in ("driver", "executor")] + [
        cron_job()["securityContext"]
    ]
    containers = [spec["driver"], spec["executor"], *cron_job()["containers"]]
    assert [each["seccompProfile"] for each in pods] == [{"type": "RuntimeDefault"}] * 3
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_driver_may_make_pods_and_neither_claims_nor_changes_of_the_configuration() -> None:
    (role,) = (
        each for each in documents(DEPLOY / "kubernetes" / "rbac.yaml") if each["kind"] == "Role"
    )
    allowed = {name: set(rule["verbs"]) for rule in role["rules"] for name in rule["resources"]}
    assert allowed.keys() == {"pods", "configmaps"}
    assert not allowed["configmaps"] & {"update", "patch"}
    assert {verb for verbs in allowed.values() for verb in verbs} <= {
        *("get", "list", "watch", "create", "patch", "delete", "deletecollection")
    }


@pytest.mark.parametrize("name", ["kafka-metadata-history", "kafka-metadata-history-once"])
def test_units_that_poll_may_open_many_files(name: str) -> None:
    lines = (DEPLOY / "systemd" / f"{name}.service").read_text().splitlines()
    assert "LimitNOFILE=65536" in lines


def test_pods_are_reached_by_each_other_alone() -> None:
    spec = document("kubernetes/network-policy.yaml")["spec"]
    everyone: dict[str, dict[str, str]] = {"podSelector": {}}
    assert spec == everyone | {"policyTypes": ["Ingress"], "ingress": [{"from": [everyone]}]}


@named(FILES)
def test_nothing_opens_sparks_ports_without_authentication(path: Path) -> None:
    """The command keeps them on this machine (conf/spark-defaults.conf). Another Spark has to ask
    who connects.
    """
    text = path.read_text()
    own = re.search(
        r"spark-submit|pyspark-shell|SPARK_REMOTE|PYSPARK_SUBMIT_ARGS|kind: SparkApplication", text
    )
    assert own is None or 'spark.authenticate: "true"' in text


def test_images_have_the_version_of_the_package() -> None:
    images = [application()["spec"]["image"], cron_job()["containers"][0]["image"]]
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    for image in images:
        assert image.endswith(f":{PROJECT['version']}")
        assert f"--tag {image} " in text, "nobody says how it is built"


# --- Databricks ---


def databricks_job() -> dict[str, Any]:
    (job,) = document("databricks/resources/kafka_metadata_history.yml")["resources"][
        "jobs"
    ].values()
    found: dict[str, Any] = job
    return found


def test_the_bundle_runs_the_wheel_on_and_on() -> None:
    job = databricks_job()
    assert (job["continuous"], job["max_concurrent_runs"]) == ({"pause_status": "UNPAUSED"}, 1)
    (task,) = job["tasks"]
    assert task["job_cluster_key"] in {each["job_cluster_key"] for each in job["job_clusters"]}
    wheel = task["python_wheel_task"]
    assert wheel["package_name"] == PROJECT["name"]
    assert wheel["entry_point"] == NAME
    assert task["libraries"] == [{"whl": "../dist/*.whl"}]
    scripts = PROJECT.get("scripts")
    assert scripts is None or NAME in scripts


def test_the_bundle_has_what_it_refers_to() -> None:
    bundle, resources = (
        document("databricks/databricks.yml"),
        document("databricks/resources/kafka_metadata_history.yml"),
    )
    texts = json.dumps(resources)
    assert set(re.findall(r"\$\{var\.(\w+)\}", texts)) == set(bundle["variables"])
    assert bundle["include"] == ["resources/*.yml"]
    (config,) = re.findall(r"\$\{workspace\.file_path\}/([\w.-]+)", texts)
    assert (DEPLOY / "databricks" / config).exists()
    told = yaml.safe_load(configurations()["databricks"])
    catalog = bundle["variables"]["catalog"]["default"]
    (schema,) = resources["resources"]["schemas"].values()
    (volume,) = resources["resources"]["volumes"].values()
    assert told["lake"] == {"catalog": catalog}
    assert told["checkpoints"].startswith(f"/Volumes/{catalog}/{schema['name']}/{volume['name']}/")


# --- the image ---


def instructions() -> list[tuple[str, str, str]]:
    """Instruction, its stage, and the rest of each instruction."""
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "docker" / "Dockerfile").read_text()).replace(
        "\\\n", " "
    )
    found, stage = [], ""
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stage = rest.split(" AS ")[1]
        found.append((name, stage, " ".join(rest.split())))
    return found


def test_the_dockerfile_has_instructions_that_exist_and_none_that_take_more_than_they_name() -> (
    None
):
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert {name for name, _, _ in instructions()} == known, (
        "no ADD, and no ARG: both could bring what nobody checked"
    )
    stages = [stage for name, stage, _ in instructions() if name == "FROM"]
    assert stages == ["build", "command", "spark"]
    for rest in (rest for name, _, rest in instructions() if name == "COPY"):
        *sources, _ = [each for each in rest.split() if not each.startswith("--")]
        assert not {".", "./", "*", "/"} & set(sources), rest
        if "--from" not in rest:
            assert sources == [
                "constraints-build.txt",
                "requirements.txt",
                "kafka_metadata_history-*.whl",
            ]


@pytest.mark.parametrize(
    ("stage", "entry"), [("command", [NAME]), ("spark", ["/opt/entrypoint.sh"])]
)
def test_images_run_as_a_user_and_know_no_secret(stage: str, entry: list[str]) -> None:
    of_stage = [(name, rest) for name, of_, rest in instructions() if of_ == stage]
    users = [rest for name, rest in of_stage if name == "USER"]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", users[-1])
    assert json.loads(next(rest for name, rest in of_stage if name == "ENTRYPOINT")) == entry
    assert not [rest for name, rest in of_stage if name in {"ENV", "RUN"} and SECRET.search(rest)]
    assert stage == "spark" or any("openjdk-17-jre-headless" in rest for _, rest in of_stage)


def test_pip_installs_nothing_without_a_checksum() -> None:
    runs = [
        step.strip()
        for name, _, rest in instructions()
        if name == "RUN"
        for step in rest.split("&&")
    ]
    pips = [step for step in runs if re.search(r"pip (?:install|wheel)", step)]
    assert len(pips) == 3
    assert all("--require-hashes" in step or "--no-index --no-deps" in step for step in pips)
    assert all("--only-binary :all:" in step or "--no-deps" in step for step in pips)


# --- Prometheus and Grafana ---


def exported() -> dict[str, set[str]]:
    """Each metric that the status has, with its labels: of a lake in which everything is known."""
    now = datetime(2026, 11, 1, tzinfo=UTC)
    polls = PollCounts(10, {"timeout": 1}, 1, now, 1, now, "timeout", "no answer")
    waits = {each.waits.history: each.waits.says for each in DECLARED if each.waits is not None}
    waiting = tuple(Waiting(history, now, says) for history, says in waits.items())
    cluster = Cluster(
        "prod",
        timedelta(seconds=30),
        polls,
        now,
        0,
        0,
        waiting,
        1,
        timedelta(minutes=2),
        Log(now, 1),
    )
    cluster = replace(
        cluster,
        told_by="log",
        cluster_log=ClusterLog(now, now),
        offsets_at=now,
        asked=(Asked("groups"),),
    )
    facts = LakeStatus(
        now,
        "/lake",
        timedelta(hours=1),
        [cluster],
        [Size("bronze.metadata_polls", 1, 1, 1)],
        now,
        1,
    )
    text = as_prometheus(facts, judge(facts, Limits()))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    assert set(found) == set(re.findall(r"(?m)^# TYPE (\w+)", text)), "a metric has no sample"
    return found


FUNCTIONS = {"absent", "increase", "max", "min", "sum", "time", "by", "label_values"}
DURING_SCRAPE = {"instance", "job"}


def check_promql(expression: str) -> None:
    """Raise for metrics and labels that the status does not have, and for what no PromQL could
    be.
    """
    metrics = exported()
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing), expression
    for name, selector in re.findall(rf"({PREFIX}_\w+)(?:\{{(.*?)\}})?", expression):
        assert name in metrics, f"{name} is no metric"
        for matcher in filter(None, selector.split(",")):
            match = re.fullmatch(r'(\w+)(=|!=|=~|!~)"([^"]*)"', matcher)
            assert match, matcher
            assert match[1] in metrics[name] | DURING_SCRAPE, f"{name} has no label {match[1]}"
            if match[1] == "threshold":
                assert match[3] in {*OF_CLUSTER, *OF_LAKE}
    bare = re.sub(rf'{PREFIX}_\w+|\{{.*?\}}|\[\w+\]|"[^"]*"', " ", expression)
    for grouped in re.findall(r"by \((\w+)\)", bare):
        assert grouped in {"cluster", "table", "kind"}
        bare = bare.replace(f"({grouped})", " ")
    assert set(re.findall(r"[a-zA-Z_]\w*", bare)) <= FUNCTIONS | {"cluster"}, expression
    assert re.search(PREFIX, expression), expression


def rules() -> list[dict[str, Any]]:
    (group,) = document("prometheus/alerts.yaml")["groups"]
    assert group["name"] == NAME
    found: list[dict[str, Any]] = group["rules"]
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_are_of_metrics_that_exist_and_say_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    check_promql(rule["expr"])
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
    assert rule["labels"]["severity"] in {"critical", "warning"}
    summary = rule["annotations"]["summary"]
    assert re.search(r"\b(?:Start|start|Run|See|Give|Keep|raise)\b", summary), "it says what to do"
    assert set(re.findall(r"\{\{ *\$?(\S+?) ", summary)) <= {"labels.cluster", "value"}
    thresholds = re.findall(r'threshold="(\w+)"', rule["expr"])
    if "labels.cluster" in summary and thresholds:
        assert set(thresholds) <= set(OF_CLUSTER), "a threshold of the lake has no cluster"


def test_every_threshold_has_an_alert_and_so_has_a_status_that_is_missing() -> None:
    told = [name for rule in rules() for name in re.findall(r'threshold="(\w+)"', rule["expr"])]
    assert sorted(told) == sorted([*OF_CLUSTER, *OF_LAKE])
    whole = " ".join(rule["expr"] for rule in rules())
    assert f"absent({PREFIX}_status_timestamp_seconds)" in whole
    assert f"time() - {PREFIX}_status_timestamp_seconds > " in whole
    assert f"time() - {PREFIX}_last_good_poll_timestamp_seconds" in whole
    assert len({rule["alert"] for rule in rules()}) == len(rules())


@pytest.mark.parametrize(
    "wrong",
    [
        f"{PREFIX}_last_poll_seconds > 3",
        f'{PREFIX}_table_bytes{{cluster="x"}}',
        f'{PREFIX}_threshold_crossed{{threshold="lag"}}',
        f"summ({PREFIX}_table_bytes)",
        f"sum({PREFIX}_table_bytes",
    ],
)
def test_an_expression_that_is_wrong_is_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check_promql(wrong)


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return found


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    panels = dashboard()["panels"]
    for panel in panels:
        assert panel["title"]
        assert panel["targets"]
        for target in panel["targets"]:
            check_promql(target["expr"])
            legends = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            labels = exported()[re.findall(rf"{PREFIX}_\w+", target["expr"])[0]]
            assert set(legends) <= labels
            of_cluster = "cluster" in labels
            assert ("$cluster" in target["expr"]) == (of_cluster and "status" not in target["expr"])
    assert {panel["type"] for panel in panels} == {"stat", "timeseries", "table"}
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_dashboard_chooses_clusters() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert set(variables) == {"datasource", "cluster"}
    assert variables["datasource"]["query"] == "prometheus"
    check_promql(variables["cluster"]["query"])
    assert variables["cluster"]["multi"] is variables["cluster"]["includeAll"] is True
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard()["panels"])))
    assert used == set(variables)
