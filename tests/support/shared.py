"""What is made once in a run of tests, by the process that needs it first; the others wait for
it.
"""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_RUN: Final[list[Path]] = []


def share_in(factory: pytest.TempPathFactory) -> None:
    """Say where the processes of this run keep what they share."""
    base = factory.getbasetemp()
    # Of several processes each has its own.
    _RUN[:] = [base.parent if "PYTEST_XDIST_WORKER" in os.environ else base]


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` has filled, and that nobody may change."""
    (base,) = _RUN
    folder, done = base / name, base / f"{name}.made"
    with (base / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # let go when the file is closed
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder
