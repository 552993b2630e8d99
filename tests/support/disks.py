"""A disk that is full, or that nobody may write to: a file system of its own in memory, where the
machine lets us mount one.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from jobs.rounds.commit import Commit
from tests.support.waiting import eventually


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of this size on a new folder, for a while. Skips the test where that is
    not allowed.
    """
    folder.mkdir()
    size = f"size={megabytes}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Fill a disk, a mounted one, for a while."""
    filler = disk / "filler"
    _fill(disk, filler)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def unwritable(disk: Path) -> Iterator[None]:
    """Let nobody write to a disk, a mounted one, for a while; what is there can be read."""
    remount = ["mount", "-o", "remount,{}", str(disk)]

    def is_done(how: str) -> bool:
        words = [word.format(how) for word in remount]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    eventually(lambda: is_done("ro"), "no file is open that is written to")
    try:
        yield
    finally:
        assert is_done("rw")


def _fill(disk: Path, filler: Path) -> None:
    free = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize)


@contextmanager
def full_after(
    disk: Path, commits: int, owner: object = Commit, name: str = "write"
) -> Iterator[None]:
    """Let a process make so many more commits: calls of an attribute of an owner, which are those
    of rounds by default. Then the disk, a mounted one, is full, for a while.
    """
    commit, lock, left, filler = getattr(owner, name), Lock(), [commits], disk / "filler"

    def committing(*args: Any, **more: Any) -> Any:
        with lock:
            # Commits are made side by side: one may come when the disk is there no more.
            if left[0] == 0 and disk.is_mount():
                _fill(disk, filler)
            left[0] -= 1
            return commit(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, committing)
        try:
            yield
        finally:
            with lock:
                left[0] = -1
                filler.unlink()
