"""When rows came into a Delta table, by the table's own log, without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Commit:
    """One commit: when it was made, and the files whose rows it brought or wrote again."""

    version: int
    at: datetime
    files: tuple[Path, ...]

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns of its files' rows; none where its files are gone."""
        tables = [
            _in_utc(pq.read_table(file, columns=list(columns), partitioning=None))
            for file in self.files
            if file.exists()
        ]
        return pa.concat_tables(tables) if tables else pa.table({name: [] for name in columns})


def _in_utc(rows: pa.Table) -> pa.Table:
    """Rows with their times in UTC, whose zone Spark's files (INT96) do not name."""
    schema = pa.schema(
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
        for field in rows.schema
    )
    return rows.cast(schema)


def commits(table: Path, after: int = -1) -> Iterator[Commit]:
    """Yield the commits of a table that have files, oldest first; those beyond the version `after`.
    A table may be still to come.
    """
    for file in sorted((table / "_delta_log").glob("[0-9]*.json")):
        if int(file.stem) <= after:
            continue
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        added = tuple(
            table / unquote(action["add"]["path"]) for action in actions if "add" in action
        )
        at = next(action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action)
        if added:
            yield Commit(int(file.stem), datetime.fromtimestamp(at / 1000, UTC), added)


class Followed:
    """The rows of a table as they come in; each commit is read once."""

    def __init__(self, table: Path, columns: Sequence[str]) -> None:
        self.rows: list[tuple[datetime, dict[str, Any]]] = []
        """Every row that a commit brought or wrote again, with the time of the commit."""
        self._table = table
        self._columns = columns
        self._version = -1

    def look(self) -> bool:
        """Take in what is new; return whether anything was."""
        before = self._version
        for commit in commits(self._table, self._version):
            self.rows += [(commit.at, row) for row in commit.rows(self._columns).to_pylist()]
            self._version = commit.version
        return self._version > before


def first_commits(
    table: Path, key: str, *columns: str, where: tuple[str, object] | None = None
) -> list[tuple[datetime, dict[str, Any]]]:
    """Return each row of a table once, by `key`, with the time of the commit that first had it;
    `where`: a column and its value.
    """
    followed = Followed(table, [key, *columns])
    followed.look()
    first: dict[object, tuple[datetime, dict[str, Any]]] = {}
    for at, row in followed.rows:
        if where is None or row[where[0]] == where[1]:
            first.setdefault(row[key], (at, row))
    return list(first.values())
