"""A stage in memory, for any fold: what the fold remembers, and the rows of its tables, as rounds
leave them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from schemas.table import Table

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


class Stage:
    """The tables of one key. `fold`: (memory, live rows, news) -> (memory, rows by table, and
    whatever else it says), without Spark; memory is JSON, None before the first round.

    `memory`: as text, as tables keep it. `tables`: by name, the rows by their keys.
    """

    def __init__(self, fold: Callable[..., tuple[Any, ...]], tables: Iterable[Table]) -> None:
        self._fold = fold
        self._of = {table.full_name: table for table in tables}
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in self._of}
        self.memory: str | None = None
        self.written: Rows = {}
        """By table, the rows of the last round."""

    def take(self, *news: Any, live: Rows | None = None, **more: Any) -> tuple[Any, ...]:
        """Make a round, twice, as if it had been killed; return what the fold says beside its rows.
        `live`: the live rows that the fold is given; None: all.
        """
        given = self.live if live is None else live
        memory = None if self.memory is None else json.loads(self.memory)
        remembered, rows, *others = self._fold(memory, given, *news, **more)
        again = self._fold(memory, given, *news, **more)
        assert again == (remembered, rows, *others), "a fold changes nothing that it is given"
        self.memory = json.dumps(remembered)
        self.keep(rows)
        self.written = rows
        return tuple(others)

    def keep(self, rows: Rows) -> None:
        """Put rows in the place of the live ones that they replace; nothing else may change."""
        for name, of_table in rows.items():
            table, stored = self._of[name], self.tables[name]
            if table.replaced_by:
                told = {values(row, table.replaced_by) for row in of_table}
                for key, row in list(stored.items()):
                    if is_live(table, row) and values(row, table.replaced_by) in told:
                        del stored[key]
            there = [
                row
                for row in of_table
                if table.none_without is None or row[table.none_without] is not None
            ]
            keyed = {values(row, table.key): row for row in there}
            assert len(keyed) == len(there), f"{name}: a key comes twice"
            for key in keyed.keys() & stored.keys():
                assert is_live(table, stored[key]), f"{name}: a row that was over changes"
            stored |= keyed

    @property
    def live(self) -> dict[str, list[Row]]:
        """The rows that a round may replace, by table."""
        return {
            name: [row for row in rows.values() if is_live(self._of[name], row)]
            for name, rows in self.tables.items()
        }

    def of(self, table: Table) -> list[Row]:
        """The rows of a table."""
        return [*self.tables[table.full_name].values()]


def is_live(table: Table, row: Row) -> bool:
    """`Table.live`, by the columns that a fold gives."""
    if table.live is None or table.live == "true":
        return table.live is not None
    for column in table.columns:
        if column.name == table.live and column.generated_as is not None:
            return row[column.generated_as.removesuffix(" IS NULL")] is None
    return bool(row[table.live])


def values(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    """The values of a row in some columns."""
    return tuple(row[name] for name in names)


def comparable(tables: Mapping[str, Iterable[Row]]) -> dict[str, list[str]]:
    """Rows as text, in an order; tables without rows left out."""
    found = {
        table: sorted(json.dumps(row, sort_keys=True, default=datetime.isoformat) for row in rows)
        for table, rows in tables.items()
    }
    return {table: rows for table, rows in found.items() if rows}
