"""A folder for what Spark keeps while it runs, which nobody else can read, and which goes with
whoever made it.

Java removes its files when it ends, but not if it is killed: rows of shuffles would stay for good,
and each run of a scheduler would leave more.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

PREFIX: Final = "kafka-metadata-history-"
_LOCK: Final = "lock"
_HELD: Final[list[IO[str]]] = []
"""The locks of this process: each lasts as long as the process does."""


def scratch_folder() -> Path:
    """Make a folder of this process, which is removed at its end. Remove those of processes that
    were killed.
    """
    for each in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_left_behind(each):
            shutil.rmtree(each, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = (folder / f"{_LOCK}.new").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Only now: without the file of this name, nobody takes the folder for one of a process that has
    # gone.
    (folder / f"{_LOCK}.new").rename(folder / _LOCK)
    _HELD.append(lock)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_left_behind(folder: Path) -> bool:
    """Whether a folder is of a process of this user that has gone."""
    try:
        if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
            return False
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # It is held, is not there yet, or is removed by another process.
        return False
    return True
