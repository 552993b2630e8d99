"""The process that started this one."""

from __future__ import annotations

import os


class Parent:
    """The Spark driver, of a process that it started, which nobody else ends if it is killed."""

    def __init__(self) -> None:
        self._pid = os.getppid()

    def check(self) -> None:
        """Raise RuntimeError once it is gone."""
        if os.getppid() != self._pid:
            raise RuntimeError("the Spark driver is gone")
