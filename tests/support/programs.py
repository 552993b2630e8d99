"""Programs that run beside a test, each in a process group of its own; a file has their output."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.repository import ROOT
from tests.support.waiting import eventually


class Program:
    """A program that may be ended and run again. In the end all that it started is killed."""

    def __init__(
        self,
        command: Sequence[str | Path],
        output: Path,
        *,
        folder: Path = ROOT,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._output, self._folder = command, output, folder
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """With which it has ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def end(self, by: signal.Signals, within: float = 120) -> int:
        """Send a signal to the whole process group; return the exit status."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, by)
        return self.wait(within)

    def wait(self, within: float = 120) -> int:
        """Return the exit status, once there is one."""
        assert self._process is not None
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it runs after {within} s: {self.log()[-3000:]}") from None

    def log(self) -> str:
        return self._output.read_text()

    def check_running(self) -> None:
        assert self.exit_status is None, self.log()[-3000:]

    def until(self, check: Callable[[], object], what: str, within: float = 600) -> None:
        """Wait for something that it does while it runs."""

        def is_so() -> bool:
            self.check_running()
            return bool(check())

        eventually(is_so, what, within=within)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)
