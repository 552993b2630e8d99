"""The folder of a process that starts Spark: its own, and gone with it, though it is killed."""

import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kafka_metadata_history.scratch import PREFIX, scratch_folder
from tests.support.repository import ROOT

MAKES = """
import sys, time
from kafka_metadata_history.scratch import scratch_folder
folder = scratch_folder()
(folder / "blockmgr").mkdir()
print(folder, flush=True)
sys.stdin.read()
"""


def process(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    environment = {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", MAKES]
    pipe = subprocess.PIPE
    started = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert started.stdout is not None
    return started, Path(started.stdout.readline().strip())


def test_the_folder_of_a_process_that_was_killed_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, left_behind = process(tmp_path)
    living, of_living = process(tmp_path)
    ended, of_ended = process(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    ended.communicate()
    assert (left_behind.exists(), of_ended.exists()) == (True, False)
    somebody_elses, not_yet = tmp_path / f"{PREFIX}notes.txt", tmp_path / f"{PREFIX}begun"
    somebody_elses.write_text("mine")
    not_yet.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(left_behind)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = scratch_folder()
    try:
        assert stat.S_IMODE(own.stat().st_mode) == 0o700, "rows of shuffles are in it"
        assert not left_behind.exists()
        assert {each.exists() for each in (own, of_living, somebody_elses, not_yet)} == {True}
    finally:
        living.communicate()
    assert not of_living.exists()
