"""Writes that can be repeated: MERGE by key."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from schemas.lake import Lake
from schemas.table import Table


def upsert(rows: DataFrame, lake: Lake, table: Table, *, on: Sequence[str], within: str = "true") -> None:
    """Insert `rows`, or overwrite the rows that have the same key columns `on` (compared null-safe).

    `within` is a condition on the target, named t, that every row with one of these keys fulfils: it spares the
    MERGE from looking through the rest of the table.
    """
    values = table.column_names
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in on)
    update = ", ".join(f"t.`{name}` = s.`{name}`" for name in values if name not in on)
    _merge(rows, lake, table, f"{same} AND ({within})", f"""
        WHEN MATCHED THEN UPDATE SET {update}
        WHEN NOT MATCHED THEN INSERT ({_names(values)}) VALUES ({_names(values, "s.")})""")


def insert_new(rows: DataFrame, lake: Lake, table: Table, *, on: Sequence[str]) -> None:
    """Insert those `rows` whose key columns `on` are not in the table yet."""
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in on)
    values = table.column_names
    _merge(rows, lake, table, same, f"WHEN NOT MATCHED THEN INSERT ({_names(values)}) VALUES ({_names(values, 's.')})")


def delete_matching(rows: DataFrame, lake: Lake, table: Table, condition: str) -> None:
    """Delete the rows t of the table for which a row s of `rows` fulfils `condition`; at most one may for each."""
    _merge(rows, lake, table, condition, "WHEN MATCHED THEN DELETE")


def _merge(rows: DataFrame, lake: Lake, table: Table, condition: str, clauses: str) -> None:
    rows.sparkSession.sql(
        f"MERGE INTO {lake.identifier(table)} t USING {{rows}} s ON {condition} {clauses}",  # noqa: S608
        rows=rows,
    )


def _names(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(f"{prefix}`{name}`" for name in names)
