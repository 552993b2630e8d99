"""The demo, as far as nothing runs. It runs in tests/kafka/test_installed.py."""

from pathlib import Path

import pytest

from kafka_metadata_history.command import FAILED, exit_status


def test_a_folder_that_is_not_a_demos_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert exit_status(["demo", "--folder", str(tmp_path)]) == FAILED
    assert (
        capsys.readouterr().err == f"demo: {tmp_path} is there and is not a demo's: move it, or say another --folder\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]
