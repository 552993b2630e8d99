"""The commands show and diff ask a lake in a folder, without a JVM."""

import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, USAGE, exit_status
from schemas.lake import Lake
from tests.support.asof_lakes import KNOWN, twice
from tests.support.delta_lakes import delta_lake
from tests.support.documents import commands, section
from tests.support.printed import printed_by
from tests.support.store_lake import stored, unpacked


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The known incident, in two clusters."""
    rows = twice()
    both = {table: [*of, *rows[table]] for table, of in KNOWN.items()}
    return delta_lake(tmp_path_factory.mktemp("asof") / "lake", both)


@pytest.fixture
def config(lake: Lake, tmp_path: Path) -> str:
    return written(tmp_path, str(lake))


def written(place: Path, lake: str) -> str:
    file = place / "config.yaml"
    clusters = "{prod: {kafka.bootstrap.servers: 'a:1'}, test: {kafka.bootstrap.servers: 'b:1'}}"
    file.write_text(f"lake: {lake}\nclusters: {clusters}\n")
    return str(file)


showed = partial(printed_by, "show")
compared = partial(printed_by, "diff")
AT = ("--at", "2026-11-01T12:00:25Z")


def test_all_clusters_or_one(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, answer, beside = showed(config, *AT, "--format", "json", capsys=capsys)
    rows = [json.loads(line) for line in answer.splitlines()]
    assert (found, [row["cluster"] for row in rows]) == (0, ["prod", "test"])
    assert beside[0] == "2 rows, by DuckDB"
    _, answer, beside = showed(config, *AT, "--cluster", "test", capsys=capsys)
    heading, _, line = answer.splitlines()[:3]
    assert heading.split()[0] == "offline", "one cluster is not named in its table"
    assert line.split()[:5] == ["2", "2", "to", "3", "4"]
    assert beside[1].startswith("test at 2026-11-01 12:00:25Z; the record reaches to ")


def test_a_table_has_at_most_eight_columns(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for of in ((), ("--topic", "orders"), ("--broker", "1"), ("--group", "billing")):
        found, answer, _ = showed(config, *AT, *of, capsys=capsys)
        columns = re.split(r" {3,}", answer.splitlines()[0].strip())
        assert (found, len(columns) <= 8) == (0, True)


def test_a_difference_is_a_row(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    window = ("2026-11-01T12:00:05Z", "2026-11-01T12:00:25Z")
    found, answer, beside = compared(config, *window, "--format", "json", capsys=capsys)
    assert (found, len(answer.splitlines()), beside[0]) == (0, 12, "12 rows, by DuckDB")
    assert json.loads(answer.splitlines()[0]) == {
        "cluster": "prod",
        "what": "broker gone",
        "count": 1,
        "name": "2",
        "before": "listed",
        "after": None,
    }
    _, answer, beside = compared(config, *window, "--limit", "2", capsys=capsys)
    assert beside[0] == "12 rows, by DuckDB; 2 shown, --limit 0 shows all"


def test_two_clusters_that_are_set_alike(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, answer, beside = compared(
        config, "--clusters", "prod", "test", "--format", "json", capsys=capsys
    )
    assert (found, answer, beside[0]) == (0, "", "0 rows, by DuckDB")
    assert beside[1].startswith("before: prod at ")
    assert beside[2].startswith("after: test at ")


LATE, EARLY = "2026-11-01T12:01:00Z", "2026-11-01T12:00:05Z"
BEFORE = "2026-10-01T12:00:00Z"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("show", "--at", BEFORE), USAGE, "--at 2026-10-01 12:00:00Z: history of prod is 2026-"),
        (("show", "--at", "noon"), USAGE, "'noon' is neither a time like"),
        (("show", "--cluster", "tset"), USAGE, "history has prod, test; did you mean test?"),
        (("show", "--topic", "order"), USAGE, "knows no such topic; did you mean orders?"),
        (("show", "--broker", "9"), USAGE, "--broker 9: history knows no such broker; did you"),
        (("show", "--group", "biling"), USAGE, "knows no such group; did you mean billing?"),
        (("show", "--topic", "a", "--broker", "1"), USAGE, "--topic and --broker exclude each"),
        (("show", "--config", "none.yaml"), FAILED, "none.yaml"),
        (("diff",), USAGE, "give T1 and T2, or --clusters A B [--at T]"),
        (("diff", EARLY, LATE, LATE), USAGE, "give T1 and T2, or --clusters A B [--at T]"),
        (("diff", LATE, EARLY), USAGE, "T1 2026-11-01 12:01:00Z is after T2 2026-11-01 12:00:05Z"),
        (("diff", BEFORE, LATE), USAGE, "T1 2026-10-01 12:00:00Z: history of prod is 2026-"),
        (("diff", EARLY, "1 min"), USAGE, ": history of prod is 2026-11-01 12:00:00Z to"),
        (("diff", EARLY, "--topic", "order"), USAGE, "did you mean orders?"),
        (("diff", EARLY, "--at", LATE), USAGE, "give T1 and T2, or --clusters A B [--at T]"),
        (("diff", "--clusters", "prod", "prod"), USAGE, "--clusters: prod is named twice"),
        (("diff", "--clusters", "prod", "tset"), USAGE, "did you mean test?"),
        (("diff", "--clusters", "prod", "test", EARLY), USAGE, "--clusters takes --at and --topic"),
    ],
)
def test_what_is_wrong_is_one_line(
    config: str,
    arguments: tuple[str, ...],
    status: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *more = arguments
    found, answer, lines = printed_by(command, config, *more, capsys=capsys)
    assert (found, answer) == (status, "")
    assert says in lines[-1]


def test_a_lake_of_an_older_version_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, str(unpacked(stored(9), tmp_path)))
    found, _, beside = showed(config, capsys=capsys)
    assert (found, beside[1].startswith("the lake is of version 9, older than ")) == (0, True)
    found, _, beside = compared(config, EARLY, capsys=capsys)
    assert (found, beside[1].startswith("the lake is of version 9, older than ")) == (0, True)


LINES = dict.fromkeys(commands(r"kafka-metadata-history (?:show|diff)\b.*"))


def test_the_lines_of_the_documents(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_METADATA_HISTORY_CONFIG", config)
    assert len(LINES) >= 8
    for line in LINES:
        assert exit_status(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "diff"])
def test_the_documented_example(
    config: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the answer to the last line above it."""
    text = section("show-and-diff.md", f"## `{command}`")
    above, example = text.split("```text\n")
    line = above.split("\n```")[-2].splitlines()[-1]
    _, answer, _ = printed_by(command, config, *shlex.split(line)[3:], capsys=capsys)
    assert answer == example.split("```")[0]
