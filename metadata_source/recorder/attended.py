"""The spool of a stream that commits its entries: keeps its recorder running and attended."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import psutil

from metadata_source.recorder.folder import (
    SpoolError,
    attend,
    began_s,
    make_temporary,
    owner_of,
    prepare,
    spool_id,
)
from metadata_source.recorder.spool import Spooled
from metadata_source.recorder.start import Hold, write_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.options import Options

_CHECKED_EVERY_S: Final = 1.0
_POLL_S: Final = 0.05
_GONE: Final = "the Spark driver is gone"
_TRIES: Final = 3
"""How often a recorder that is to poll once is started, where it dies."""


class Attended:
    """The spool of a stream, from when its query asks for a batch until it ends."""

    def __init__(self, options: Options, given: Mapping[str, str], *, once: bool) -> None:
        """Make the folder, and tell a recorder what the lake says. `given`: the options as texts.

        Raises SpoolError, and RuntimeError where the driver is gone.
        """
        try:
            driver = os.getppid()
            self._driver = driver, began_s(driver)
        except psutil.NoSuchProcess:
            raise RuntimeError(_GONE) from None
        self._is_own = options.spool is None
        self.folder = (
            Path(mkdtemp(prefix="kafka-metadata-spool-"))
            if options.spool is None
            else Path(options.spool)
        )
        self._once, self._facts = once, (options.known_ids, options.doubted_clock)
        self.token = options.recorder or uuid4().hex
        # This process ends with the query; a folder of the query's own is of no use then.
        own = os.getpid()
        ends_with = (own, began_s(own)) if self._is_own else self._driver
        self._hold = Hold(given, self.folder, self.token, ends_with)
        self._spooled: Spooled | None = None
        self._checked_at = float("-inf")
        self._is_over = threading.Event()
        self._begin()
        # A batch may run for as long as it likes: polls are made all the same.
        threading.Thread(
            target=attend, args=(self.folder, self._is_over), name="attends", daemon=True
        ).start()

    def _begin(self) -> None:
        prepare(self.folder)
        if self._is_own and not self._once:
            make_temporary(self.folder)
        # Where the disk is full, the recorder has the ids from the clusters themselves.
        with suppress(OSError):
            write_facts(self.folder, self.token, *self._facts)

    @property
    def spooled(self) -> Spooled | None:
        """The spool, which may have replaced an earlier one; None if no recorder made one yet."""
        if (
            self._spooled is None
            or self._spooled.id is None
            or self._spooled.id != spool_id(self.folder)
        ):
            self._spooled = Spooled(self.folder)
        return None if self._spooled.id is None else self._spooled

    def check(self) -> None:
        """Now and then, see that the driver and the recorder are there.

        Raises RuntimeError once the driver is gone: nobody else ends this process then. And see
        `Hold.attach`.
        """
        now = time.monotonic()
        if now - self._checked_at < _CHECKED_EVERY_S:
            return
        self._checked_at = now
        self._check_driver()
        if not self.folder.exists():
            self._begin()
        self._hold.attach()

    def record_once(self) -> None:
        """Poll each cluster once, by a recorder of this run. Raises SpoolError if that dies."""
        while (owner := owner_of(self.folder)) is not None and owner.token == self.token:
            self._wait()  # it was started by a reader that has died since
        status: int | None = None
        for _ in range(_TRIES):
            process = self._hold.record_once()
            while (status := process.poll()) is None:
                self._wait()
            if status == 0:
                return
        raise SpoolError(
            f"{self.folder}: its recorder ended with status {status}: its last line says why"
        )

    def _wait(self) -> None:
        self._check_driver()
        time.sleep(_POLL_S)

    def _check_driver(self) -> None:
        if os.getppid() != self._driver[0]:
            self.end()
            raise RuntimeError(_GONE)

    def end(self) -> None:
        """Leave the spool: a folder of the stream's own ends with its recorder."""
        self._is_over.set()
        if self._is_own:
            self._hold.end()
            shutil.rmtree(self.folder, ignore_errors=True)
