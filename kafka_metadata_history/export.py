"""A lake as plain Parquet, which any program reads: a folder a table, and a manifest that says what
is in them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from kafka_metadata_history.opened import has_folder
from schemas.in_duckdb import there, unreadable
from schemas.lake import LakeError, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schemas.lake import Lake

MANIFEST: Final = "manifest.json"


def exported(lake: Lake, folder: Path) -> Iterator[str]:
    """Write all tables of a lake in a folder to `folder`/SCHEMA.TABLE, and yield a line for each.

    The manifest comes last: a folder without it is not a whole export. Raises LakeError for a lake
    elsewhere, one that cannot be read, and a folder that has something in it, or cannot be written.
    """
    if not has_folder(lake):
        raise LakeError(
            f"{lake}: export reads lakes in folders; of others Spark writes each table: "
            "df.write.parquet(...)"
        )
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise LakeError(f"--to {folder}: something is there; nothing was written")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"--to {folder}: {error.strerror}") from error
    versions, tables = set(), {}
    for table, stored in there(lake):
        versions.add(version_of(stored.metadata().configuration, lake, table))
        try:
            source = stored.to_pyarrow_dataset()
            rows = source.count_rows()
            if rows:
                ds.write_dataset(source, folder / table.full_name, format="parquet")
            else:  # of no rows it would write no file, so no columns
                (folder / table.full_name).mkdir()
                pq.write_table(
                    source.schema.empty_table(), folder / table.full_name / "part-0.parquet"
                )
        except (DeltaError, pa.ArrowException, OSError) as error:
            if str(folder) in str(error):
                raise LakeError(f"--to {folder}: {error}") from error
            raise unreadable(lake, table.full_name, str(error)) from error
        columns = {field.name: str(field.type) for field in source.schema}
        tables[table.full_name] = {
            "rows": rows,
            "deltaVersion": stored.version(),
            "columns": columns,
        }
        yield f"{table.full_name}: {rows:,} rows"
    if not tables:
        raise LakeError(f"{lake}: no table is there; nothing was written")
    manifest = {"lakeVersion": max(versions), "tables": tables}
    try:
        (folder / MANIFEST).write_text(f"{json.dumps(manifest, indent=2)}\n", encoding="utf-8")
    except OSError as error:
        raise LakeError(f"--to {folder}: {error.strerror}") from error
    yield (
        f"{folder}: {len(tables)} tables of a lake of version {max(versions)}; {MANIFEST} says "
        "what is in them"
    )
