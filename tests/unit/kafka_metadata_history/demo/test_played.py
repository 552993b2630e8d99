"""The demo, as far as nothing runs. It runs in tests/kafka/test_installed.py."""

from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, exit_status
from kafka_metadata_history.demo.played import POLLS_AND_LOG
from schemas import bronze
from schemas.lake import VIEWS
from tests.support.bronze_rows import bronze_rows
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import answers, at
from tests.support.known_rows import known_rows


@pytest.mark.parametrize("name", ["thesis.txt", "demo.yaml"])
def test_a_folder_that_is_not_a_demos_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("years of work")
    assert exit_status(["demo", "--folder", str(tmp_path)]) == FAILED
    said = (
        f"kafka-metadata-history: {tmp_path} is there and is not a demo's: move it, or name "
        "another --folder\n"
    )
    assert capsys.readouterr().err == said
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_made_again_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert exit_status(["demo", "--folder", str(tmp_path / "file" / "folder")]) == FAILED
    assert capsys.readouterr().err.endswith("cannot be made again: Not a directory\n")


def test_polls_as_bronze_has_them_agree_with_history_that_polls_told() -> None:
    polls = bronze_rows("prod", answers())
    with duckdb_lake({**known_rows(), bronze.METADATA_POLLS: polls}, VIEWS) as lake:
        rows = ask(lake, POLLS_AND_LOG)
    assert [(row["topic"], row["prev_leader"], row["leader"]) for row in rows] == [
        ("__consumer_offsets", 2, 1),
        ("clicks", 2, 3),
        ("orders", 2, 3),
    ]
    for row in rows:
        assert (
            (row["polls_after"], row["polls_before"])
            == (row["log_after"], row["log_before"])
            == (at(0), at(10.1))
        )
