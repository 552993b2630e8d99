"""Copies of the checkout, in which one file at a time is changed and tests are run.

Each run is a process of its own. Such a process is forked of one that has imported the libraries,
so it takes the time of its tests.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LIBRARIES: Final = [
    *("pytest", "_pytest.assertion.rewrite", "xdist", "hypothesis.strategies"),
    *("pyarrow.compute", "pyarrow.parquet", "numpy", "pandas", "duckdb", "deltalake"),
    *("pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.streaming", "kafka", "psutil", "yaml"),
]
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_LIBRARIES)
_TIMEOUT_S: Final = 300
_OPTIONS: Final = [
    *("-x", "-q", "--tb=short", "-n", "0"),
    "--hypothesis-seed=0",  # chance must not decide
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of libraries that are there already
]
_TIMES: Final = count(1)


class Copy:
    """A copy of what the tests need of a checkout, uncommitted changes with it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder, self._log = folder, folder / "mutants.log"
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        for name in listed.stdout.splitlines():
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)

    @contextmanager
    def changed(self, name: str, old: str, new: str) -> Iterator[None]:
        """Have a text of a file replaced within the block."""
        original = (self._folder / name).read_text(encoding="utf-8")
        self._write(name, original.replace(old, new))
        try:
            yield
        finally:
            self._write(name, original)

    def _write(self, name: str, text: str) -> None:
        file = self._folder / name
        file.write_text(text, encoding="utf-8")
        # What Python has compiled is known by the file's size and its whole seconds.
        os.utime(file, (time := next(_TIMES), time))

    def run(self, tests: Sequence[str]) -> int:
        """Return pytest's exit code; 1 if the tests hang."""
        process = _FORKS.Process(target=_run, args=(str(self._folder), str(self._log), tests))
        process.start()
        process.join(_TIMEOUT_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # with all that the tests have left
        process.join()
        code = process.exitcode
        return 1 if code is None or code < 0 else code

    def said(self) -> str:
        """Return what the last run has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def _run(folder: str, log: str, tests: Sequence[str]) -> None:
    os.setsid()
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder
    code = int(pytest.main([*_OPTIONS, *tests]))
    sys.stdout.flush()
    os._exit(code)  # what a test has left behind cannot delay it
