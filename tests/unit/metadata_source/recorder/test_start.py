"""Starting a recorder, and a reader's hold on it: over processes that hold the lock of a spool and
poll nobody.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from metadata_source.backoff import backoff_s
from metadata_source.errors import OptionsError
from metadata_source.recorder import folder, start
from metadata_source.recorder.folder import began_s, owner_of
from metadata_source.recorder.spool import SpoolError, TakenOverError
from metadata_source.recorder.start import Hold, write_facts
from tests.support.repository import ROOT
from tests.support.spools import opened

OPTIONS = {
    "kafka.bootstrap.servers": "one:9092", "pollInterval": "1s",
    "NEWESTSTREAM": "20261101T110000Z-0123abcd",
    "doubtedClock": "x", "knownids": "{}", "recorder": "token",
}  # fmt: skip
DRIVER = os.getpid(), began_s(os.getpid())
RECORDER = """
import json, os, signal, sys, time
from pathlib import Path
given = json.load(sys.stdin)
folder = Path(given["spool"])
(folder.parent / "given.json").write_text(json.dumps(given))
if (folder.parent / "dies").exists():
    sys.exit(int((folder.parent / "dies").read_text() or 3))
if (folder.parent / "stubborn").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
from tests.support.spools import opened
spool = opened(folder, given["token"])
time.sleep(600)
"""


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A spool's folder, and the recorders that were started, which are no recorders; all end with
    the test.
    """
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def run(command, **given):
        assert command == [sys.executable, "-m", "metadata_source.recorder"]
        processes.append(popen([sys.executable, "-c", RECORDER], **given))
        return processes[-1]

    monkeypatch.setattr(start.subprocess, "Popen", run)
    yield tmp_path / "spool", processes
    for process in processes:
        process.kill()
        process.wait()


def wait(check, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until
        time.sleep(0.02)


def hold(path: Path, token: str = "token") -> Hold:  # noqa: S107 - no password
    return Hold(OPTIONS, path, token, DRIVER)


def holder(path: Path) -> int | None:
    owner = owner_of(path)
    return None if owner is None else owner.pid


def test_a_recorder_gets_the_options_of_the_stream_and_none_of_what_only_the_lake_tells(started):
    path, _ = started
    process = start.start(OPTIONS, path, "token", DRIVER, once=True)
    wait(lambda: holder(path) == process.pid)
    assert json.loads((path.parent / "given.json").read_text()) == {
        "options": {"kafka.bootstrap.servers": "one:9092", "pollInterval": "1s"},
        "spool": str(path),
        "token": "token",
        "driver": [*DRIVER],
        "once": True,
    }
    assert os.getsid(process.pid) == process.pid, (
        "whoever interrupts a command does not interrupt it"
    )


def test_a_folder_that_cannot_be_used_is_an_error_before_anything_starts(started):
    path, processes = started
    path.write_text("")
    with pytest.raises(SpoolError, match="File exists"):
        start.start(OPTIONS, path, "token", DRIVER)
    assert processes == []


def test_a_reader_starts_a_recorder_where_none_records_and_holds_on_to_it(started):
    path, processes = started
    held = hold(path)
    for _ in range(3):
        held.attach()
    assert len(processes) == 1, "it has not got the lock yet"
    wait(lambda: holder(path) == processes[0].pid)
    held.attach()
    hold(path).attach()
    assert len(processes) == 1, "a reader of the same run has the same recorder"


def test_a_recorder_that_has_died_for_days_is_still_started_again(started):
    path, processes = started
    held = hold(path)
    held._tried, held._started_at = 5_000, time.monotonic()
    held.attach()
    assert len(processes) == 1
    assert held._next_at - held._started_at == start._AGAIN_AT_MOST_S
    assert [backoff_s(start._AGAIN_AFTER_S, tried, 30) for tried in (1, 2, 3)] == [1, 2, 4]


def test_a_recorder_that_dies_is_started_again_and_more_seldom_each_time(started, monkeypatch):
    path, processes = started
    (path.parent / "dies").touch()
    held, now_s = hold(path), 0.0

    def attach() -> int:
        held.attach()
        processes[-1].wait(60)
        return len(processes)

    with monkeypatch.context() as patch:
        patch.setattr(start, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=time.sleep))
        assert attach() == 1
        for count, apart_s in enumerate((1, 2, 4, 8, 16, 30, 30), 1):
            now_s += apart_s - 0.5
            assert attach() == count
            now_s += 0.5
            assert attach() == count + 1
        now_s += 60.5  # it did not die of its start
        assert attach() == 9
        now_s += 1
        assert attach() == 10
    (path.parent / "dies").unlink()
    wait(lambda: held.attach() or holder(path))
    assert holder(path) == processes[-1].pid
    processes[-1].kill()
    wait(lambda: held.attach() or holder(path) not in {None, processes[-2].pid})


def test_a_recorder_whose_folder_was_removed_is_ended_and_another_one_started(started):
    path, processes = started
    held = hold(path)
    held.attach()
    wait(lambda: holder(path))
    held.attach()
    shutil.rmtree(path)
    wait(lambda: held.attach() or holder(path))
    assert len(processes) == 2
    assert processes[0].poll() is not None
    assert holder(path) == processes[1].pid


def test_a_recorder_that_never_gets_the_lock_is_ended_and_another_one_started(started, monkeypatch):
    path, processes = started
    monkeypatch.setattr(start, "_LOCKS_WITHIN_S", 0.0)
    held = hold(path)
    held.attach()
    held.attach()
    assert processes[0].poll() is not None
    wait(lambda: held.attach() or len(processes) == 2)


def test_a_recorder_that_refuses_its_options_ends_the_query(started):
    path, processes = started
    (path.parent / "dies").write_text(str(start.REFUSED))
    held = hold(path)
    held.attach()
    processes[0].wait(60)
    with pytest.raises(
        OptionsError, match=f"the recorder of the spool {path} refuses its options: its last line"
    ):
        held.attach()
    assert len(processes) == 1


def test_a_recorder_says_by_its_status_that_its_options_cannot_be_meant(tmp_path):
    given = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "clientHashKey": "env:KEY_THAT_NOBODY_HAS_SET",
    }
    assert start.start(given, tmp_path / "spool", "token", DRIVER).wait(60) == start.REFUSED


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_reader_takes_the_spool_over_and_whoever_had_it_ends(started, monkeypatch, is_stubborn):
    path, processes = started
    if is_stubborn:
        monkeypatch.setattr(start, "_ENDS_WITHIN_S", 0.5)
        (path.parent / "stubborn").touch()
    first, second = hold(path, "first"), hold(path, "second")
    first.attach()
    wait(lambda: holder(path))
    first.attach()
    second.attach()
    assert processes[0].wait(60) == -(signal.SIGKILL if is_stubborn else signal.SIGTERM)
    wait(lambda: holder(path) == processes[1].pid)
    second.attach()
    with pytest.raises(TakenOverError) as taken:
        first.attach()
    assert str(taken.value) == (
        f"[KAFKA_METADATA_SPOOL] another run has taken over the spool {path}; nothing is lost, "
        "this one ends"
    )
    again = hold(path, "first")
    for ask in (again.attach, again.record_once):
        with pytest.raises(TakenOverError):
            ask()
    assert len(processes) == 2


def test_a_recorder_that_cannot_be_ended_is_an_error_in_one_line(started, monkeypatch):
    path, processes = started
    written = opened(path, "other")
    monkeypatch.setattr(start, "_ENDS_WITHIN_S", 0.1)
    monkeypatch.setattr(start, "_KILLED_WITHIN_S", 0.1)
    asked = []
    monkeypatch.setattr(start.os, "kill", lambda *given: asked.append(given))
    with pytest.raises(
        SpoolError,
        match=f"{path}: the recorder {os.getpid()} does not end: end it, or name another",
    ):
        hold(path).attach()
    assert asked == [(os.getpid(), signal.SIGTERM), (os.getpid(), signal.SIGKILL)]

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(start.os, "kill", refused)
    with pytest.raises(
        SpoolError,
        match=f"the recorder of another user writes this spool \\(process {os.getpid()}\\)",
    ):
        hold(path).attach()
    about = {"version": 1, "token": "other", "pid": os.getpid(), "started": 0.0, "run": "r"}
    folder.write_json(path / "owner.json", about)
    monkeypatch.setattr(folder, "_OWNER_WAIT_S", 0.1)
    with pytest.raises(
        SpoolError, match="a recorder of another machine, or container, writes this spool"
    ):
        hold(path).attach()
    assert processes == []
    written.close()


def test_a_recorder_finds_the_package_where_the_reader_did(tmp_path):
    """Also where that was a folder, or an archive, that was put on the path of the process."""
    script = """
import sys
sys.path[:0] = [sys.argv[1]]
from pathlib import Path
from metadata_source.recorder.start import start
process = start({}, Path("spool"), "token", (1, 0.0))
print(process.wait(60))
"""
    package = tmp_path / "packages" / "metadata_source"
    package.parent.mkdir()
    package.symlink_to(ROOT / "metadata_source")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", script, str(package.parent)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=env, check=True
    )
    assert "No module named metadata_source'" not in done.stderr
    assert (tmp_path / "spool" / "lock").exists()


def test_facts_are_written_in_one_step(tmp_path):
    write_facts(tmp_path, "run", {"east": "abc"}, (1.0, 2.0))
    write_facts(tmp_path, "run", {}, None)
    written = json.loads((tmp_path / "facts.json").read_text())
    assert written == {"token": "run", "cluster_ids": {}, "doubted_clock": None}
    assert [path.name for path in tmp_path.iterdir()] == ["facts.json"]


@pytest.mark.parametrize(("token", "is_kept"), [("token", True), ("of-a-run-before", False)])
def test_a_recorder_begins_with_facts_of_its_own_run_alone(started, token, is_kept):
    path, _ = started
    folder.prepare(path)
    write_facts(path, token, {"east": "abc"}, None)
    hold(path).attach()
    assert (path / "facts.json").exists() == is_kept


def test_a_recorder_that_was_started_here_has_ended_when_its_hold_ends(started, monkeypatch):
    path, processes = started
    monkeypatch.setattr(start, "_ENDS_WITHIN_S", 0.5)
    (path.parent / "stubborn").touch()
    held = hold(path)
    held.attach()
    wait(lambda: holder(path))
    held.end()
    assert processes[0].returncode == -signal.SIGKILL
