"""Groups' tables as rounds of their fold leave them, without Spark."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from jobs.configuration.config import Thresholds
from jobs.rules.groups.group import Group, fold
from schemas import groups
from schemas.table import Table

Row = dict[str, Any]
GROUP = Group("id-prod", "prod", "g")


class Rounds:
    """One group, and the rows of its tables."""

    def __init__(self, thresholds: Thresholds | None = None, group: Group = GROUP) -> None:
        self.group, self._thresholds = group, thresholds or Thresholds()
        self.memory: str | None = None
        self.tables: dict[str, list[Row]] = {table.full_name: [] for table in groups.TABLES}
        self.written: dict[str, list[Row]] = {}
        """What the last round wrote."""

    def take(
        self,
        records: Sequence[Row] = (),
        states: Sequence[Row] = (),
        *,
        read_on: int = 0,
        log_partition: int | None = None,
    ) -> None:
        """Fold what is new; `read_on`: by how many offsets the log was read beyond the last
        record.
        """
        read_to = {
            row["log_partition"]: (row["next_offset"] or row["offset"] + 1) + read_on
            for row in records
        }
        live = {
            table.full_name: [row for row in self.of(table) if self._is_live(table, row)]
            for table in groups.TABLES
        }
        memory = None if self.memory is None else json.loads(self.memory)
        news = {
            "records": records,
            "read_to": read_to,
            "states": states,
            "log_partition": log_partition,
        }
        remembered, self.written = fold(self.group, memory, live, self._thresholds, **news)
        self.memory = json.dumps(remembered)
        for table in groups.TABLES:
            self._commit(table, self.written[table.full_name])

    def of(self, table: Table) -> list[Row]:
        """The rows of a table."""
        return self.tables[table.full_name]

    def sorted(self) -> dict[str, list[str]]:
        """Every row as text."""
        return {name: sorted(map(repr, rows)) for name, rows in self.tables.items()}

    @staticmethod
    def _is_live(table: Table, row: Row) -> bool:
        return bool(
            row["is_live"] if "is_live" in table.column_names else row["ended_before"] is None
        )

    def _commit(self, table: Table, rows: Iterable[Row]) -> None:
        rows = list(rows)
        by = table.replaced_by or table.key
        told = {tuple(row[name] for name in by) for row in rows}
        kept = [
            row
            for row in self.of(table)
            if not self._is_live(table, row) or tuple(row[name] for name in by) not in told
        ]
        there = [
            row for row in rows if table.none_without is None or row[table.none_without] is not None
        ]
        self.tables[table.full_name] = [*kept, *there]
        keys = [tuple(row[name] for name in table.key) for row in self.of(table)]
        assert len(keys) == len(set(keys)), f"{table.full_name}: a key is there twice"
