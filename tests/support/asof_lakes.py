"""Lakes of the known incident (tests/support/incident.py) in DuckDB, with other rows in some
tables: what commands ask that read a state as of a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka_metadata_history.answers.questions import Ask
from schemas import bronze
from schemas.in_duckdb import in_duckdb
from schemas.lake import VIEWS
from schemas.table import Table
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident import CLUSTER, STREAM, at
from tests.support.known_rows import known_rows

Row = dict[str, Any]
Rows = Mapping[Table, Iterable[Row]]
KNOWN = known_rows()
OTHER = {"cluster": "test", "cluster_id": "id-test"}
"""A second cluster."""


@contextmanager
def asking(more: Rows, instead: Rows | None = None) -> Iterator[Ask]:
    """Asks a lake with the rows of the incident and more, or with others in some tables."""
    rows = {bronze.METADATA_POLLS: [], **KNOWN, **(instead or {})}
    for table, of in more.items():
        rows[table] = [*rows.get(table, []), *of]
    with duckdb_lake(rows, VIEWS) as lake:
        yield lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table()


def twice(rows: Rows = KNOWN) -> Rows:
    """The rows of a second cluster to which the same happened as to the incident's."""
    return {
        table: [row | OTHER for row in of if row.get("cluster") == CLUSTER["cluster"]]
        for table, of in rows.items()
    }


def both() -> dict[Table, list[Row]]:
    """The rows of both clusters."""
    rows = twice()
    return {table: [*of, *rows[table]] for table, of in KNOWN.items()}


def lasting(since: float, until: float | None = None, **columns: Any) -> Row:
    """A row of silver, from so many seconds after noon on."""
    return {
        **CLUSTER,
        "first_poll": f"{STREAM}/{0:012d}",
        "valid_from": at(since),
        "valid_to": at(until),
        **columns,
    }


def answered(kind: str, seconds: float) -> Row:
    """A row of bronze: a question beside polls was answered then."""
    return {
        "cluster": "prod",
        "poll_id": f"{STREAM}/{1:012d}",
        "record": "answer",
        "kind": kind,
        "outcome": "ok",
        "scheduled_at": at(seconds),
        "answered_at": at(seconds + 0.5),
        "day": at(seconds).date(),
    }
