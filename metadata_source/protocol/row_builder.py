"""Rows that are found piece by piece: of some rows some columns at a time, and errors for those
that cannot be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from metadata_source.protocol.columnar import scattered
from metadata_source.protocol.nested_casts import cast_nested

if TYPE_CHECKING:
    from metadata_source.protocol.nested_casts import Fields
    from metadata_source.protocol.vectors import Positions

ERROR: Final = pa.field("error", pa.string())


class RowBuilder:
    """Makes rows of a schema that has the column `ERROR`; a column is null where nothing is put."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pieces: dict[str, list[tuple[Positions, pa.Array]]] = {
            name: [] for name in schema.names
        }
        self.errors: dict[int, str] = {}
        """By row."""

    def put(self, column: str, rows: Positions, found: pa.Array | Fields) -> None:
        """Put values into a column, one for each of the rows, cast to its type (`cast_nested`)."""
        self._pieces[column].append((rows, cast_nested(found, self._schema.field(column).type)))

    def fail(self, rows: Positions, error: str) -> None:
        """Give rows the same error, in place of any that they have."""
        self.errors |= dict.fromkeys(rows.tolist(), error)

    @property
    def failed(self) -> Positions:
        """Rows that have an error, in their order."""
        return np.array(sorted(self.errors), dtype=np.int64)

    def made(self, count: int) -> pa.RecordBatch:
        """Return all rows, so many."""
        self.put(
            ERROR.name,
            self.failed,
            pa.array([self.errors[row] for row in self.failed.tolist()], ERROR.type),
        )
        columns = [scattered(count, field.type, self._pieces[field.name]) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
