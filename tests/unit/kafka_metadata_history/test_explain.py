"""The command explain asks a lake in a folder, without a JVM."""

import json
import shlex
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, USAGE, app, exit_status
from schemas.lake import Lake
from tests.support.documents import commands
from tests.support.incident_rows import OPEN, UNKNOWN, incident_rows, recorded_rows
from tests.support.made_lakes import made_lake
from tests.support.printed import printed_by
from tests.support.store_lake import stored, unpacked


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    rows = incident_rows() | recorded_rows()
    return made_lake(tmp_path_factory.mktemp("made"), rows)


@pytest.fixture
def config(lake: Lake, tmp_path: Path) -> str:
    return written(tmp_path, lake)


def written(place: Path, lake: object) -> str:
    file = place / "config.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return str(file)


asked = partial(printed_by, "explain")


def test_without_an_id_the_open_incidents(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, answer, beside = asked(config, capsys=capsys)
    assert (found, beside) == (0, [])
    silent, heading, _, first, *_ = answer.splitlines()
    assert silent.startswith("nothing recorded of prod since 2026-11-01 12:04:57Z, ")
    assert silent.endswith(": page")
    assert heading.split() == ["severity", "id", "cluster", "began", "what", "hurt", "cause"]
    assert first.startswith(f"page      {OPEN[:8]}  prod ")


def test_each_printed_command_is_one(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are parsed as the command line does it; that they run is below."""
    lines = []
    for id_ in (OPEN, UNKNOWN):
        _, answer, _ = asked(config, id_, capsys=capsys)
        lines += [
            line[line.index("kafka-metadata-history ") :]
            for line in answer.splitlines()
            if "kafka-metadata-history " in line
        ]
    assert len(lines) == 6
    for line in lines:
        _, name, *words = shlex.split(line)
        assert words[-2:] == ["--config", config], "the file that was named"
        app.commands[name].make_context(name, words)
        if name != "report":
            assert exit_status([name, *words]) == 0
            capsys.readouterr()


def test_a_beginning_of_an_id_is_enough(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer, _ = asked(config, "c0", "--format", "json", capsys=capsys)
    said = json.loads(answer)
    assert (said["id"], said["state"], said["under_min_isr_most"]) == (UNKNOWN, "recovered", 1)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("",), USAGE, "'' begins 3 incidents: a3f0c1d2e4b5, b7d9e8f7a6b5, c0ffee00c0de; write"),
        (("zzz",), USAGE, "there is no incident 'zzz'; the last ones are a3f0c1d2e4b5, c0ffee00c0"),
        (("a3f0c1d2e4b6",), USAGE, "there is no incident 'a3f0c1d2e4b6'; did you mean a3f0c1d2e4b"),
        (("--cluster", "prd"), USAGE, "history knows no such cluster; did you mean prod?"),
        (("--config", "none.yaml"), FAILED, "none.yaml"),
    ],
)
def test_what_is_wrong_is_one_line(
    config: str,
    arguments: tuple[str, ...],
    status: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, answer, lines = asked(config, *arguments, capsys=capsys)
    assert (found, answer) == (status, "")
    assert says in lines[-1]


def test_a_lake_of_an_older_version_has_no_incidents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, unpacked(stored(10), tmp_path))
    found, answer, (line,) = asked(config, capsys=capsys)
    assert (found, answer) == (FAILED, "")
    assert "version 10 had no gold.incidents" in line
    assert "`kafka-metadata-history upgrade`" in line


def test_a_lake_whose_incidents_are_not_made_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = recorded_rows()
    ((states, of), *others) = rows.items()
    made_lake(tmp_path / "lake", {states: of[:1], **dict(others)})
    config = written(tmp_path, tmp_path / "lake")
    _, answer, _ = asked(config, capsys=capsys)
    _, line, last = answer.splitlines()
    assert line == (
        "incidents of prod are not made yet: `kafka-metadata-history run` of this version makes "
        "them"
    )
    assert last == "no incident is known to be open"
    found, _, (line,) = asked(config, "a", capsys=capsys)
    assert found == USAGE
    assert line.endswith("none is made yet; `kafka-metadata-history run` makes them")


def test_an_empty_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_lake(tmp_path / "lake", {})
    found, _, (line,) = asked(written(tmp_path, tmp_path / "lake"), capsys=capsys)
    assert found == USAGE
    assert line.endswith("history is empty: no cluster had a good poll that became history")


def test_the_lines_of_the_documents(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "kafka-metadata-history (?:explain|query (?:incident|events)).*"
    lines = [line for line in dict.fromkeys(commands(asked)) if ".demo/" not in line]
    assert len(lines) >= 6
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    for line in lines:
        assert exit_status(shlex.split(line)[1:]) == 0
        assert capsys.readouterr().out
