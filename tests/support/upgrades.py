"""Upgrades that are broken off, and lakes as they lie."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.upkeep import changing
from schemas.lake import TABLES, Lake
from schemas.table import Table
from tests.support import stored
from tests.support.store_lake import stored as stored_lake
from tests.support.store_lake import unpacked


class BrokenOffError(Exception):
    """Stands for SIGKILL."""


@contextmanager
def broken_off_after(commits: int) -> Iterator[None]:
    """Let an upgrade make so many commits. The one after them does not come to be."""
    change, lock, left = changing.change_delta, Lock(), [commits]

    def dying(*args: Any) -> int:
        with lock:
            if not left[0]:
                raise BrokenOffError
            left[0] -= 1
        return change(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changing, "change_delta", dying)
        yield


def of_version(version: int, folder: Path, *, is_fresh: bool = True) -> Lake:
    """A stored lake of a version. `is_fresh`: as if it had been written just now; else long ago."""
    root = unpacked(stored_lake(version), folder)
    for file in root.rglob("*") if is_fresh else ():
        os.utime(file, (time.time(), time.time()))
    return Lake(root=str(root))


def as_it_lies(lake: Lake) -> dict[str, list[str]]:
    """The rows of each table under the name that it has in the lake, with all its columns."""
    found = {}
    for log in sorted(Path(str(lake)).glob("*/*/_delta_log")):
        rows = DeltaTable(str(log.parent)).to_pyarrow_table().to_pylist()
        found[f"{log.parent.parent.name}.{log.parent.name}"] = sorted(map(_text, rows))
    return found


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def compared(table: Table, rows: list[stored.Row]) -> list[str]:
    """Rows without what differs from run to run."""
    names = [name for name in table.column_names if name not in {"updated_at", "part"}]
    return sorted(_text({name: row.get(name) for name in names}) for row in rows)


def names_in(lake: Lake) -> set[str]:
    """The tables of today that are in a lake."""
    return {table.full_name for table in TABLES if Path(lake.path(table), "_delta_log").is_dir()}
