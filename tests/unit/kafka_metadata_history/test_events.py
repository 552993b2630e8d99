"""The command events prints rows of gold.events of a lake in a folder, and follows it."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, INTERRUPTED, USAGE, exit_status
from schemas.incidents import EVENTS
from schemas.lake import Lake
from tests.support import stored
from tests.support.documents import commands
from tests.support.incident_rows import OPEN, event, incident_rows, recorded_rows
from tests.support.made_lakes import made_lake
from tests.support.printed import printed_by
from tests.support.repository import ROOT

SINCE = ("--since", "2026-11-01")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return made_lake(tmp_path / "lake", incident_rows() | recorded_rows())


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Of a lake that may not be there."""
    file = tmp_path / "config.yaml"
    clusters = "{prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}"
    file.write_text(f"lake: {tmp_path / 'lake'}\nclusters: {clusters}\n")
    return str(file)


asked = partial(printed_by, "events")


@pytest.mark.usefixtures("lake")
def test_events_are_in_the_order_in_which_they_were_known(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, answer, beside = asked(config, *SINCE, capsys=capsys)
    assert (found, beside) == (0, [])
    assert answer.splitlines() == [
        (
            "2026-11-01 11:55:02Z  prod  info    ended      broker missing: brokers 1, 2 and 3; "
            "between 11:54:59Z and 11:55:00Z  b7d9e8f7a6b5"
        ),
        (
            "2026-11-01 12:00:12Z  prod  page    opened     broker missing: broker 3; between "
            f"12:00:09Z and 12:00:10Z  {OPEN}"
        ),
        (
            "2026-11-01 12:00:14Z  prod  page    worse      broker missing: broker 3; between "
            "12:00:11Z and 12:00:12Z; 3 partitions offline, 12 under min ISR; offline  "
            f"{OPEN}"
        ),
    ]
    _, answer, _ = asked(
        config, "--since", "2026-11-01T12:00:13Z", "--format", "json", capsys=capsys
    )
    said = json.loads(answer)
    assert (said["event"], said["known_at"]) == ("worse", "2026-11-01T12:00:14.000Z")


@pytest.mark.usefixtures("lake")
def test_what_is_wrong_is_one_line(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, _, (line,) = asked(config, "--cluster", "prd", capsys=capsys)
    assert (found, line.endswith("did you mean prod?")) == (USAGE, True)
    found, _, (line,) = asked(config, "--follow", "--since", "yesterday", capsys=capsys)
    assert (found, "'yesterday' is neither a time" in line) == (USAGE, True)


def test_a_lake_that_is_not_there_is_one_line(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, (line,) = asked(config, capsys=capsys)
    assert (found, "no lake there" in line) == (FAILED, True)


def test_incidents_that_are_not_made_are_said_so(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((states, of), *others) = recorded_rows().items()
    made_lake(tmp_path / "lake", {states: of[:1], **dict(others)})
    found, answer, (line,) = asked(config, capsys=capsys)
    assert (found, answer) == (0, "")
    assert line.startswith("incidents of prod are not made yet")


@pytest.fixture
def following(config: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kafka_metadata_history", "events", "--follow", *SINCE]
    with subprocess.Popen(
        [*command, "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        yield process
        process.kill()


def line_of(stream: object) -> str:
    assert hasattr(stream, "readline")
    return str(stream.readline())


def test_a_follower_waits_for_a_lake_and_prints_new_events_soon(
    following: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert line_of(following.stderr).endswith("makes one; waiting for it\n")
    lake = made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    assert [line_of(following.stdout).split()[4] for _ in range(3)] == ["ended", "opened", "worse"]
    stored.append(lake, EVENTS, [event(4, "eased", OPEN, 11)])  # of a round that was slower
    committed = time.monotonic()
    assert "eased" in line_of(following.stdout)
    assert time.monotonic() - committed < 5
    following.send_signal(signal.SIGINT)
    assert following.wait(10) == INTERRUPTED
    assert following.stderr is not None
    assert "Traceback" not in following.stderr.read()


@pytest.mark.usefixtures("lake")
def test_a_follower_ends_when_nobody_reads_it(following: subprocess.Popen[str], lake: Lake) -> None:
    assert following.stdout is not None
    line_of(following.stdout)
    following.stdout.close()
    stored.append(lake, EVENTS, [event(4, "eased", OPEN, 20)])
    assert following.wait(10) == 0
    assert following.stderr is not None
    assert following.stderr.read() == ""


@pytest.mark.usefixtures("lake")
def test_the_lines_of_the_documents(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in commands("kafka-metadata-history events.*") if "--follow" not in line]
    assert lines
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    for line in lines:
        assert exit_status(shlex.split(line)[1:]) == 0
        capsys.readouterr()
