"""The demo, as far as nothing runs. It runs in tests/kafka/test_installed.py."""

from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, exit_status


@pytest.mark.parametrize("name", ["thesis.txt", "demo.yaml"])
def test_a_folder_that_is_not_a_demos_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("years of work")
    assert exit_status(["demo", "--folder", str(tmp_path)]) == FAILED
    said = f"kafka-metadata-history: {tmp_path} is there and is not a demo's: move it, or name another --folder\n"
    assert capsys.readouterr().err == said
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_made_again_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert exit_status(["demo", "--folder", str(tmp_path / "file" / "folder")]) == FAILED
    assert capsys.readouterr().err.endswith("cannot be made again: Not a directory\n")
