"""Lakes of Delta tables with rows made by hand, written without Spark."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from jobs.rounds.stage import arrow_schema
from schemas.lake import TABLES, Lake
from schemas.table import LAKE_VERSION, TABLE_PROPERTY, VERSION_PROPERTY, Table, arrow_type
from tests.support import stored


def delta_lake(
    folder: Path, rows: Mapping[Table, Iterable[Mapping[str, Any]]], version: int = LAKE_VERSION
) -> Lake:
    """A lake in `folder` that says it is of that version, with all tables and these rows."""
    lake = Lake(root=str(folder))
    for table in TABLES:
        schema = arrow_schema(table)
        for column in table.columns:
            if column.generated_as is not None:
                schema = schema.append(pa.field(column.name, arrow_type(column.type)))
        noted = {TABLE_PROPERTY: table.full_name, VERSION_PROPERTY: str(version)}
        Path(lake.path(table)).mkdir(parents=True)
        DeltaTable.create(
            lake.path(table),
            schema=schema,
            partition_by=[*table.partition_by],
            configuration=noted,
            raise_if_key_not_exists=False,
        )
        if own := list(rows.get(table, ())):
            stored.append(lake, table, own)
    return lake
