"""Writes that can be repeated: MERGE by key."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from schemas.lake import Lake
from schemas.table import Table

GONE = "_gone"
"""Column of rows that are written: where it is true, the row with that key is deleted."""


def upsert(
    rows: DataFrame, lake: Lake, table: Table, *, update: Sequence[str] | None = None, within: str = "true"
) -> None:
    """Insert `rows`; of those whose key the table has already, take over the columns `update` (default: all).

    Keys are compared null-safe. `rows` may have a column GONE. `within` is a condition on the target, named t, that every row
    with one of these keys fulfils: it spares the MERGE from looking through the rest of the table.
    """
    names = table.column_names
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in table.key)
    changes = ", ".join(f"t.`{name}` = s.`{name}`" for name in update or names if name not in table.key)
    deletes = GONE in rows.columns
    clauses = f"""
        {f"WHEN MATCHED AND s.{GONE} THEN DELETE" if deletes else ""}
        WHEN MATCHED THEN UPDATE SET {changes}
        WHEN NOT MATCHED {f"AND NOT s.{GONE}" if deletes else ""}
          THEN INSERT ({_names(names)}) VALUES ({_names(names, "s.")})"""
    _merge(rows, lake, table, f"{same} AND ({within})", clauses)


def delete_matching(rows: DataFrame, lake: Lake, table: Table, condition: str) -> None:
    """Delete the rows t of the table for which a row s of `rows` fulfils `condition`; at most one may for each."""
    _merge(rows, lake, table, condition, "WHEN MATCHED THEN DELETE")


def _merge(rows: DataFrame, lake: Lake, table: Table, condition: str, clauses: str) -> None:
    rows.sparkSession.sql(
        f"MERGE INTO {lake.identifier(table)} t USING {{rows}} s ON {condition} {clauses}",
        rows=rows,
    )


def _names(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(f"{prefix}`{name}`" for name in names)
