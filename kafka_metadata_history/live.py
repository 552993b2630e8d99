"""A lake that a program asks for long: each commit of a job makes a new version."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.opened import InDuckDB, needs_no_spark, without_spark
from schemas.lake import TABLES, LakeError
from schemas.open_tables import OpenTables

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_metadata_history.answers.questions import Ask
    from schemas.lake import Lake


_FOLDERS: Final = [each for table in TABLES for each in (table, table.older) if each is not None]
"""Those that older versions have in place of others, too."""


_MEMORY: Final = "300MB"
"""Of all that is asked at a time. A program that stays gives no memory of the heap back."""


LOOK_S: Final = 60
"""How long what was read of an object store is the newest, in seconds."""
_AGAIN_S: Final = 3600
"""After so long all of an object store is opened again: a lake may have been made again there."""


@dataclass(frozen=True)
class Version:
    """A lake as of a commit. `name` differs from that of each other version. `ask`: our own SQL,
    `own`: SQL that a person wrote; all answers are of the rows that a table had when it was first
    asked. `older`: its version, if that is older than this program's.
    """

    name: str
    ask: Ask
    own: Ask
    older: Callable[[], int | None] = lambda: None


class LiveLake:
    """The newest version of a lake, to several threads. Nothing is read while nobody asks."""

    def __init__(self, lake: Lake, limit_s: float | None = None) -> None:
        """Raise LakeError for a lake that only Spark reads. `limit_s`: of an answer."""
        if not (lake.is_folder or lake.is_object_store):
            raise LakeError(
                f"{lake}: is neither a folder of this machine nor in an object store, which is all "
                "that is read here"
            )
        self.lake = lake
        self._limit_s = limit_s
        self._one_by_one = Lock()
        self._newest: Version | None = None
        self._tables: OpenTables | None = None
        self._opened_s = 0.0
        self._looked = ""
        self._is_over = False

    def version(self) -> str:
        """Return a name that differs once there may be a newer version than before. It looks at
        folders' times of change alone, some microseconds each. An object store is paid by the
        request: there may be a newer version each LOOK_S, and `now` looks.
        """
        if not self.lake.is_folder:
            return f"{int(monotonic() // LOOK_S):x}"
        changed = [_changed(Path(self.lake.path(table), "_delta_log")) for table in _FOLDERS]
        return sha256(repr(changed).encode()).hexdigest()[:16]

    def end(self) -> None:
        """Interrupt what is asked, from another thread: it fails, and so does all after it."""
        self._is_over = True
        if self._newest is not None and isinstance(self._newest.ask, InDuckDB):
            self._newest.ask.end()

    def now(self) -> Version:
        """Return the newest version, opened, or of an object store that of the last look. Raises
        LakeError if there is no lake, or it cannot be read.
        """
        with self._one_by_one:
            name = self.version()
            if self._is_over:
                raise LakeError(f"{self.lake}: nobody is asked any more")
            has_moved = self._looked != name and self._has_moved()
            if self._newest is None or has_moved:
                needs_no_spark(self.lake)
                opened = without_spark(self.lake, self._limit_s, _MEMORY, self._tables)
                self._newest = Version(name, opened, opened.own, opened.older)
            self._looked = name
            return self._newest

    def _has_moved(self) -> bool:
        """Whether the lake is another one than that which is open. Tables of an object store stay
        open, and what was read of their files is kept, until one cannot be read.
        """
        if self.lake.is_folder:
            return True
        tables, self._tables = self._tables, None
        if tables is None or tables.has_expired() or monotonic() - self._opened_s > _AGAIN_S:
            self._tables, self._opened_s = OpenTables(self.lake), monotonic()
            return True
        has_moved = tables.has_moved()
        self._tables = tables
        return has_moved


def _changed(folder: Path) -> int:
    """When something was put into a folder, in ns since 1970; 0: it is not there."""
    try:
        return folder.stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return 0
