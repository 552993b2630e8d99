"""The files of a lake in an object store, as DuckDB asks for them, with as few requests as can be.

A request takes tens of milliseconds, and is paid. Delta's log has the size of each file, so no
store is asked for it. The ends of new files, which say what is in them, are read side by side; of a
small file that is all of it. What was read is kept: a file of a lake never changes.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from io import SEEK_CUR, SEEK_END, SEEK_SET, BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler
from fsspec import AbstractFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

AT_ONCE: Final = 16
"""So many requests of a process wait for a store at a time."""
WHOLE: Final = 256 * 2**10
"""A file up to this size is read by one request, in bytes."""
_END: Final = 64 * 2**10
"""Of a larger file this is read first: Parquet's footer is there."""
_KEPT: Final = 64 * 2**20
"""Of what was read, in bytes."""


@cache
def side_by_side() -> ThreadPoolExecutor:
    """Return the threads of this process that wait for stores and disks. What they do waits for no
    other one of them.
    """
    return ThreadPoolExecutor(AT_ONCE, "lake")


def sizes_of(stored: DeltaTable) -> dict[str, int]:
    """Return the bytes of each file of a version of a table, by path within its folder."""
    actions = pa.table(stored.get_add_actions()).select(["path", "size_bytes"]).to_pydict()
    return dict(zip(map(unquote, actions["path"]), actions["size_bytes"], strict=True))


def reader_of(
    stored: DeltaTable, options: Mapping[str, str], sizes: Mapping[str, int]
) -> pa_fs.FileSystem:
    """Return what reads files of a table, by path within its folder, over the connections that its
    log was read by. `sizes`: of each file that will be opened. For another one delta-rs would ask
    the store, and let no other thread of the process run until it answers.
    """
    handler = DeltaStorageHandler.from_table(stored._table, {**options}, {**sizes})  # noqa: SLF001 - what it takes
    return pa_fs.PyFileSystem(handler)


@dataclass(frozen=True)
class _Table:
    files: pa_fs.FileSystem
    sizes: Mapping[str, int]


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of tables of one lake, by the names that Delta's log has. Several threads read."""

    cachable = False

    def __init__(self, root: str) -> None:
        """Know no file yet. `root`: of the lake, as delta-rs has it."""
        super().__init__()
        self.protocol = root.partition(":")[0]
        self._root = f"{root.rstrip('/')}/"
        self._tables: dict[str, _Table] = {}
        self._kept: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()
        self._kept_bytes = 0
        self._alone = Lock()

    def add(self, folder: str, stored: DeltaTable, options: Mapping[str, str]) -> list[str]:
        """Know the files of a version of a table, beside those of versions before. Return those
        that are new.
        """
        before = self._tables[folder].sizes if folder in self._tables else {}
        sizes = sizes_of(stored)
        merged = {**before, **sizes}
        self._tables[folder] = _Table(reader_of(stored, options, merged), merged)
        return [f"{folder}/{path}" for path in sizes if path not in before]

    def read_end(self, path: str) -> None:
        """Read what DuckDB will ask first, of a file that is known. Raises OSError."""
        size = self._size(path)
        start = 0 if size <= WHOLE else size - _END
        self._read(path, start, size - start)

    def read_part(self, path: str, start: int, count: int) -> bytes:
        """Read some bytes of a file, which may be less at its end. Raises OSError."""
        size = self._size(path)
        end = size - _END
        if start >= end:
            return self._read(path, end, _END)[start - end :][:count]
        return self._read(path, start, min(count, size - start))

    def _read(self, path: str, start: int, count: int) -> bytes:
        """Read a part of a file by one request, unless it is kept."""
        key = path, start, count
        with self._alone:
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return kept
        table, name = self._table_of(path)
        with table.files.open_input_file(name) as file:
            file.seek(start)
            found: bytes = file.read(count)
        if len(found) != count:
            raise OSError(f"{path}: has lost bytes")
        with self._alone:
            if key not in self._kept:
                self._kept[key] = found
                self._kept_bytes += count
            while self._kept_bytes > _KEPT:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return found

    def _size(self, path: str) -> int:
        table, name = self._table_of(path)
        return table.sizes[name]

    def _table_of(self, path: str) -> tuple[_Table, str]:
        """The table that a file is of, and its path in it."""
        schema, table, name = [*path.removeprefix(self._root).split("/", 2), "", ""][:3]
        found = self._tables.get(f"{self._root}{schema}/{table}")
        if found is None or name not in found.sizes:
            raise PermissionError(f"{path}: not of this lake")
        return found, name

    # --- what DuckDB asks ---

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Open a file, to read."""
        if mode != "rb":
            raise PermissionError(f"{path}: only reads")
        size = self._size(path)
        return BytesIO(self._read(path, 0, size)) if size <= WHOLE else _File(self, path, size)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the size of a file."""
        return {"name": path, "size": self._size(path), "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the same path: characters of patterns mean nothing in it."""
        return [path]

    def modified(self, path: str) -> datetime:
        """Return the same time for all files: none changes."""
        del path
        return datetime.fromtimestamp(0, UTC)


class _File:
    """A file that is open, of which parts are read."""

    def __init__(self, files: StoreFiles, path: str, size: int) -> None:
        self._files, self._path, self._size = files, path, size
        self._at = 0

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        rest = self._size - self._at
        found = self._files.read_part(self._path, self._at, rest if count < 0 else count)
        self._at += len(found)
        return found

    def close(self) -> None:
        """Hold nothing."""
