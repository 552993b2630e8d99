"""The folder of a spool: who records into it, and what is refused."""

import errno
import os
import time
from dataclasses import replace

import psutil
import pytest

from metadata_source.recorder import folder as folders
from metadata_source.recorder.folder import began_s, last_owner, owner_of, prepare
from metadata_source.recorder.process import Driver
from metadata_source.recorder.spool import Owner, SpoolError
from tests.support.spools import opened, owner


def test_a_spool_has_one_writer(tmp_path):
    written = opened(tmp_path, "mine", "first")
    assert owner_of(tmp_path) == owner("mine", "first") == last_owner(tmp_path)
    with pytest.raises(SpoolError, match=f"{tmp_path}: another recorder writes this spool"):
        opened(tmp_path)
    assert owner_of(tmp_path) == owner("mine", "first"), "who was refused is not the owner"
    written.close()
    assert owner_of(tmp_path) is None
    assert last_owner(tmp_path) == owner("mine", "first")
    opened(tmp_path, "other").close()
    assert owner_of(tmp_path / "none") is None


def test_whoever_has_the_lock_and_says_nothing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_OWNER_WAIT_S", 0.05)
    monkeypatch.setattr(folders, "_LOCK_WAIT_S", 0.05)
    written = opened(tmp_path)
    (tmp_path / "owner.json").unlink()
    with pytest.raises(
        SpoolError, match="a process holds the lock of the spool that is no recorder"
    ):
        owner_of(tmp_path)
    gone = Owner("token", 2**22 + 1, 0.0, "run")
    folders.write_json(
        tmp_path / "owner.json",
        {"version": 1, "token": "old", "pid": gone.pid, "started": 0, "run": "r"},
    )
    begin = time.monotonic()
    assert owner_of(tmp_path).run == "r", "of another machine's processes nothing is known here"
    assert time.monotonic() - begin >= 0.05
    written.close()


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            lambda path: path.write_text(""),
            "the spool cannot be written or read (File exists): name another folder",
        ),
        (
            lambda path: (path / "orders.csv").mkdir(parents=True),
            "it holds other files (orders.csv): name a folder",
        ),
        (
            lambda path: (
                path.mkdir(),
                (path / "spool.json").write_text('{"version": 7, "id": "x"}'),
            ),
            (
                "a spool of version 7, and this is version 3: let the version that wrote it "
                "commit what is in it (--once)"
            ),
        ),
    ],
)
def test_a_folder_that_is_no_spool_is_refused_in_one_line(tmp_path, made, problem):
    folder = tmp_path / "spool"
    made(folder)
    for use in (opened, prepare):
        with pytest.raises(SpoolError) as refused:
            use(folder)
        assert str(refused.value).startswith(f"[KAFKA_METADATA_SPOOL] {folder}: {problem}")
        assert "\n" not in str(refused.value)


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(
        os, "access", lambda *_: False
    )  # rights do not bind whoever runs the tests as root
    with pytest.raises(
        SpoolError,
        match=r"spool: the spool cannot be written or read \(Permission denied\): name an",
    ):
        prepare(tmp_path / "spool")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room on its disk"),
        (errno.EDQUOT, "make room on its disk"),
        (errno.EIO, "its disk fails: name a folder of another one"),
        (errno.EACCES, "give this user the right to write there"),
    ],
)
def test_a_folder_that_the_system_refuses_says_what_helps(tmp_path, number, remedy):
    assert remedy in str(folders.unusable(tmp_path, OSError(number, os.strerror(number))))


def test_a_lock_that_may_not_be_opened_is_one_line(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(folders.os, "open", refused)
    with pytest.raises(
        SpoolError, match=f"{tmp_path}: the spool cannot be written or read \\(Permission denied\\)"
    ):
        folders.is_held(tmp_path)


def test_whoever_sets_the_clock_makes_no_other_process_of_a_recorder_or_its_driver(monkeypatch):
    mine, began = owner(), began_s(os.getpid())
    boot = psutil._pslinux.boot_time
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot() - 3600)
    assert mine.is_alive()
    assert not Driver(os.getpid(), began).is_gone
    assert not replace(mine, started=mine.started - 60).is_alive()
    assert Driver(os.getpid(), began - 60).is_gone
