"""The recorder's process: what it is started with, the life of its clusters, and its end.

It ends when it is asked to (SIGTERM), when the driver that it records for is gone, and ten minutes
after the last query that reads its spool left.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pyarrow as pa

from metadata_source.errors import OptionsError
from metadata_source.options import parse
from metadata_source.recorder.fleet import Fleet
from metadata_source.recorder.folder import ATTENDED, SAME_WITHIN_S, began_s
from metadata_source.recorder.spool import Owner, Spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from metadata_source.options import Options

_LOG: Final = logging.getLogger(__name__)
_WATCH_S: Final = 1.0
UNATTENDED_S: Final = 600.0
FACTS: Final = "facts.json"
"""The file in the spool's folder that says what only the lake knows."""


@dataclass(frozen=True, slots=True)
class Order:
    """The orders that a recorder is started with.

    `driver`: the process that it records for, and when that began (`began_s`); `token`: of the run,
    by which a reader knows its own recorder.
    """

    options: Options
    spool: Path
    token: str
    driver: tuple[int, float]
    is_once: bool = False

    @classmethod
    def read(cls, text: str) -> Order:
        """Read what `recorder.start` writes. Raises OptionsError."""
        try:
            given: dict[str, Any] = json.loads(text)
            pid, began = given["driver"]
            options, folder = given["options"], Path(given["spool"])
            return cls(
                parse(options, "stream"),
                folder,
                given["token"],
                (int(pid), float(began)),
                given["once"],
            )
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise OptionsError(
                f"the recorder was started with something else than its order: {error!r}"
            ) from None


class Driver:
    """The process that a recorder records for."""

    def __init__(self, pid: int, began: float) -> None:
        self._process: psutil.Process | None = None
        with suppress(psutil.Error):
            found = psutil.Process(pid)
            if abs(began_s(pid) - began) < SAME_WITHIN_S:
                self._process = found

    @property
    def is_gone(self) -> bool:
        """Whether it has ended; one that nobody has waited for, too."""
        if self._process is None:
            return True
        try:
            return not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


class _File:
    """A file that another process writes, and when it did last: checked now and then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: int | None = None
        self.changed_s = time.monotonic()

    def has_changed(self) -> bool:
        """Whether it was written since the last check."""
        seen = None
        with suppress(OSError):
            seen = self.path.stat().st_mtime_ns
        if seen is None or seen == self._seen:
            return False
        self._seen, self.changed_s = seen, time.monotonic()
        return True


def record(order: Order) -> bool:
    """Record until the end; return whether all was polled. Raises SpoolError, OptionsError."""
    _allow_open_files()
    # Arrow's own keeps memory for each thread that ever made a table, and each cluster has one.
    pa.set_memory_pool(pa.system_memory_pool())
    is_asked_to_end = _asked_to_end()
    spool = Spool.open(order.spool, Owner.here(order.token))
    try:
        fleet = Fleet(order.options, spool, is_once=order.is_once)
        facts = _File(order.spool / FACTS)
        _pass_on(fleet, facts)
        fleet.begin()
        _LOG.info("ends: %s", _watch(fleet, order, facts, spool, is_asked_to_end))
        is_complete = not order.is_once or fleet.has_ended
        fleet.end()
        return is_complete
    finally:
        spool.close()


def _watch(
    fleet: Fleet, order: Order, facts: _File, spool: Spool, is_asked_to_end: Callable[[float], bool]
) -> str:
    """Wait for the end; return why it has come."""
    driver = Driver(*order.driver)
    attended = _File(order.spool / ATTENDED)
    wait_s = 0.05 if order.is_once else _WATCH_S
    while not is_asked_to_end(wait_s):
        if order.is_once and fleet.has_ended:
            return "each cluster was polled once"
        if driver.is_gone:
            return "the driver is gone"
        if spool.is_removed:
            return "somebody has removed the spool, or made it again"
        if not attended.has_changed() and time.monotonic() - attended.changed_s > UNATTENDED_S:
            return f"no query has read the spool for {UNATTENDED_S / 60:.0f} minutes"
        _pass_on(fleet, facts)
    return "it was asked to"


def _pass_on(fleet: Fleet, facts: _File) -> None:
    """Note the facts of a file, if they are new. It is written by our own reader: one that cannot
    be read is a line in the log.
    """
    if not facts.has_changed():
        return
    try:
        fleet.expect(json.loads(facts.path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _LOG.error("%s: %s", facts.path, error)


def _asked_to_end() -> Callable[[float], bool]:
    """Let SIGTERM end the process; return what waits for it, s. SIGINT is for the driver: a
    terminal sends it to all of a command.
    """
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return lambda seconds: bool(select.select([reads], [], [], seconds)[0])


def _allow_open_files() -> None:
    """Raise the limit of open files: each broker has two connections, each of which has several."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _LOG.debug("open files: %s, at most %s", soft, hard)
