"""The command notify, as a process and in this one, of a lake in a folder."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED
from schemas import incidents
from schemas.lake import Lake
from tests.support import stored
from tests.support.http_receiver import Answer, HttpReceiver, receiving
from tests.support.incident_rows import (
    OPEN,
    UNKNOWN,
    bounds,
    incident,
    incident_rows,
    recorded_rows,
)
from tests.support.made_lakes import made_lake
from tests.support.marks import traces
from tests.support.printed import printed_by
from tests.support.programs import Program
from tests.support.repository import ROOT

asked = partial(printed_by, "notify")
INCIDENTS = "kinds: [broker_missing, group_stuck]"


@pytest.fixture
def config(tmp_path: Path, receiver: HttpReceiver) -> str:
    """With a lake whose record is old, which is not what these tests are about."""
    made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    return written(tmp_path, f"hook: {{webhook: {{url: '{receiver.url}/hook'}}, {INCIDENTS}}}")


def written(place: Path, *targets: str, more: str = "") -> str:
    file = place / "config.yaml"
    file.write_text(
        f"lake: {place / 'lake'}\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
        f"notify:\n  targets: {{{', '.join(targets)}}}\n{more}"
    )
    return str(file)


@pytest.fixture
def running(config: str, tmp_path: Path) -> Iterator[Program]:
    program = command(config, tmp_path)
    with program:
        yield program


def command(config: str, place: Path, *arguments: str) -> Program:
    typed = [sys.executable, "-m", "kafka_metadata_history", "notify", "--config", config]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    return Program([*typed, *arguments], place / "output", variables=variables)


def keys(receiver: HttpReceiver) -> list[str]:
    return [each["key"] for each in receiver.bodies]


def test_a_first_run_opens_what_lasts_and_tells_no_history(
    config: str, receiver: HttpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(config, "--once", capsys=capsys) == (0, "", [])
    assert keys(receiver) == [f"{OPEN}-opened-1"]
    assert asked(config, "--once", capsys=capsys) == (0, "", [])
    assert len(receiver.got) == 1


def test_an_old_record_is_a_message_of_its_own(
    tmp_path: Path, receiver: HttpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    config = written(tmp_path, f"all: {{webhook: {{url: '{receiver.url}'}}}}")
    asked(config, "--once", capsys=capsys)
    assert keys(receiver) == ["nothing_recorded-prod-opened-1", f"{OPEN}-opened-1"]


def test_if_a_target_fails_it_exits_1_and_the_next_run_sends_it(
    config: str, receiver: HttpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [Answer(500), Answer()]
    found, _, (line,) = asked(config, "--once", capsys=capsys)
    assert (found, line) == (
        FAILED,
        "kafka-metadata-history: hook: HTTP 500: {}; trying again",
    )
    assert asked(config, "--once", capsys=capsys) == (0, "", [])
    assert keys(receiver) == [f"{OPEN}-opened-1"] * 2


def test_without_a_lake_it_exits_1(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(tmp_path / "lake")
    found, _, (line,) = asked(config, "--once", capsys=capsys)
    assert (found, "no lake there" in line) == (FAILED, True)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "notify.targets is missing"),
        ("a: {webhook: {url: env:KAFKA_NONE}}", "a.webhook: the environment variable KAFKA_NONE"),
        ("a: {apprise: {url: file:/etc/kafka/none}}", "a.apprise: /etc/kafka/none: No such file"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, target: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, (line,) = asked(written(tmp_path, target), "--once", capsys=capsys)
    assert (found, says in line) == (FAILED, True)


def test_new_incidents_and_ends_are_sent_while_it_runs(
    running: Program, receiver: HttpReceiver, tmp_path: Path
) -> None:
    running.until(lambda: keys(receiver) == [f"{OPEN}-opened-1"], "what lasts")
    lake = Lake(root=str(tmp_path / "lake"))
    new = incident("d0", "group_stuck", bounds((299, 300)), group_ids=["shop"])
    stored.append(lake, incidents.INCIDENTS, [new])
    running.until(lambda: "d0-opened-1" in keys(receiver), "the new one")
    rows = incident_rows() | recorded_rows()
    of_open = rows[incidents.INCIDENTS][0]
    rows[incidents.INCIDENTS][0] = {
        **of_open,
        **bounds((9, 10), (400, 401)),
        "end_reason": "recovered",
        "is_live": False,
    }
    made_lake(tmp_path / "new", rows)
    (tmp_path / "lake" / "checkpoints").rename(tmp_path / "new" / "checkpoints")
    (tmp_path / "lake").rename(tmp_path / "old")
    (tmp_path / "new").rename(tmp_path / "lake")
    running.until(lambda: len(receiver.got) == 4, "both ends")
    ends = {each["key"]: each["end_reason"] for each in receiver.bodies[2:]}
    assert ends == {f"{OPEN}-ended-1": "recovered", "d0-ended-1": "gone"}
    assert UNKNOWN not in str(receiver.bodies)
    assert running.end(signal.SIGTERM) == -signal.SIGTERM


def test_a_kill_between_send_and_record_sends_it_again_with_the_same_key(
    config: str, receiver: HttpReceiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [Answer(hangs=True), Answer()]
    with command(config, tmp_path) as program:
        program.until(lambda: receiver.got, "the message")
        program.end(signal.SIGKILL)
    assert asked(config, "--once", capsys=capsys) == (0, "", [])
    assert keys(receiver) == [f"{OPEN}-opened-1"] * 2
    assert asked(config, "--once", capsys=capsys) == (0, "", [])
    assert len(receiver.got) == 2


def test_a_second_sender_says_who_sends(
    running: Program, config: str, receiver: HttpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    running.until(lambda: receiver.got, "a message")
    found, _, (line,) = asked(config, capsys=capsys)
    assert found == FAILED
    assert f"process {running.pid} on {os.uname().nodename} sends messages already" in line


def test_it_beats_while_all_is_well_and_a_target_that_fails_ends_that(
    tmp_path: Path, receiver: HttpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    made_lake(tmp_path / "lake", incident_rows() | recorded_rows())
    beat = f"  heartbeat: {{url: '{receiver.url}/beat'}}\n"
    hook = f"hook: {{webhook: {{url: '{receiver.url}/hook'}}, {INCIDENTS}}}"
    config = written(tmp_path, hook, more=beat)
    receiver.answers = [Answer(500), Answer()]
    asked(config, "--once", capsys=capsys)
    assert [each.path for each in receiver.got] == ["/hook"]
    asked(config, "--once", capsys=capsys)
    assert [(each.method, each.path) for each in receiver.got[1:]] == [
        ("POST", "/hook"),
        ("GET", "/beat"),
    ]


def test_no_secret_is_kept_or_printed(
    config: str,
    tmp_path: Path,
    receiver: HttpReceiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    marks = ["markoftherouting", "markofthepassword", "markofthepath"]
    routing, password, path = marks
    with receiving() as other:
        monkeypatch.setenv("KAFKA_ROUTING", routing)
        place = other.url.removeprefix("http://")
        monkeypatch.setenv("KAFKA_HOOK", f"http://me:{password}@{place}/{path}")
        keys = f"{{routingKey: env:KAFKA_ROUTING, url: '{receiver.url}'}}"
        written(tmp_path, f"a: {{pagerduty: {keys}}}", "b: {webhook: {url: env:KAFKA_HOOK}}")
        for status in (400, 500, 301, 202):
            receiver.answers = [Answer(status, text=f"refused: {routing}")]
            other.answers = [Answer(status, text=f"refused: {password} at /{path}")]
            found, output, lines = asked(config, "--once", capsys=capsys)
            assert (found, len(lines)) == ((0, 0) if status == 202 else (FAILED, 2))
            assert not any(mark in f"{output} {lines}" for mark in marks)
        assert all(mark in f"{receiver.got} {other.got}" for mark in (routing, path))
    assert traces(tmp_path, marks) == []


def test_it_writes_beside_the_tables_alone(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    before = sorted(lake.rglob("*"))
    asked(config, "--once", capsys=capsys)
    new = {str(each.relative_to(lake)) for each in {*lake.rglob("*")} - {*before}}
    assert new == {
        "checkpoints",
        "checkpoints/notify",
        "checkpoints/notify/lock",
        "checkpoints/notify/sent.sqlite",
    }
