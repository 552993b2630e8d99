"""The tables of a lake by Delta's log, without a JVM: opened side by side, and looked at again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from schemas.lake import LakeError, version_of
from schemas.object_stores import address, options_of, reason
from schemas.store_files import StoreFiles, reader_of, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from schemas.lake import Lake
    from schemas.table import Table


@dataclass(frozen=True)
class OpenTable:
    """A table's log as of a version, and the folder in which its files are named."""

    log: DeltaTable = field(compare=False)
    folder: str
    version: int


_Found = OpenTable | LakeError | None
"""None: the table is not there."""


class OpenTables:
    """The tables of a lake, each as of the time when it was opened, or of the last look. Several
    threads may use it; who needs several tables of one time holds `alone`.
    """

    def __init__(self, lake: Lake) -> None:
        """Open nothing yet. Raises LakeError for a reference of `storage` that cannot be
        followed.
        """
        self.lake = lake
        self.files = StoreFiles(address(f"{lake.root}")) if lake.is_object_store else None
        self.alone = RLock()
        self._options = options_of(lake)
        self._found: dict[str, _Found] = {}

    def open(self, tables: Iterable[Table]) -> None:
        """Open those that are not open yet, and read the ends of their files where they are in an
        object store. `get` raises what is wrong with one.
        """
        with self.alone:
            new = [each for each in tables if each.full_name not in self._found]
            opened = side_by_side().map(self._opened, new)
            found = dict(zip((each.full_name for each in new), opened, strict=True))
            self._found |= self._with_ends(found)

    def get(self, table: Table) -> OpenTable | None:
        """Return a table; None: it is not there. Raises LakeError for one that is not ours, of a
        newer version, or cannot be read.
        """
        with self.alone:
            self.open([table])
            found = self._found[table.full_name]
            if isinstance(found, LakeError):
                del self._found[table.full_name]
                raise found
            return found

    def has_moved(self) -> bool:
        """Look for new versions of the tables that are open, by one request for each in an object
        store, and read those. Returns whether there is any, or none was open, or one was not there.
        Raises LakeError for the first that cannot be read, and for a reference of `storage` that
        cannot be followed: take new OpenTables then.
        """
        with self.alone:
            there = {
                name: found for name, found in self._found.items() if isinstance(found, OpenTable)
            }
            newest = side_by_side().map(self._newest, there, there.values())
            now = self._with_ends(dict(zip(there, newest, strict=True)))
            is_same = now == self._found and bool(now)
            self._found = now
            for each in now.values():
                if isinstance(each, LakeError):
                    raise each
            return not is_same

    def has_expired(self) -> bool:
        """Whether references of `storage` say something else by now. Raises LakeError."""
        return options_of(self.lake) != self._options

    def _opened(self, table: Table) -> _Found:
        path = address(self.lake.path(table))
        try:
            log = DeltaTable(path, storage_options=self._options)
            version_of(log.metadata().configuration, self.lake, table)
        except TableNotFoundError:
            return None if table.older is None else self._opened(table.older)
        except (DeltaError, OSError) as error:
            return unreadable(self.lake, table.full_name, str(error))
        except LakeError as error:
            return error
        return OpenTable(log, path, log.version())

    def _newest(self, name: str, opened: OpenTable) -> _Found:
        """The same table if it has no newer version, or that one."""
        next_ = f"_delta_log/{opened.version + 1:020}.json"
        try:
            with reader_of(opened.log, self._options or {}, {next_: 1}).open_input_file(
                next_
            ) as it:
                it.read(1)
            opened.log.update_incremental()
        except FileNotFoundError:
            return opened
        except (DeltaError, OSError) as error:
            return unreadable(self.lake, name, str(error))
        return replace(opened, version=opened.log.version())

    def _with_ends(self, found: dict[str, _Found]) -> dict[str, _Found]:
        """The same tables, with a problem in place of one of which a file cannot be read."""
        if self.files is None:
            return found
        new = [
            (name, path)
            for name, each in found.items()
            if isinstance(each, OpenTable)
            for path in self.files.add(each.folder, each.log, self._options or {})
        ]
        problems = side_by_side().map(partial(_problem, self.files.read_end), (p for _, p in new))
        for (name, _), problem in zip(new, problems, strict=True):
            if problem is not None and isinstance(found[name], OpenTable):
                found[name] = unreadable(self.lake, name, problem)
        return found


def list_place(lake: Lake) -> None:
    """Ask an object store for the names in the place of a lake, of which there may be none. Raises
    LakeError.
    """
    try:
        place = pa_fs.PyFileSystem(DeltaStorageHandler(address(f"{lake}"), options_of(lake)))
        place.get_file_info(pa_fs.FileSelector("", allow_not_found=True))
    except (DeltaError, OSError) as error:
        why = reason(str(error)) or " ".join(str(error).split())[:500]
        raise LakeError(f"{lake}: cannot be listed: {why}") from error


def _problem(read: Callable[[str], None], path: str) -> str | None:
    """The error of reading a file; None where it can be read."""
    try:
        read(path)
    except (DeltaError, OSError) as error:
        return str(error)
    return None


_NOT_ALLOWED: Final = re.compile(r"Permission denied|Operation not permitted|os error 13")
_GONE: Final = re.compile(r"No such file|No files found|not found|os error 2\b", re.IGNORECASE)


def unreadable(lake: Lake, name: str, problem: str) -> LakeError:
    """Say which table of a lake cannot be read, what is wrong, and what to do."""
    if not lake.is_folder and (why := reason(problem)) is not None:
        return LakeError(f"{lake}: {name} cannot be read: {why}")
    todo = "restore it from a backup, or take another lake"
    if _NOT_ALLOWED.search(problem):
        todo = "let this user read all files below it"
    elif _GONE.search(problem):
        todo = f"a file that its log names is gone; {todo}"
    line = (
        "permission denied"
        if _NOT_ALLOWED.search(problem)
        else " ".join(problem.partition("\n")[0].split())
    )
    return LakeError(f"{lake}: {name} cannot be read: {line[:500]}: {todo}")
