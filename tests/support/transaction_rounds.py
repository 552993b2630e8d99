"""Rows of transactions as rounds of their fold leave them, of one partition of a log."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from jobs.rounds.stage import arrow_schema
from jobs.rules.transactions.fold import fold
from schemas.table import Table
from schemas.transactions import (
    HISTORY_TABLES,
    LOG_MEMORIES,
    TRANSACTION_COUNTS,
    TRANSACTION_LOG,
    TRANSACTIONS,
)

Row = dict[str, Any]
NOT_COMPARED = {"updated_at", "part", "seen_at"}


def ms(number: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=number)


class Rounds:
    """The tables of a cluster."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {table.full_name: [] for table in HISTORY_TABLES}
        self.written: list[int] = []
        """Rows that each round has made."""

    def take(self, rows: Iterable[Row], until: datetime | None = None) -> None:
        """A round of rows as `rows_of` of tests/support/transaction_log.py gives them, with
        `read_at`; `era` of those after a truncation.
        """
        whole = [
            dict.fromkeys(("era", "place", *TRANSACTION_LOG.column_names))
            | {"log_partition": 3, "era": 0}
            | row
            for row in rows
            if row["record"] in {"transactions", "lost", "truncated"}
        ]
        for row in whole:
            row["place"] = row["next_offset"] if row["record"] == "truncated" else row["offset"]
        more = [("era", pa.int64()), ("place", pa.int64())]
        schema = pa.schema([*arrow_schema(TRANSACTION_LOG), *more])
        news = {TRANSACTION_LOG.full_name: pa.Table.from_pylist(whole, schema)} if whole else {}
        made = fold(
            "prod/3",
            news,
            {table.full_name: self._live(table) for table in HISTORY_TABLES},
            ids={"prod": "id-prod"},
            until={} if until is None else {("prod", None): until},
            at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        self.written.append(sum(map(len, made.values())))
        for table in HISTORY_TABLES:
            self._put(table, made[table.full_name])

    def _live(self, table: Table) -> pa.Table:
        rows = [row for row in self.tables[table.full_name] if is_live(table, row)]
        return pa.Table.from_pylist(rows, arrow_schema(table))

    def _put(self, table: Table, changed: Sequence[Mapping[str, Any]]) -> None:
        rows = self.tables[table.full_name]
        for row in changed:
            names = table.key if table is not LOG_MEMORIES else ("log_partition",)
            key = [row[name] for name in names]
            same = [
                each
                for each in rows
                if is_live(table, each) and [each[name] for name in names] == key
            ]
            for each in same:
                rows.remove(each)
            if table.none_without is None or row[table.none_without] is not None:
                assert all(row[each.name] is not None for each in table.columns if not_null(each))
                rows.append(dict(row))

    @property
    def transactions(self) -> list[Row]:
        """The rows of gold.transactions, in order."""
        rows = self.tables[TRANSACTIONS.full_name]
        assert len({row["id"] for row in rows}) == len(rows)
        ordered = sorted(rows, key=lambda row: (row["started_at"], row["first_offset"]))
        return [
            {name: value for name, value in row.items() if name not in NOT_COMPARED}
            for row in ordered
        ]

    @property
    def counts(self) -> dict[tuple[str, datetime], Row]:
        """The counts of each pattern and hour, added up."""
        found: dict[tuple[str, datetime], Row] = {}
        for row in self.tables[TRANSACTION_COUNTS.full_name]:
            place = found.setdefault((row["pattern"], row["hour"]), {})
            for name in (
                *("committed", "completed", "timed_out", "total_ms", "epochs_raised"),
                "removed",
            ):
                place[name] = place.get(name, 0) + row[name]
            for name in ("longest_ms", "most_partitions"):
                place[name] = max(place.get(name) or 0, row[name] or 0)
        return found


def not_null(column: Any) -> bool:
    return not column.nullable and column.generated_as is None


def is_live(table: Table, row: Row) -> bool:
    if table is TRANSACTIONS:
        return row["close_reason"] is None
    return table is LOG_MEMORIES or bool(row["is_live"])
