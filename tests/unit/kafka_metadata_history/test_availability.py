"""The command availability asks a lake in a folder, without a JVM."""

import json
import shlex
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, USAGE, exit_status
from schemas.table import LAKE_VERSION
from tests.support.documents import commands, document
from tests.support.printed import printed_by
from tests.support.store_lake import stored, unpacked

WINDOW = ("--since", "2026-11-01", "--until", "2026-11-02")
asked = partial(printed_by, "availability")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the known incident: two of three brokers are missing."""
    return unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("stored"))


@pytest.fixture
def config(folder: Path, tmp_path: Path) -> str:
    return written(tmp_path, folder)


def written(place: Path, lake: Path) -> str:
    file = place / "config.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return str(file)


def test_what_is_left_of_the_budget(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (*WINDOW, "--slo", "99.95", "--format", "json")
    found, answer, beside = asked(config, *arguments, capsys=capsys)
    whole, *_ = rows = [json.loads(line) for line in answer.splitlines()]
    assert (found, whole["cluster"], whole["topic"], whole["bad_for"]) == (
        0,
        "prod",
        None,
        "writes",
    )
    # Five partitions for 29.9 s; then nobody polled until midnight.
    assert whole["budget_s"] == pytest.approx(0.0005 * 5 * 29.9, abs=0.01)
    assert 0 < whole["spent_s_min"] < whole["spent_s_max"] < 5 * 30
    assert whole["left_s_max"] == pytest.approx(whole["budget_s"] - whole["spent_s_min"])
    assert whole["not_observed_s"] > 5 * 11 * 3600
    assert {row["topic"] for row in rows} > {None, "orders"}
    assert beside[0] == f"{len(rows)} rows, by DuckDB; objective 99.95 %"


def test_a_table_shows_all(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer, _ = asked(config, *WINDOW, capsys=capsys)
    assert "not shown" not in answer
    assert [
        name for name in ("budget", "spent", "left", "marked", "not observed") if name in answer
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--slo", "100"), "--slo 100: not a percentage above 0 and below 100, such as 99.95"),
        (("--slo", "high"), "--slo high: not a percentage above 0 and below 100, such as 99.95"),
        (("--cluster", "elsewhere"), "--cluster elsewhere: history knows no such cluster"),
        (("--since", "later"), "'later' is neither a time like 2026-11-21T10:00:00Z nor"),
    ],
)
def test_what_is_wrong_is_one_line(
    config: str, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, answer, (line,) = asked(config, *arguments, capsys=capsys)
    assert (found, answer) == (USAGE, "")
    assert says in line


def test_an_older_lake_lacks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = written(tmp_path, unpacked(stored(10), tmp_path))
    found, _, (line,) = asked(config, *WINDOW, capsys=capsys)
    assert found == FAILED
    assert "version 10 had no gold.availability" in line


PAGE = document("availability.md")


def test_the_documented_lines(
    config: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """But for `mark`, which needs Spark: tests/spark/test_mark.py."""
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    monkeypatch.chdir(tmp_path)
    lines = commands(r"kafka-metadata-history (?:availability|report|query) ?.*", PAGE)
    assert len(lines) == 6
    answers = {}
    for line in lines:
        assert exit_status(shlex.split(line)[1:]) == 0
        answers[line] = capsys.readouterr().out
    (example,) = (answer for line, answer in answers.items() if "12:00:30Z" in line)
    assert f"```text\n{example}```" in PAGE
    assert (tmp_path / "report.html").exists()
