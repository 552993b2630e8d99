"""Which rows retention drops, said of plain rows: by what Spark does not know."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from schemas.table import Table

Row = dict[str, Any]


def was_over(table: Table, row: Row, cutoff: datetime) -> bool:
    """Whether a row changes no more, and the last of its times is before the cutoff."""
    times = [row[name] for name in table.over if row[name] is not None]
    return not is_live(table, row) and max(times) < cutoff


def is_live(table: Table, row: Row) -> bool:
    """Whether a later round may still change a row."""
    if table.live is None:
        return False
    return (
        bool(row[table.live]) if table.live in table.column_names else row[table.over[-1]] is None
    )


def keys(table: Table, rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """What tells these rows apart."""
    return {tuple(row[name] for name in table.key) for row in rows}
