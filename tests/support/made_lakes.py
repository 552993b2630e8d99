"""A lake in a folder with rows that were made by hand, without Spark: empty tables of this version,
as Delta's log has them, and what `tests/support/stored.py` appends.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from schemas.lake import TABLES, Lake
from schemas.table import Table
from schemas.upgrades.changes import schema_string
from tests.support import stored


def made_lake(folder: Path, rows: Mapping[Table, Iterable[Mapping[str, Any]]]) -> Lake:
    """Make a lake that has all tables, and these rows."""
    lake = Lake(root=str(folder))
    for table in TABLES:
        make_table(lake, table)
    for table, of in rows.items():
        if given := list(of):
            stored.append(lake, table, given)
    return lake


def make_table(lake: Lake, table: Table) -> None:
    """Make an empty table."""
    log = Path(lake.path(table), "_delta_log")
    log.mkdir(parents=True)
    metadata = {
        "id": table.full_name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_string(table),
        "partitionColumns": list(table.partition_by),
        "configuration": table.properties,
        "createdTime": 0,
    }
    actions = [
        {"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    (log / f"{0:020}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))
